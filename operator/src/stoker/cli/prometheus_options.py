"""The options by which every command that reads metrics is told where they are, and how to be let in."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from stoker.adapters.prometheus.access import QUERY_TIMEOUT, LabelMatcher, PrometheusAccess
from stoker.cli.duration import DURATION

INSTEAD = "trace_file"
"""The parameter that takes the place of Prometheus: a command that has it is given a file and reads no metrics."""
PROFILES = ("nvidia", "amd")
_FIELD = re.compile(r"\b(?:token|password|ca|cert|key)_file\b|^username\b|(?<=and )username\b")
"""What a message about an access calls by the name of its field, and this command line by an option."""
_FILE = click.Path(path_type=Path, dir_okay=False)


class Header(click.ParamType[tuple[str, str]]):
    """`Name: value`."""

    name = "header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, colon, content = str(value).partition(":")
        if not colon or not name.strip():
            self.fail(f"{value!r} is not a header such as 'X-Scope-OrgID: team-a'", param, ctx)
        return name.strip(), content.strip()

    def split_envvar_value(self, rv: str) -> list[str]:
        """One header a line."""
        return [line for line in rv.splitlines() if line.strip()]


class Matcher(click.ParamType[LabelMatcher]):
    """`label="value"`."""

    name = "matcher"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LabelMatcher:
        if isinstance(value, LabelMatcher):
            return value
        try:
            return LabelMatcher.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def split_envvar_value(self, rv: str) -> list[str]:
        """One matcher a line."""
        return [line for line in rv.splitlines() if line.strip()]


def _option(name: str, help_text: str, **settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    parameter = name.removeprefix("--").replace("-", "_")
    return click.option(
        name, parameter, envvar=f"STOKER_{parameter.upper()}", show_envvar=True, help=help_text, **settings
    )


class PrometheusUrl(click.Option):
    """Required, except where an eager option named INSTEAD says that no metrics are read."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        return None if isinstance(ctx.params.get(INSTEAD), str) else super().process_value(ctx, value)


def _url_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--prometheus",
        "--prometheus-url",
        "prometheus_url",
        envvar=["STOKER_PROMETHEUS_URL", "PROMETHEUS_URL"],
        show_envvar=True,
        cls=PrometheusUrl,
        required=required,
        metavar="URL",
        help="URL of the Prometheus with the GPU metrics, or of a server with the same API.",
    )


OPTIONS = (
    _option(
        "--prometheus-profile",
        "Exporter of the GPU metrics; sets their names and units.",
        type=click.Choice(PROFILES),
        default="nvidia",
        show_default=True,
    ),
    _option("--prometheus-metric-prefix", "Prefix of the exporter's metric names.", default=""),
    _option(
        "--prometheus-matcher",
        "Label matcher added to every query, such as 'job=~\"dcgm-exporter|kubelet|stoker\"' or "
        "'cluster=\"a\"': other series are ignored. May be repeated; one per line in the variable.",
        type=Matcher(),
        multiple=True,
        metavar="'LABEL=\"VALUE\"'",
    ),
    _option("--prometheus-token-file", "File with a bearer token.", type=_FILE),
    _option("--prometheus-username", "User for basic authentication."),
    _option("--prometheus-password-file", "File with this user's password.", type=_FILE),
    _option(
        "--prometheus-ca-file",
        "PEM file with the authorities of the server's certificate; default: the system's.",
        type=_FILE,
    ),
    _option("--prometheus-cert-file", "PEM client certificate (mutual TLS).", type=_FILE),
    _option("--prometheus-key-file", "PEM key of the client certificate, if it is in another file.", type=_FILE),
    _option(
        "--prometheus-header",
        "Header of every query, such as 'X-Scope-OrgID: team-a'. May be repeated; one per line in the variable.",
        type=Header(),
        multiple=True,
        metavar="'NAME: VALUE'",
    ),
    _option(
        "--prometheus-timeout",
        "Timeout of one query.",
        type=DURATION,
        default=f"{QUERY_TIMEOUT.total_seconds():g}s",
        show_default=True,
    ),
)


def prometheus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options; it gets them as one argument, `access: PrometheusAccess`, or None where INSTEAD
    says that no metrics are read.

    What can't work together is a usage error.
    """
    return _with_options(command, required=True)


def optional_prometheus(command: Callable[..., None]) -> Callable[..., None]:
    """The same options for a command that also works without metrics: `access` is None where no URL is given."""
    return _with_options(command, required=False)


def _with_options(command: Callable[..., None], *, required: bool) -> Callable[..., None]:
    @wraps(command)
    def with_access(**given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name.startswith("prometheus_")}
        return command(access=None if own["prometheus_url"] is None else _access(**own), **given)

    wrapped: Callable[..., None] = with_access
    for option in reversed((_url_option(required=required), *OPTIONS)):
        wrapped = option(wrapped)
    return wrapped


def _access(
    *, prometheus_header: tuple[tuple[str, str], ...], prometheus_matcher: tuple[LabelMatcher, ...], **given: Any
) -> PrometheusAccess:
    fields = {name.removeprefix("prometheus_"): value for name, value in given.items()}
    try:
        return PrometheusAccess(headers=dict(prometheus_header), matchers=prometheus_matcher, **fields)
    except ValueError as error:
        said = _FIELD.sub(lambda match: f"--prometheus-{match[0].replace('_', '-')}", str(error))
        raise click.UsageError(f"--prometheus: {said}") from None
