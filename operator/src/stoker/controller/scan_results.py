"""The results of the last scan of the metrics, by job; in memory only: status holds what must outlive the process.

The scan writes them, reconcile and the metrics page read them. The conditions Idle and LowUtilization are made of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.controller.hysteresis import ExaminationHistory
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState, Utilization
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ConditionType, UnknownReason
from stoker.policy.effective import EffectiveThresholds
from stoker.workload.conditions import FALSE, TRUE, UNKNOWN, Fact

NOT_RUNNING = "NotRunning"
MARGIN = 1
"""Points beyond the bound from which a job that was low no longer is, and the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What a scan found of one job: the screen's idleness, and the latest examination if there was one."""

    idleness: Idleness
    diagnosis: Diagnosis | None = None
    examination_history: ExaminationHistory = field(default_factory=ExaminationHistory)
    """Kept by ScanResults."""


class ScanResults:
    """The latest scan result of each job, by the DLJob's uid."""

    def __init__(self) -> None:
        self._scan_results: dict[str, ScanResult] = {}
        self._wanted: set[str] = set()

    def get(self, uid: str) -> ScanResult | None:
        return self._scan_results.get(uid)

    def put(self, uid: str, scan_result: ScanResult) -> None:
        """Keep a result. One with another diagnosis than the last is another examination."""
        known = self._scan_results.get(uid)
        examination_history = known.examination_history if known is not None else ExaminationHistory()
        diagnosis = scan_result.diagnosis
        is_new = diagnosis is not None and (known is None or known.diagnosis is not diagnosis)
        if diagnosis is not None and is_new and diagnosis.unknown is None and diagnosis.utilization is not None:
            examination_history = examination_history.after(diagnosis.findings, diagnosis.utilization.as_of)
        if is_new:
            self._wanted.discard(uid)
        self._scan_results[uid] = replace(
            scan_result, idleness=_as_examined(scan_result), examination_history=examination_history
        )

    def want(self, uid: str) -> None:
        """Ask for an examination: all that a job's reclaim waits for is to have its cause confirmed."""
        self._wanted.add(uid)

    def is_wanted(self, uid: str) -> bool:
        """Whether an examination was asked for, and has not come yet."""
        return uid in self._wanted

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all other jobs."""
        kept = set(uids)
        self._scan_results = {uid: scan_result for uid, scan_result in self._scan_results.items() if uid in kept}
        self._wanted &= kept


def _as_examined(scan_result: ScanResult) -> Idleness:
    """The idleness with its beginning as the examination has it, so that findings, the record of a reclaim and
    notifications name one time. A screen searches for it in steps of minutes, and no further back than it must.

    Only an examination that reaches into the stretch which the screen has found says when that began: what has worked
    since is in between.
    """
    idleness, diagnosis = scan_result.idleness, scan_result.diagnosis
    used = diagnosis.utilization if diagnosis is not None else None
    if idleness.state is not IdlenessState.IDLE or diagnosis is None or used is None:
        return idleness
    if diagnosis.idle_since is None or idleness.since is None or used.as_of < idleness.since:
        return idleness
    return replace(idleness, since=min(idleness.since, diagnosis.idle_since))


def not_running() -> Fact:
    """The condition Idle of a job that holds no GPUs."""
    return Fact(type=ConditionType.IDLE, status=FALSE, reason=NOT_RUNNING, message="the job holds no GPUs")


def not_scanned() -> tuple[Fact, ...]:
    """The conditions Idle and LowUtilization of a job that runs and that no scan has seen yet."""
    return tuple(
        Fact(type=kind, status=UNKNOWN, reason=UnknownReason.NO_SAMPLES.value, message="not scanned yet")
        for kind in (ConditionType.IDLE, ConditionType.LOW_UTILIZATION)
    )


def idle_fact(idleness: Idleness) -> Fact:
    """The condition Idle of a job that runs. Missing is Unknown, with the reason, never False."""
    match idleness.state:
        case IdlenessState.IDLE:
            # Since when is known ever better while the same stretch lasts: no news by itself.
            since = f" since {rfc3339(idleness.since)}" if idleness.since is not None else ""
            message = f"{idleness.message}{since}"
            return Fact(type=ConditionType.IDLE, status=TRUE, reason="AllGPUsIdle", message=message, is_snapshot=True)
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


def low_fact(
    scan_result: ScanResult, thresholds: EffectiveThresholds, written: Mapping[str, Any], *, was_low: str | None
) -> Fact:
    """The condition LowUtilization of a job that has run: low by the study's definition, or not known. An old
    examination says nothing while the metrics are away.

    `written` is status.utilization as it will stand; `was_low` the status that the condition has now.
    """
    away = scan_result.idleness.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
    utilization = scan_result.diagnosis.utilization if scan_result.diagnosis is not None and not away else None
    if utilization is not None:
        bound, percent = thresholds.low_percent, _percent_text(written)
        low = _is_low(utilization, bound, was_low)
        if low is not None:
            message = f"mean utilization {percent} over its life (low: {bound} % or less)"
            return _low_fact(TRUE if low else FALSE, "LowUtilization" if low else "NotLow", message)
    unknown = scan_result.diagnosis.unknown if scan_result.diagnosis is not None and not away else None
    gaps = UnknownReason.NO_SAMPLES if utilization is None else UnknownReason.PARTIAL
    why = unknown or scan_result.idleness.reason or gaps
    return _low_fact(UNKNOWN, why.value, scan_result.idleness.message or "its utilization is not known yet")


def _is_low(utilization: Utilization, bound: float, was_low: str | None) -> bool | None:
    """A job at the bound keeps what was said of it until it is clearly on the other side."""
    low = utilization.is_low(bound)
    if was_low == TRUE and low is False:
        return utilization.is_low(bound + MARGIN) is not False
    if was_low == FALSE and low:
        return utilization.is_low(bound - MARGIN) is True
    return low


def _percent_text(written: Mapping[str, Any]) -> str:
    """The utilization in the status' own figures, so that the message is no news by itself."""
    if "averagePercent" in written:
        return f"{written['averagePercent']} %"
    low, high = written.get("averagePercentRange", (0, 100))
    return f"between {low} and {high} %"


def _low_fact(status: str, reason: str, message: str) -> Fact:
    return Fact(
        type=ConditionType.LOW_UTILIZATION, status=status, reason=reason, message=message, is_snapshot=status == UNKNOWN
    )
