"""The states of a job on the way to being reclaimed, and what leads from one to the next."""

from collections.abc import Mapping
from enum import StrEnum

from stoker.findings.vocabulary import ReclaimState


class Trigger(StrEnum):
    """What leads to the next state: what was found, or what has happened. docs/reclaim.md lists the values."""

    KEPT = "nothing may be decided yet"
    UNKNOWN = "it is unknown whether it is idle"
    ACTIVE = "it works, waits, or is not eligible"
    IDLE = "it is idle, and a condition of a warning does not hold"
    EXEMPT = "it is exempt"
    SNOOZED = "its owner snoozed it"
    WARN = "every condition of a warning holds"
    HELD = "it is warned, and a condition of the action does not hold"
    DUE = "it is warned, and every condition of the action holds"
    FREED = "its pods are gone"
    RESUMED = "its owner resumed it"


_OBSERVED: Mapping[Trigger, ReclaimState] = {
    Trigger.UNKNOWN: ReclaimState.UNKNOWN,
    Trigger.ACTIVE: ReclaimState.ACTIVE,
    Trigger.IDLE: ReclaimState.IDLE,
    Trigger.EXEMPT: ReclaimState.EXEMPT,
    Trigger.SNOOZED: ReclaimState.SNOOZED,
    Trigger.WARN: ReclaimState.WARNED,
}
_WARNED: Mapping[Trigger, ReclaimState] = {
    **_OBSERVED,
    Trigger.HELD: ReclaimState.WARNED,
    Trigger.DUE: ReclaimState.RECLAIMING,
    Trigger.RESUMED: ReclaimState.ACTIVE,
}
_TRANSITIONS: Mapping[ReclaimState, Mapping[Trigger, ReclaimState]] = {
    ReclaimState.ACTIVE: _OBSERVED,
    ReclaimState.IDLE: _OBSERVED,
    ReclaimState.SNOOZED: _OBSERVED,
    ReclaimState.EXEMPT: _OBSERVED,
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
"""The next state, by state and trigger. A trigger that is absent can't happen in that state, and changes nothing."""
WARNABLE = frozenset(state for state, ways in TRANSITIONS.items() if Trigger.DUE in ways)
"""States in which a warning may be in force; in any other state its fields in the record are ignored."""


def after(state: ReclaimState | None, trigger: Trigger) -> ReclaimState:
    """The state that follows. None stands for a job that was never scanned, which counts as active."""
    state = state or ReclaimState.ACTIVE
    return TRANSITIONS[state].get(trigger, state)
