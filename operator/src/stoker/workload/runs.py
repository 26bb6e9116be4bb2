"""The runs of a job's pods that its status remembers: nothing else keeps when a deleted pod has run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.api.status import MAX_PODS, PodRunStatus, WorkloadStatus
from stoker.findings.finding import optional_time, rfc3339
from stoker.telemetry.series import PodFacts
from stoker.workload import pods as pod_status
from stoker.workload.observation import finished


def run_to_status(pod: PodFacts) -> dict[str, Any]:
    """The entry of `status.pods` of a pod that has started; without an end it runs."""
    assert pod.started_at is not None
    entry = {
        "name": pod.name,
        "rank": pod.rank,
        "node": pod.node,
        "gpus": pod.gpus,
        "since": rfc3339(pod.started_at),
        "until": optional_time(pod.finished_at),
    }
    return {key: value for key, value in entry.items() if value is not None}


def recorded_runs(status: WorkloadStatus | None) -> tuple[PodFacts, ...]:
    """The runs in a status, the oldest first. A time beyond the calendar is no time of a pod: its run is
    dropped.
    """
    entries = status.pods if status is not None else ()
    return tuple(_run(entry) for entry in entries if _is_in_calendar(entry))


def remembered(
    status: WorkloadStatus | None, seen: Sequence[PodFacts], child: Mapping[str, Any] | None, now: datetime
) -> tuple[PodFacts, ...]:
    """What the status remembers from now on: the pods `seen` that have started, and those of before.

    A run that is no longer seen and has no end ended when the Job did, when it was suspended, when the next pod of the
    rank came, or else by `now`, whichever was first. Of more than MAX_PODS runs the oldest are forgotten.
    """
    recorded = {run.name: run for run in recorded_runs(status)}
    present = {pod.name: _from_first_start(pod, recorded.get(pod.name)) for pod in seen}
    started = [run for run in present.values() if run.started_at is not None]
    gone = [_ended(run, started, child, now) for name, run in recorded.items() if name not in present]
    return tuple(sorted([*gone, *started], key=_start)[-MAX_PODS:])


def _from_first_start(pod: PodFacts, known: PodFacts | None) -> PodFacts:
    """A pod whose container was started anew has held its GPUs since it ran first."""
    starts = [pod.started_at, *(attempt.started_at for attempt in pod.attempts)]
    starts += [known.started_at] if known is not None else []
    return replace(pod, started_at=min((start for start in starts if start is not None), default=None))


def _ended(run: PodFacts, present: Iterable[PodFacts], child: Mapping[str, Any] | None, now: datetime) -> PodFacts:
    if run.finished_at is not None:
        return run
    ends = [now, *_ends_of_job(child)]
    ends += [start for pod in present if pod.rank == run.rank if (start := pod.scheduled_at or pod.started_at)]
    # A kubelet's clock may be ahead of all others: what was gone before it began has taken no time.
    after = (end for end in ends if run.started_at is None or end >= run.started_at)
    return replace(run, finished_at=min(after, default=run.started_at))


def _ends_of_job(child: Mapping[str, Any] | None) -> Sequence[datetime]:
    if child is None:
        return ()
    if (end := finished(child)) is not None:
        return () if end.at is None else (end.at,)
    suspended = (
        pod_status.read_time(condition.get("lastTransitionTime"))
        for condition in child.get("status", {}).get("conditions", ())
        if condition["type"] == "Suspended" and condition["status"] == "True"
    )
    return [time for time in suspended if time is not None]


def _is_in_calendar(entry: PodRunStatus) -> bool:
    times = [entry.since, *([] if entry.until is None else [entry.until])]
    return all(pod_status.EARLIEST <= time < pod_status.LATEST for time in times)


def _run(entry: PodRunStatus) -> PodFacts:
    return PodFacts(
        name=entry.name,
        uid="",
        rank=entry.rank,
        node=entry.node,
        gpus=entry.gpus,
        started_at=entry.since,
        finished_at=entry.until,
    )


def _start(pod: PodFacts) -> tuple[datetime, int]:
    assert pod.started_at is not None  # only pods that have started are runs
    return pod.started_at, pod.rank
