"""A DLJob's next status, composed from what was gathered and compared with what is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.controller.findings import summary
from stoker.controller.looks import NOT_RUNNING, Look, metric_facts, not_looked_at, not_running
from stoker.diagnosis import to_status
from stoker.models.dljob import DLJob
from stoker.models.finding import Finding, rfc3339
from stoker.models.policy import EffectivePolicy
from stoker.models.vocabulary import ConditionType, Phase, ReclaimMode, ReclaimState
from stoker.reclaim import Record
from stoker.workload.conditions import FALSE, TRUE, Fact, clamp, written
from stoker.workload.observation import Observation

HOLDS_GPUS = frozenset({Phase.STARTING, Phase.RUNNING})
MAX_FINDING_TEXT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """All that a status is made of. `child_uid` None keeps what is written; so does `look` None."""

    job: DLJob
    observation: Observation
    findings: tuple[Finding, ...]
    record: Record
    policy: EffectivePolicy
    child_uid: str | None = None
    look: Look | None = None
    conflict: str | None = None

    def status(self, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The whole status; equal to `before` when nothing has changed."""
        seen = self.observation
        fields: dict[str, Any] = {
            "phase": seen.phase.value,
            "observedGeneration": self.job.metadata.generation,
            "observedSuspend": bool(self.job.spec.suspend),
            "ready": seen.ready,
            "gpus": self.job.gpus,
            "restarts": seen.restarts,
            "jobUID": self.child_uid or before.get("jobUID"),
            "startTime": None if seen.start_time is None else rfc3339(seen.start_time),
            "completionTime": None if seen.completion_time is None else rfc3339(seen.completion_time),
            "conditions": self._conditions(before, now),
            "findingsSummary": summary(self.findings),
            "findings": [_clamped(finding.to_status()) for finding in self.findings],
            "reclaim": self.record.to_status(),
            "utilization": self._utilization(before.get("utilization", {})),
        }
        kept = {key: value for key, value in before.items() if key not in fields}
        return kept | {key: value for key, value in fields.items() if value not in (None, [], {})}

    def _conditions(self, before: Mapping[str, Any], now: datetime) -> list[dict[str, Any]]:
        old = before.get("conditions", ())
        facts = [*self.observation.facts, self._conflict_fact(), self._reclaim_fact()]
        if self.job.gpus:
            if self.observation.phase not in HOLDS_GPUS:
                facts.append(not_running())
            elif self.look is not None:
                facts += metric_facts(self.look, self.policy.thresholds)
            elif not any(one["type"] == ConditionType.IDLE and one["reason"] != NOT_RUNNING for one in old):
                facts += not_looked_at()
        # What does not hold and never did needs no line in `kubectl describe`.
        seen = {condition["type"] for condition in old}
        quiet = {ConditionType.NAME_CONFLICT, ConditionType.RECLAIM_PENDING}
        facts = [fact for fact in facts if fact.status != FALSE or fact.type not in quiet or fact.type.value in seen]
        return written(facts, old, generation=self.job.metadata.generation, now=now)

    def _conflict_fact(self) -> Fact:
        if self.conflict is None:
            return Fact(type=ConditionType.NAME_CONFLICT, status=FALSE, reason="NoConflict")
        return Fact(type=ConditionType.NAME_CONFLICT, status=TRUE, reason="NameTaken", message=self.conflict)

    def _reclaim_fact(self) -> Fact:
        record = self.record
        pending = record.state in {ReclaimState.WARNED, ReclaimState.RECLAIMING}
        if pending and record.deadline is not None:
            message = f"idle; reclaimed from {rfc3339(record.deadline)} on unless its GPUs work again"
            reason = "Idle" if record.state is ReclaimState.WARNED else "Reclaiming"
            return Fact(type=ConditionType.RECLAIM_PENDING, status=TRUE, reason=reason, message=message)
        observed = record.state is ReclaimState.IDLE and record.action is ReclaimMode.OBSERVE
        reason = "ObserveOnly" if observed else record.state.value if record.state is not None else "NotLookedAt"
        return Fact(
            type=ConditionType.RECLAIM_PENDING,
            status=FALSE,
            reason=reason,
            message=record.reason if observed else "",
        )

    def _utilization(self, before: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.look is None or self.look.diagnosis is None or self.look.diagnosis.utilization is None:
            return before
        new = to_status(self.look.diagnosis.utilization)
        new = {key: [clamp(line, 512) for line in value] if _is_lines(value) else value for key, value in new.items()}
        same = {**new, "asOf": None} == {**before, "asOf": None}
        return before if same else new


def _clamped(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: clamp(value, MAX_FINDING_TEXT) if isinstance(value, str) else value for key, value in entry.items()}


def _is_lines(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(line, str) for line in value)
