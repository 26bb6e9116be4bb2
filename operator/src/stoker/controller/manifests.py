"""What the jobs' manifests say, read once for each job."""

import logging
from collections.abc import Iterable

from stoker.adapters.clock import Clock
from stoker.admission import review
from stoker.controller.policies import Policies
from stoker.models.dljob import DLJob
from stoker.models.finding import Finding
from stoker.models.verdict import Verdict
from stoker.workload import ProgramFacts, program_facts
from stoker.workload.facts import has_persistent_volume

logger = logging.getLogger(__name__)


class Manifests:
    """Remembers, by the DLJob's uid, what can't change: a DLJob's program is immutable."""

    def __init__(self, policies: Policies, clock: Clock) -> None:
        self._policies = policies
        self._clock = clock
        self._programs: dict[str, ProgramFacts] = {}
        self._findings: dict[str, tuple[Finding, ...]] = {}

    def program(self, job: DLJob) -> ProgramFacts:
        """What diagnosis must know of the program."""
        known = self._programs.get(job.uid)
        if known is None:
            try:
                known = program_facts(job)
            except Exception:
                # A fault of ours costs one job's diagnosis some detail, not the others their look.
                logger.exception("%s/%s: the program can't be read", job.namespace, job.name)
                known = ProgramFacts(has_persistent_volume=has_persistent_volume(job))
            self._programs[job.uid] = known
        return known

    def review(self, job: DLJob) -> Verdict:
        """The same answer as at admission, under the policy of now."""
        verdict = review(job, self._policies.of(job.namespace), now=self._clock.now())
        for name, fault in verdict.failures:
            logger.error("%s/%s: rule %s failed", job.namespace, job.name, name, exc_info=fault)
        self._findings[job.uid] = (*verdict.denied, *verdict.warned, *verdict.audited)
        return verdict

    def findings(self, job: DLJob) -> tuple[Finding, ...]:
        """What admission has to say of the job, by the policy of when it was first asked."""
        if job.uid not in self._findings:
            self.review(job)
        return self._findings[job.uid]

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget the jobs that no longer exist."""
        kept = set(uids)
        self._programs = {uid: known for uid, known in self._programs.items() if uid in kept}
        self._findings = {uid: known for uid, known in self._findings.items() if uid in kept}
