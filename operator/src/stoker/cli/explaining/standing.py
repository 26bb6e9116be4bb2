"""Where a job stands on the way to being reclaimed, by what is written in the cluster. Prometheus is not asked: what
the controller last said of the GPUs is in the DLJob's status.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.adapters.kubernetes import Object
from stoker.controller.candidates import candidate, is_of
from stoker.controller.findings import recorded
from stoker.models.diagnosis import Idleness, IdlenessState
from stoker.models.dljob import DLJob
from stoker.models.meta import Condition, ConditionStatus
from stoker.models.policy import EffectivePolicy
from stoker.models.vocabulary import ConditionType, Phase, UnknownReason
from stoker.reclaim import Answer, Case, Circumstances, Explanation, Obstruction, Presence, Record, explain
from stoker.workload import program_facts

WAITS = frozenset({"WaitingForPods", "NotRunning"})
"""Reasons of the condition Idle of a job whose GPUs are not asked to work."""
UNSEEN = frozenset({"unattended", "suspendable", "pressure", "bounds"})
"""Gates that rest on what only the controller reads, beyond what the objects of the job say against the job."""
NO_JOB: Object = {"metadata": {"uid": ""}, "spec": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that there is to say. `record` is the controller's last word, `answers` are what the conditions say now;
    `idle` is the condition that they rest on.
    """

    job: DLJob
    record: Record
    case: Case
    explanation: Explanation
    answers: tuple[Answer, ...]
    idle: Condition | None
    notes: tuple[str, ...] = ()

    @property
    def decisive(self) -> Answer | None:
        """The first condition that does not hold, as far as can be seen from here."""
        return self.explanation.decisive


def standing(
    job: DLJob,
    child: Object | None,
    pods: Sequence[Object],
    policy: EffectivePolicy,
    now: datetime,
    *,
    brake: Obstruction | None = None,
    notes: Sequence[str] = (),
) -> Standing:
    """Ask every condition of a reclaim of a job; `child` is its Job, `pods` may hold others' too."""
    own = [pod for pod in pods if child is not None and is_of(pod, child)]
    status = job.status
    known = candidate(job, child or NO_JOB, own, recorded(job), program_facts(job))
    if child is None:
        known = replace(known, untouchable=known.untouchable or "it has no Job")
    if status is not None and status.phase in {Phase.SUCCEEDED, Phase.FAILED}:
        known = replace(known, untouchable=f"it is over: {status.phase}")
    if status is not None and status.last_session is not None:
        known = replace(known, presence=Presence(last_seen=status.last_session, how="a session was opened"))
    record = Record.from_status(status.reclaim if status is not None else None)
    conditions = status.conditions if status is not None else ()
    idle = next((one for one in conditions if one.type == ConditionType.IDLE), None)
    case = Case(
        job=known,
        idleness=said(idle, record.idle_since, known.pod_uids, now),
        policy=policy,
        record=record,
        now=now,
        around=Circumstances(brake=brake),
    )
    explanation = explain(case)
    return Standing(
        job=job,
        record=record,
        case=case,
        explanation=explanation,
        answers=tuple(map(_as_far_as_seen, explanation.answers)),
        idle=idle,
        notes=tuple(notes),
    )


def said(idle: Condition | None, since: datetime | None, pods: frozenset[str], now: datetime) -> Idleness:
    """What the condition Idle says, as if it were seen now: the controller keeps it up to date while it runs."""
    answer = Idleness(state=IdlenessState.UNKNOWN, observed_at=now, pod_uids=pods)
    if idle is None:
        return replace(answer, reason=UnknownReason.NO_SAMPLES, message="the controller has not looked at it yet")
    answer = replace(answer, message=idle.message)
    if idle.status is ConditionStatus.TRUE:
        return replace(answer, state=IdlenessState.IDLE, since=since or idle.last_transition_time)
    if idle.status is ConditionStatus.FALSE:
        return replace(answer, state=IdlenessState.WAITING if idle.reason in WAITS else IdlenessState.ACTIVE)
    return replace(answer, reason=next((one for one in UnknownReason if one == idle.reason), UnknownReason.NO_SAMPLES))


def _as_far_as_seen(answer: Answer) -> Answer:
    return replace(answer, holds=None, reason="only the controller asks") if _is_unseen(answer) else answer


def _is_unseen(answer: Answer) -> bool:
    return answer.gate in UNSEEN and answer.holds is True
