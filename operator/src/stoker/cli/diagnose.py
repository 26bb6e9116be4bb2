"""`stoker diagnose`: why a job uses its GPUs badly, from its series, wherever it runs or ran."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.moment import MOMENT
from stoker.cli.prometheus_options import prometheus_options
from stoker.cli.terminal import EXIT_USAGE, Screen, screen, write
from stoker.models.prometheus_access import PrometheusAccess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.cli.diagnosis.clustered import Wanted
    from stoker.cli.diagnosis.look import Looked, Period
    from stoker.cli.diagnosis.workload import Workload

EXIT_FINDINGS = 1


@click.command(short_help="Say why running or recorded jobs use their GPUs badly.")
@click.option("-n", "--namespace", help="Namespace of the jobs. [default: the context's; of recorded jobs all]")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option("--job", metavar="NAME", help="Only the job of this name: a DLJob, or what its pods belong to.")
@click.option("-l", "--selector", metavar="LABELS", help="Only jobs with a pod of these labels, as kubectl has them.")
@click.option("--jobs", "jobs_file", metavar="FILE", help="Recorded jobs in place of a cluster's: a JSON or YAML list.")
@click.option("--from", "start", metavar="T", type=MOMENT, help="Look from then on. [default: each job's own start]")
@click.option("--to", "end", metavar="T", type=MOMENT, help="Look up to then, as if it were now. [default: now]")
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Default: $KUBECONFIG, then ~/.kube/config.")
@click.option("--context", "kube_context", help="Context of the kubeconfig. Default: the current one.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="What to print."
)
@prometheus_options
@click.pass_context
def diagnose(
    context: click.Context,
    access: PrometheusAccess,
    namespace: str | None,
    all_namespaces: bool,
    job: str | None,
    selector: str | None,
    jobs_file: str | None,
    start: datetime | None,
    end: datetime | None,
    kubeconfig: str | None,
    kube_context: str | None,
    form: str,
) -> None:
    """Say why running or recorded jobs use their GPUs badly.

    T is a time such as 2026-11-21T18:00:00Z, seconds since the epoch, or a time ago such as -2h.

    The exit code is 0 where nothing is found, 1 for findings, 2 for what can't be read or reached.
    """
    from stoker.cli.diagnosis.look import Period

    _refuse_contradictions(namespace, all_namespaces, job, selector, jobs_file, kubeconfig, kube_context)
    period = Period(start=start, end=end, now=datetime.now(UTC))
    if start is not None and start >= period.at:
        raise click.UsageError(
            "--from must be earlier than --to." if end is not None else "--from must be in the past."
        )
    if jobs_file is not None:
        workloads = _recorded(context, jobs_file, namespace, job, period)
    else:
        workloads = asyncio.run(_clustered(context, namespace, all_namespaces, job, selector, kubeconfig, kube_context))
    place = screen()
    looked = asyncio.run(_look(access, workloads, period, place if form == "text" else None, bool(end or jobs_file)))
    write(_rendered(looked, form, place), None, context)
    for error in dict.fromkeys(one.error for one in looked if one.error is not None):
        click.echo(f"stoker: {error}", err=True)
    if any(one.error is not None for one in looked):
        context.exit(EXIT_USAGE)
    if any(one.has_findings for one in looked):
        context.exit(EXIT_FINDINGS)


def _refuse_contradictions(
    namespace: str | None,
    all_namespaces: bool,
    job: str | None,
    selector: str | None,
    jobs_file: str | None,
    kubeconfig: str | None,
    kube_context: str | None,
) -> None:
    if all_namespaces and (namespace or job):
        raise click.UsageError("--all-namespaces goes neither with --namespace nor with --job.")
    if job and selector:
        raise click.UsageError("--job and --selector are two ways to choose: give one.")
    if jobs_file is not None and (selector or all_namespaces or kubeconfig or kube_context):
        raise click.UsageError("--jobs asks no cluster: of these options only --namespace and --job go with it.")


def _recorded(
    context: click.Context, path: str, namespace: str | None, job: str | None, period: "Period"
) -> "list[Workload]":
    """The file's jobs; ends the command where it is not right."""
    from stoker.cli.diagnosis.recorded import read_jobs

    workloads, errors = read_jobs(path, period.at)
    for error in errors:
        click.echo(f"stoker: {error}", err=True)
    if errors:
        context.exit(EXIT_USAGE)
    chosen = [one for one in workloads if namespace in {None, one.facts.namespace} and job in {None, one.facts.name}]
    if not chosen:
        click.echo(f"stoker: {path}: holds no such job", err=True)
        context.exit(EXIT_USAGE)
    return chosen


async def _clustered(
    context: click.Context,
    namespace: str | None,
    all_namespaces: bool,
    job: str | None,
    selector: str | None,
    kubeconfig: str | None,
    kube_context: str | None,
) -> "list[Workload]":
    """The cluster's jobs; ends the command where it can't be asked, or where there is no such job."""
    from stoker.adapters.kubernetes import ApiError, CredentialsError, Kubernetes, default_namespace
    from stoker.cli.diagnosis.clustered import Wanted, find

    if not all_namespaces:
        namespace = namespace or await default_namespace(kubeconfig=kubeconfig, context=kube_context)
    wanted = Wanted(namespace=namespace, job=job, selector=selector)
    try:
        async with await Kubernetes.connect(kubeconfig=kubeconfig, context=kube_context) as api:
            workloads = await find(api, wanted, datetime.now(UTC))
    except (CredentialsError, ApiError) as error:
        click.echo(f"stoker: {getattr(error, 'answer', '') or error}", err=True)
        context.exit(EXIT_USAGE)
    if not workloads:
        click.echo(f"stoker: {_nothing(wanted)}", err=True)
        context.exit(EXIT_USAGE if job or selector else 0)
    return workloads


def _nothing(wanted: "Wanted") -> str:
    where = "any namespace" if wanted.namespace is None else f'namespace "{wanted.namespace}"'
    if wanted.job is not None:
        return f'no DLJob and no pods with GPUs of a "{wanted.job}" in {where}'
    chosen = f' with the labels "{wanted.selector}"' if wanted.selector is not None else ""
    return f"no DLJobs and no pods with GPUs{chosen} in {where}"


async def _look(
    access: PrometheusAccess, workloads: "Sequence[Workload]", period: "Period", place: Screen | None, past: bool
) -> "list[Looked]":
    """Look at all jobs. In the past clocks need not agree."""
    from stoker.adapters.prometheus import MAX_SKEW, PrometheusSource
    from stoker.cli.diagnosis.look import Looker
    from stoker.cli.diagnosis.picture import room

    async with PrometheusSource(access, max_skew=None if past else MAX_SKEW) as source:
        looker = Looker(source=source, period=period, columns=None if place is None else room(place))
        return await looker.look_at(workloads)


def _rendered(looked: "Sequence[Looked]", form: str, place: Screen) -> str:
    if form == "json":
        from stoker.cli.diagnosis import json

        return json.render(looked)
    from stoker.cli.diagnosis import text

    return text.render(looked, place)


__all__ = ["diagnose"]
