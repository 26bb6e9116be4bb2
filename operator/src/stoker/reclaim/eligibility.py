"""Whether a job could be reclaimed and why, by its objects and metrics alone: for `stoker diagnose` and `stoker
report`.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import UnknownReason
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.action_gates import NOTHING_LOST
from stoker.reclaim.candidate import Candidate
from stoker.reclaim.case import Case
from stoker.reclaim.gate import FACTS
from stoker.reclaim.gates import GATES
from stoker.reclaim.planning import with_snooze
from stoker.reclaim.record import Record
from stoker.reclaim.transitions import Trigger
from stoker.telemetry.series import JobFacts

DEFAULT_TERMINATION_GRACE = timedelta(seconds=30)
"""What a pod gets between SIGTERM and SIGKILL that asks for nothing else (PodSpec.terminationGracePeriodSeconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """Whether the controller may reclaim a job, by what is seen of it alone; `why` says the reason either way, in one
    sentence.
    """

    eligible: bool
    why: str


def of_facts(facts: JobFacts) -> Candidate:
    """A job of which only the facts are known, as `plan` takes it."""
    return Candidate(
        job_type=facts.job_type,
        gpus=facts.gpus,
        job_uid=facts.uid,
        pod_uids=pod_uids(facts),
        last_start=last_start(facts),
        gpu_product=facts.gpu_product,
        has_persistent_volume=facts.has_persistent_volume,
        termination_grace=DEFAULT_TERMINATION_GRACE,
    )


def observed(job: Candidate, facts: JobFacts, diagnosis: Diagnosis) -> Candidate:
    """The candidate at the time of these facts, of which the diagnosis was made."""
    return replace(
        job,
        findings=diagnosis.findings,
        pod_uids=pod_uids(facts),
        last_start=last_start(facts),
        untouchable=job.untouchable or _ended(facts),
    )


def eligibility(
    job: Candidate, idleness: Idleness, policy: EffectivePolicy, now: datetime, record: Record | None = None
) -> Eligibility:
    """What `plan` would make of a job, whatever the policy's mode. `record` is what its status remembers; without one
    it was never warned or resumed.
    """
    record = record or Record()
    case, _ = with_snooze(Case(job=job, idleness=idleness, policy=policy, record=record, now=now))
    # Whether results may be lost the job alone answers, under whichever mode.
    asked = (gate.check(case) for gate in GATES if gate.group in FACTS or gate is NOTHING_LOST)
    hold = next((hold for hold in asked if hold is not None), None)
    if hold is None:
        assert case.cause is not None  # gates have asked
        assert case.idle_since is not None
        sure = case.cause.confidence.value.lower()
        return Eligibility(
            eligible=True, why=f"{case.cause.category}, {sure}; all its GPUs idle since {rfc3339(case.idle_since)}"
        )
    if hold.trigger is Trigger.UNKNOWN:
        return Eligibility(eligible=False, why=f"not known to be idle: {idleness.message or idleness.reason}")
    if hold.trigger is Trigger.IDLE and hold.until is not None and case.idle_since is not None:
        return Eligibility(eligible=False, why=f"idle since {rfc3339(case.idle_since)}; {hold.reason}")
    seen = hold.trigger is Trigger.ACTIVE and job.untouchable is None and idleness.message
    return Eligibility(eligible=False, why=f"{hold.reason} ({idleness.message})" if seen else hold.reason)


def presumed(facts: JobFacts, diagnosis: Diagnosis, now: datetime) -> Idleness:
    """Idleness by a job's own series, where nothing hangs on it: no cause of a reclaim stands.

    Whether a device is shared, and each signal's peak, only a screen knows.
    """
    uids = pod_uids(facts)
    if diagnosis.idle_since is not None:
        return Idleness(state=IdlenessState.IDLE, observed_at=now, since=diagnosis.idle_since, pod_uids=uids)
    if diagnosis.unknown is not None or diagnosis.utilization is None:
        reason = diagnosis.unknown or UnknownReason.NO_SAMPLES
        return Idleness(state=IdlenessState.UNKNOWN, observed_at=now, reason=reason, pod_uids=uids)
    return Idleness(state=IdlenessState.ACTIVE, observed_at=now, pod_uids=uids)


def pod_uids(facts: JobFacts) -> frozenset[str]:
    """The job's pods."""
    return frozenset(pod.uid for pod in facts.pods)


def last_start(facts: JobFacts) -> datetime | None:
    """When the last of its pods began to compute; None before all have."""
    starts = [pod.started_at for pod in facts.pods]
    return None if None in starts else max((start for start in starts if start is not None), default=None)


def _ended(facts: JobFacts) -> str | None:
    if not facts.pods:
        return "it has no pods"
    return "it has ended" if all(pod.finished_at is not None for pod in facts.pods) else None
