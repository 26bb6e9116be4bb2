"""A job as `stoker diagnose` takes it, wherever it was found."""

from dataclasses import dataclass, replace
from datetime import datetime

from stoker.api.dljob import TRAINER
from stoker.findings.finding import Finding
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.reclaim import Candidate, Record
from stoker.telemetry.series import JobFacts, PodFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job to be looked at.

    `start_known` and `end_known`: whether the facts say when its pods ran; what they don't say is sought in the
    samples. `owner`: the kind of the object that its pods belong to, empty for a recorded job. `container`: the name of
    the one that holds the GPUs. `candidate` and `record` are for whoever asks whether it may be
    reclaimed now: what its objects say, and what its status remembers; None: the facts are all that is known. `notes`
    are for the reader; `error` says why it can't be looked at.
    """

    facts: JobFacts
    owner: str = "DLJob"
    container: str = TRAINER
    policy: EffectivePolicy = BUILT_IN
    static_findings: tuple[Finding, ...] = ()
    start_known: bool = True
    end_known: bool = True
    candidate: Candidate | None = None
    record: Record | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def ours(self) -> bool:
        """Whether it is a DLJob, or may have been one: of a recorded job nobody knows."""
        return self.owner in {"DLJob", ""}


def as_of(facts: JobFacts, time: datetime) -> JobFacts:
    """The facts as they were at a time: what began later is not there, what ended later still runs."""
    return replace(
        facts,
        pods=tuple(_pod_as_of(pod, time) for pod in facts.pods),
        former_pods=tuple(
            _pod_as_of(pod, time) for pod in facts.former_pods if pod.started_at is not None and pod.started_at < time
        ),
    )


def _pod_as_of(pod: PodFacts, time: datetime) -> PodFacts:
    if pod.started_at is not None and pod.started_at >= time:
        # An earlier run of its container may have been the one of that time.
        earlier = [attempt for attempt in pod.attempts if attempt.started_at < time]
        if not earlier:
            return replace(pod, started_at=None, finished_at=None, ready=False, attempts=())
        last = earlier[-1]
        pod = replace(pod, started_at=last.started_at, finished_at=last.finished_at, attempts=tuple(earlier[:-1]))
    if pod.finished_at is not None and pod.finished_at > time:
        return replace(pod, finished_at=None, ready=True, terminating=False)
    return pod


def began(facts: JobFacts) -> datetime | None:
    """When the first of the job's containers started; None before that."""
    pods = (*facts.former_pods, *facts.pods)
    starts = [pod.started_at for pod in pods] + [attempt.started_at for pod in pods for attempt in pod.attempts]
    return min((start for start in starts if start is not None), default=None)


def ended(facts: JobFacts) -> datetime | None:
    """When the last of the job's containers ended; None while one runs or is still to start."""
    ends = [pod.finished_at for pod in facts.pods]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


__all__ = ["Workload", "as_of", "began", "ended"]
