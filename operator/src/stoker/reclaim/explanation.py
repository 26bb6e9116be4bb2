"""Why a job was, or was not, reclaimed: every condition with its result."""

from dataclasses import dataclass
from datetime import datetime

from stoker.findings.vocabulary import ReclaimState
from stoker.reclaim.case import Case
from stoker.reclaim.gate import Gate, GateGroup, Reads
from stoker.reclaim.gates import GATES
from stoker.reclaim.planning import with_snooze
from stoker.reclaim.transitions import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One condition: whether it `holds`, None where it can't be asked before an earlier one holds; why not, until when
    that stays so if it is known, and what would change it.
    """

    gate: str
    group: GateGroup
    demand: str
    holds: bool | None
    reason: str = ""
    until: datetime | None = None
    reason_names_until: bool = False
    change: str = ""
    reads: Reads = Reads.JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All conditions of a reclaim in their order; the first one that does not hold, and what comes of that."""

    results: tuple[GateResult, ...]
    decisive: GateResult | None
    trigger: Trigger

    @property
    def next_deadline(self) -> datetime | None:
        """When the decisive condition may hold, by itself."""
        return self.decisive.until if self.decisive is not None else None


def explain(case: Case) -> Explanation:
    """Ask every gate, as `plan` does: `decisive` is the gate that it names. A job that is reclaimed has passed them
    all when it was.
    """
    if case.record.state is ReclaimState.RECLAIMED:
        passed = tuple(_result(gate, holds=True) for gate in GATES)
        return Explanation(results=passed, decisive=None, trigger=Trigger.FREED)
    case, _ = with_snooze(case)
    results: list[GateResult] = []
    decisive: GateResult | None = None
    trigger = Trigger.DUE
    for gate in GATES:
        hold = gate.check(case)
        if hold is not None and (decisive is None or gate.asked(case)):
            result = GateResult(
                gate=gate.name,
                group=gate.group,
                demand=gate.demand,
                holds=False,
                reason=hold.reason,
                until=hold.until,
                reason_names_until=hold.reason_names_until,
                change=hold.change,
                reads=gate.reads,
            )
            if decisive is None:
                decisive, trigger = result, hold.trigger
        else:
            result = _result(gate, holds=True if gate.asked(case) else None)
        results.append(result)
    return Explanation(results=tuple(results), decisive=decisive, trigger=trigger)


def _result(gate: Gate, *, holds: bool | None) -> GateResult:
    return GateResult(gate=gate.name, group=gate.group, demand=gate.demand, holds=holds, reads=gate.reads)
