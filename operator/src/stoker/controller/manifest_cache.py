"""Caches what was read of jobs' manifests: the review's verdict and the facts about the program.

Used by reconcile, the scan, the reclaimer and the presence check. A manifest is read again only when its policy, labels
or annotations change or an exemption ends. Manifests are read in worker processes, so that a costly script delays
neither the watches nor the Lease, and its processor time is limited.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from stoker.adapters.clock import Clock
from stoker.adapters.workers import TaskEnd, Workers
from stoker.api.dljob import DLJob
from stoker.api.meta import ObjectMeta
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Transient
from stoker.findings.verdict import Verdict
from stoker.lint.kinds.pod import mapping
from stoker.lint.review import allowance_of, failed, read, review_submissions, review_without_scripts
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.shell.model import Shortfall
from stoker.workload import ProgramFacts, submission_facts, unread_program

logger = logging.getLogger(__name__)

LATE_AGAIN = timedelta(minutes=10)
"""How long after an unfinished review the first retry follows. The time doubles with each retry."""
LATE_LONGEST = timedelta(days=1)
"""The longest time until a retry of an unfinished review. Most such scripts are too costly at each retry, but the cause
may have been a busy machine.
"""
CPU_SHARE = 1.25
"""Processor time after which the worker process is killed, as a multiple of the policy's review budget. The review
itself stops at the budget.
"""
PATIENCE = 60.0
"""Seconds within which a worker must have read a manifest, including the wait for a free worker. Afterwards the read is
retried.
"""
SETTLING = 5.0
"""Seconds that a scan waits for manifests that are still being read, as after a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReading:
    """What was read of a manifest: the review's verdict and the facts about the program."""

    verdict: Verdict
    program: ProgramFacts


def read_manifest(job: DLJob, policy: EffectivePolicy, now: datetime) -> Iterator[ManifestReading]:
    """Read a manifest in a worker process. Yields a result without the scripts first, then one with them.

    The first result is used when the second takes too much time or memory. It has the program as unread, because only
    the whole script shows whether it serves requests or starts Jupyter.
    """
    unread = unread_program(job)
    yield ManifestReading(verdict=review_without_scripts(job, policy, now=now), program=unread)
    start = time.thread_time()
    try:
        submissions = read(job, policy, allowance_of(policy, start))
        program = submission_facts(submissions[0], mapping(job.spec.pod_template).get("spec"))
    except MemoryError:
        raise
    except Exception as failure:  # an internal error must not decide about a job
        yield ManifestReading(verdict=failed(failure), program=unread)
        return
    yield ManifestReading(verdict=review_submissions(submissions, policy, now=now, start=start), program=program)


def warm_up() -> None:
    """Read one manifest when a worker starts, so that everything is imported and compiled before the first real one."""
    script = "pip install x\ntorchrun --nproc_per_node=4 train.py\n"
    spec = {"gpusPerNode": 8, "image": "warm-up:1", "script": script}
    job = DLJob.model_validate({"metadata": {"name": "warm-up", "namespace": "default"}, "spec": spec})
    for _ in read_manifest(job, BUILT_IN, datetime.now(UTC)):
        pass
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedReview:
    """A review's verdict and the inputs that may change: the policy and the metadata. The parts of the spec that rules
    read are immutable.
    """

    verdict: Verdict
    policy: EffectivePolicy
    metadata: ObjectMeta
    until: datetime | None
    """When the next review is due, because an exemption ends or because this review did not finish."""
    again_after: timedelta = LATE_AGAIN
    """The wait until the retry of an unfinished review. The next wait is twice as long, up to LATE_LONGEST."""

    def holds(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Whether the cached verdict is still valid for the job under this policy."""
        return (
            self.policy == policy
            and (self.until is None or now < self.until)
            and self.metadata.labels == job.metadata.labels
            and self.metadata.annotations == job.metadata.annotations
        )


class ManifestCache:
    """Caches reviews and program facts by the DLJob's uid. A DLJob's program is immutable, so its facts stay valid."""

    def __init__(self, policies: Policies, clock: Clock, workers: Workers) -> None:
        self._policies = policies
        self._clock = clock
        self._workers = workers
        self._programs: dict[str, ProgramFacts] = {}
        self._reviewed: dict[str, CachedReview] = {}
        self._wanted: dict[str, dict[str, DLJob]] = {}
        """The jobs whose manifests are to be read, by namespace and uid."""
        self._readers: dict[str, asyncio.Task[None]] = {}
        """One reading task for each namespace with manifests to read."""

    def program(self, job: DLJob) -> ProgramFacts:
        """The facts about the job's program. If they are not cached, the manifest is queued for reading and the program
        counts as unread.
        """
        known = self._programs.get(job.uid)
        if known is not None:
            return known
        self._want(job)
        return unread_program(job)

    def known_program(self, uid: str) -> ProgramFacts | None:
        """The cached facts about a program by the DLJob's uid, or None. The same object is returned until they are read
        again.
        """
        return self._programs.get(uid)

    async def settle(self) -> bool:
        """Wait up to SETTLING seconds for the queued manifests; False if none was queued."""
        if not self._readers:
            return False
        await asyncio.wait(list(self._readers.values()), timeout=SETTLING)
        return True

    async def review(self, job: DLJob) -> Verdict:
        """The verdict of the admission rules on the job under the present policy. Raises Transient when all workers
        were busy.
        """
        policy, now = self._policies.of(job.namespace), self._clock.now()
        known = self._reviewed.get(job.uid)
        if known is not None and known.holds(job, policy, now) and job.uid in self._programs:
            return known.verdict
        outcome = await self._workers.run(
            read_manifest,
            job,
            policy,
            now,
            owner=job.namespace,
            cpu=CPU_SHARE * policy.analysis.review_budget.total_seconds(),
            deadline=asyncio.get_running_loop().time() + PATIENCE,
        )
        reading = outcome.result or ManifestReading(verdict=Verdict(), program=unread_program(job))
        match outcome.end:
            case TaskEnd.DONE:
                pass
            case TaskEnd.BUSY | TaskEnd.LATE:
                raise Transient("its manifest has not been read yet: all workers were busy")
            case TaskEnd.TIME | TaskEnd.MEMORY:
                reading = replace(reading, verdict=replace(reading.verdict, shortfall=Shortfall.OVER_BUDGET))
            case _:
                detail = outcome.detail or outcome.end.value
                reading = replace(reading, verdict=replace(reading.verdict, failures=(("review", detail),)))
        return self._remember(job, policy, now, reading)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Drop what is cached of all other jobs."""
        kept = set(uids)
        self._programs = {uid: known for uid, known in self._programs.items() if uid in kept}
        self._reviewed = {uid: known for uid, known in self._reviewed.items() if uid in kept}

    def _remember(self, job: DLJob, policy: EffectivePolicy, now: datetime, reading: ManifestReading) -> Verdict:
        verdict = reading.verdict
        for name, fault in verdict.failures:
            logger.error("%s/%s: rule %s failed: %s", job.namespace, job.name, name, fault)
        until, again_after = policy.next_expiry(now), LATE_AGAIN
        if verdict.not_analysed is not None:
            before = self._reviewed.get(job.uid)
            if before is not None and before.verdict.not_analysed is not None:
                again_after = min(2 * before.again_after, LATE_LONGEST)
            until = min(until or now + again_after, now + again_after)
        self._reviewed[job.uid] = CachedReview(
            verdict=verdict, policy=policy, metadata=job.metadata, until=until, again_after=again_after
        )
        # The program is immutable: facts that were read once stay, even if a later review did not finish.
        if job.uid not in self._programs or not reading.program.is_unread:
            self._programs[job.uid] = reading.program
        return verdict

    def _want(self, job: DLJob) -> None:
        self._wanted.setdefault(job.namespace, {})[job.uid] = job
        if job.namespace not in self._readers:
            name = f"reads manifests of {job.namespace}"
            self._readers[job.namespace] = asyncio.create_task(self._read_wanted(job.namespace), name=name)

    async def _read_wanted(self, namespace: str) -> None:
        """Read the queued manifests of a namespace, one after the other."""
        waiting = self._wanted[namespace]
        try:
            while waiting:
                job = waiting.pop(next(iter(waiting)))
                try:
                    await self.review(job)
                except Transient:
                    continue  # the next caller of `program` queues it again
                except Exception:
                    logger.exception("%s/%s: its manifest can't be read", job.namespace, job.name)
        finally:
            del self._wanted[namespace], self._readers[namespace]
