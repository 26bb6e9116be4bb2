"""GPUs are held before the program can start.

## What it flags

The rule flags ten minutes or more between the time at which a pod was bound to its node, from which on it holds its
GPUs, and the start of its container: the image is pulled, volumes are attached, or init containers run. It also flags
ten minutes in which started pods wait for one that has not started.

No utilization is measured before a container runs, and none is assumed: this time counts neither as 0 % nor as part
of the job's life.

## Why it costs GPU time

The scheduler assigns the GPUs when it binds the pod. No other job can use them while an image of tens of GiB crosses
the network. In a job with several pods all wait for the slowest.

## When it stays silent

- It takes less than ten minutes.
- The time of scheduling is not known.
- The pods are queued, and hold nothing yet.
- The pods are being deleted.

## Change

Use a smaller image, or one that the nodes already have, and keep it in a registry of the same network. Move what init
containers download or install into the image, or onto a volume. Correct an image that cannot be pulled at all.

## References

- Kubernetes, Pod Lifecycle: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import PodFacts

LEAST_SECONDS = 600.0
"""Seconds. Chosen because a pull of a large image over a fast network is shorter."""
REASONS = {
    "ErrImagePull": "the image can't be pulled",
    "ImagePullBackOff": "the image can't be pulled",
    "InvalidImageName": "the image's name is invalid",
    "ContainerCreating": "image or volumes are being prepared",
    "PodInitializing": "init containers run",
    "CreateContainerConfigError": "the container's configuration is wrong",
    "CreateContainerError": "the container can't be created",
}
FIXES = {
    "ErrImagePull": "Correct the image's name or its pull secret.",
    "ImagePullBackOff": "Correct the image's name or its pull secret.",
    "InvalidImageName": "Correct the image's name.",
    "PodInitializing": "Move what the init containers download or install into the image or onto a volume.",
    "CreateContainerConfigError": "Correct the ConfigMaps and Secrets that the pod refers to.",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """One pod's time from `since`, when it was bound or its container ran, to `until`; `open` while it lasts."""

    pod: PodFacts
    since: datetime
    until: datetime
    open: bool

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    @property
    def gpu_hours(self) -> float:
        return self.pod.gpus * self.seconds / 3600


def check(exam: Examination) -> Iterator[Claim]:
    """Report pods that hold GPUs for long before their own container, and those of their peers, run."""
    pods = [pod for pod in exam.facts.pods if not pod.terminating]
    held = [hold for pod in pods if (hold := _bound(pod, exam.now)) is not None]
    peers = _for_peers(exam, pods)
    longest = max((hold.seconds for hold in (*held, *peers)), default=0.0)
    if longest < LEAST_SECONDS:
        return
    counted = [hold for hold in (*held, *peers) if hold.seconds > 0]
    hours = sum(hold.gpu_hours for hold in counted)
    since, until = min(hold.since for hold in counted), max(hold.until for hold in counted)
    lasts = any(hold.open for hold in counted)
    gpus = sum({hold.pod.name: hold.pod.gpus for hold in counted}.values())
    reason = next((hold.pod.waiting_for for hold in held if hold.open and hold.pod.waiting_for), None)
    yield Claim(
        detail=(
            f"{count(gpus, 'GPU')} held for up to {minutes(longest)} before "
            f"{'the program' if exam.facts.nodes == 1 else 'all pods'} could start; {gpu_hours(hours)} bound."
        ),
        evidence="; ".join(
            part
            for part in (
                interval(since, None if lasts else until),
                _words(exam, held, "bound before the container ran"),
                _words(exam, peers, "running before their peers"),
                "" if reason is None else f"{reason}: {REASONS.get(reason, 'the container waits')}",
            )
            if part
        ),
        fix=FIXES.get(reason or ""),
        confidence=Confidence.CERTAIN,
        sources=(Source.MANIFEST,),
        since=since,
        until=None if lasts else until,
        recoverable=Recoverable(min=0.0, max=hours, basis="the GPUs are bound as long as pulling and init take"),
        explains=_explained(exam, peers),
    )


def _first_start(pod: PodFacts) -> datetime | None:
    starts = [attempt.started_at for attempt in pod.attempts]
    starts += [pod.started_at] if pod.started_at is not None else []
    return min(starts, default=None)


def _bound(pod: PodFacts, now: datetime) -> Hold | None:
    """The time from binding to the first start of the container."""
    started = _first_start(pod)
    if pod.scheduled_at is None or (started is None and pod.finished_at is not None):
        return None
    return Hold(pod, pod.scheduled_at, now if started is None else started, started is None)


def _for_peers(exam: Examination, pods: list[PodFacts]) -> list[Hold]:
    """The time from the start of each waiting pod to the start of the last pod of the job, while none has ended."""
    starts = [_first_start(pod) for pod in pods]
    known = [start for start in starts if start is not None]
    if not known or any(pod.finished_at is not None for pod in pods):
        return []
    waiting = len(known) < exam.facts.nodes
    last = exam.now if waiting else max(known)
    holds = [Hold(pod, start, last, waiting) for pod, start in zip(pods, starts, strict=True) if start is not None]
    return [hold for hold in holds if not _works(exam, hold)]


def _works(exam: Examination, hold: Hold) -> bool:
    """Whether the pod uses a GPU in this time."""
    mask = _within(exam, hold)
    return any((device.busy & mask).any() for device in exam.devices if device.pod.name == hold.pod.name)


def _within(exam: Examination, hold: Hold) -> BoolArray:
    times = exam.series.times
    return np.asarray((times > hold.since.timestamp()) & (times <= hold.until.timestamp()), dtype=np.bool_)


def _explained(exam: Examination, peers: list[Hold]) -> BoolArray:
    """The idle time of the GPUs whose pods wait for their peers."""
    explains = exam.explains(np.zeros(len(exam.series.times), dtype=np.bool_))
    for hold in peers:
        devices = [device for device in exam.devices if device.pod.name == hold.pod.name]
        explains |= exam.explains(_within(exam, hold), devices) & exam.idle
    return explains


def _words(exam: Examination, holds: list[Hold], state: str) -> str:
    """`2 of 4 pods bound before the container ran, the longest bert-3 for 14 min`."""
    long = [hold for hold in holds if hold.seconds >= LEAST_SECONDS]
    if not long:
        return ""
    worst = max(long, key=lambda hold: hold.seconds)
    name = f"{exam.facts.host_of(worst.pod)} for {minutes(worst.seconds)}"
    return f"{len(long)} of {count(exam.facts.nodes, 'pod')} {state}, the longest {name}"


RULE = Rule(
    id="D501",
    name="startup-hold",
    category=Category.STARTUP_HOLD,
    severity=Severity.WARNING,
    summary="GPUs are held for ten minutes or more before the program can start.",
    fix="Use a smaller image or one that the nodes have; move what init containers do into the image or onto a volume.",
    check=check,
    without_samples=True,
)
