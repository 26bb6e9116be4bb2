"""The result of the last scan for each job, in memory, and the conditions Idle and LowUtilization that follow from it.

The scan writes the results; reconcile and the metrics page read them. After a restart the next scan fills them again.
What must survive a restart is in the DLJob's status.
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
"""Percentage points by which the utilization must pass the bound before LowUtilization changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The scan's result for one job: its idleness by the screen, and its latest diagnosis; None before the first."""

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
        """Store a result. A diagnosis object that differs from the stored one counts as a new examination."""
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
        """Request an examination of a job whose reclaim waits only for a recent diagnosis."""
        self._wanted.add(uid)

    def is_wanted(self, uid: str) -> bool:
        """Whether an examination was requested and has not been made yet."""
        return uid in self._wanted

    def keep_only(self, uids: Iterable[str]) -> None:
        """Drop the results of all other jobs."""
        kept = set(uids)
        self._scan_results = {uid: scan_result for uid, scan_result in self._scan_results.items() if uid in kept}
        self._wanted &= kept


def _as_examined(scan_result: ScanResult) -> Idleness:
    """The idleness with the start of the idle time that the examination found, so that findings, the reclaim record and
    notifications name the same time. A screen knows the start only to some minutes, and not beyond the time it reads.

    The examination counts only if its last sample is in the idle time that the screen found. Otherwise the job may have
    worked between the two.
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
    """The condition Idle of a running job. Missing metrics give Unknown with a reason, never False."""
    match idleness.state:
        case IdlenessState.IDLE:
            # The start becomes more exact while the idle time lasts. is_snapshot: such a change alone causes no write.
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
    """The condition LowUtilization of a job that has run: low by the study's definition, not low, or Unknown. It is
    Unknown while Prometheus is unavailable, even if an earlier examination exists.

    `written` is status.utilization as it will be written; `was_low` is the condition's present status.
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
    """Whether the job is low, with hysteresis: the answer changes once the utilization passes the bound by MARGIN."""
    low = utilization.is_low(bound)
    if was_low == TRUE and low is False:
        return utilization.is_low(bound + MARGIN) is not False
    if was_low == FALSE and low:
        return utilization.is_low(bound - MARGIN) is True
    return low


def _percent_text(written: Mapping[str, Any]) -> str:
    """The utilization as the status has it, so that the message changes only together with the figures."""
    if "averagePercent" in written:
        return f"{written['averagePercent']} %"
    low, high = written.get("averagePercentRange", (0, 100))
    return f"between {low} and {high} %"


def _low_fact(status: str, reason: str, message: str) -> Fact:
    return Fact(
        type=ConditionType.LOW_UTILIZATION, status=status, reason=reason, message=message, is_snapshot=status == UNKNOWN
    )
