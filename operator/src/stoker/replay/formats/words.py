"""How a replay says what it has found; the same words on the page and on the terminal."""

from datetime import timedelta

from stoker.findings.wording import count
from stoker.reclaim import GATES
from stoker.replay import Figures, ReplaySummary
from stoker.report import hours, percent

_BY_NAME = {gate.name: gate for gate in GATES}


def headline(summary: ReplaySummary) -> str:
    """The one sentence to remember."""
    total = summary.total
    if not total.reclaims:
        return "Nothing would have been reclaimed"
    share = f" ({percent(total.given_back / summary.idle)} of the idle GPU-hours)" if summary.idle > 0 else ""
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
    return _BY_NAME[gate].held_back or gate


def ended(outcome: str) -> str:
    """How a warning ended."""
    match outcome:
        case "reclaimed":
            return outcome
        case "":
            return "still open at the end"
        case _:
            return _BY_NAME[outcome].ended or held_back(outcome)
