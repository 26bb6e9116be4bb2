"""Why a job was, or was not, reclaimed: every condition with its answer."""

from dataclasses import dataclass
from datetime import datetime

from stoker.models.vocabulary import ReclaimState
from stoker.reclaim.gates import GATES, Case, holds
from stoker.reclaim.transitions import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One condition: whether it `holds`, None where it can't be asked before an earlier one holds; why not, until when
    that stays so if it is known, and what would change it.
    """

    gate: str
    demand: str
    holds: bool | None
    reason: str = ""
    until: datetime | None = None
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All conditions of a reclaim in their order, and the first one that does not hold."""

    answers: tuple[Answer, ...]
    decisive: Answer | None

    @property
    def next_deadline(self) -> datetime | None:
        """When the decisive condition may hold, by itself."""
        return self.decisive.until if self.decisive is not None else None


NEEDS_IDLENESS = frozenset({"same-pods", "start-known", "idle-long-enough"})
NEEDS_CAUSE = frozenset({"nothing-lost"})
AFTER_WARNING = frozenset({"grace-over", "schedule-open", "pressure", "bounds"})


def explain(case: Case) -> Explanation:
    """Ask every gate. A job that is reclaimed has passed them all when it was."""
    if case.record.state is ReclaimState.RECLAIMED:
        return Explanation(
            answers=tuple(Answer(gate=gate.name, demand=gate.demand, holds=True) for gate in GATES), decisive=None
        )
    answers: list[Answer] = []
    decisive: Answer | None = None
    failed: set[str] = set()
    for gate, hold in holds(case):
        answer = Answer(gate=gate.name, demand=gate.demand, holds=None if _premature(gate.name, failed) else True)
        if hold is not None:
            failed.add(gate.name)
            waits = hold.outcome is Outcome.WARN
            answer = Answer(
                gate=gate.name,
                demand=gate.demand,
                holds=False,
                reason=hold.reason,
                until=None if waits else hold.until,
                change=hold.change,
            )
            decisive = decisive or answer
        answers.append(answer)
    return Explanation(answers=tuple(answers), decisive=decisive)


def _premature(gate: str, failed: set[str]) -> bool:
    """Whether an earlier condition that does not hold leaves this one without an answer."""
    if gate in NEEDS_IDLENESS:
        return bool(failed & {"metrics-known", "pods-ready", "all-idle", "same-pods"})
    if gate in NEEDS_CAUSE:
        return "cause" in failed
    return gate in AFTER_WARNING and "warned" in failed
