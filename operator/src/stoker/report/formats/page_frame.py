"""What the pages of `stoker report` and `stoker replay` share: how their templates are read, their head (head.html),
and what their first and last lines say.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stoker import __version__
from stoker.report import hours
from stoker.report.formats import words
from stoker.report.formats.json import figure
from stoker.telemetry.usage import Period


def environment(package: str, **filters: Callable[..., Any]) -> Environment:
    """Where a page's template is read: in `package`, what it includes beside this module."""
    result = Environment(
        loader=ChoiceLoader([PackageLoader(package, package_path=""), PackageLoader(__package__, package_path="")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.filters.update(hours=hours, share=words.share, figure=figure, day_time=words.day_time, **filters)
    return result


def frame(period: Period, namespaces: Sequence[str], generated_at: datetime, *packages: str) -> dict[str, Any]:
    """What head.html and the pages' first and last lines show; the style is `page.css` of each of the packages."""
    css = "".join(files(one).joinpath("page.css").read_text(encoding="utf-8") for one in packages)
    return {
        "style": Markup(css),  # noqa: S704 - our own
        "version": __version__,
        "generated_at": generated_at,
        "scope": words.scope(namespaces),
        "period": words.when(period),
        "length": words.span(period.length),
    }


__all__ = ["environment", "frame"]
