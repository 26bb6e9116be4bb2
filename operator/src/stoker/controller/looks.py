"""What the last scan of the metrics said of each job; in memory only: status holds what must outlive the process."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.models.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.models.policy import EffectiveThresholds
from stoker.models.vocabulary import ConditionType, UnknownReason
from stoker.workload.conditions import FALSE, TRUE, UNKNOWN, Fact

NOT_RUNNING = "NotRunning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The screen's answer, and the latest examination if there was one."""

    idleness: Idleness
    diagnosis: Diagnosis | None = None


class Looks:
    """Looks by the DLJob's uid."""

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}

    def get(self, uid: str) -> Look | None:
        return self._looks.get(uid)

    def put(self, uid: str, look: Look) -> None:
        self._looks[uid] = look

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all other jobs."""
        kept = set(uids)
        self._looks = {uid: look for uid, look in self._looks.items() if uid in kept}


def metric_facts(look: Look, thresholds: EffectiveThresholds) -> tuple[Fact, ...]:
    """The conditions Idle and LowUtilization of a job that runs. Missing is Unknown, with the reason, never False."""
    return _idle(look.idleness), _low(look, thresholds)


def not_running() -> Fact:
    """The condition Idle of a job that holds no GPUs."""
    return Fact(type=ConditionType.IDLE, status=FALSE, reason=NOT_RUNNING, message="the job holds no GPUs")


def not_looked_at() -> tuple[Fact, ...]:
    """The conditions Idle and LowUtilization of a job that runs and that no scan has seen yet."""
    return tuple(
        Fact(type=kind, status=UNKNOWN, reason=UnknownReason.NO_SAMPLES.value, message="not looked at yet")
        for kind in (ConditionType.IDLE, ConditionType.LOW_UTILIZATION)
    )


def _idle(idleness: Idleness) -> Fact:
    match idleness.state:
        case IdlenessState.IDLE:
            return Fact(type=ConditionType.IDLE, status=TRUE, reason="AllGPUsIdle", message=idleness.message)
        case IdlenessState.ACTIVE:
            return Fact(
                type=ConditionType.IDLE, status=FALSE, reason="Active", message=idleness.message, is_snapshot=True
            )
        case IdlenessState.WAITING:
            return Fact(type=ConditionType.IDLE, status=FALSE, reason="WaitingForPods", message=idleness.message)
        case IdlenessState.UNKNOWN:
            reason = idleness.reason or UnknownReason.NO_SAMPLES
            return Fact(
                type=ConditionType.IDLE, status=UNKNOWN, reason=reason.value, message=idleness.message, is_snapshot=True
            )


def _low(look: Look, thresholds: EffectiveThresholds) -> Fact:
    """Low by the study's definition, or not known: an old examination says nothing while the metrics are away."""
    away = look.idleness.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
    utilization = look.diagnosis.utilization if look.diagnosis is not None and not away else None
    if utilization is not None:
        low, high = utilization.average_percent_range or (utilization.average_percent, utilization.average_percent)
        bound = thresholds.low_percent
        if high is not None and high <= bound:
            return _low_fact(TRUE, "LowUtilization", f"{high:.0f} % over its life, at most {bound} % is low")
        if low is not None and low > bound:
            return _low_fact(FALSE, "NotLow", f"{low:.0f} % over its life, more than {bound} %")
    unknown = look.diagnosis.unknown if look.diagnosis is not None and not away else None
    gaps = UnknownReason.NO_SAMPLES if utilization is None else UnknownReason.PARTIAL
    reason = unknown or look.idleness.reason or gaps
    return _low_fact(UNKNOWN, reason.value, look.idleness.message or "its utilization is not known yet")


def _low_fact(status: str, reason: str, message: str) -> Fact:
    return Fact(
        type=ConditionType.LOW_UTILIZATION, status=status, reason=reason, message=message, is_snapshot=status == UNKNOWN
    )
