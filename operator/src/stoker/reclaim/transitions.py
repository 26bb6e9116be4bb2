"""The states of a job on the way to being reclaimed, and what leads from one to the next."""

from collections.abc import Mapping
from enum import StrEnum

from stoker.findings.vocabulary import ReclaimState


class Trigger(StrEnum):
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


_LOOKED_AT: Mapping[Trigger, ReclaimState] = {
    Trigger.UNKNOWN: ReclaimState.UNKNOWN,
    Trigger.WORKS: ReclaimState.ACTIVE,
    Trigger.RESTS: ReclaimState.IDLE,
    Trigger.EXEMPT: ReclaimState.EXEMPT,
    Trigger.SNOOZED: ReclaimState.SNOOZED,
    Trigger.WARN: ReclaimState.WARNED,
}
_WARNED: Mapping[Trigger, ReclaimState] = {
    **_LOOKED_AT,
    Trigger.HELD: ReclaimState.WARNED,
    Trigger.DUE: ReclaimState.RECLAIMING,
    Trigger.RESUMED: ReclaimState.ACTIVE,
}
_TRANSITIONS: Mapping[ReclaimState, Mapping[Trigger, ReclaimState]] = {
    ReclaimState.ACTIVE: _LOOKED_AT,
    ReclaimState.IDLE: _LOOKED_AT,
    ReclaimState.SNOOZED: _LOOKED_AT,
    ReclaimState.EXEMPT: _LOOKED_AT,
    # A warning outlives a time in which nothing is known.
    ReclaimState.UNKNOWN: _WARNED,
    ReclaimState.WARNED: _WARNED,
    # An intent whose action is not done yet is no more than a warning.
    ReclaimState.RECLAIMING: {**_WARNED, Trigger.FREED: ReclaimState.RECLAIMED},
    ReclaimState.RECLAIMED: {Trigger.RESUMED: ReclaimState.ACTIVE},
}
TRANSITIONS: Mapping[ReclaimState, Mapping[Trigger, ReclaimState]] = {
    state: ways if state is ReclaimState.RECLAIMED else {Trigger.KEPT: state, **ways}
    for state, ways in _TRANSITIONS.items()
}
"""Where each trigger leads from each state; what is absent can't happen, and changes nothing."""
WARNABLE = frozenset(state for state, ways in TRANSITIONS.items() if Trigger.DUE in ways)
"""States in which a warning may stand; in any other the marks of one are nobody's."""


def after(state: ReclaimState | None, trigger: Trigger) -> ReclaimState:
    """The state that follows; None stands for a job that was never looked at, which is taken for active."""
    state = state or ReclaimState.ACTIVE
    return TRANSITIONS[state].get(trigger, state)
