"""Why nobody starts a Job that its queue holds back, in Kueue's own words.

Kueue's Workloads are not watched: of the jobs that wait, a few are looked at in turn, those first that nobody has
looked at for the longest.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import ApiError, Object
from stoker.api.names import QUEUE_LABEL
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import WorkQueue
from stoker.controller.api_refusals import bounded
from stoker.controller.suspension import NotSuspendableError, Suspension
from stoker.findings.vocabulary import Phase
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two looks."""
EACH = 20
"""Jobs in one look: at most two requests a second, however many wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCheck:
    """What was seen of a waiting job, and when by the steady clock."""

    at: float
    why: Obstacle


class PendingWorkloads:
    """Remembers by the Job's uid what it waits for."""

    def __init__(
        self,
        cache: ClusterCache,
        queue: WorkQueue[Key],
        suspension: Suspension,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._cache = cache
        self._queue = queue
        self._suspension = suspension
        self._clock = clock
        self._seen: dict[str, QueueCheck] = {}

    def why(self, child: Mapping[str, Any]) -> Obstacle | None:
        """What the Job waits for; None where nobody has looked yet."""
        seen = self._seen.get(child["metadata"]["uid"])
        return None if seen is None else seen.why

    async def run(self) -> None:
        """Look for ever; of leaders only."""
        while True:
            await self.once()
            await asyncio.sleep(INTERVAL)

    async def once(self) -> None:
        """Look at the next few jobs, and have those passed over of which there is news."""
        waiting = {child["metadata"]["uid"]: (key, child) for key, child in self._waiting()}
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in waiting}
        never = QueueCheck(at=float("-inf"), why=Obstacle(reason="", message=""))
        for uid in sorted(waiting, key=lambda one: self._seen.get(one, never).at)[:EACH]:
            key, child = waiting[uid]
            try:
                workloads = await self._suspension.workloads(child)
                why = waits_for(child, workloads)
            except NotSuspendableError as none:
                why = Obstacle(reason="Queued", message=f"the Job was suspended, but not by Stoker: {none}")
            except ApiError as error:
                logger.info("the Workload of %s could not be read: %s", key, error)
                continue
            except Exception as error:
                self._faults.caught("queue", str(key), error)
                continue
            known = self._seen.get(uid, never)
            self._seen[uid] = QueueCheck(at=self._clock.monotonic(), why=why)
            if why != known.why:
                self._queue.add(key)

    def _waiting(self) -> list[tuple[Key, Object]]:
        found = []
        for key, raw in list(self._cache.dljobs.objects.items()):
            child = self._cache.jobs.get(key)
            if raw.get("status", {}).get("phase") == Phase.QUEUED and child is not None:
                found.append((key, child))
        return found


def waits_for(child: Mapping[str, Any], workloads: Sequence[Mapping[str, Any]]) -> Obstacle:
    """What a suspended Job waits for, by its Workloads that are not over."""
    queue = child["metadata"].get("labels", {}).get(QUEUE_LABEL)
    if not workloads:
        message = "the Job was suspended, but not by Stoker: whoever suspended it must resume it"
        if queue is not None:
            message = f"Kueue has not created a Workload for the Job (queue {queue}): check that Kueue is running"
        return Obstacle(reason="Queued", message=message)
    workload = workloads[0]
    name = workload["metadata"]["name"]
    conditions = {one["type"]: one for one in workload.get("status", {}).get("conditions", ())}
    evicted, reserved = conditions.get("Evicted", {}), conditions.get("QuotaReserved", {})
    why_evicted = bounded(str(evicted.get("message", ""))) if evicted.get("status") == "True" else ""
    if workload["spec"].get("active") is False:
        because = f" ({why_evicted})" if why_evicted else ""
        message = f"Kueue's Workload {name} is inactive{because}: Kueue starts the job once spec.active of it is true"
        return Obstacle(reason="QueueInactive", message=message)
    if reserved.get("status") == "True":
        said = bounded(str(conditions.get("Admitted", {}).get("message", "")))
        message = "Kueue has reserved its quota and waits for an admission check"
        return Obstacle(reason="Queued", message=f"{message}: {said}" if said else message)
    said = bounded(str(reserved.get("message", ""))) or "it has not reported on it yet"
    if why_evicted and evicted.get("reason") == "Preempted":
        return Obstacle(reason="Preempted", message=f"Kueue has preempted it: {why_evicted}; it waits again: {said}")
    return Obstacle(reason="Queued", message=f"Kueue keeps it in its queue: {said}")
