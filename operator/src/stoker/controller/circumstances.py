"""What the rest of the cluster says to a reclaim: the policy's bounds, the brake, and who waits for GPUs."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from stoker.adapters.kubernetes import POLICIES, KubernetesApi, Object
from stoker.models.dljob import DLJob
from stoker.models.finding import parse_time, rfc3339
from stoker.models.policy import EffectivePolicy
from stoker.reclaim import Circumstances, Obstruction, Record

logger = logging.getLogger(__name__)


class ClusterSurroundings:
    """Reads them from the cluster."""

    def __init__(self, api: KubernetesApi, *, minimum_warning_grace: timedelta) -> None:
        self._api = api
        self._minimum_warning_grace = minimum_warning_grace

    async def around(
        self, job: DLJob, pods: Sequence[Object], policy: EffectivePolicy, record: Record
    ) -> Circumstances:
        """Whether something speaks against taking the job's GPUs."""
        pressure = Obstruction(reason="pending pods are not seen yet") if policy.reclaim.on_pressure_only else None
        return Circumstances(minimum_warning_grace=self._minimum_warning_grace, pressure=pressure)

    async def take_place(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Take a place among the reclaims that the policy allows in its window; they are counted in the policy's own
        status, so that neither a restart nor a deleted job resets them. A place taken for this job is not taken twice.
        """
        name = policy.sources[-1] if policy.sources else None
        if name is None:
            return False
        raw = await self._api.get(POLICIES, None, name)
        status = raw.get("status", {})
        start = now - policy.reclaim.window
        recent = [
            entry
            for entry in status.get("recentReclaims", ())
            if (time := parse_time(entry["time"])) is not None and time > start
        ]
        if any(entry["jobUID"] == job.uid for entry in recent):
            return True
        if len(recent) >= policy.reclaim.max_jobs_per_window:
            logger.info("%s/%s: not reclaimed now: policy %s has reached its bound", job.namespace, job.name, name)
            return False
        entry = {"jobUID": job.uid, "job": f"{job.namespace}/{job.name}", "time": rfc3339(now), "gpus": job.gpus}
        body = {**raw, "status": {**status, "recentReclaims": [*recent, entry]}}
        await self._api.replace(POLICIES, None, name, body, subresource="status")
        return True
