"""From an AdmissionReview of a DLJob to its answer."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import ValidationError

from stoker.admission import introduced, messages, review
from stoker.admission.review import SUBMISSION, failed
from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer, Operation, outside_bounds, unreadable
from stoker.handlers.cluster_view import ClusterView
from stoker.handlers.review_pool import ReviewPool
from stoker.models.dljob import DLJob
from stoker.models.policy import EffectivePolicy
from stoker.models.verdict import Verdict
from stoker.models.vocabulary import Action, Shortfall

logger = logging.getLogger(__name__)

OVERTIME = timedelta(seconds=0.25)


class JobReviewer:
    """Reviews DLJobs under the policy of their namespace, within the policy's budget.

    A fault of ours, or a script too costly to analyse, never decides about a job by itself: the job passes with a
    warning, unless the policy says that what wasn't analysed in time is denied. The controller reviews again before
    it creates the Job.
    """

    def __init__(self, view: ClusterView, pool: ReviewPool, now: Callable[[], datetime]) -> None:
        self._view = view
        self._pool = pool
        self._now = now

    async def __call__(self, request: AdmissionRequest) -> Answer:
        if request.subresource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return ALLOWED  # nothing of the spec can change: neither status nor deletion waits for a review
        if (answer := outside_bounds(request)) is not None:
            return answer
        policy = await self._view.policy(request.namespace or "")
        try:
            # The rules watch their budget themselves and then answer in part; what is here stops waiting for them.
            return await self._pool.run(
                partial(judge, request, policy, self._now()), policy.analysis.review_budget + OVERTIME
            )
        except TimeoutError:
            logger.warning("The review of %s did not end in time.", described(request))
            verdict = Verdict(unfinished=(SUBMISSION,), shortfall=Shortfall.OVER_BUDGET)
        except Exception as fault:
            logger.exception("The review of %s failed.", described(request))
            verdict = failed(fault)
        return replace(not_analysed(policy, request, verdict.not_analysed or Shortfall.FAULT), verdict=verdict)


def judge(request: AdmissionRequest, policy: EffectivePolicy, now: datetime) -> Answer:
    """The answer to the creation or update of a DLJob; computes, and logs the failures of rules."""
    assert request.new_object is not None
    try:
        job = _read(request.new_object, request)
    except ValidationError as error:
        return unreadable(request, error, partial(_read, request=request))
    verdict = review(job, policy, now=now)
    if request.old_object is not None and verdict.denied:
        try:
            old = _read(request.old_object, request)
        except ValidationError:
            pass  # then nothing is known to have been wrong before
        else:
            verdict = introduced(review(old, policy, now=now), verdict)
    for rule, failure in verdict.failures:
        logger.error("Rule %s failed on %s: %s", rule, described(request), failure)
    return replace(_answer(job, verdict, policy, request), verdict=verdict)


def not_analysed(policy: EffectivePolicy, request: AdmissionRequest, shortfall: Shortfall) -> Answer:
    """The answer for a job that could not be analysed to its end, as the policy has it.

    An update is not denied for that: the program is immutable, and the job must stay one that can be suspended.
    """
    message = messages.not_analysed(shortfall)
    action = policy.analysis.action(shortfall)
    if action is Action.DENY and request.operation is Operation.UPDATE:
        action = Action.WARN
    match action:
        case Action.DENY:
            why = f"{message}. The policy's {policy.analysis.field(shortfall)} is Deny."
            cause = messages.Cause(reason="FieldValueInvalid", field="spec", message=why)
            return Answer(allowed=False, message=f"{cause.field}: {cause.message}", causes=(cause,))
        case Action.WARN:
            return Answer(allowed=True, warnings=(messages.warning_line(message),))
        case _:
            return ALLOWED


def described(request: AdmissionRequest) -> str:
    """The object of a review, for the log."""
    return f"{request.kind} {request.namespace or ''}/{request.name or '(name to be generated)'}"


def _read(document: Mapping[str, Any], request: AdmissionRequest) -> DLJob:
    """The job as it will be stored: what the API server still leaves out of its metadata stands in the request."""
    metadata = document.get("metadata")
    if isinstance(metadata, Mapping):
        given = {"name": request.name or metadata.get("generateName", ""), "namespace": request.namespace or ""}
        document = {**document, "metadata": {**metadata, **{k: v for k, v in given.items() if not metadata.get(k)}}}
    return DLJob.model_validate(document)


def _answer(job: DLJob, verdict: Verdict, policy: EffectivePolicy, request: AdmissionRequest) -> Answer:
    told = {
        "findings": {finding.rule for finding in verdict.findings},
        "suppressed": {one.finding.rule for one in verdict.suppressed},
    }
    answer = Answer(
        allowed=True,
        warnings=tuple(messages.warnings(verdict)),
        annotations={name: " ".join(sorted(rules)) for name, rules in told.items() if rules},
    )
    if verdict.denied:
        denial = messages.denial(job.name, verdict)
        return replace(answer, allowed=False, message=denial.message, causes=denial.causes)
    for shortfall in (verdict.shortfall, Shortfall.FAULT if verdict.failures else None):
        if shortfall is not None:
            partly = not_analysed(policy, request, shortfall)
            answer = replace(
                answer,
                allowed=answer.allowed and partly.allowed,
                message=partly.message or answer.message,
                causes=(*answer.causes, *partly.causes),
                warnings=(*answer.warnings, *partly.warnings),
            )
    return answer
