"""From an AdmissionReview of a DLJob to its answer."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from stoker.adapters.workers import TaskEnd, TaskOutcome, Workers
from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation, outside_bounds
from stoker.admission.judgement import judge, not_analysed
from stoker.cluster.view import ClusterView
from stoker.findings.verdict import Verdict
from stoker.policy.effective import EffectivePolicy
from stoker.shell.model import Shortfall

logger = logging.getLogger(__name__)

CPU_SHARE = 1.25
"""Of the policy's review budget: the processor time after which a worker is stopped from outside. A review watches its
budget by itself, and then answers with what it has; what is in a library's hands can't.
"""
TIMEOUT = 3.0
"""Seconds within which an answer is due whose asker does not say when; the API server does."""
MARGIN = 0.3
"""Seconds of it that are left for the way back."""

SHORTFALLS = {
    TaskEnd.TIME: Shortfall.OVER_BUDGET,
    TaskEnd.MEMORY: Shortfall.OVER_BUDGET,
    TaskEnd.LATE: Shortfall.BUSY,
    TaskEnd.BUSY: Shortfall.BUSY,
    TaskEnd.RAISED: Shortfall.FAULT,
    TaskEnd.DIED: Shortfall.FAULT,
}
"""What it means for the job that its review has not ended as it should. Where the processor time was not over, and yet
the answer came too late, the machine was busy.
"""


class JobReviewer:
    """Reviews DLJobs under the policy of their namespace, within the policy's budget, in worker processes.

    A fault of ours, or a job too costly to analyse, never decides about a job by itself: what its manifest says by
    itself is judged, and else it passes with a warning, unless the policy says otherwise. The controller reviews again
    before it creates the Job.
    """

    def __init__(self, view: ClusterView, workers: Workers, now: Callable[[], datetime]) -> None:
        self._view = view
        self._workers = workers
        self._now = now

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.subresource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return ALLOWED  # nothing of the spec can change: neither status nor deletion waits for a review
        if (answer := outside_bounds(request)) is not None:
            return answer
        policy = await self._view.policy(request.namespace or "")
        outcome = await self._workers.run(
            judge,
            request,
            policy,
            self._now(),
            owner=request.namespace or "",
            cpu=CPU_SHARE * policy.analysis.review_budget.total_seconds() * (1 if request.old_object is None else 2),
            deadline=(request.deadline or asyncio.get_running_loop().time() + TIMEOUT) - MARGIN,
        )
        if outcome.end is not TaskEnd.DONE or outcome.result is None:
            return self._fallen_short(outcome, policy, request)
        answer = outcome.result
        for rule, failure in answer.verdict.failures if answer.verdict is not None else ():
            logger.error("Rule %s failed on %s: %s", rule, described(request), failure)
        return answer

    def _fallen_short(
        self, outcome: TaskOutcome[AdmissionResponse], policy: EffectivePolicy, request: AdmissionRequest
    ) -> AdmissionResponse:
        """What the manifest alone says, and that there is no more."""
        shortfall = SHORTFALLS.get(outcome.end, Shortfall.FAULT)
        log = logger.error if shortfall is Shortfall.FAULT else logger.warning
        log("The review of %s did not end (%s). %s", described(request), outcome.end.value, outcome.detail)
        answer = outcome.result or ALLOWED
        verdict = replace(answer.verdict or Verdict(), shortfall=shortfall)
        return replace(not_analysed(answer, policy, request, shortfall), verdict=verdict)


def described(request: AdmissionRequest) -> str:
    """The object of a review, for the log."""
    return f"{request.kind} {request.namespace or ''}/{request.name or '(name to be generated)'}"
