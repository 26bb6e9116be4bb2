"""`stoker diagnose`: why a job uses its GPUs badly, from its series, wherever it runs or ran."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.terminal import EXIT_USAGE, Terminal, detect_terminal, write
from stoker.cli.jobs import JobName, cluster_options
from stoker.cli.moment import MOMENT
from stoker.cli.prometheus_options import prometheus_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from stoker.inspection.clustered import Wanted
    from stoker.inspection.look import LogSource, Looked, Looker, ReadPeriod
    from stoker.inspection.workload import Workload

    MakeLooker = Callable[[], AbstractAsyncContextManager[Looker]]

EXIT_FINDINGS = 1
QUERY_TIMEOUT = "30s"
"""Of one query where none is given: a person waits longer than the controller's next look may."""
LOG_PIECES = 16
"""Pieces of a pod's log that are read at a time, of a quarter of a megabyte each."""


class _KubeContext(NamedTuple):
    """The kubeconfig and its context, as in kubectl; None is the default of kubectl."""

    kubeconfig: str | None
    context: str | None


@click.command(
    short_help="Show why running or recorded jobs use their GPUs poorly.",
    context_settings={"default_map": {"prometheus_timeout": QUERY_TIMEOUT}},
)
@click.argument("name", metavar="[JOB]", type=JobName(of_any_kind=True), required=False)
@cluster_options("Namespace of the jobs. [default: the context's; with --jobs all]")
@click.option("-A", "--all-namespaces", is_flag=True, help="The jobs of all namespaces.")
@click.option("--job", metavar="NAME", type=JobName(of_any_kind=True), help="The same as JOB.")
@click.option(
    "-l", "--selector", metavar="LABELS", help="Only jobs with a pod that matches this label selector (as in kubectl)."
)
@click.option(
    "--jobs", "jobs_file", metavar="FILE", help="Read the jobs from this JSON or YAML list instead of from a cluster."
)
@click.option(
    "--trace",
    "trace_file",
    metavar="FILE",
    is_eager=True,
    help="Diagnose this operation trace (CSV or Parquet) of one job; no cluster and no metrics are read.",
)
@click.option("--logs", is_flag=True, help="Also read the pods' logs; your account needs `get` on pods/log.")
@click.option(
    "--logs-file",
    "logs_files",
    metavar="FILE",
    multiple=True,
    help="Logs of the recorded jobs, as written by kubectl logs --timestamps --prefix.",
)
@click.option(
    "--from",
    "--since",
    "start",
    metavar="T",
    type=MOMENT,
    help="Start of the time to diagnose. [default: the start of each job]",
)
@click.option("--to", "end", metavar="T", type=MOMENT, help="End of the time to diagnose. [default: now]")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@prometheus_options
@click.pass_context
def diagnose(
    context: click.Context,
    access: PrometheusAccess | None,
    name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    job: str | None,
    selector: str | None,
    jobs_file: str | None,
    trace_file: str | None,
    logs: bool,
    logs_files: tuple[str, ...],
    start: datetime | None,
    end: datetime | None,
    kubeconfig: str | None,
    kube_context: str | None,
    form: str,
) -> None:
    """Say why running or recorded jobs use their GPUs badly: JOB alone, or all of them.

    JOB is the name of a DLJob, or of what else has pods, such as bert, dljob/bert or jobset/bert.

    T is a time such as 2026-11-21T18:00:00Z, seconds since the epoch, or a time ago such as 2h or 7d.

    The exit code is 0 where nothing is found, 1 for findings, 2 for what can't be read or reached.
    """
    import asyncio

    from stoker.inspection.look import ReadPeriod

    if trace_file is not None:
        _diagnose_trace(context, trace_file, form)
        return
    assert access is not None, "only a trace is diagnosed without metrics"
    if name and job and name != job:
        raise click.UsageError("JOB and --job name different jobs: give one of them.")
    job = name or job
    if all_namespaces and (namespace or job):
        raise click.UsageError("--all-namespaces cannot be combined with --namespace or JOB.")
    if job and selector:
        raise click.UsageError("JOB and --selector cannot be combined: give one of them.")
    if jobs_file is not None and (selector or all_namespaces or logs or kubeconfig or kube_context):
        raise click.UsageError("--jobs reads no cluster: combine it with JOB, --namespace and --logs-file only.")
    if jobs_file is None and logs_files:
        raise click.UsageError("--logs-file needs --jobs. For jobs in a cluster use --logs.")
    period = ReadPeriod(start=start, end=end, now=datetime.now(UTC))
    if start is not None and start >= period.at:
        raise click.UsageError(
            "--from must be earlier than --to." if end is not None else "--from must be in the past."
        )
    place = detect_terminal()
    looker = partial(_looker, access, period, place if form == "text" else None, past=bool(end or jobs_file))
    if jobs_file is not None:
        workloads = _recorded(context, jobs_file, namespace, job, period)
        recorded_logs = _recorded_logs(context, logs_files, workloads)
        looked = asyncio.run(_look_at_recorded(looker, workloads, recorded_logs))
    else:
        where = _KubeContext(kubeconfig=kubeconfig, context=kube_context)
        looked = asyncio.run(_look_at_cluster(context, looker, where, namespace, all_namespaces, job, selector, logs))
    write(_rendered(looked, form, place), None, context)
    for error in dict.fromkeys(one.error for one in looked if one.error is not None):
        click.echo(f"stoker: {error}", err=True)
    if any(one.error is not None for one in looked):
        context.exit(EXIT_USAGE)
    if any(one.has_findings for one in looked):
        context.exit(EXIT_FINDINGS)


def _diagnose_trace(context: click.Context, path: str, form: str) -> None:
    """Print what the trace says; ends the command with the exit code."""
    from stoker.adapters.operation_traces import read_trace
    from stoker.diagnosis.operations.causes import judge
    from stoker.inspection.operation_trace import render_json, render_text
    from stoker.telemetry.operations import TraceError

    own = {"trace_file", "form"}
    typed = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if not own.issuperset(typed):
        raise click.UsageError("--trace reads no cluster and no metrics: combine it with --format only.")
    try:
        diagnosis = judge(read_trace(Path(path)))
    except TraceError as error:
        click.echo(f"stoker: {path}: {error}", err=True)
        context.exit(EXIT_USAGE)
    write(
        render_json(path, diagnosis) if form == "json" else render_text(path, diagnosis, detect_terminal()),
        None,
        context,
    )
    if diagnosis.findings:
        context.exit(EXIT_FINDINGS)


def _recorded(
    context: click.Context, path: str, namespace: str | None, job: str | None, period: "ReadPeriod"
) -> "list[Workload]":
    """The file's jobs; ends the command where it is not right."""
    from stoker.inspection.recorded import read_jobs

    workloads, errors = read_jobs(path, period.at)
    for error in errors:
        click.echo(f"stoker: {error}", err=True)
    if errors:
        context.exit(EXIT_USAGE)
    chosen = [one for one in workloads if namespace in {None, one.facts.namespace} and job in {None, one.facts.name}]
    if not chosen:
        click.echo(f"stoker: {path}: holds no {'such job' if workloads else 'jobs'}", err=True)
        context.exit(EXIT_USAGE)
    return chosen


def _recorded_logs(
    context: click.Context, paths: tuple[str, ...], workloads: "Sequence[Workload]"
) -> "LogSource | None":
    """The files' logs; ends the command where one is not right."""
    from stoker.inspection.recorded_logs import read_logs
    from stoker.lint.files.manifests import InputError

    if not paths:
        return None
    pods = {pod.name for one in workloads for pod in (*one.facts.former_pods, *one.facts.pods)}
    try:
        return read_logs(paths, next(iter(pods)) if len(pods) == 1 else None)
    except InputError as error:
        click.echo(f"stoker: {error}", err=True)
        context.exit(EXIT_USAGE)


async def _look_at_recorded(
    looker: "MakeLooker", workloads: "Sequence[Workload]", logs: "LogSource | None"
) -> "list[Looked]":
    async with looker() as looking:
        looking.logs = logs
        return await looking.look_at(workloads)


async def _look_at_cluster(
    context: click.Context,
    looker: "MakeLooker",
    where: "_KubeContext",
    namespace: str | None,
    all_namespaces: bool,
    job: str | None,
    selector: str | None,
    logs: bool,
) -> "list[Looked]":
    """Look at the cluster's jobs; ends the command where it can't be asked, or where there is no such job."""
    from stoker.adapters.clock import SystemClock
    from stoker.adapters.kubernetes.client import ApiError, CredentialsError, Kubernetes, default_namespace
    from stoker.adapters.kubernetes.pod_logs import PodLogs
    from stoker.inspection.clustered import Wanted, find

    if not all_namespaces:
        namespace = namespace or await default_namespace(kubeconfig=where.kubeconfig, context=where.context)
    wanted = Wanted(namespace=namespace, job=job, selector=selector)
    try:
        async with await Kubernetes.connect(kubeconfig=where.kubeconfig, context=where.context) as api:
            workloads = await find(api, wanted, datetime.now(UTC))
            if not workloads:
                click.echo(f"stoker: {_nothing(wanted)}", err=True)
                context.exit(EXIT_USAGE if job or selector else 0)
            async with looker() as looking:
                # Asked for by a person, who waits: of each pod a few megabytes.
                looking.logs = (
                    PodLogs(api, SystemClock(), reads=10_000, pieces=LOG_PIECES, patience=60) if logs else None
                )
                return await looking.look_at(workloads)
    except (CredentialsError, ApiError) as error:
        click.echo(f"stoker: {getattr(error, 'answer', '') or error}", err=True)
        context.exit(EXIT_USAGE)


def _nothing(wanted: "Wanted") -> str:
    where = "any namespace" if wanted.namespace is None else f'namespace "{wanted.namespace}"'
    if wanted.job is not None:
        return f'no DLJob "{wanted.job}" and no other workload of this name with GPU pods in {where}'
    chosen = f' with the labels "{wanted.selector}"' if wanted.selector is not None else ""
    return f"no DLJobs and no GPU pods{chosen} in {where}"


@asynccontextmanager
async def _looker(
    access: PrometheusAccess, period: "ReadPeriod", place: Terminal | None, *, past: bool
) -> "AsyncIterator[Looker]":
    """What looks at jobs. In the past clocks need not agree."""
    from stoker.adapters.prometheus.source import MAX_SKEW, PrometheusSource
    from stoker.inspection.look import Looker
    from stoker.inspection.picture import room

    async with PrometheusSource(access, max_skew=None if past else MAX_SKEW) as source:
        yield Looker(source=source, period=period, columns=None if place is None else room(place))


def _rendered(looked: "Sequence[Looked]", form: str, place: Terminal) -> str:
    if form == "json":
        from stoker.inspection import json

        return json.render(looked)
    from stoker.inspection import text

    return text.render(looked, place)


__all__ = ["diagnose"]
