"""What the rest of the cluster says to a reclaim: the policy's bounds and whose turn it is, the brake, and who waits
for GPUs.
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
from stoker.adapters.kubernetes import POLICIES, ConflictError, KubernetesApi, Object
from stoker.controller.braking import Brakes
from stoker.controller.capacity import Capacity, Unreadable, requests_of
from stoker.controller.policies import Policies
from stoker.controller.store import Key, Store
from stoker.models.dljob import DLJob
from stoker.models.policy import EffectivePolicy, UtilizationPolicyStatus
from stoker.models.vocabulary import JobType, ReclaimMode, ReclaimState
from stoker.reclaim import Circumstances, Obstruction, Record
from stoker.reclaim.bounds import Limits, Place, full, holds_place, within
from stoker.reclaim.order import Claim, in_order, turn
from stoker.reclaim.pressure import Amounts, Gain, added, pressed
from stoker.workload import pods as pod_status

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Tries to take a place while others write the policy's status."""
KEPT_FREE = 300.0
"""Seconds for which a place is kept for a job that goes first and does not take it: order is a wish, no promise, and
whatever is wrong with that one holds nobody else up for longer.
"""
PRESSURE_KEPT = timedelta(seconds=5)
OWNERS = 10
GAINS = 100
NODES_READ = 100
"""Who waits for GPUs is found out at most every PRESSURE_KEPT, for so many owners of pending pods, due jobs and nodes;
what runs on a node is one request.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The `jobs` that somebody waits for, by their uids, as found out `at`; `unread` says why that was not possible."""

    at: datetime
    jobs: frozenset[str] = frozenset()
    unread: str = ""


class ClusterSurroundings:
    """Reads them from the cluster. Of the DLJobs it follows those that are warned."""

    def __init__(
        self,
        api: KubernetesApi,
        store: Store,
        policies: Policies,
        brakes: Brakes,
        clock: Clock,
        *,
        minimum_warning_grace: timedelta,
    ) -> None:
        self._api = api
        self._store = store
        self._policies = policies
        self._brakes = brakes
        self._clock = clock
        self._minimum_warning_grace = minimum_warning_grace
        self._capacity = Capacity(api, clock)
        self._warned: dict[Key, DLJob] = {}
        self._kept_free: dict[str, float] = {}
        """Of each policy with a place that nobody has taken: since when, by the steady clock."""
        self._pressed: Pressed | None = None
        self._asking = asyncio.Lock()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        store.dljobs.follow(self._changed)

    async def around(
        self, job: DLJob, pods: Sequence[Object], policy: EffectivePolicy, record: Record
    ) -> Circumstances:
        """Whether something speaks against taking the job's GPUs. Only of a job that is due more is read than the
        brake.
        """
        calm = Circumstances(minimum_warning_grace=self._minimum_warning_grace)
        name = policy.counts_in
        if name is None:
            return calm
        now = self._clock.now()
        claim = self._claim(job, record, policy)
        brake = self._brakes.obstruction(name)
        if brake is not None or claim is None or claim.due_at > now:
            return replace(calm, brake=brake)
        pressure = None
        if policy.reclaim.of(job.traits).on_pressure_only:
            pressure = await self._pressure(job, claim)
        return replace(calm, pressure=pressure, bounds=await self._bounds(claim, name, policy, now))

    async def take_place(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Take a place among the reclaims that the policy allows in its window, written before the deed and fenced by
        the resource version: they are counted in the policy's own status, so that neither a restart, a deleted job nor
        another controller exceeds them. A place is never given back, since after an error nobody knows for certain that
        the deed was not done; the same warning takes no second one.
        """
        name = policy.counts_in
        claim = self._claim(job, _record(job), policy)
        if name is None or claim is None:
            return False
        async with self._locks[name]:
            for attempt in range(ATTEMPTS):
                raw = await self._api.get(POLICIES, None, name)
                places = _places(raw, policy, now)
                if places is None or _is_stopped(raw) or self._brakes.obstruction(name) is not None:
                    return False
                if _holds_place(places, claim):
                    return True
                if obstruction := full(places, claim.place(now), await self._limits(policy)):
                    logger.info("%s: not reclaimed now: %s", claim.job, obstruction.reason)
                    return False
                taken = [one.to_status() for one in (*places, claim.place(now))]
                body = {**raw, "status": {**raw.get("status", {}), "recentReclaims": taken}}
                try:
                    written = await self._api.replace(POLICIES, None, name, body, subresource="status")
                except ConflictError:
                    if attempt == ATTEMPTS - 1:
                        raise
                    continue
                self._store.policies.put(written)
                self._kept_free.pop(name, None)
                return True
        return False

    async def _bounds(self, claim: Claim, name: str, policy: EffectivePolicy, now: datetime) -> Obstruction | None:
        """Why there is no place for a job that is due."""
        raw = self._store.policies.get(Key("", name))
        places = _places(raw, policy, now) if raw is not None else None
        if places is None:
            return Obstruction(reason=f"what was reclaimed lately can't be read from the policy {name}")
        if _holds_place(places, claim):
            return None
        limits = await self._limits(policy)
        others = [
            one for one in await self._claims(name) if one.job_uid != claim.job_uid and not _holds_place(places, one)
        ]
        obstruction = turn(claim, others, places, limits, now)
        first = in_order((claim, *others), now)[0]
        if first is claim or full(places, first.place(now), limits) is not None:
            self._kept_free.pop(name, None)
        elif self._clock.monotonic() - self._kept_free.setdefault(name, self._clock.monotonic()) > KEPT_FREE:
            return full(places, claim.place(now), limits)
        return obstruction

    async def _limits(self, policy: EffectivePolicy) -> Limits:
        unread, gpus = "", None
        try:
            gpus = await self._capacity.gpus()
        except Unreadable as error:
            unread = str(error)
        reclaim = policy.reclaim
        return Limits(
            window=reclaim.window,
            jobs=reclaim.max_jobs_per_window,
            gpu_percent=reclaim.max_gpu_percent_per_window,
            cluster_gpus=gpus,
            unread=unread,
        )

    # ------------------------------------------------------------------------------------------------------- pressure

    async def _pressure(self, job: DLJob, claim: Claim) -> Obstruction | None:
        """Why the job's GPUs are of no use to anybody now."""
        async with self._asking:
            if self._pressed is None or self._clock.now() - self._pressed.at >= PRESSURE_KEPT:
                self._pressed = await self._find_pressed()
        if claim.job_uid in self._pressed.jobs:
            return None
        if self._pressed.unread:
            return Obstruction(reason=f"who waits for GPUs can't be read: {self._pressed.unread}")
        return Obstruction(
            reason=f"nobody who waits for {job.spec.gpu_resource} would fit where it runs",
            change="a pending pod that asks for these GPUs and would then fit",
        )

    async def _find_pressed(self) -> Pressed:
        """Of the due jobs that are reclaimed on pressure only, those that somebody waits for."""
        now = self._clock.now()
        jobs = {job.uid: job for job, _ in self._due(on_pressure=True)}
        due = in_order((claim for _, claim in self._due(on_pressure=True)), now)
        resources = {claim.resource for claim in due}
        try:
            waiting = [one for one in await self._capacity.waiting() if one.asks_for(resources)][:OWNERS]
            nodes = [node for node in await self._capacity.nodes() if any(one.may_run_on(node) for one in waiting)]
            names = {node.name for node in nodes}
            gains = [gain for claim in due if names & (gain := self._gain(jobs[claim.job_uid])).by_node.keys()][:GAINS]
            gained = {name for gain in gains for name in gain.by_node}
            nearest = sorted(nodes, key=lambda node: node.name not in gained)[:NODES_READ] if gains else []
            roomy = await self._capacity.with_room(nearest, leaving=self._leaving())
        except Unreadable as error:
            return Pressed(at=now, unread=str(error))
        return Pressed(at=now, jobs=await asyncio.to_thread(pressed, waiting, roomy, gains))

    def _gain(self, job: DLJob) -> Gain:
        """What its pods hold."""
        by_node: dict[str, Amounts] = {}
        job_uid = (job.status.job_uid if job.status is not None else None) or ""
        for pod in self._store.pods_of(Key(job.namespace, job.name), job_uid):
            node = pod["spec"].get("nodeName")
            if node and not pod_status.is_finished(pod) and not pod_status.is_terminating(pod):
                by_node[node] = added(by_node.get(node, {}), requests_of(pod))
        return Gain(job_uid=job.uid, by_node=by_node)

    def _leaving(self) -> frozenset[str]:
        """The Jobs whose pods are about to be taken away: what they hold is free already, or two jobs would go for one
        that waits.
        """
        states = {job.status.job_uid: _record(job).state for job in self._warned.values() if job.status is not None}
        return frozenset(uid for uid, state in states.items() if uid and state is ReclaimState.RECLAIMING)

    # --------------------------------------------------------------------------------------------------------- claims

    def _changed(self, key: Key, raw: Object | None) -> None:
        """Follow the jobs that are warned."""
        self._warned.pop(key, None)
        state = (raw or {}).get("status", {}).get("reclaim", {}).get("state")
        if raw is None or state not in {ReclaimState.WARNED, ReclaimState.RECLAIMING}:
            return
        with suppress(ValidationError):  # of one that can't be read nothing is decided either
            self._warned[key] = DLJob.model_validate(raw)

    async def _claims(self, name: str) -> list[Claim]:
        """The claims under a policy that wait for nothing but a place."""
        claims = [claim for job, claim in self._due(on_pressure=False) if self._is_under(job, name)]
        pressed = [
            claim
            for job, claim in self._due(on_pressure=True)
            if self._is_under(job, name) and await self._pressure(job, claim) is None
        ]
        return claims + pressed

    def _due(self, *, on_pressure: bool) -> list[tuple[DLJob, Claim]]:
        """The warned jobs that are reclaimed on pressure only, or the others, with what they claim. Every condition
        that a warned job may fail, but its schedule and what this module says, ends its warning or its state.
        """
        now = self._clock.now()
        found: list[tuple[DLJob, Claim]] = []
        for key, job in self._warned.items():
            policy, record = self._policies.of(key.namespace), _record(job)
            settings = policy.reclaim.of(job.traits)
            claim = self._claim(job, record, policy)
            if claim is None or record.state is not ReclaimState.WARNED or settings.on_pressure_only is not on_pressure:
                continue
            job_type = job.job_type if policy.trusted_job_types else JobType.TRAINING
            acts = settings.mode is not ReclaimMode.OBSERVE and settings.open_at(now, job_type)
            name = policy.counts_in
            if acts and name is not None and self._brakes.obstruction(name) is None:
                found.append((job, claim))
        return found

    def _is_under(self, job: DLJob, name: str) -> bool:
        return self._policies.of(job.namespace).counts_in == name

    def _claim(self, job: DLJob, record: Record, policy: EffectivePolicy) -> Claim | None:
        """What a warned job claims."""
        if record.warned_at is None or record.deadline is None or record.idle_since is None:
            return None
        grace = max(policy.reclaim.of(job.traits).warning_grace, self._minimum_warning_grace)
        return Claim(
            job_uid=job.uid,
            job=f"{job.namespace}/{job.name}",
            gpus=job.gpus,
            resource=job.spec.gpu_resource,
            idle_since=record.idle_since,
            warned_at=record.warned_at,
            due_at=max(record.deadline, record.warned_at + grace),
        )


def _places(raw: Mapping[str, Any], policy: EffectivePolicy, now: datetime) -> tuple[Place, ...] | None:
    """The places that count; None where the policy's status can't be read."""
    try:
        status = UtilizationPolicyStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return None
    return within(map(Place.from_status, status.recent_reclaims), policy.reclaim.window, now)


def _holds_place(places: Sequence[Place], claim: Claim) -> bool:
    return holds_place(places, claim.job_uid, claim.warned_at)


def _is_stopped(raw: Mapping[str, Any]) -> bool:
    return "brake" in (raw.get("status") or {})


def _record(job: DLJob) -> Record:
    return Record.from_status(job.status.reclaim if job.status is not None else None)
