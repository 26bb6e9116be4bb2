"""Why a job was, or was not, reclaimed: every condition with its answer."""

from dataclasses import dataclass
from datetime import datetime

from stoker.findings.vocabulary import ReclaimState
from stoker.reclaim.gates import GATES, Case, Gate, Reads, Stage
from stoker.reclaim.planning import heard
from stoker.reclaim.transitions import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One condition: whether it `holds`, None where it can't be asked before an earlier one holds; why not, until when
    that stays so if it is known, and what would change it.
    """

    gate: str
    stage: Stage
    demand: str
    holds: bool | None
    reason: str = ""
    until: datetime | None = None
    change: str = ""
    reads: Reads = Reads.JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All conditions of a reclaim in their order; the first one that does not hold, and what comes of that."""

    answers: tuple[Answer, ...]
    decisive: Answer | None
    outcome: Outcome

    @property
    def next_deadline(self) -> datetime | None:
        """When the decisive condition may hold, by itself."""
        return self.decisive.until if self.decisive is not None else None


def explain(case: Case) -> Explanation:
    """Ask every gate, as `plan` does: `decisive` is the gate that it names. A job that is reclaimed has passed them
    all when it was.
    """
    if case.record.state is ReclaimState.RECLAIMED:
        passed = tuple(_answer(gate, holds=True) for gate in GATES)
        return Explanation(answers=passed, decisive=None, outcome=Outcome.FREED)
    case, _ = heard(case)
    answers: list[Answer] = []
    decisive: Answer | None = None
    outcome = Outcome.DUE
    for gate in GATES:
        hold = gate.check(case)
        if hold is not None and (decisive is None or gate.asked(case)):
            answer = Answer(
                gate=gate.name,
                stage=gate.stage,
                demand=gate.demand,
                holds=False,
                reason=hold.reason,
                until=hold.until,
                change=hold.change,
                reads=gate.reads,
            )
            if decisive is None:
                decisive, outcome = answer, hold.outcome
        else:
            answer = _answer(gate, holds=True if gate.asked(case) else None)
        answers.append(answer)
    return Explanation(answers=tuple(answers), decisive=decisive, outcome=outcome)


def _answer(gate: Gate, *, holds: bool | None) -> Answer:
    return Answer(gate=gate.name, stage=gate.stage, demand=gate.demand, holds=holds, reads=gate.reads)
