"""How a replay says what it has found; the same words on the page and on the terminal."""

from datetime import timedelta

from stoker.findings.wording import count
from stoker.replay import Figures, Statement
from stoker.report import hours, percent

GATES = {
    "not-exempt": "exempt by policy",
    "no-service": "services",
    "metrics-known": "unknown whether they were idle",
    "look-fresh": "no recent scan",
    "start-known": "start unknown",
    "idle-long-enough": "within the start-up grace",
    "unattended": "in use by somebody, as their CPUs show",
    "cooled-down": "resumed recently",
    "not-stalled": "hanging, which is only reported",
    "cause": "no finding shows that the GPUs are not needed",
    "mode": "the policy only observes",
    "checkpoint-grace": "too little time to save a checkpoint",
    "nothing-lost": "no volume that outlives its pods",
    "brake-off": "the mass-idle brake was on",
    "grace-over": "warned, and within the grace",
    "schedule-open": "the schedule was closed",
    "pressure": "no pod waited for GPUs",
    "bounds": "the bounds were reached, or others came first",
}
"""What held resting GPUs back, by the gate that did."""
ENDS = {
    "reclaimed": "reclaimed",
    "all-idle": "worked again before the deadline",
    "touchable": "ended before the deadline",
    "unattended": "used by somebody before the deadline",
    "pods-ready": "lost a pod before the deadline",
    "cause": "found to be needed",
    "": "still open at the end",
}
"""How warnings ended, by the gate that ended them."""


def headline(statement: Statement) -> str:
    """The one sentence to remember."""
    total = statement.total
    if not total.reclaims:
        return "Nothing would have been reclaimed"
    share = f" ({percent(total.given_back / statement.idle)} of the idle GPU-hours)" if statement.idle > 0 else ""
    return (
        f"{count(total.reclaims, 'reclaim')} would have given back {hours(total.given_back)} GPU-hours{share}; "
        f"{regretted(total)}"
    )


def regretted(total: Figures) -> str:
    """`no job worked again afterwards`, `2 jobs worked again later`."""
    if not total.regrets:
        return "no job worked again afterwards"
    return f"{count(total.regrets, 'job')} worked again afterwards"


def after(length: timedelta) -> str:
    """`3 h 40 min`, `2 days 4 h`, `12 min`."""
    whole = round(length.total_seconds() / 60)
    days, rest = divmod(whole, 1440)
    hour, minute = divmod(rest, 60)
    if days:
        return f"{count(days, 'day')} {hour} h" if hour else count(days, "day")
    if hour:
        return f"{hour} h {minute} min" if minute else f"{hour} h"
    return f"{minute} min" if whole else f"{round(length.total_seconds())} s"


def held_back(gate: str) -> str:
    """Why GPUs that rested were left alone."""
    return GATES.get(gate, gate)


def ended(outcome: str) -> str:
    """How a warning ended."""
    return ENDS.get(outcome, held_back(outcome))


__all__ = ["after", "ended", "headline", "held_back", "regretted"]
