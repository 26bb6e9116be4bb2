"""What is said of a job's eligibility agrees with what `plan` would do to it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState, Utilization
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import (
    Category,
    Confidence,
    JobType,
    ReclaimMode,
    ReclaimState,
    Severity,
    Source,
    UnknownReason,
)
from stoker.policy.effective import BUILT_IN, EffectivePolicy, EffectiveReclaim
from stoker.reclaim import Candidate, Record, eligibility, observed, of_facts, presumed
from stoker.telemetry.series import JobFacts, PodFacts
from tests.reclaim.cases import plan_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SUSPENDS = EffectivePolicy(reclaim=EffectiveReclaim(mode=ReclaimMode.SUSPEND))
POD = PodFacts(name="bert-0", uid="u", rank=0, gpus=8, started_at=NOW - timedelta(hours=9), ready=True)
JOB = JobFacts(
    namespace="nlp", name="bert", uid="job", nodes=1, gpus_per_node=8, pods=(POD,), has_persistent_volume=True
)
UNRELEASED = Finding(
    rule="unreleased-job",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    confidence=Confidence.LIKELY,
    detail="All 8 GPUs have been idle since 09:00.",
    evidence="",
    fix="",
    docs="",
    sources=(Source.METRICS,),
)
USED = Utilization(average_percent=40.0, coverage_percent=100.0, gpu_hours=72.0, as_of=NOW)
FOUND = Diagnosis(utilization=USED, findings=(UNRELEASED,), idle_since=NOW - timedelta(hours=3))
IDLE = Idleness(
    state=IdlenessState.IDLE,
    observed_at=NOW,
    since=NOW - timedelta(hours=3),
    coverage_percent=100,
    pod_uids=frozenset({"u"}),
)
BUSY = replace(IDLE, state=IdlenessState.ACTIVE, since=None, message="GPU 0 of pod bert-0: util is over 0 %")
SHARED = replace(
    IDLE, state=IdlenessState.UNKNOWN, since=None, reason=UnknownReason.PARTIAL, message="GPU 0 is shared by several"
)
WAITS = replace(IDLE, state=IdlenessState.WAITING, since=None, message="pod bert-0 is not ready")


def candidate(facts: JobFacts, diagnosis: Diagnosis) -> Candidate:
    return observed(of_facts(facts), facts, diagnosis)


def test_an_idle_job_that_nobody_needs_is_eligible_and_the_cause_is_said() -> None:
    answer = eligibility(candidate(JOB, FOUND), IDLE, BUILT_IN, NOW)
    assert (answer.eligible, answer.why) == (
        True,
        "UnreleasedJob, likely; all its GPUs idle since 2026-11-21T09:00:00Z",
    )


def test_a_job_that_its_owner_has_snoozed_is_not_eligible() -> None:
    snoozed = replace(candidate(JOB, FOUND), snooze="2026-11-21T13:00:00Z", snooze_reason="a demo")
    answer = eligibility(snoozed, IDLE, BUILT_IN, NOW)
    assert (answer.eligible, answer.why) == (
        False,
        'snoozed by its owner until 2026-11-21T13:00:00Z (reason: "a demo")',
    )


@pytest.mark.parametrize(
    "facts, diagnosis, idleness, why",
    [
        (JOB, FOUND, BUSY, "GPU 0 of pod bert-0: util is over 0 %"),
        (JOB, FOUND, SHARED, "not known to be idle: GPU 0 is shared by several"),
        (JOB, FOUND, WAITS, "pod bert-0 is not ready"),
        (
            JOB,
            FOUND,
            replace(IDLE, since=NOW - timedelta(minutes=30)),
            "idle since 2026-11-21T11:30:00Z; it must be idle for",
        ),
        (JOB, replace(FOUND, findings=()), IDLE, "it has no open finding UnreleasedJob or InteractiveJob"),
        (
            JOB,
            replace(FOUND, findings=(replace(UNRELEASED, confidence=Confidence.POSSIBLE),)),
            IDLE,
            "UnreleasedJob is only possible",
        ),
        (JOB, replace(FOUND, findings=(replace(UNRELEASED, until=NOW),)), IDLE, "no open finding"),
        (JOB, replace(FOUND, findings=(replace(UNRELEASED, sources=(Source.SCRIPT,)),)), IDLE, "not on metrics"),
        (replace(JOB, has_persistent_volume=False), FOUND, IDLE, "results may be lost"),
        (replace(JOB, job_type=JobType.SERVING), FOUND, IDLE, "a service is never reclaimed"),
        (replace(JOB, pods=(replace(POD, finished_at=NOW),)), FOUND, IDLE, "it has ended"),
        (replace(JOB, pods=()), FOUND, IDLE, "it has no pods"),
        (replace(JOB, gpus_per_node=0), FOUND, IDLE, "it requests no GPUs"),
    ],
)
def test_any_doubt_makes_it_ineligible_with_the_reason(
    facts: JobFacts, diagnosis: Diagnosis, idleness: Idleness, why: str
) -> None:
    answer = eligibility(candidate(facts, diagnosis), idleness, BUILT_IN, NOW)
    assert (answer.eligible, why in answer.why) == (False, True), answer


@pytest.mark.parametrize("idleness", [IDLE, BUSY, SHARED, WAITS, replace(IDLE, since=NOW - timedelta(minutes=30))])
@pytest.mark.parametrize("findings", [(UNRELEASED,), ()])
def test_it_is_eligible_exactly_where_the_controller_would_warn(
    idleness: Idleness, findings: tuple[Finding, ...]
) -> None:
    job = candidate(JOB, replace(FOUND, findings=findings))
    warned = plan_of(job, idleness, SUSPENDS, Record(), NOW).record.state is ReclaimState.WARNED
    assert eligibility(job, idleness, SUSPENDS, NOW).eligible is warned
    assert eligibility(job, idleness, BUILT_IN, NOW).eligible is warned  # the mode is the policy's business


@pytest.mark.parametrize(
    "diagnosis, state",
    [
        (FOUND, IdlenessState.IDLE),
        (replace(FOUND, idle_since=None), IdlenessState.ACTIVE),
        (replace(FOUND, idle_since=None, unknown=UnknownReason.STALE), IdlenessState.UNKNOWN),
        (Diagnosis(utilization=None), IdlenessState.UNKNOWN),
    ],
)
def test_what_the_own_series_say_is_never_idle_by_missing_samples(diagnosis: Diagnosis, state: IdlenessState) -> None:
    assert presumed(JOB, diagnosis, NOW).state is state
