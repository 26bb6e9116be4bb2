"""What the jobs' manifests say, read anew only when something that it hangs on has changed."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.adapters.clock import Clock
from stoker.admission import review
from stoker.controller.policies import Policies
from stoker.models.dljob import DLJob
from stoker.models.meta import ObjectMeta
from stoker.models.policy import EffectivePolicy
from stoker.models.verdict import Verdict
from stoker.workload import ProgramFacts, program_facts

logger = logging.getLogger(__name__)


LATE_AGAIN = timedelta(minutes=10)
"""When a review that ran out of time is tried again: this machine may have been busy, or the script is too costly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A review's verdict, and what it hangs on beside the spec, which is immutable where rules look."""

    verdict: Verdict
    policy: EffectivePolicy
    metadata: ObjectMeta
    until: datetime | None
    """When another one is due: an exemption ends, and no longer holds back its rules, or this one ran out of time."""

    def holds(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Whether another review would find the same."""
        return (
            self.policy == policy
            and (self.until is None or now < self.until)
            and self.metadata.labels == job.metadata.labels
            and self.metadata.annotations == job.metadata.annotations
        )


class Manifests:
    """Remembers, by the DLJob's uid, what was read: a DLJob's program is immutable."""

    def __init__(self, policies: Policies, clock: Clock) -> None:
        self._policies = policies
        self._clock = clock
        self._programs: dict[str, ProgramFacts] = {}
        self._reviewed: dict[str, Reviewed] = {}

    def program(self, job: DLJob) -> ProgramFacts:
        """What diagnosis must know of the program."""
        known = self._programs.get(job.uid)
        if known is None:
            known = program_facts(job)
            self._programs[job.uid] = known
        return known

    async def review(self, job: DLJob) -> Verdict:
        """The same answer as at admission, under the policy of now. It is found in a thread: a costly script must hold
        up neither the watches nor the lease.
        """
        policy, now = self._policies.of(job.namespace), self._clock.now()
        known = self._known(job, policy, now)
        if known is None:
            verdict = await asyncio.to_thread(review, job, policy, now=now)
            known = self._remember(job, policy, now, verdict)
        return known

    def _known(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> Verdict | None:
        known = self._reviewed.get(job.uid)
        return known.verdict if known is not None and known.holds(job, policy, now) else None

    def _remember(self, job: DLJob, policy: EffectivePolicy, now: datetime, verdict: Verdict) -> Verdict:
        for name, fault in verdict.failures:
            logger.error("%s/%s: rule %s failed: %s", job.namespace, job.name, name, fault)
        until = policy.next_expiry(now)
        if verdict.unfinished:
            until = min(until or now + LATE_AGAIN, now + LATE_AGAIN)
        self._reviewed[job.uid] = Reviewed(verdict=verdict, policy=policy, metadata=job.metadata, until=until)
        return verdict

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget the jobs that no longer exist."""
        kept = set(uids)
        self._programs = {uid: known for uid, known in self._programs.items() if uid in kept}
        self._reviewed = {uid: known for uid, known in self._reviewed.items() if uid in kept}
