"""What a replay had to assume, because nobody recorded it: said, never filled in silently."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from stoker.api.meta import OWNER_LABEL, TEAM_LABEL
from stoker.api.policy import EffectivePolicy, format_duration
from stoker.findings.vocabulary import ReclaimMode
from stoker.findings.wording import clock, count, minutes
from stoker.replay.simulation import JobOutcome
from stoker.report import Assumption, hours
from stoker.telemetry.past import JobOutline, Outlines

KNOWN_LABELS = frozenset({OWNER_LABEL, TEAM_LABEL})
NAMED = 5


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
    """All that applies, what the figures hang on most first."""
    used = {id(policy): policy for policy in policies.values()}
    return (
        *_policies(used.values(), outcomes, inputs),
        *_people(),
        *_manifests(used.values(), outcomes, inputs),
        *_recording(outlines, outcomes, inputs),
    )


def _policies(
    policies: Iterable[EffectivePolicy], outcomes: Sequence[JobOutcome], inputs: Inputs
) -> Iterator[Assumption]:
    policies = tuple(policies)
    yield Assumption(
        key="switchedOn",
        text="The policies are in force from the beginning of the period on: nobody stands warned, nothing was "
        "reclaimed before, and the mass-idle brake knows of no earlier work. What other policies have really "
        "reclaimed in the period stays so.",
    )
    for remark in inputs.remarks:
        yield Assumption(key="policy", text=remark)
    if inputs.mode is not None:
        yield Assumption(
            key="mode",
            text=f"Every policy is replayed with reclaim.mode {inputs.mode}, as asked for; a class with its own mode "
            "keeps that.",
        )
    if any(one.reclaim.on_pressure_only or any(c.on_pressure_only for c in one.reclaim.classes) for one in policies):
        yield Assumption(
            key="pressure",
            text="Who waited for GPUs was not recorded. Where the policy reclaims on pressure only, somebody is taken "
            "to have waited all the time: what is reclaimed and given back is the most that it can have been, and "
            "the least is nothing.",
        )
    keys = sorted({key for one in policies for key in _labels(one)} - KNOWN_LABELS)
    if keys:
        yield Assumption(
            key="labels",
            text=f"Of the jobs' labels only {OWNER_LABEL} and {TEAM_LABEL} were recorded: no job is taken to have "
            f"{', '.join(keys)}, for which exemptions or classes of the policies ask.",
        )
    if any(one.reclaims for one in outcomes):
        yield Assumption(
            key="resumed",
            text="A job that works again after it was suspended is taken to have been resumed by its owner at that "
            "moment; the policy's cooldown follows. What it had not saved, and the time that its script takes to come "
            "that far again, is not counted.",
        )


def _people() -> Iterator[Assumption]:
    yield Assumption(
        key="people",
        text="People's words and traces were not recorded. No job is taken to have been snoozed or resumed, or to have "
        "had a session open in it (exec, port-forward, Jupyter) but for what the CPUs show: a controller would have "
        "warned and reclaimed less for it, never more. Nor is any taken to have asked for an idleAfter of its own.",
    )


def _manifests(
    policies: Iterable[EffectivePolicy], outcomes: Sequence[JobOutcome], inputs: Inputs
) -> Iterator[Assumption]:
    least = max((one.reclaim.min_termination_grace for one in policies), default=timedelta(0))
    if least > timedelta(0):
        yield Assumption(
            key="terminationGrace",
            text="What time the pods have between SIGTERM and SIGKILL was not recorded: it is taken to be enough for "
            f"the policy ({format_duration(least)} at most).",
        )
    if inputs.assumes_volumes:
        yield Assumption(
            key="volumes", text="Every job is taken to write its results to a volume that outlives its pods."
        )
    else:
        held = sum(one.held_back.get("nothing-lost", 0.0) for one in outcomes)
        if held > 0:
            yield Assumption(
                key="volumes",
                text="Volumes were not recorded: no job is taken to write to one that outlives its pods, so none is "
                "reclaimed unless the policy says interactiveWithoutVolume, or of other jobs trainingWithoutVolume. "
                f"That holds back {hours(held)} GPU-hours; --assume-volumes replays the opposite.",
                gpu_hours=held,
            )
    yield Assumption(
        key="manifests",
        text="The jobs' manifests are not read: a program that serves a model is known by the job's type alone, one "
        "that is interactive by its type and by how the GPUs were used, shared GPUs by their samples; and a Job that "
        "was being deleted, or that could not be suspended, is taken for any other. Ports, readiness probes and "
        "resource claims are not known either: no job is taken to have any. Each job is taken to mount storage whose "
        "traffic no metric shows, so that its CPUs must have rested for a cause to be likely.",
    )


def _recording(outlines: Outlines, outcomes: Sequence[JobOutcome], inputs: Inputs) -> Iterator[Assumption]:
    grid, start = outlines.grid, outlines.period.start
    jobs = outlines.jobs
    first = grid.first_at(start)
    blind = first + np.flatnonzero(np.isnan(outlines.cluster_gpus[first:]))
    if len(blind):
        yield Assumption(
            key="notWatched",
            text=f"No GPU was sampled at all for {minutes(len(blind) * grid.step.total_seconds())} of the period, "
            f"between {clock(grid.time(int(blind[0])))} and {clock(grid.time(int(blind[-1])))}: no exporter, or "
            "Prometheus no longer keeps it. Nothing is decided of that time, and it counts in no figure.",
        )
    earlier = [job for job in jobs if bool(job.held[: grid.first_at(start) + 1].any())]
    cut = [job for job in earlier if bool(job.held[:3].any())]
    if cut:
        yield Assumption(
            key="startedBefore",
            text=f"{count(len(cut), 'job')} began before {clock(grid.start)}, {'which' if len(cut) > 1 else 'and'} is "
            "as far back as was read: what is said of "
            f"{'their' if len(cut) > 1 else 'its'} use counts from there.",
        )
    unstarted = [job for job in _rested(jobs, outcomes) if any(not pod.starts for pod in job.pods)]
    if unstarted:
        yield Assumption(
            key="starts",
            text=f"When containers started was not recorded of {count(len(unstarted), 'job')} "
            "(container_start_time_seconds): they are taken to have started when their GPUs were first sampled, or "
            "when all pods were last seen to become ready. A restart that is shorter than a scrape is not seen.",
        )
    unsampled = sum(float((job.held & (np.nan_to_num(job.sampled) < job.identity.gpus)).sum()) for job in jobs)
    if unsampled:
        yield Assumption(
            key="notSampled",
            text="Some GPUs of some jobs were not sampled all the time. What is not known is never taken for idle: "
            "nothing is decided then, as a controller would decide nothing.",
        )
    if outlines.unrecorded:
        names = ", ".join(outlines.unrecorded[:NAMED])
        more = f" and {len(outlines.unrecorded) - NAMED} more" if len(outlines.unrecorded) > NAMED else ""
        yield Assumption(
            key="notRecorded",
            text=f"Pods were sampled whose job the operator never told of ({names}{more}): nothing is decided of "
            "them. While the operator told nothing of a job, nothing is decided of it either.",
        )
    yield Assumption(
        key="cluster",
        text="The cluster is taken to have as many GPUs as were sampled within the day before. The mass-idle brake "
        "looks every five minutes here, by utilization.",
    )
    yield Assumption(
        key="resolution",
        text=f"Jobs that rest are looked at every {minutes(inputs.step.total_seconds())}, all of them closely each "
        "time; one that rests without a cause is examined again after five minutes or a tenth of its rest, whichever "
        "is longer, so that its warning may come that much later than a controller's.",
    )
    if inputs.failed_examinations:
        yield Assumption(
            key="notExamined",
            text=f"{count(inputs.failed_examinations, 'examination')} failed as Prometheus did not answer: no cause is "
            "taken to be known then.",
        )
    if inputs.partial or outlines.warnings:
        said = f" ({'; '.join(outlines.warnings)[:200]})" if outlines.warnings else ""
        yield Assumption(
            key="partial",
            text=f"Prometheus said that some of its answers are partial{said}. Of a job whose samples came in part "
            "nothing is decided; the totals may lack jobs.",
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
