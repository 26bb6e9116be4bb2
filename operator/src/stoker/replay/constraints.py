"""What the rest of the cluster would have held against a reclaim: the bounds, the order of the jobs, and the brake."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np

from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import Constraints, Obstruction
from stoker.reclaim.brake import Brake, JobActivity
from stoker.reclaim.brake import after as braked
from stoker.reclaim.budget import ReclaimBudget, Slot, within
from stoker.reclaim.order import SlotRequest, turn
from stoker.telemetry.activity import IDLE_PROFILING_PERCENT
from stoker.telemetry.past import JobOutline, Outlines

RESOURCE = "gpu"
"""What all GPUs are called: which resource a job asked for was not recorded."""
SUMMARY_WINDOW = 2
"""Coarse steps, ten minutes together: who has worked within them works, as a controller's summary has it."""
CLUSTER_SEEN = timedelta(days=1)
"""The cluster has as many GPUs as were sampled at most within this time."""


class SimulatedConstraints:
    """Simulated over all jobs together, each policy by itself; asked in the order of time."""

    def __init__(
        self, outlines: Outlines, policies: Mapping[str, EffectivePolicy], *, minimum_warning_grace: timedelta
    ) -> None:
        """`policies` by the jobs' keys."""
        self._outlines = outlines
        self._policies = policies
        self._grace = minimum_warning_grace
        self._by_policy: dict[str, list[JobOutline]] = defaultdict(list)
        for job in outlines.jobs:
            self._by_policy[name_of(policies[job.key])].append(job)
        self._brakes = {name: Brake() for name in self._by_policy}
        self._slots: dict[str, tuple[Slot, ...]] = defaultdict(tuple)
        self._requests: dict[str, dict[str, SlotRequest]] = defaultdict(dict)
        self._away: set[str] = set()
        self._sampled = outlines.grid.first_at(outlines.period.start)
        self.brakes: list[tuple[str, datetime, str]] = []
        """Each time that a brake went on: of which policy, when, and why."""

    def advance(self, now: datetime) -> None:
        """Sample all jobs in every coarse step up to now, as the brakes do."""
        grid = self._outlines.grid
        while self._sampled < grid.size and grid.time(self._sampled) <= now:
            index, at = self._sampled, grid.time(self._sampled)
            for name, jobs in self._by_policy.items():
                settings = self._policies[jobs[0].key].reclaim
                before = self._brakes[name]
                seen = [self._activity(job, index) for job in jobs if job.held[index] and job.key not in self._away]
                brake = braked(before, seen, settings.mass_idle_brake, settings.window, None, at)
                if brake.is_on and not before.is_on:
                    self.brakes.append((name, at, brake.message))
                self._brakes[name] = brake
            self._sampled += 1

    def _activity(self, job: JobOutline, index: int) -> JobActivity:
        lately = job.peak[max(index - SUMMARY_WINDOW + 1, 0) : index + 1]
        level = max(float(self._policies[job.key].thresholds.idle_percent), IDLE_PROFILING_PERCENT)
        works: bool | None = None
        if bool((lately > level).any()):
            works = True
        elif np.isfinite(job.peak[index]):
            works = False
        return JobActivity(
            job_uid=job.key, job=f"{job.identity.namespace}/{job.identity.name}", gpus=job.identity.gpus, works=works
        )

    def of(self, key: str, request: SlotRequest | None, now: datetime) -> Constraints:
        """What speaks against reclaiming a job now; of the bounds only where it is due, as its request says."""
        policy = self._policies[key]
        name = name_of(policy)
        self.advance(now)
        brake = self._brakes[name]
        bounds: Obstruction | None = None
        if request is not None:
            budget = self._budget(policy, now)
            others = [one for uid, one in self._requests[name].items() if uid != request.job_uid]
            bounds = turn(request, others, within(self._slots[name], policy.reclaim.window, now), budget, now)
        return Constraints(
            minimum_warning_grace=self._grace,
            brake=Obstruction(reason=brake.message) if brake.is_on else None,
            doubted_until=brake.doubted_until,
            bounds=bounds,
        )

    def next_sample(self, now: datetime) -> datetime:
        """When the brakes sample next."""
        grid = self._outlines.grid
        return grid.time(grid.first_at(now + timedelta(microseconds=1)))

    def requests(self, key: str, request: SlotRequest | None) -> None:
        """Keep, or withdraw, what a warned job requests that nothing but the bounds may hold back."""
        own = self._requests[name_of(self._policies[key])]
        own.pop(key, None)
        if request is not None:
            own[key] = request

    def take_slot(self, key: str, request: SlotRequest, now: datetime) -> None:
        """Count a reclaim."""
        policy = self._policies[key]
        name = name_of(policy)
        self._slots[name] = (*within(self._slots[name], policy.reclaim.window, now), request.slot(now))
        self.requests(key, None)
        self._away.add(key)

    def came_back(self, key: str) -> None:
        """The job holds its GPUs again."""
        self._away.discard(key)

    def _budget(self, policy: EffectivePolicy, now: datetime) -> ReclaimBudget:
        grid = self._outlines.grid
        last = min(grid.first_at(now), grid.size - 1)
        first = grid.first_at(now - CLUSTER_SEEN)
        seen = self._outlines.cluster_gpus[first : last + 1]
        known = seen[np.isfinite(seen)]
        return ReclaimBudget(
            window=policy.reclaim.window,
            jobs=policy.reclaim.max_jobs_per_window,
            gpu_percent=policy.reclaim.max_gpu_percent_per_window,
            cluster_gpus={RESOURCE: int(known.max())} if len(known) else None,
            unread="no GPU has samples",
        )


def name_of(policy: EffectivePolicy) -> str:
    """The policy that a job's reclaim is counted under."""
    return policy.sources[-1] if policy.sources else "built-in"


__all__ = ["RESOURCE", "SimulatedConstraints", "name_of"]
