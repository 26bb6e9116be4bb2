"""Reviews DLJobs: from an admission request to its response. The server calls it; worker processes run `judge`."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from stoker.adapters.workers import TaskEnd, TaskOutcome, Workers
from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation, outside_bounds
from stoker.admission.judgement import judge, not_analysed
from stoker.admission.response_cache import ResponseCache, ReviewKey
from stoker.cluster.view import ClusterView
from stoker.findings.verdict import Verdict
from stoker.policy.effective import EffectivePolicy
from stoker.shell.model import Shortfall

logger = logging.getLogger(__name__)

CPU_SHARE = 1.25
"""Processor time after which a worker is killed, as a multiple of the policy's review budget. A review checks its
budget itself and answers with what it has found. Chosen above 1 because code inside a library can't check it.
"""
TIMEOUT = 3.0
"""Seconds within which a review must be answered if the client sends no timeout. The API server sends one."""
MARGIN = 0.3
"""Seconds of the timeout that are reserved for sending the response."""

SHORTFALLS = {
    TaskEnd.TIME: Shortfall.OVER_BUDGET,
    TaskEnd.MEMORY: Shortfall.OVER_BUDGET,
    TaskEnd.LATE: Shortfall.BUSY,
    TaskEnd.BUSY: Shortfall.BUSY,
    TaskEnd.RAISED: Shortfall.FAULT,
    TaskEnd.DIED: Shortfall.FAULT,
}
"""The shortfall for each way in which a worker's task may end early. A task that was late without using up its
processor time was on a busy machine.
"""


class JobReviewer:
    """Reviews DLJobs in worker processes, under the policy of their namespace and within its review budget.

    An internal error or a script that is too costly to analyse does not decide about a job by itself. The manifest
    without its scripts is still reviewed, and the job is admitted with a warning unless the policy says Deny. The
    controller reviews again before it creates the Job.

    `cache` remembers responses, so that a worker is asked once for the same object under the same policy.
    """

    def __init__(
        self, view: ClusterView, workers: Workers, now: Callable[[], datetime], cache: ResponseCache | None = None
    ) -> None:
        self._view = view
        self._workers = workers
        self._now = now
        self._cache = ResponseCache() if cache is None else cache

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.subresource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return ALLOWED  # a write of the status or a deletion can't change the spec
        if (answer := outside_bounds(request)) is not None:
            return answer
        policy, now = await self._view.policy(request.namespace or ""), self._now()
        key = ReviewKey.of(request, policy, now)
        if key is not None and (remembered := self._cache.get(key)) is not None:
            return remembered
        answer = await self._review(request, policy, now)
        if key is not None:
            self._cache.put(key, answer)
        return answer

    async def _review(self, request: AdmissionRequest, policy: EffectivePolicy, now: datetime) -> AdmissionResponse:
        """The response of a worker process, or what is answered where it did not end."""
        outcome = await self._workers.run(
            judge,
            request,
            policy,
            now,
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
        """The response to an unfinished review: the findings without the scripts, and the policy's action for the
        shortfall.
        """
        shortfall = SHORTFALLS.get(outcome.end, Shortfall.FAULT)
        log = logger.error if shortfall is Shortfall.FAULT else logger.warning
        log("The review of %s did not end (%s). %s", described(request), outcome.end.value, outcome.detail)
        answer = outcome.result or ALLOWED
        verdict = replace(answer.verdict or Verdict(), shortfall=shortfall)
        return replace(not_analysed(answer, policy, request, shortfall), verdict=verdict, repeatable=False)


def described(request: AdmissionRequest) -> str:
    """The object of a request as text for the log."""
    return f"{request.kind} {request.namespace or ''}/{request.name or '(name to be generated)'}"
