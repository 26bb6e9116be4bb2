"""Conditions as reconcile computes them, before they have a time and a generation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.findings.finding import rfc3339, single_line
from stoker.findings.vocabulary import ConditionType, PolicyConditionType

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
MAX_MESSAGE = 1024
"""Characters of a condition's message; Kubernetes allows 32,768, and people read a few lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One condition: what holds, why in one CamelCase word, and the same for people."""

    type: ConditionType | PolicyConditionType
    status: str
    reason: str
    message: str = ""
    is_snapshot: bool = False
    """The message has figures that change all the time: while status and reason stay, it is no reason to write."""


def written(
    facts: Iterable[Fact], before: Iterable[Mapping[str, Any]], *, generation: int, now: datetime, anew: bool = False
) -> list[dict[str, Any]]:
    """The list for status: every condition speaks of this generation, or `kubectl wait` hangs on one that lags; a
    transition's time is kept while the status stays. A condition that `facts` does not mention stays as it was, and
    unless they are written `anew`, so do the messages of snapshots.
    """
    old = {condition["type"]: condition for condition in before}
    new = {fact.type.value: _written(fact, old.get(fact.type.value), generation, now, anew=anew) for fact in facts}
    kept = {name: {**condition, "observedGeneration": generation} for name, condition in old.items()}
    order = [condition.value for condition in ConditionType]
    merged = {**kept, **new}
    return sorted(merged.values(), key=lambda one: order.index(one["type"]) if one["type"] in order else len(order))


def _written(
    fact: Fact, old: Mapping[str, Any] | None, generation: int, now: datetime, *, anew: bool
) -> dict[str, Any]:
    same = old is not None and old["status"] == fact.status
    since = old["lastTransitionTime"] if old is not None and same else rfc3339(now)
    message = clamp(fact.message)
    if old is not None and same and fact.is_snapshot and old["reason"] == fact.reason and not anew:
        message = old.get("message", "")
    return {
        "type": fact.type.value,
        "status": fact.status,
        "observedGeneration": generation,
        "lastTransitionTime": since,
        "reason": fact.reason,
        "message": message,
    }


def clamp(text: str, limit: int = MAX_MESSAGE) -> str:
    """One line of at most `limit` characters: one value that is too long, and the server refuses the whole status."""
    line = single_line(text)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
