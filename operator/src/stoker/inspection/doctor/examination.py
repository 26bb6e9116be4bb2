"""Makes all checks, in their order, each within its time; a check whose needs are not met is left out, and said so."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.adapters.kubernetes.client import ApiError
from stoker.inspection.doctor import control_plane, exporters, jobs, metrics, operator, permissions, webhook
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, Status
from stoker.inspection.doctor.scene import Scene
from stoker.telemetry.screen import MetricsUnavailable

logger = logging.getLogger(__name__)

CHECKS: tuple[Check, ...] = (
    *control_plane.CHECKS,
    *operator.CHECKS,
    *permissions.CHECKS,
    *webhook.CHECKS,
    *metrics.CHECKS,
    *exporters.CHECKS,
    *jobs.CHECKS,
)
"""All checks, in the order in which they are made and shown. A check stands behind those that it needs."""
PATIENCE = 30.0
"""Seconds for one check: as long as one request to the API server may take."""
WHOLE = 120.0
"""Seconds for all checks together. Chosen so that a person still waits for it, and a CronJob ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A check and what came of it. `advice` is what to do; empty where all is well."""

    check: Check
    outcome: Outcome

    @property
    def advice(self) -> str:
        if self.outcome.status in {Status.OK, Status.NOT_CHECKED}:
            return ""
        return self.outcome.advice or self.check.advice


def selected(names: Collection[str], checks: Sequence[Check] = CHECKS) -> tuple[Check, ...]:
    """The checks with these names and those that they need, in their order; all where no name is given. Raises
    ValueError for a name that no check has.
    """
    known = {check.name: check for check in checks}
    if unknown := [name for name in names if name not in known]:
        msg = f"{unknown[0]!r} is no check; there are {', '.join(known)}"
        raise ValueError(msg)
    wanted = set(names or known)
    for check in reversed(checks):  # a check stands behind those that it needs
        if check.name in wanted:
            wanted |= set(check.needs)
    return tuple(check for check in checks if check.name in wanted)


async def examine(scene: Scene, checks: Sequence[Check] = CHECKS, *, patience: float = PATIENCE) -> list[Checked]:
    """Make the checks. Raises nothing: what a check can't see is its outcome."""
    end = asyncio.get_running_loop().time() + WHOLE
    done: dict[str, Outcome] = {}
    for check in checks:
        left = end - asyncio.get_running_loop().time()
        done[check.name] = await _outcome(scene, check, done, min(patience, left))
    return [Checked(check=check, outcome=done[check.name]) for check in checks]


async def _outcome(scene: Scene, check: Check, done: Mapping[str, Outcome], seconds: float) -> Outcome:
    unmet = next((need for need in check.needs if done[need].status in {Status.FAILED, Status.NOT_CHECKED}), None)
    if unmet is not None:
        return _unseen(f"it needs {unmet}")
    if seconds <= 0:
        return _unseen(f"the checks before it took {WHOLE:.0f} s")
    try:
        async with asyncio.timeout(seconds):
            return await check.look(scene)
    except TimeoutError:
        return _unseen(f"no answer within {seconds:.0f} s")
    except NotCheckableError as error:
        return _unseen(str(error))
    except MetricsUnavailable as error:
        return _unanswered(check, Group.METRICS, error.message)
    except ApiError as error:
        return _unanswered(check, Group.CLUSTER, error.answer or str(error))
    except Exception as fault:  # a fault of ours in one check is not the others'
        logger.debug("check %s", check.name, exc_info=fault)
        return _unseen(f"an internal error in Stoker: {type(fault).__name__}: {fault}")


def _unanswered(check: Check, group: Group, message: str) -> Outcome:
    """A server that does not answer has failed the check that is about it; the others can't say anything."""
    first = check.group is group and not check.needs
    return Outcome(status=Status.FAILED if first else Status.NOT_CHECKED, found=message)


def _unseen(why: str) -> Outcome:
    return Outcome(status=Status.NOT_CHECKED, found=why)


__all__ = ["CHECKS", "Checked", "examine", "selected"]
