"""From an AdmissionReview of a DLJob to its answer."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import ValidationError

from stoker.admission import introduced, messages, review
from stoker.admission.review import SUBMISSION
from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer, Operation, outside_bounds, unreadable
from stoker.handlers.cluster_view import ClusterView
from stoker.handlers.review_pool import ReviewPool
from stoker.models.dljob import DLJob
from stoker.models.policy import EffectivePolicy
from stoker.models.verdict import Verdict
from stoker.models.vocabulary import Action

logger = logging.getLogger(__name__)

OVERTIME = timedelta(seconds=0.25)
FAULT = "stoker could not analyse this job completely: an internal error, which its log explains"


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
            return replace(not_analysed(policy, "in time"), verdict=Verdict(unfinished=(SUBMISSION,)))
        except Exception as fault:
            logger.exception("The review of %s failed.", described(request))
            verdict = Verdict(unfinished=(SUBMISSION,), failures=((SUBMISSION, fault),))
            return Answer(allowed=True, warnings=(FAULT,), verdict=verdict)


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
        logger.error("Rule %s failed on %s.", rule, described(request), exc_info=failure)
    return replace(_answer(job, verdict, policy), verdict=verdict)


def not_analysed(policy: EffectivePolicy, what: str) -> Answer:
    """The answer for a job that could not be analysed `what` ("in time"), as the policy has it."""
    message = f"stoker could not analyse this job {what}"
    match policy.analysis.on_not_analysed:
        case Action.DENY:
            cause = messages.Cause(
                reason="FieldValueInvalid", field="spec", message=f"{message}, and the policy's onNotAnalysed is Deny"
            )
            return Answer(allowed=False, message=f"{cause.field}: {cause.message}", causes=(cause,))
        case Action.WARN:
            return Answer(allowed=True, warnings=(f"{message}: it passes unchecked",))
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


def _answer(job: DLJob, verdict: Verdict, policy: EffectivePolicy) -> Answer:
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
    if verdict.not_analysed:
        partly = not_analysed(policy, messages.not_analysed(verdict))
        answer = replace(partly, warnings=(*answer.warnings, *partly.warnings), annotations=answer.annotations)
    if verdict.failures:
        answer = replace(answer, warnings=(*answer.warnings, FAULT))
    return answer
