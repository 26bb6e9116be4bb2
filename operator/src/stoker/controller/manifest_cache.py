"""What the jobs' manifests say, read anew only when something that it hangs on has changed.

They are read in worker processes: a costly script holds up neither the watches nor the lease, and its cost is bounded.
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
"""When a review that did not end is tried again for the first time; the time doubles with each try."""
LATE_LONGEST = timedelta(days=1)
"""When a review that did not end is tried again, the time doubling with each try: most likely the script is too costly,
but it may have been an accident.
"""
CPU_SHARE = 1.25
"""Of the policy's review budget: the processor time after which the reading is stopped from outside."""
PATIENCE = 60.0
"""Seconds by the clock within which a manifest is read, or it is tried again: others were in the way."""
SETTLING = 5.0
"""Seconds that a look at all jobs waits for the manifests that are not read yet, as after a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReading:
    """What was read of a manifest."""

    verdict: Verdict
    program: ProgramFacts


def read_manifest(job: DLJob, policy: EffectivePolicy, now: datetime) -> Iterator[ManifestReading]:
    """What a worker process does: reads the manifest first without its scripts, then with them, once for both ends.

    Of a program that is not read to its end nobody knows whether it serves, or starts Jupyter.
    """
    unread = unread_program(job)
    yield ManifestReading(verdict=review_without_scripts(job, policy, now=now), program=unread)
    start = time.thread_time()
    try:
        submissions = read(job, policy, allowance_of(policy, start))
        program = submission_facts(submissions[0], mapping(job.spec.pod_template).get("spec"))
    except MemoryError:
        raise
    except Exception as failure:  # a fault of ours must not decide about a job
        yield ManifestReading(verdict=failed(failure), program=unread)
        return
    yield ManifestReading(verdict=review_submissions(submissions, policy, now=now, start=start), program=program)


def warm_up() -> None:
    """Read one manifest, so that everything is imported and compiled when the first one comes."""
    script = "pip install x\ntorchrun --nproc_per_node=4 train.py\n"
    spec = {"gpusPerNode": 8, "image": "warm-up:1", "script": script}
    job = DLJob.model_validate({"metadata": {"name": "warm-up", "namespace": "default"}, "spec": spec})
    for _ in read_manifest(job, BUILT_IN, datetime.now(UTC)):
        pass
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedReview:
    """A review's verdict, and what it hangs on beside the spec, which is immutable where rules look."""

    verdict: Verdict
    policy: EffectivePolicy
    metadata: ObjectMeta
    until: datetime | None
    """When another one is due: an exemption ends, and no longer holds back its rules, or this one did not end."""
    again_after: timedelta = LATE_AGAIN
    """How long this one waited, if it did not end; the next one waits twice as long."""

    def holds(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Whether another review would find the same."""
        return (
            self.policy == policy
            and (self.until is None or now < self.until)
            and self.metadata.labels == job.metadata.labels
            and self.metadata.annotations == job.metadata.annotations
        )


class ManifestCache:
    """Remembers, by the DLJob's uid, what was read: a DLJob's program is immutable."""

    def __init__(self, policies: Policies, clock: Clock, workers: Workers) -> None:
        self._policies = policies
        self._clock = clock
        self._workers = workers
        self._programs: dict[str, ProgramFacts] = {}
        self._reviewed: dict[str, CachedReview] = {}
        self._wanted: dict[str, dict[str, DLJob]] = {}
        """The jobs whose manifests are to be read, by namespace and uid."""
        self._readers: dict[str, asyncio.Task[None]] = {}
        """One for each namespace that has any."""

    def program(self, job: DLJob) -> ProgramFacts:
        """What diagnosis must know of the program, as far as it is known: what is not read yet is read soon."""
        known = self._programs.get(job.uid)
        if known is not None:
            return known
        self._want(job)
        return unread_program(job)

    def known_program(self, uid: str) -> ProgramFacts | None:
        """The same of a job by its uid; None for one that was not read. The same object until it is read anew."""
        return self._programs.get(uid)

    async def settle(self) -> bool:
        """Wait a moment for what is to be read; whether there was anything."""
        if not self._readers:
            return False
        await asyncio.wait(list(self._readers.values()), timeout=SETTLING)
        return True

    async def review(self, job: DLJob) -> Verdict:
        """The same answer as at admission, under the policy of now. Raises Transient where others were in the way."""
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
        """Forget the jobs that no longer exist."""
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
        # The program is immutable: what was read once stays, though a later review has less time.
        if job.uid not in self._programs or not reading.program.is_unread:
            self._programs[job.uid] = reading.program
        return verdict

    def _want(self, job: DLJob) -> None:
        self._wanted.setdefault(job.namespace, {})[job.uid] = job
        if job.namespace not in self._readers:
            name = f"reads manifests of {job.namespace}"
            self._readers[job.namespace] = asyncio.create_task(self._read_wanted(job.namespace), name=name)

    async def _read_wanted(self, namespace: str) -> None:
        """Read what is wanted of a namespace, one after the other."""
        waiting = self._wanted[namespace]
        try:
            while waiting:
                job = waiting.pop(next(iter(waiting)))
                try:
                    await self.review(job)
                except Transient:
                    continue  # whoever asks again has it read again
                except Exception:
                    logger.exception("%s/%s: its manifest can't be read", job.namespace, job.name)
        finally:
            del self._wanted[namespace], self._readers[namespace]
