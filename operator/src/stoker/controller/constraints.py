"""Reads the constraints of a reclaim from the cluster: the brake, the policy's reclaim budget and the order of the due
jobs, and whether pending pods wait for the GPUs.

Used by the reclaimer, which passes `Constraints` to the plan and takes a slot before it acts.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import NAMESPACES, POLICIES, ConflictError, KubernetesApi, Object
from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicyStatus
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.controller.brake import Brakes
from stoker.controller.capacity import Capacity, CapacityUnreadableError, is_understood, requests_of
from stoker.controller.decision import about
from stoker.findings.vocabulary import ReclaimMode, ReclaimState
from stoker.policy.effective import EffectivePolicy, JobTraits
from stoker.reclaim import Constraints, Obstruction, Record
from stoker.reclaim.budget import ReclaimBudget, Slot, full, holds_slot, is_held_by, within
from stoker.reclaim.order import SlotRequest, in_order, turn
from stoker.reclaim.pressure import Amounts, Gain, added, pressed
from stoker.workload import job_traits
from stoker.workload import pods as pod_status

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Attempts to take a slot when writes of the policy's status conflict."""
KEPT_FREE = 300.0
"""Seconds for which a slot is kept free for the first job in the order. If it does not take the slot in this time, the
next job may, so that a fault of one job does not stop the others.
"""
NOT_KEPT = 1800.0
"""Seconds without a job that waited for the first one, after which the time of KEPT_FREE starts again."""
DUE_KEPT = timedelta(seconds=1)
"""How long the list of due jobs is reused, since each due job needs the whole list within one tick."""
PRESSURE_KEPT = timedelta(seconds=5)
"""How long the result of a search for waiting pods is reused."""
OWNERS = 10
"""Owners of pending pods that one search considers."""
GAINS = 100
"""Due jobs whose GPUs one search counts as what reclaims would free."""
NODES_READ = 100
"""Nodes whose pods one search reads, by one request each. A search is made at most once in PRESSURE_KEPT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A job that is warned or being reclaimed, with its record."""

    job: DLJob
    record: Record

    @property
    def stands(self) -> tuple[object, ...]:
        """The fields that decide the job's place in the order."""
        record = self.record
        return self.job.uid, record.state, record.idle_since, record.warned_at, record.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A warned job that waits for its deadline or its slot. policy: the name of the policy that counts its reclaim."""

    job: DLJob
    request: SlotRequest
    policy: str
    on_pressure_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The result of a search `at` a time: the uids of the due `jobs` whose GPUs pending pods wait for. unread: why the
    search failed; empty if it did not.
    """

    at: datetime
    jobs: frozenset[str] = frozenset()
    unread: str = ""


class ClusterConstraints:
    """Finds the constraints of a job's reclaim and hands out slots. It follows the warned DLJobs of the cache."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        policies: Policies,
        brakes: Brakes,
        clock: Clock,
        *,
        minimum_warning_grace: timedelta,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._api = api
        self._cache = cache
        self._policies = policies
        self._brakes = brakes
        self._clock = clock
        self._minimum_warning_grace = minimum_warning_grace
        self._capacity = Capacity(api, clock)
        self._warned: dict[Key, Warned] = {}
        self._due_lately: tuple[datetime, list[Due]] | None = None
        """The last result of `_due` and its time; see DUE_KEPT."""
        self._kept_free: dict[str, tuple[float, float]] = {}
        """For each warned job that a slot was kept free for, by its uid: when that began and when it was last the case,
        by the monotonic clock.
        """
        self._passed: set[str] = set()
        """The uids of the warned jobs that did not take the slot kept for them."""
        self._pressed: Pressed | None = None
        self._asking = asyncio.Lock()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        cache.dljobs.follow(self._changed)
        policies.follow(self._policy_changed)

    async def of(self, job: DLJob, pods: Sequence[Object], policy: EffectivePolicy, record: Record) -> Constraints:
        """The constraints on reclaiming the job's GPUs now. Budget and pressure are read only for a job that is due.

        Raises nothing for nodes or pods that can't be read: then the constraint is in force.
        """
        calm = Constraints(minimum_warning_grace=self._minimum_warning_grace)
        name = policy.counts_in
        if name is None:
            return calm
        calm = replace(calm, doubted_until=self._brakes.doubted_until(name))
        now = self._clock.now()
        traits = job_traits(job, pods)
        request = self._request(job, record, policy, traits)
        brake = self._brakes.obstruction(name)
        if brake is not None or request is None or request.due_at > now:
            return replace(calm, brake=brake)
        if policy.reclaim_of(traits).on_pressure_only and (pressure := await self._pressure(job, request)):
            # The order of the due jobs is not computed here: without pressure it does not matter, and it is slow for
            # thousands of jobs.
            return replace(calm, pressure=pressure)
        return replace(calm, bounds=await self._bounds(request, name, policy, now))

    async def take_slot(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Take a slot of the policy's reclaim budget for a job; True if the action may follow.

        The slot is written to the policy's `status.recentReclaims` before the action, with the resource version that
        was read as a precondition. So the budget holds across restarts, deleted jobs and other controllers. A slot is
        never given back, because after an error the action may still have been done. A job that already holds a slot
        for the same warning keeps it, with the time `now`.

        Raises ApiError when the policy's status can't be read or written.
        """
        name = policy.counts_in
        request = self._request(job, _record(job), policy, self._traits(job))
        if name is None or request is None:
            return False
        async with self._locks[name]:
            for attempt in range(ATTEMPTS):
                raw = await self._as_decided(job, policy)
                slots = _slots(raw, policy, now) if raw is not None else None
                if raw is None or slots is None or _is_stopped(raw) or self._brakes.obstruction(name) is not None:
                    return False
                others = tuple(one for one in slots if not is_held_by(one, request.job_uid, request.warned_at))
                is_new = len(others) == len(slots)
                if is_new and (obstruction := full(slots, request.slot(now), await self._budget(policy))):
                    logger.info(
                        "%s: not reclaimed now: %s",
                        request.job,
                        obstruction.reason,
                        extra=about(job.namespace, job.name, job.uid, request.warned_at),
                    )
                    return False
                # After a crash between slot and action, the slot's time moves to the time of the action.
                taken = [one.to_status() for one in (*others, request.slot(now))]
                body = {**raw, "status": {**raw.get("status", {}), "recentReclaims": taken}}
                try:
                    written = await self._api.replace(POLICIES, None, name, body, subresource="status")
                except ConflictError:
                    if attempt == ATTEMPTS - 1:
                        raise
                    continue
                self._cache.policies.put(written)
                return True
        return False

    async def _as_decided(self, job: DLJob, policy: EffectivePolicy) -> Object | None:
        """The policy that counts the job's reclaim, read from the API server; None when the effective policy is no
        longer `policy`. The policies are listed and the namespace is read, because a watch may be late with a new
        policy or label.
        """
        listed, _ = await self._api.list(POLICIES)
        present = {raw["metadata"]["name"]: raw for raw in listed}
        for raw in listed:
            self._cache.policies.put(raw)
        self._cache.namespaces.put(await self._api.get(NAMESPACES, None, job.namespace))
        is_late = any(raw["metadata"]["name"] not in present for raw in self._cache.policies)
        if is_late or self._policies.of(job.namespace) != policy:
            return None
        return present.get(policy.counts_in or "")

    async def _bounds(
        self, request: SlotRequest, name: str, policy: EffectivePolicy, now: datetime
    ) -> Obstruction | None:
        """Why there is no slot for a due job, or None."""
        raw = self._cache.policies.get(Key("", name))
        slots = _slots(raw, policy, now) if raw is not None else None
        if slots is None:
            return Obstruction(reason=f"recent reclaims can't be read from the status of the policy {name}")
        if _holds_slot(slots, request):
            return None
        budget = await self._budget(policy)
        if obstruction := full(slots, request.slot(now), budget):
            return obstruction
        requests = await self._requests(name)
        others = [
            one
            for one in requests
            if one.job_uid not in {request.job_uid, *self._passed} and not _holds_slot(slots, one)
        ]
        first = in_order((request, *others), now)[0]
        if first is not request and full(slots, first.slot(now), budget) is None and self._has_missed_its_turn(first):
            others.remove(first)
        return turn(request, others, slots, budget, now)

    def _has_missed_its_turn(self, first: SlotRequest) -> bool:
        """Whether the first job in the order has left its slot unused for KEPT_FREE; from then on it is passed over."""
        now = self._clock.monotonic()
        since, last = self._kept_free.get(first.job_uid, (now, now))
        if now - last > NOT_KEPT:
            since = now  # no job has waited for it in between
        self._kept_free[first.job_uid] = since, now
        if now - since <= KEPT_FREE:
            return False
        self._passed.add(first.job_uid)
        return True

    async def _budget(self, policy: EffectivePolicy) -> ReclaimBudget:
        unread, gpus = "", None
        try:
            gpus = await self._capacity.gpus()
        except CapacityUnreadableError as error:
            unread = str(error)
        reclaim = policy.reclaim
        return ReclaimBudget(
            window=reclaim.window,
            jobs=reclaim.max_jobs_per_window,
            gpu_percent=reclaim.max_gpu_percent_per_window,
            cluster_gpus=gpus,
            unread=unread,
        )

    # ------------------------------------------------------------------------------------------------------- pressure

    async def _pressure(self, job: DLJob, request: SlotRequest) -> Obstruction | None:
        """Why no pending pod could use the job's GPUs now; None if one could."""
        async with self._asking:
            if self._pressed is None or self._clock.now() - self._pressed.at >= PRESSURE_KEPT:
                self._pressed = await self._find_pressed()
        if request.job_uid in self._pressed.jobs:
            return None
        if self._pressed.unread:
            return Obstruction(reason=f"pending pods can't be read: {self._pressed.unread}")
        return Obstruction(
            reason=f"no pending pod that requests {job.spec.gpu_resource} would fit on its nodes",
            change="a pending pod that requests these GPUs and would fit on its nodes",
        )

    async def _find_pressed(self) -> Pressed:
        """Search the due jobs that are reclaimed on pressure only for those whose GPUs pending pods wait for."""
        now = self._clock.now()
        pressing = [one for one in self._due() if one.on_pressure_only and self._brakes.obstruction(one.policy) is None]
        jobs = {one.request.job_uid: one.job for one in pressing}
        due = in_order((one.request for one in pressing), now)
        resources = {request.resource for request in due}
        try:
            waiting = (await self._capacity.waiting(resources))[:OWNERS]
            nodes = [node for node in await self._capacity.nodes() if any(one.may_run_on(node) for one in waiting)]
            names = {node.name for node in nodes}
            gains = [self._gain(jobs[request.job_uid]) for request in due]
            gains = [gain for gain in gains if names & gain.by_node.keys()][:GAINS]
            gained = {name for gain in gains for name in gain.by_node}
            nearest = sorted(nodes, key=lambda node: node.name not in gained)[:NODES_READ] if gains else []
            roomy = await self._capacity.with_room(nearest, leaving=self._leaving())
        except CapacityUnreadableError as error:
            return Pressed(at=now, unread=str(error))
        return Pressed(at=now, jobs=await asyncio.to_thread(pressed, waiting, roomy, gains))

    def _gain(self, job: DLJob) -> Gain:
        """What reclaiming the job would free: the requests of its running pods, by node."""
        by_node: dict[str, Amounts] = {}
        job_uid = (job.status.job_uid if job.status is not None else None) or ""
        for pod in self._cache.pods_of(Key(job.namespace, job.name), job_uid):
            node = pod["spec"].get("nodeName")
            is_there = node and not pod_status.is_finished(pod) and not pod_status.is_terminating(pod)
            if is_there and is_understood(pod):
                by_node[node] = added(by_node.get(node, {}), requests_of(pod))
        return Gain(job_uid=job.uid, by_node=by_node)

    def _leaving(self) -> frozenset[str]:
        """The uids of the Jobs that are being reclaimed. What their pods hold counts as free; otherwise two jobs would
        be reclaimed for one waiting pod.
        """
        going = (one.job for one in self._warned.values() if one.record.state is ReclaimState.RECLAIMING)
        return frozenset(job.status.job_uid for job in going if job.status is not None and job.status.job_uid)

    # --------------------------------------------------------------------------------------------------------- requests

    def _changed(self, key: Key, raw: Object | None) -> None:
        """Keep `_warned` up to date with the cache."""
        before = self._warned.pop(key, None)
        state = (raw or {}).get("status", {}).get("reclaim", {}).get("state")
        if raw is not None and state in {ReclaimState.WARNED, ReclaimState.RECLAIMING}:
            with suppress(ValidationError):  # a DLJob that can't be read is not reclaimed
                job = DLJob.model_validate(raw)
                self._warned[key] = Warned(job=job, record=_record(job))
        after = self._warned.get(key)
        if before is not None and after is None:
            self._kept_free.pop(before.job.uid, None)
            self._passed.discard(before.job.uid)
        if (before.stands if before is not None else None) != (after.stands if after is not None else None):
            self._due_lately = None

    def _policy_changed(self, _: str | None) -> None:
        self._due_lately = None

    async def _requests(self, name: str) -> list[SlotRequest]:
        """The requests under a policy that wait only for a slot."""
        due = [one for one in self._due() if one.policy == name]
        return [
            one.request for one in due if not one.on_pressure_only or await self._pressure(one.job, one.request) is None
        ]

    def _due(self) -> list[Due]:
        """The warned jobs that their policy would reclaim now. Only the mode, the schedule and this module's
        constraints are checked here: when another condition fails, the job's warning ends and it is no longer followed.
        """
        now = self._clock.now()
        if self._due_lately is not None and abs(now - self._due_lately[0]) < DUE_KEPT:
            return self._due_lately[1]
        found: list[Due] = []
        for key, warned in self._warned.items():
            try:
                due = self._due_of(warned, self._policies.of(key.namespace), now)
            except Exception as error:
                # Leave the job out of the order. Its own reconciles fail for the same reason.
                self._faults.caught("order", str(key), error)
                continue
            if due is not None:
                found.append(due)
        self._due_lately = now, found
        return found

    def _due_of(self, warned: Warned, policy: EffectivePolicy, now: datetime) -> Due | None:
        job = warned.job
        traits = self._traits(job)
        settings, request = policy.reclaim_of(traits), self._request(job, warned.record, policy, traits)
        name = policy.counts_in
        if request is None or name is None or warned.record.state is not ReclaimState.WARNED:
            return None
        open_now = settings.open_at(now, policy.trusted(job.job_type))
        if settings.mode is ReclaimMode.OBSERVE or not open_now:
            return None
        return Due(job=job, request=request, policy=name, on_pressure_only=settings.on_pressure_only)

    def _traits(self, job: DLJob) -> JobTraits:
        job_uid = (job.status.job_uid if job.status is not None else None) or ""
        return job_traits(job, self._cache.pods_of(Key(job.namespace, job.name), job_uid))

    def _request(self, job: DLJob, record: Record, policy: EffectivePolicy, traits: JobTraits) -> SlotRequest | None:
        """The slot that a warned job requests; None without a complete warning."""
        if record.warned_at is None or record.deadline is None or record.idle_since is None:
            return None
        grace = max(policy.reclaim_of(traits).warning_grace, self._minimum_warning_grace)
        return SlotRequest(
            job_uid=job.uid,
            job=f"{job.namespace}/{job.name}",
            gpus=job.gpus,
            resource=job.spec.gpu_resource,
            idle_since=record.idle_since,
            warned_at=record.warned_at,
            due_at=max(record.deadline, record.warned_at + grace),
        )


def _slots(raw: Mapping[str, Any], policy: EffectivePolicy, now: datetime) -> tuple[Slot, ...] | None:
    """The slots within the policy's window; None when the policy's status can't be read."""
    try:
        status = UtilizationPolicyStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return None
    return within(map(Slot.from_status, status.recent_reclaims), policy.reclaim.window, now)


def _holds_slot(slots: Sequence[Slot], request: SlotRequest) -> bool:
    return holds_slot(slots, request.job_uid, request.warned_at)


def _is_stopped(raw: Mapping[str, Any]) -> bool:
    return "brake" in (raw.get("status") or {})


def _record(job: DLJob) -> Record:
    return Record.from_status(job.status.reclaim if job.status is not None else None)
