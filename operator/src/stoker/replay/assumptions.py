"""What a replay had to assume because nobody recorded it: listed with its result, never assumed silently."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimMode
from stoker.findings.wording import count, minutes
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.action_gates import NOTHING_LOST
from stoker.replay.simulation import JobOutcome
from stoker.report import Assumption, hours
from stoker.telemetry.past import JobOutline, Outlines

KNOWN_LABELS = frozenset({OWNER_LABEL, TEAM_LABEL})
NAMED = 5
"""Jobs that an assumption names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the replay was told beside the past. `remarks`: what of the policies could not be applied as it stands."""

    step: timedelta
    assumes_volumes: bool = False
    mode: ReclaimMode | None = None
    remarks: tuple[str, ...] = ()
    failed_examinations: int = 0
    partial: bool = False


def assumptions(
    outlines: Outlines,
    policies: Mapping[str, EffectivePolicy],
    outcomes: Sequence[JobOutcome],
    inputs: Inputs,
) -> tuple[Assumption, ...]:
    """All that applies, what the figures hang on most first. What is assumed of one condition of a reclaim stands on
    its gate (Gate.replay) and is listed beside these; here it is said only where it has a figure or names of its own.
    """
    used = {id(policy): policy for policy in policies.values()}
    return (
        *_policies(used.values(), outcomes, inputs),
        *_manifests(outcomes, inputs),
        *_recording(outlines, outcomes, inputs),
    )


def _policies(
    policies: Iterable[EffectivePolicy], outcomes: Sequence[JobOutcome], inputs: Inputs
) -> Iterator[Assumption]:
    policies = tuple(policies)
    yield Assumption(
        key="switchedOn",
        text="The policies are in force from the start of the period. At that time no job is under warning, "
        "nothing was "
        "reclaimed before, and the mass-idle brake knows no earlier work. What other policies really "
        "reclaimed in the period stays reclaimed.",
    )
    for remark in inputs.remarks:
        yield Assumption(key="policy", text=remark)
    if inputs.mode is not None:
        yield Assumption(
            key="mode",
            text=f"Every policy is replayed with reclaim.mode {inputs.mode}, as requested; a class with its own mode "
            "keeps it.",
        )
    if any(one.reclaim.on_pressure_only or any(c.on_pressure_only for c in one.reclaim.classes) for one in policies):
        yield Assumption(
            key="pressure",
            text="Pods that waited for GPUs were not recorded. Where the policy reclaims only on pressure, some "
            "pod is assumed "
            "to have waited all the time: the figures of reclaims and GPU-hours given back are upper bounds; the "
            "lower bound is 0.",
        )
    keys = sorted({key for one in policies for key in _labels(one)} - KNOWN_LABELS)
    if keys:
        yield Assumption(
            key="labels",
            text=f"Of the jobs' labels only {OWNER_LABEL} and {TEAM_LABEL} were recorded: no job is assumed to have "
            f"{', '.join(keys)}, which exemptions or classes of the policies select.",
        )
    if any(one.reclaims for one in outcomes):
        yield Assumption(
            key="resumed",
            text="A job that works again after its suspension is assumed to have been resumed by its owner at that "
            "moment; the policy's cooldown follows. Unsaved work, and the time that its script needs to get as "
            "far again, are not counted.",
        )


def _manifests(outcomes: Sequence[JobOutcome], inputs: Inputs) -> Iterator[Assumption]:
    if inputs.assumes_volumes:
        yield Assumption(
            key="volumes", text="Every job is assumed to write its results to a volume that outlives its pods."
        )
    else:
        held = sum(one.held_back.get(NOTHING_LOST.name, 0.0) for one in outcomes)
        if held > 0:
            yield Assumption(
                key="volumes",
                text="Volumes were not recorded: no job is assumed to write to one that outlives its pods, so none is "
                "reclaimed unless the policy sets interactiveWithoutVolume, or trainingWithoutVolume for other jobs. "
                f"That holds back {hours(held)} GPU-hours; --assume-volumes assumes the opposite.",
                gpu_hours=held,
            )
    yield Assumption(
        key="manifests",
        text="The jobs' manifests are not read. A program that serves a model is recognized by the job's type only; an "
        "interactive one by its type and by how the GPUs were used; shared GPUs by their samples. No job is assumed to "
        "have resource claims. Every job is assumed to mount storage whose traffic no metric shows, so a cause is "
        "likely only if its CPUs were idle.",
    )


def _recording(outlines: Outlines, outcomes: Sequence[JobOutcome], inputs: Inputs) -> Iterator[Assumption]:
    grid, start = outlines.grid, outlines.period.start
    jobs = outlines.jobs
    first = grid.first_at(start)
    blind = first + np.flatnonzero(np.isnan(outlines.cluster_gpus[first:]))
    if len(blind):
        yield Assumption(
            key="notWatched",
            text=f"No GPU has samples for {minutes(len(blind) * grid.step.total_seconds())} of the period, "
            f"between {rfc3339(grid.time(int(blind[0])))} and {rfc3339(grid.time(int(blind[-1])))}: the exporter "
            "was down, or "
            "Prometheus no longer retains them. No decision is made for that time, and no figure includes it.",
        )
    earlier = [job for job in jobs if bool(job.held[: grid.first_at(start) + 1].any())]
    cut = [job for job in earlier if bool(job.held[:3].any())]
    if cut:
        yield Assumption(
            key="startedBefore",
            text=f"{count(len(cut), 'job')} began before {rfc3339(grid.start)}, the start "
            "of the data that was read: figures of "
            f"{'their' if len(cut) > 1 else 'its'} use begin there.",
        )
    unstarted = [job for job in _rested(jobs, outcomes) if any(not pod.starts for pod in job.pods)]
    if unstarted:
        yield Assumption(
            key="starts",
            text=f"The containers' start times were not recorded for {count(len(unstarted), 'job')} "
            "(container_start_time_seconds): they are assumed to have started at their GPUs' first sample, or "
            "when all pods last became ready. A restart shorter than the scrape interval is not seen.",
        )
    unsampled = sum(float((job.held & (np.nan_to_num(job.sampled) < job.identity.gpus)).sum()) for job in jobs)
    if unsampled:
        yield Assumption(
            key="notSampled",
            text="Some GPUs of some jobs have gaps in their samples. Unknown never counts as idle: "
            "no decision is made for that time, as in the controller.",
        )
    if outlines.unrecorded:
        names = ", ".join(outlines.unrecorded[:NAMED])
        more = f" and {len(outlines.unrecorded) - NAMED} more" if len(outlines.unrecorded) > NAMED else ""
        yield Assumption(
            key="notRecorded",
            text=f"Some pods have samples, but the operator recorded no DLJob for them ({names}{more}): no "
            "decision is made about "
            "them. The same holds for times in which the operator did not record a job.",
        )
    yield Assumption(
        key="resolution",
        text=f"Idle jobs are scanned every {minutes(inputs.step.total_seconds())}, each of them in detail every "
        "time. An idle job without a cause is examined again after five minutes or a tenth of its idle time, whichever "
        "is longer, so its warning may come that much later than in the controller.",
    )
    if inputs.failed_examinations:
        yield Assumption(
            key="notExamined",
            text=f"{count(inputs.failed_examinations, 'examination')} failed because Prometheus did not answer: "
            "no cause is "
            "assumed for them.",
        )
    if inputs.partial or outlines.warnings:
        said = f" ({'; '.join(outlines.warnings)[:200]})" if outlines.warnings else ""
        yield Assumption(
            key="partial",
            text=f"Prometheus reported that some of its answers are partial{said}. No decision is made about a "
            "job with partial "
            "samples; the totals may lack jobs.",
        )


def _rested(jobs: Iterable[JobOutline], outcomes: Iterable[JobOutcome]) -> list[JobOutline]:
    looked_at = {one.identity.uid for one in outcomes}
    return [job for job in jobs if job.identity.uid in looked_at]


def _labels(policy: EffectivePolicy) -> Iterator[str]:
    """The labels of jobs that a policy asks for."""
    selectors = [one.job_selector for one in policy.exemptions]
    selectors += [one.job_selector for one in policy.reclaim.classes]
    for selector in selectors:
        if selector is not None:
            yield from selector.match_labels
            yield from (requirement.key for requirement in selector.match_expressions)


__all__ = ["Inputs", "assumptions"]
