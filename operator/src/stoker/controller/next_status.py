"""A workload's next status, a DLJob's or a GPUWorkload's, composed from what a reconcile has gathered and compared with
what is written.

Used by reconcile, which hands it to the status writer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from stoker.controller.hysteresis import is_look_due, says_the_same, steady_record
from stoker.controller.scan_results import NOT_RUNNING, ScanResult, idle_fact, low_fact, not_running, not_scanned
from stoker.controller.status_findings import final_summary, summary
from stoker.diagnosis.words import to_status
from stoker.findings.finding import Finding, optional_time, parse_time, rfc3339
from stoker.findings.vocabulary import (
    ConditionType,
    Phase,
    PolicyConditionType,
    ReclaimMode,
    ReclaimState,
    UnknownReason,
)
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import Record
from stoker.telemetry.series import PodFacts
from stoker.workload import run_to_status
from stoker.workload.conditions import FALSE, TRUE, Fact, clamp, written
from stoker.workload.observation import JobObservation

HOLDS_GPUS = frozenset({Phase.STARTING, Phase.RUNNING})
MAX_FINDING_TEXT = 1024
"""Characters of each text of a finding or an advice; chosen so that 32 findings stay below 150 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStatus:
    """All that a status is made of. `suspend` is a DLJob's spec.suspend; None for what has no such field. `child_uid`
    None keeps what is written; so does `scan_result` None.

    Of a job that `is_over` every figure is written as it is; of others when it has moved.
    """

    uid: str
    generation: int
    gpus: int
    suspend: bool | None = None
    observation: JobObservation
    findings: tuple[Finding, ...]
    record: Record
    policy: EffectivePolicy
    child_uid: str | None = None
    scan_result: ScanResult | None = None
    conflict: str | None = None
    analysed: Fact | None = None
    creation_warnings: str = ""
    runs: tuple[PodFacts, ...] = ()
    is_over: bool = False

    def status(self, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The whole status; equal to `before` when nothing has changed and lookedAt is recent enough."""
        after, looked_at = self._composed(before, now), self._looked_at(now)
        if after == before and not self._is_look_due(before, looked_at):
            return after
        # What is written for another reason is up to date as a whole.
        after["conditions"] = self._conditions(before, after.get("utilization", {}), now, anew=True)
        return after if looked_at is None else {**after, "lookedAt": rfc3339(looked_at)}

    @property
    def _holds_gpus(self) -> bool:
        return self.observation.phase in HOLDS_GPUS and self.gpus > 0

    def _looked_at(self, now: datetime) -> datetime | None:
        """When the job was observed: of one that holds GPUs that is when its metrics were scanned."""
        if not self._holds_gpus:
            return now
        return None if self.scan_result is None else self.scan_result.idleness.observed_at

    def _is_look_due(self, before: Mapping[str, Any], looked_at: datetime | None) -> bool:
        if looked_at is None or not self._holds_gpus:
            return False
        written = parse_time(before.get("lookedAt"))
        return written is None or is_look_due(self.uid, written, looked_at)

    def _composed(self, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        seen = self.observation
        reclaim = steady_record(before.get("reclaim", {}), self.record.to_status())
        measured = self._measured(before, now)
        fields: dict[str, Any] = {
            "phase": seen.phase.value,
            "observedGeneration": self.generation,
            "observedSuspend": self.suspend,
            "ready": seen.ready,
            "readyPods": seen.ready_pods,
            "gpus": self.gpus,
            "restarts": seen.restarts,
            "jobUID": self.child_uid or before.get("jobUID"),
            "startTime": optional_time(seen.start_time),
            "completionTime": optional_time(seen.completion_time),
            "conditions": self._conditions(before, measured["utilization"], now),
            "reclaim": reclaim,
            "idleSince": reclaim.get("idleSince") if self._holds_gpus else None,
            "pods": [run_to_status(run) for run in self.runs],
            **measured,
        }
        kept = {key: value for key, value in before.items() if key not in fields}
        return kept | {key: value for key, value in fields.items() if value not in (None, [], {})}

    def _measured(self, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """What may change with every examination; as it is written while that says the same."""
        diagnosis = self.scan_result.diagnosis if self.scan_result is not None else None
        used = diagnosis.utilization if diagnosis is not None else None
        after: dict[str, Any] = {
            "findingsSummary": self._summary(before),
            "findings": [_clamped(finding.to_status()) for finding in self.findings],
            "advice": before.get("advice", []),
            "utilization": before.get("utilization", {}),
        }
        if used is not None:
            after["utilization"] = to_status(used)
        if diagnosis is not None and diagnosis.unknown is None and used is not None:
            after["advice"] = [_clamped(asdict(advice)) for advice in diagnosis.advice]
        # What the job has used in a phase is written exactly when it leaves it.
        goes_on = not self.is_over and before.get("phase") == self.observation.phase.value
        if goes_on and says_the_same(before, after, now):
            return {key: before.get(key) for key in after}
        same = {**after["utilization"], "asOf": None} == {**before.get("utilization", {}), "asOf": None}
        if same and not self.is_over:
            after["utilization"] = before.get("utilization", {})
        return after

    def _summary(self, before: Mapping[str, Any]) -> str | None:
        if not self.is_over:
            return summary(self.findings)
        # The status does not say which of its findings the final diagnosis has shown.
        written: str | None = before.get("findingsSummary")
        diagnosis = self.scan_result.diagnosis if self.scan_result is not None else None
        return written if diagnosis is None else final_summary(self.findings, diagnosis.findings)

    def _conditions(
        self, before: Mapping[str, Any], utilization: Mapping[str, Any], now: datetime, *, anew: bool = False
    ) -> list[dict[str, Any]]:
        old = before.get("conditions", ())
        facts = [*self.observation.facts, self._conflict_fact(), self._reclaim_fact()]
        if self.analysed is not None:
            facts.append(self.analysed)
        if self.creation_warnings:
            message = f"the API server accepted the Job with warnings: {self.creation_warnings}"
            kind = ConditionType.CREATED_WITH_WARNINGS
            facts.append(Fact(type=kind, status=TRUE, reason="APIServerWarned", message=message))
        if self.gpus:
            facts += self._metric_facts(old, utilization)
        # What does not hold and never did needs no line in `kubectl describe`.
        seen = {condition["type"] for condition in old}
        quiet: dict[ConditionType | PolicyConditionType, str] = {
            ConditionType.NAME_CONFLICT: FALSE,
            ConditionType.RECLAIM_PENDING: FALSE,
            ConditionType.ANALYSED: TRUE,
        }
        facts = [fact for fact in facts if fact.status != quiet.get(fact.type) or fact.type.value in seen]
        return written(facts, old, generation=self.generation, now=now, anew=anew)

    def _metric_facts(self, old: Sequence[Mapping[str, Any]], utilization: Mapping[str, Any]) -> Iterable[Fact]:
        thresholds = self.policy.thresholds
        if self.is_over:
            # Its final figures decide; while the metrics are away, what was said last stands.
            low = (
                None if self.scan_result is None else low_fact(self.scan_result, thresholds, utilization, was_low=None)
            )
            known = low is not None and low.reason != UnknownReason.PROMETHEUS_UNAVAILABLE
            return (not_running(), low) if low is not None and known else (not_running(),)
        if self.observation.phase not in HOLDS_GPUS:
            return (not_running(),)
        if self.scan_result is not None:
            was_low = next((one["status"] for one in old if one["type"] == ConditionType.LOW_UTILIZATION), None)
            return idle_fact(self.scan_result.idleness), low_fact(
                self.scan_result, thresholds, utilization, was_low=was_low
            )
        if any(one["type"] == ConditionType.IDLE and one["reason"] != NOT_RUNNING for one in old):
            return ()
        return not_scanned()

    def _conflict_fact(self) -> Fact:
        if self.conflict is None:
            return Fact(type=ConditionType.NAME_CONFLICT, status=FALSE, reason="NoConflict")
        return Fact(type=ConditionType.NAME_CONFLICT, status=TRUE, reason="NameTaken", message=self.conflict)

    def _reclaim_fact(self) -> Fact:
        record = self.record
        if record.has_warning and record.state is not None:
            reason, message = "Idle" if record.state is ReclaimState.WARNED else record.state.value, record.reason
            if record.state is ReclaimState.UNKNOWN and record.deadline is not None:
                # What was announced holds as soon as more is known, be it right after the deadline.
                message += f"; the warning remains in force, its deadline is {rfc3339(record.deadline)}"
            return Fact(type=ConditionType.RECLAIM_PENDING, status=TRUE, reason=reason, message=message)
        observed = record.state is ReclaimState.IDLE and record.action is ReclaimMode.OBSERVE
        reason = "ObserveOnly" if observed else record.state.value if record.state is not None else "NotLookedAt"
        return Fact(type=ConditionType.RECLAIM_PENDING, status=FALSE, reason=reason, message=record.reason)


def _clamped(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: clamp(value, MAX_FINDING_TEXT) if isinstance(value, str) else value for key, value in entry.items()}
