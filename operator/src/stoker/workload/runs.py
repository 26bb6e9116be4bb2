"""The runs of a job's pods that its status remembers: of pods that are deleted nobody else tells when they ran."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.api.dljob import MAX_PODS, DLJob
from stoker.findings.finding import rfc3339
from stoker.findings.quantity import small_number
from stoker.telemetry.series import PodFacts
from stoker.workload import pods as pod_status
from stoker.workload.observation import finished

_RUN = re.compile(r"(?P<name>\S+)(?: on (?P<node>\S+))?: (?P<gpus>\d+) GPUs? from (?P<start>\S+)(?: to (?P<end>\S+))?")


def run_line(pod: PodFacts) -> str:
    """`bert-0-x7k2p on gpu-1: 8 GPUs from 2026-11-21T05:40:00Z to 2026-11-21T06:12:00Z`; without an end it runs."""
    assert pod.started_at is not None
    where = f"{pod.name} on {pod.node}" if pod.node else pod.name
    until = f" to {rfc3339(pod.finished_at)}" if pod.finished_at is not None else ""
    return f"{where}: {pod.gpus} GPU{'s' if pod.gpus != 1 else ''} from {rfc3339(pod.started_at)}{until}"


def recorded_runs(job: DLJob) -> tuple[PodFacts, ...]:
    """The runs in the job's status, the oldest first. Lines that this version can't read are dropped."""
    lines = job.status.pods if job.status is not None else ()
    return tuple(pod for line in lines if (pod := _read(line, job.name)) is not None)


def remembered(
    job: DLJob, seen: Sequence[PodFacts], child: Mapping[str, Any] | None, now: datetime
) -> tuple[PodFacts, ...]:
    """What the status remembers from now on: the pods `seen` that have started, and those of before.

    A run that is no longer seen and has no end ended when the Job did, when it was suspended, when the next pod of the
    rank came, or else by `now`, whichever was first. Of more than MAX_PODS runs the oldest are forgotten.
    """
    recorded = {run.name: run for run in recorded_runs(job)}
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


def _read(line: str, job_name: str) -> PodFacts | None:
    match = _RUN.fullmatch(line)
    if match is None:
        return None
    # The Job controller names pods <job>-<index>-<five letters>.
    rank = small_number(match["name"].removeprefix(f"{job_name}-").partition("-")[0])
    start, end = pod_status.read_time(match["start"]), pod_status.read_time(match["end"])
    gpus = small_number(match["gpus"])
    if rank is None or gpus is None or start is None or (end is None and match["end"] is not None):
        return None
    return PodFacts(
        name=match["name"], uid="", rank=rank, node=match["node"], gpus=gpus, started_at=start, finished_at=end
    )


def _start(pod: PodFacts) -> tuple[datetime, int]:
    assert pod.started_at is not None  # of those seen only such are taken, and every line has one
    return pod.started_at, pod.rank
