"""`stoker replay`: what a draft policy would have done over the recorded past, without touching the cluster."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.terminal import EXIT_USAGE, Terminal, complain
from stoker.cli.documents import FORMAT_HELP, OUTPUT_HELP, format_of, write_document
from stoker.cli.duration import DURATION
from stoker.cli.moment import MOMENT
from stoker.cli.prometheus_options import prometheus_options

if TYPE_CHECKING:
    from stoker.cli.documents import Renderer
    from stoker.lint.files.policies import PolicyFiles
    from stoker.policy.effective import EffectivePolicy
    from stoker.replay import Inputs, ReplaySummary

FORMATS = ("text", "json", "html")
SHORTEST = timedelta(hours=1)
"""The shortest period: idleAfter and the grace fit into it."""
LONGEST = timedelta(days=90)
"""The longest period: three months."""
STEPS = (timedelta(seconds=10), timedelta(seconds=60))
QUERY_TIMEOUT = "2m"
"""The default here: a query reads days, and nobody waits for the next tick."""
READERS = 4
"""Jobs that are read at a time."""
LEAD = timedelta(minutes=30)
"""So much of a job is read before its first rest and after its end, that both are seen exactly."""


@click.command(
    short_help="Show what a policy would have reclaimed.",
    context_settings={"default_map": {"prometheus_timeout": QUERY_TIMEOUT}},
)
@click.option(
    "--policy",
    "policy_files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="File with UtilizationPolicies to replay and the Namespaces that they select. May be repeated.",
)
@click.option(
    "--since",
    "--from",
    "start",
    metavar="T",
    type=MOMENT,
    default="30d",
    show_default=True,
    help="Start of the period.",
)
@click.option("--to", "end", metavar="T", type=MOMENT, help="End of the period. [default: now]")
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Only this namespace; may be repeated. [default: all]"
)
@click.option(
    "--mode", type=click.Choice(("Suspend", "Delete")), help="Replay with this mode in place of the policies' own."
)
@click.option("--assume-volumes", is_flag=True, help="Assume that every job writes to a volume that outlives its pods.")
@click.option(
    "--minimum-warning-grace",
    type=DURATION,
    default="5m",
    show_default=True,
    help="The controller's minimum for every policy's warningGrace.",
)
@click.option("--step", type=DURATION, default="30s", show_default=True, help="Time between two scans, 10s to 60s.")
@click.option("--format", "form", type=click.Choice(FORMATS), help=FORMAT_HELP)
@click.option("-o", "--output", metavar="FILE", help=OUTPUT_HELP)
@prometheus_options
@click.pass_context
def replay(
    context: click.Context,
    access: PrometheusAccess,
    policy_files: Sequence[str],
    start: datetime,
    end: datetime | None,
    namespaces: Sequence[str],
    mode: str | None,
    assume_volumes: bool,
    minimum_warning_grace: timedelta,
    step: timedelta,
    form: str | None,
    output: str | None,
) -> None:
    """Say what policies would have done over the recorded past: whom they would have warned and reclaimed, how many
    GPU-hours that would have given back, and which jobs worked again after they would have been suspended.

    Prometheus alone is asked, so that deleted jobs count too, and the cluster is not touched. The decisions are the
    controller's own. What had to be assumed is listed.

    T is a time such as 2026-11-21T18:00:00Z, seconds since the epoch, or a time ago such as 30d or 12h.
    """
    import asyncio

    from stoker.findings.finding import rfc3339
    from stoker.findings.vocabulary import ReclaimMode
    from stoker.lint.files.manifests import InputError
    from stoker.lint.files.policies import load
    from stoker.replay import Inputs
    from stoker.telemetry.screen import MetricsUnavailable

    form = format_of(form, output, FORMATS)
    now = datetime.now(UTC)
    end = min(end or now, now)
    if not SHORTEST <= end - start <= LONGEST:
        raise click.UsageError(
            f"from {rfc3339(start)} to {rfc3339(end)} can't be replayed: at least "
            f"{SHORTEST // timedelta(hours=1)} hour and at most {LONGEST.days} days can, up to the present."
        )
    if not STEPS[0] <= step <= STEPS[1] or step % timedelta(seconds=1):
        raise click.BadParameter("must be whole seconds from 10s to 60s", param_hint="--step")
    try:
        policies = load(policy_files, now)
    except InputError as error:
        complain(error)
        context.exit(EXIT_USAGE)
    inputs = Inputs(
        step=step,
        assumes_volumes=assume_volumes,
        mode=ReclaimMode(mode) if mode is not None else None,
        remarks=(*policies.remarks, *_everywhere(policies)),
    )
    try:
        summary = asyncio.run(
            _state(access, policies, start, end, namespaces, inputs, minimum_warning_grace=minimum_warning_grace)
        )
    except MetricsUnavailable as unavailable:
        click.echo(f"stoker: {unavailable}", err=True)
        context.exit(EXIT_USAGE)
    if not summary.jobs:
        where = f" in {', '.join(namespaces)}" if namespaces else ""
        click.echo(
            f"stoker: no DLJob held GPUs{where} from {rfc3339(start)} to {rfc3339(end)}, as far as "
            "Prometheus knows: is stoker_dljob_phase scraped, and kept for so long?",
            err=True,
        )
        context.exit(EXIT_USAGE)
    write_document(form, output, _renderers(summary, now), context)


def _renderers(summary: "ReplaySummary", now: datetime) -> "Mapping[str, Renderer]":
    from stoker.replay.formats import json, text

    def page(_: Terminal) -> str:
        from stoker.replay.formats import page

        return page.render(summary, now)

    return {
        "text": lambda terminal: text.render(summary, terminal),
        "json": lambda _: json.render(summary, now),
        "html": page,
    }


async def _state(
    access: PrometheusAccess,
    policies: "PolicyFiles",
    start: datetime,
    end: datetime,
    namespaces: Sequence[str],
    inputs: "Inputs",
    *,
    minimum_warning_grace: timedelta,
) -> "ReplaySummary":
    import asyncio

    from stoker.adapters.prometheus.past import PrometheusPast
    from stoker.replay import (
        Assumed,
        SeriesExaminer,
        SimulatedConstraints,
        Simulation,
        first_idle,
        last_held,
        summarize,
        windows,
    )
    from stoker.telemetry.past import JobOutline, JobPast

    async with PrometheusPast(access) as source:
        _print_progress("reading a summary of all jobs")
        outlines = await source.outlines(start, end, namespaces)
        in_force = _in_force(policies, {job.key: job.identity.namespace for job in outlines.jobs}, inputs)
        constraints = SimulatedConstraints(outlines, in_force, minimum_warning_grace=minimum_warning_grace)
        examiner = SeriesExaminer(source)
        assumed = Assumed(has_persistent_volume=inputs.assumes_volumes)
        simulation = Simulation(outlines.period, constraints, examiner, assumed=assumed)
        rests = {job.key: first_idle(job, outlines.grid, in_force[job.key], start) for job in outlines.jobs}
        resting = [(job, rest) for job in outlines.jobs if (rest := rests[job.key]) is not None]
        _print_progress(f"reading {len(resting)} of {len(outlines.jobs)} jobs in detail: those that were idle")
        turn = asyncio.Semaphore(READERS)

        async def read(job: JobOutline, rest: datetime) -> JobPast:
            longest = max(windows(in_force[job.key])) + LEAD
            last = last_held(job, outlines.grid) + LEAD
            async with turn:
                return await source.job(job, max(rest - LEAD, start - longest), min(last, end), inputs.step)

        pasts = await asyncio.gather(*(read(job, rest) for job, rest in resting))
        for past, (job, _) in zip(pasts, resting, strict=True):
            simulation.add(past, in_force[job.key])
        _print_progress("deciding")
        outcomes = await simulation.run()
    inputs = replace(
        inputs,
        remarks=(*inputs.remarks, *policies.unsure(job.identity.namespace for job in outlines.jobs)),
        failed_examinations=examiner.failed,
        partial=not all(past.complete for past in pasts),
    )
    return summarize(outlines, in_force, outcomes, constraints.brakes, inputs, namespaces=namespaces)


def _in_force(policies: "PolicyFiles", namespaces: Mapping[str, str], inputs: "Inputs") -> "dict[str, EffectivePolicy]":
    """The policy of each job, by the job's key."""
    resolved: dict[str, EffectivePolicy] = {}
    for namespace in set(namespaces.values()):
        policy = policies.effective(namespace)
        if len(policies.policies) == 1:
            policy = replace(policy, sources=(policies.policies[0].name,))
        if inputs.mode is not None:
            policy = replace(policy, reclaim=replace(policy.reclaim, mode=inputs.mode))
        resolved[namespace] = policy
    return {key: resolved[namespace] for key, namespace in namespaces.items()}


def _everywhere(policies: "PolicyFiles") -> Iterator[str]:
    """That a policy alone is replayed where it would not be in force."""
    if len(policies.policies) == 1:
        (policy,) = policies.policies
        selector = policy.spec.namespace_selector
        if selector is not None and (selector.match_labels or selector.match_expressions):
            yield (
                f"Policy {policy.name} is replayed in all namespaces, although it selects only some of them: "
                "--namespace leaves out the others."
            )


def _print_progress(words: str) -> None:
    """To whoever waits at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"stoker: {words} ...", err=True)


__all__ = ["replay"]
