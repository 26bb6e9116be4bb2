"""`stoker report`: where a period's GPU-hours went, of a whole cluster or some namespaces."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.terminal import EXIT_USAGE, Terminal
from stoker.cli.documents import FORMAT_HELP, OUTPUT_HELP, format_of, write_document
from stoker.cli.moment import MOMENT
from stoker.cli.prometheus_options import prometheus_options

if TYPE_CHECKING:
    from stoker.cli.documents import Renderer
    from stoker.report import Statement
    from stoker.telemetry.usage import UsageRecord

FORMATS = ("text", "html", "csv", "json")
DEFAULT_LENGTH = timedelta(days=7)
"""The period of a report without --since or --from."""
SHORTEST = timedelta(minutes=12)
"""The shortest period: less holds too few samples to attribute GPU-hours."""
LONGEST = timedelta(days=210)
"""The longest period: thirty weeks are a few hundred queries."""
QUERY_TIMEOUT = "2m"
"""The default here: a query reads hours of all GPUs, and nobody waits for the next tick."""


@click.command(
    short_help="Report where the GPU-hours of a period went.",
    context_settings={"default_map": {"prometheus_timeout": QUERY_TIMEOUT}},
)
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Only this namespace; may be repeated. [default: all]"
)
@click.option("--from", "--since", "start", metavar="T", type=MOMENT, help="[default: a week before --to]")
@click.option("--to", "end", metavar="T", type=MOMENT, help="[default: now]")
@click.option("--format", "form", type=click.Choice(FORMATS), help=FORMAT_HELP)
@click.option("-o", "--output", metavar="FILE", help=OUTPUT_HELP)
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Default: $KUBECONFIG, then ~/.kube/config.")
@click.option("--context", "kube_context", help="Context of the kubeconfig. Default: the current context.")
@prometheus_options
@click.pass_context
def report(
    context: click.Context,
    access: PrometheusAccess,
    namespaces: Sequence[str],
    start: datetime | None,
    end: datetime | None,
    form: str | None,
    output: str | None,
    kubeconfig: str | None,
    kube_context: str | None,
) -> None:
    """Sum up where a period's GPU-hours went: used, lost and to what, unknown; by team, user, namespace and stage.

    Deleted jobs count too, as Prometheus alone is asked. Where the cluster answers as well, the changes that its jobs'
    findings propose are shown with their numbers.

    T is a time such as 2026-11-21T18:00:00Z, seconds since the epoch, or a time ago such as 2h or 7d.
    """
    import asyncio

    from stoker.findings.finding import rfc3339
    from stoker.telemetry.screen import MetricsUnavailable
    from stoker.telemetry.usage import SETTLES

    form = format_of(form, output, FORMATS)
    now = datetime.now(UTC)
    end = min(end or now, now - SETTLES)
    start = start or end - DEFAULT_LENGTH
    if not SHORTEST <= end - start <= LONGEST:
        raise click.UsageError(
            f"from {rfc3339(start)} to {rfc3339(end)} can't be reported on: at least "
            f"{SHORTEST // timedelta(minutes=1)} minutes and at most {LONGEST.days} days can, up to the present."
        )
    try:
        statement, rule_fixes = asyncio.run(_state(access, namespaces, start, end, kubeconfig, kube_context))
    except MetricsUnavailable as unavailable:
        click.echo(f"stoker: {unavailable}", err=True)
        context.exit(EXIT_USAGE)
    write_document(form, output, _renderers(statement, now, rule_fixes), context)


async def _state(
    access: PrometheusAccess,
    namespaces: Sequence[str],
    start: datetime,
    end: datetime,
    kubeconfig: str | None,
    kube_context: str | None,
) -> "tuple[Statement, Mapping[str, str]]":
    import asyncio

    from stoker.catalogue import all_rules
    from stoker.report import state
    from stoker.report.notes import read_notes

    (notes, failure), record = await asyncio.gather(
        read_notes(namespaces, kubeconfig=kubeconfig, context=kube_context), _read(access, namespaces, start, end)
    )
    if failure and (kubeconfig or kube_context):
        click.echo(f"stoker: the jobs' findings could not be read from the cluster: {failure}", err=True)
    rule_fixes = {rule.name: rule.fix for rule in all_rules()}
    statement = state(record, namespaces=namespaces, notes=notes, rule_fixes=rule_fixes, cluster_read=not failure)
    return statement, rule_fixes


async def _read(access: PrometheusAccess, namespaces: Sequence[str], start: datetime, end: datetime) -> "UsageRecord":
    from stoker.adapters.prometheus.usage import PrometheusUsage

    async with PrometheusUsage(access) as usage:
        return await usage.read(start, end, namespaces)


def _renderers(statement: "Statement", now: datetime, rule_fixes: "Mapping[str, str]") -> "Mapping[str, Renderer]":
    from stoker.report.formats import csv, json, text

    def page(_: Terminal) -> str:
        from stoker.report.formats import page

        return page.render(statement, now, rule_fixes=rule_fixes)

    return {
        "text": lambda place: text.render(statement, place),
        "html": page,
        "csv": lambda _: csv.render(statement),
        "json": lambda _: json.render(statement, now),
    }


__all__ = ["report"]
