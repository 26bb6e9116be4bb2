"""The states of a job on the way to being reclaimed, and what leads from one to the next."""

from collections.abc import Mapping
from enum import StrEnum

from stoker.findings.vocabulary import ReclaimState


class Outcome(StrEnum):
    """What a look at the job has found, or what has happened to it. The values stand in the documentation's table."""

    KEPT = "nothing may be decided yet"
    UNKNOWN = "it is unknown whether it is idle"
    WORKS = "it works, waits, or is not eligible"
    RESTS = "it is idle, and a condition of a warning does not hold"
    EXEMPT = "it is exempt"
    SNOOZED = "its owner snoozed it"
    WARN = "every condition of a warning holds"
    HELD = "it is warned, and a condition of the action does not hold"
    DUE = "it is warned, and every condition of the action holds"
    FREED = "its pods are gone"
    RESUMED = "its owner resumed it"


_LOOKED_AT: Mapping[Outcome, ReclaimState] = {
    Outcome.UNKNOWN: ReclaimState.UNKNOWN,
    Outcome.WORKS: ReclaimState.ACTIVE,
    Outcome.RESTS: ReclaimState.IDLE,
    Outcome.EXEMPT: ReclaimState.EXEMPT,
    Outcome.SNOOZED: ReclaimState.SNOOZED,
    Outcome.WARN: ReclaimState.WARNED,
}
_WARNED: Mapping[Outcome, ReclaimState] = {
    **_LOOKED_AT,
    Outcome.HELD: ReclaimState.WARNED,
    Outcome.DUE: ReclaimState.RECLAIMING,
    Outcome.RESUMED: ReclaimState.ACTIVE,
}
_TRANSITIONS: Mapping[ReclaimState, Mapping[Outcome, ReclaimState]] = {
    ReclaimState.ACTIVE: _LOOKED_AT,
    ReclaimState.IDLE: _LOOKED_AT,
    ReclaimState.SNOOZED: _LOOKED_AT,
    ReclaimState.EXEMPT: _LOOKED_AT,
    # A warning outlives a time in which nothing is known.
    ReclaimState.UNKNOWN: _WARNED,
    ReclaimState.WARNED: _WARNED,
    # An intent whose deed is not done yet is no more than a warning.
    ReclaimState.RECLAIMING: {**_WARNED, Outcome.FREED: ReclaimState.RECLAIMED},
    ReclaimState.RECLAIMED: {Outcome.RESUMED: ReclaimState.ACTIVE},
}
TRANSITIONS: Mapping[ReclaimState, Mapping[Outcome, ReclaimState]] = {
    state: ways if state is ReclaimState.RECLAIMED else {Outcome.KEPT: state, **ways}
    for state, ways in _TRANSITIONS.items()
}
"""Where each outcome leads from each state; what is absent can't happen, and changes nothing."""
WARNABLE = frozenset(state for state, ways in TRANSITIONS.items() if Outcome.DUE in ways)
"""States in which a warning may stand; in any other the marks of one are nobody's."""


def after(state: ReclaimState | None, outcome: Outcome) -> ReclaimState:
    """The state that follows; None stands for a job that was never looked at, which is taken for active."""
    state = state or ReclaimState.ACTIVE
    return TRANSITIONS[state].get(outcome, state)
