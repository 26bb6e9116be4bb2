"""Jobs in plain situations, from which the tests of reclaim start."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, JobType, ReclaimMode, ReclaimState, Severity, Source
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim
from stoker.reclaim import UNCONSTRAINED, Candidate, Case, Constraints, Execution, NoticeReason, Plan, Record, plan

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PODS = frozenset({"pod-0", "pod-1"})


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def finding(
    category: Category = Category.UNRELEASED_JOB,
    confidence: Confidence = Confidence.LIKELY,
    until: datetime | None = None,
) -> Finding:
    return Finding(
        rule=f"rule-of-{category}",
        category=category,
        severity=Severity.WARNING,
        confidence=confidence,
        detail="idle",
        evidence="",
        fix="",
        docs="",
        sources=(Source.METRICS,),
        until=until,
    )


CANDIDATE = Candidate(
    job_type=JobType.TRAINING,
    gpus=16,
    job_uid="job",
    pod_uids=PODS,
    last_start=ago(600),
    findings=(finding(),),
    has_persistent_volume=True,
    termination_grace=timedelta(seconds=30),
)
IDLE = Idleness(state=IdlenessState.IDLE, observed_at=NOW, since=ago(90), pod_uids=PODS)
BUSY = replace(IDLE, state=IdlenessState.ACTIVE, since=None)
UNKNOWN = replace(IDLE, state=IdlenessState.UNKNOWN, since=None)
SUSPENDS = EffectivePolicy(reclaim=EffectiveReclaim(mode=ReclaimMode.SUSPEND), sources=("default",))
WARNED = Record(
    state=ReclaimState.WARNED,
    warned_at=ago(20),
    deadline=ago(5),
    job_uid="job",
    pod_uids=PODS,
    action=ReclaimMode.SUSPEND,
)
"""A warning about CANDIDATE whose deadline has passed."""


CONFIRMED = Execution(
    warning_age=timedelta(days=1),
    examination_age=timedelta(0),
    check_age=timedelta(0),
    slot_taken=True,
    intent_recorded=True,
)
"""A process that has done all that comes before an action."""


def plan_of(
    job: Candidate,
    idle: Idleness,
    policy: EffectivePolicy,
    record: Record,
    now: datetime,
    *,
    constraints: Constraints = UNCONSTRAINED,
    execution: Execution = CONFIRMED,
) -> Plan:
    return plan(
        Case(
            job=job, idleness=idle, policy=policy, record=record, now=now, constraints=constraints, execution=execution
        )
    )


def look(
    job: Candidate = CANDIDATE,
    idle: Idleness = IDLE,
    policy: EffectivePolicy = SUSPENDS,
    record: Record | None = None,
    **options: Any,
) -> Plan:
    return plan_of(job, idle, policy, Record() if record is None else record, NOW, **options)


def reasons(decision: Plan) -> list[NoticeReason]:
    return [notice.reason for notice in decision.notices]


def with_reclaim(**fields: Any) -> EffectivePolicy:
    return replace(SUSPENDS, reclaim=replace(SUSPENDS.reclaim, **fields))
