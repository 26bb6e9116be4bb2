"""What a check of an installation is, and what comes of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.inspection.doctor.scene import Scene


class Status(StrEnum):
    """How a check ends."""

    OK = "ok"
    WARNING = "warning"
    """Stoker works, but not as well as it could, or not for long."""
    FAILED = "failed"
    """Something that Stoker needs does not work."""
    NOT_CHECKED = "not checked"


class Group(StrEnum):
    """What a check looks at."""

    CLUSTER = "Cluster"
    OPERATOR = "Operator"
    WEBHOOK = "Webhook"
    METRICS = "Metrics"
    JOBS = "Jobs and policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a check found, in one sentence without a full stop. `advice` replaces the check's own where it is not
    empty.
    """

    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. `name` is stable, for scripts; `what` says what must be so; `advice` says what to do where it is not.
    `needs` names the earlier checks without whose success it has nothing to look at. `look` may raise
    NotCheckableError, ApiError and MetricsUnavailable.
    """

    name: str
    group: Group
    what: str
    advice: str
    look: "Callable[[Scene], Awaitable[Outcome]]"
    needs: tuple[str, ...] = ()


class NotCheckableError(Exception):
    """What a check looks at can't be seen; the text says why."""


def ok(found: str) -> Outcome:
    """All is as it must be."""
    return Outcome(status=Status.OK, found=found)


def warning(found: str, advice: str = "") -> Outcome:
    """It works, but not as well as it could."""
    return Outcome(status=Status.WARNING, found=found, advice=advice)


def failed(found: str, advice: str = "") -> Outcome:
    """It does not work."""
    return Outcome(status=Status.FAILED, found=found, advice=advice)


SHOWN = 5
"""Names in one sentence at most."""


def names(several: "list[str]") -> str:
    """Some names of a list, and how many more there are."""
    shown = ", ".join(several[:SHOWN])
    return shown if len(several) <= SHOWN else f"{shown} and {len(several) - SHOWN} more"


__all__ = ["Check", "Group", "NotCheckableError", "Outcome", "Status", "failed", "names", "ok", "warning"]
