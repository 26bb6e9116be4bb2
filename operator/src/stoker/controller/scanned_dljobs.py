"""The DLJobs as the scan reads them. Used by the controller's assembly."""

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.api.status import WorkloadStatus
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import WorkQueue
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.scanned_job import ScannedJob
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import FINAL_PHASES, JobType, Phase, ReclaimMode, ReclaimState
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import idle_after
from stoker.workload import ProgramFacts, job_facts, job_traits

SCANNED = frozenset({Phase.STARTING, Phase.RUNNING, *FINAL_PHASES})
MANY_PODS = 4096
"""Pods of one Job above which the job is not read. A DLJob has at most 1,024 pods at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A DLJob as it was read, and the objects that it was read from. It is valid as long as the cache holds the same
    objects. `scanned` None: it is not to be scanned.
    """

    sources: tuple[Any, ...]
    job: DLJob | None
    scanned: ScannedJob | None


class ScannedDLJobs:
    """The DLJobs that hold GPUs, and the ended ones that still need a final examination; implements ScanSource."""

    def __init__(
        self, cache: ClusterCache, queue: WorkQueue[Key], policies: Policies, manifests: ManifestCache
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._policies = policies
        self._manifests = manifests
        self._readings: dict[str, _Reading] = {}

    def objects(self) -> Iterable[tuple[Key, Object]]:
        return list(self._cache.dljobs.objects.items())

    def keep_only(self, uids: Set[str]) -> None:
        self._manifests.keep_only(uids)
        self._readings = {uid: reading for uid, reading in self._readings.items() if uid in uids}

    async def settle(self) -> bool:
        return await self._manifests.settle()

    def queue(self, key: Key) -> None:
        self._queue.add(key)

    async def manifest_findings(self, job: ScannedJob) -> Sequence[Finding]:
        read = self._readings[job.uid].job
        assert read is not None  # it was scanned
        return (await self._manifests.review(read)).findings

    def read(self, key: Key, raw: Object, now: datetime) -> ScannedJob | None:
        status = raw.get("status", {})
        if (status.get("phase") not in SCANNED and not _was_deleted(status)) or "deletionTimestamp" in raw["metadata"]:
            return None
        child, policy = self._cache.jobs.get(key), self._policies.of(key.namespace)
        pods = self._cache.pods_of(key, status.get("jobUID", ""))
        uid = raw["metadata"]["uid"]
        sources = (raw, child, policy, self._manifests.known_program(uid), *pods)
        reading = self._readings.get(uid)
        # The cache and the policies replace a changed object by a new one, so identity shows that nothing changed.
        if (
            reading is None
            or len(reading.sources) != len(sources)
            or any(map(operator.is_not, reading.sources, sources))
        ):
            self._readings.pop(uid, None)
            reading = self._readings[uid] = self._reading(key, sources, pods, now)
        elif reading.job is not None:
            self._manifests.program(reading.job)  # queues what no worker was free to read
        return reading.scanned

    def _reading(self, key: Key, sources: tuple[Any, ...], pods: Sequence[Object], now: datetime) -> _Reading:
        """Read a DLJob; its `scanned` is None for one that can't be read, has no GPUs, or is over and has never run.

        Raises ValueError for a job with more than MANY_PODS pods.
        """
        raw, child, policy = sources[:3]
        try:
            job = DLJob.model_validate(raw)
        except ValidationError:
            return _Reading(sources=sources, job=None, scanned=None)
        if job.gpus == 0:
            return _Reading(sources=sources, job=None, scanned=None)
        if len(pods) > MANY_PODS:
            message = f"its Job has {len(pods)} pods; Stoker reads at most {MANY_PODS}"
            raise ValueError(message)
        ended_at = _end(job.status)
        program = self._manifests.program(job)
        facts = job_facts(job, pods, program, child=child, now=ended_at or now)
        is_final = raw["status"]["phase"] in FINAL_PHASES or _was_deleted(raw["status"])
        scanned = ScannedJob(
            key=key,
            uid=job.uid,
            gpus=job.gpus,
            status=job.status,
            facts=facts,
            policy=policy,
            window=idle_after(job.idle_after, job_traits(job, pods), policy),
            serves=_serves(job, policy, program),
            is_final=is_final,
            ended_at=ended_at,
        )
        # The final examination needs the manifest, which may not be read yet.
        unread = is_final and self._manifests.known_program(job.uid) is None
        has_run = any(True for _ in scanned.starts)
        return _Reading(sources=sources, job=job, scanned=None if unread or (is_final and not has_run) else scanned)


def _serves(job: DLJob, policy: EffectivePolicy, program: ProgramFacts) -> bool:
    """Whether the job serves requests. A service may be idle at night and is never reclaimed."""
    declared = job.job_type is JobType.SERVING and policy.trusted_job_types
    return declared or program.serves or program.offers is not None


def _was_deleted(status: Mapping[str, Any]) -> bool:
    """Whether reclaim has deleted the Job. Such a job is over although it has neither succeeded nor failed."""
    record = status.get("reclaim", {})
    return (record.get("state"), record.get("action")) == (ReclaimState.RECLAIMED, ReclaimMode.DELETE)


def _end(status: WorkloadStatus | None) -> datetime | None:
    if status is None:
        return None
    reclaim = status.reclaim
    if reclaim is not None and reclaim.state is ReclaimState.RECLAIMED and reclaim.action == ReclaimMode.DELETE.value:
        return reclaim.reclaimed_at
    return status.completion_time
