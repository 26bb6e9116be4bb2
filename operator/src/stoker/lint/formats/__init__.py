"""What `stoker lint` prints: one module per format, each with a function `render`, imported when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from stoker.adapters.terminal import Terminal

if TYPE_CHECKING:
    from stoker.lint.files.results import Results

FORMATS: Mapping[str, str] = {
    name: f"{__name__}.{name}" for name in ("text", "json", "sarif", "github")
}  # the first is the default


class Render(Protocol):
    """What each format's module has: the whole output as one text, its last line break included."""

    def __call__(self, results: "Results", terminal: Terminal) -> str: ...


def renderer(name: str) -> Render:
    """The function of a format."""
    render: Render = import_module(FORMATS[name]).render
    return render


__all__ = ["FORMATS", "Render", "Terminal", "renderer"]
