"""Where a job stands on the way to being reclaimed, by what is written in the cluster. Prometheus is not asked: what
the controller last said of the GPUs is in the DLJob's status.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.api.meta import Condition, ConditionStatus
from stoker.controller.candidates import is_of
from stoker.controller.status_findings import recorded
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.vocabulary import ConditionType, Phase, ReclaimMode, ReclaimState, UnknownReason
from stoker.inspection.candidates import of_dljob
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim, PolicyRevision
from stoker.reclaim import Case, Constraints, GateResult, Obstruction, Reads, Record, explain
from stoker.workload import program_facts

WAITS = frozenset({"WaitingForPods", "NotRunning"})
"""Reasons of the condition Idle of a job whose GPUs are not asked to work."""
HOLDS_GPUS = frozenset({Phase.STARTING, Phase.RUNNING})
OUT_OF_DATE = timedelta(minutes=20)
"""A running controller writes lookedAt of a job that holds GPUs more often than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimReport:
    """What `stoker explain` reports of a job. `record` is what the controller last wrote, `results` are those of the
    gates now, `idle` is the condition Idle that they are based on.
    """

    job: DLJob
    record: Record
    case: Case
    results: tuple[GateResult, ...]
    idle: Condition | None
    is_policy_seen: bool = True
    notes: tuple[str, ...] = ()

    @property
    def looked_at(self) -> datetime | None:
        """When the controller last scanned its GPUs, as far as it has written that; None where it holds none."""
        return looked_at(self.job)

    @property
    def is_out_of_date(self) -> bool:
        """Whether no controller seems to scan any more."""
        at = self.looked_at
        return at is not None and self.case.now - at >= OUT_OF_DATE

    @property
    def decisive(self) -> GateResult | None:
        """The first condition that does not hold, as far as can be seen from here."""
        return next((result for result in self.results if result.holds is False), None)

    @property
    def next_deadline(self) -> datetime | None:
        """When the decisive condition may hold, by itself."""
        return self.decisive.until if self.decisive is not None else None


def reclaim_report(
    job: DLJob,
    child: Object | None,
    pods: Sequence[Object],
    policy: EffectivePolicy | None,
    now: datetime,
    *,
    brake: Obstruction | None = None,
    doubted_until: datetime | None = None,
    notes: Sequence[str] = (),
) -> ReclaimReport:
    """Ask every condition of a reclaim of a job; `child` is its Job, `pods` may hold others' too. `policy` None: it may
    not be read, and what it says is left open. `brake` and `doubted_until` are what its status says (Constraints).
    """
    own = [pod for pod in pods if child is not None and is_of(pod, child)]
    status = job.status
    known = of_dljob(job, child, own, recorded(job), program_facts(job))
    record = Record.from_status(status.reclaim if status is not None else None)
    conditions = status.conditions if status is not None else ()
    idle = next((one for one in conditions if one.type == ConditionType.IDLE), None)
    case = Case(
        job=known,
        idleness=idleness_of_condition(idle, record.idle_since, known.pod_uids, _seen_at(job, now)),
        policy=policy or _presumed(record),
        record=record,
        now=now,
        # The floor under warnings is the controller's own, and in the deadlines that it writes.
        constraints=Constraints(brake=brake, doubted_until=doubted_until, minimum_warning_grace=timedelta(0)),
    )
    return ReclaimReport(
        job=job,
        record=record,
        case=case,
        results=_as_far_as_seen(case, is_policy_seen=policy is not None),
        idle=idle,
        is_policy_seen=policy is not None,
        notes=tuple(notes),
    )


def looked_at(job: DLJob) -> datetime | None:
    """See ReclaimReport.looked_at."""
    status = job.status
    return status.looked_at if status is not None and status.phase in HOLDS_GPUS and job.gpus else None


def _seen_at(job: DLJob, now: datetime) -> datetime:
    """When what the status says of the GPUs was seen: just now while the controller runs, which keeps it up to date."""
    at = looked_at(job)
    return now if at is None or now - at < OUT_OF_DATE else at


def idleness_of_condition(
    idle: Condition | None, since: datetime | None, pods: frozenset[str], seen_at: datetime
) -> Idleness:
    """What the condition Idle says."""
    result = Idleness(state=IdlenessState.UNKNOWN, observed_at=seen_at, pod_uids=pods)
    if idle is None:
        return replace(result, reason=UnknownReason.NO_SAMPLES, message="the controller has not scanned it yet")
    result = replace(result, message=idle.message)
    if idle.status is ConditionStatus.TRUE:
        return replace(result, state=IdlenessState.IDLE, since=since or idle.last_transition_time)
    if idle.status is ConditionStatus.FALSE:
        return replace(result, state=IdlenessState.WAITING if idle.reason in WAITS else IdlenessState.ACTIVE)
    return replace(result, reason=next((one for one in UnknownReason if one == idle.reason), UnknownReason.NO_SAMPLES))


def _as_far_as_seen(case: Case, *, is_policy_seen: bool) -> tuple[GateResult, ...]:
    """What every gate says, as far as that can be known from here. A job that is reclaimed has passed them all."""
    results = explain(case).results
    if case.record.state is ReclaimState.RECLAIMED:
        return results
    return tuple(_as_seen(result, is_policy_seen=is_policy_seen) for result in results)


def _as_seen(result: GateResult, *, is_policy_seen: bool) -> GateResult:
    """Of what only the controller reads the job's objects may show that it does not hold, and never that it does."""
    if not is_policy_seen and Reads.POLICY in result.reads:
        return replace(result, holds=None, reason="you may not read the policies", until=None, change="")
    if Reads.PROCESS in result.reads:
        return replace(result, holds=None, reason="only the controller knows this", until=None, change="")
    if Reads.CLUSTER in result.reads and result.holds is True:
        return replace(result, holds=None, reason="only the controller checks this")
    return result


def _presumed(record: Record) -> EffectivePolicy:
    """What the record tells of a policy that may not be read: a deadline that it has set is the one that counts."""
    mode = record.action or ReclaimMode.OBSERVE
    reclaim = EffectiveReclaim(mode=mode, warning_grace=timedelta(0))
    return EffectivePolicy(reclaim=reclaim, revisions=record.policies or (PolicyRevision(name="not known"),))
