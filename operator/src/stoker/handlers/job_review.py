"""From an AdmissionReview of a DLJob to its answer."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from stoker.admission import introduced, messages, review
from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer, Operation, unreadable
from stoker.handlers.cluster_view import ClusterView, Scope
from stoker.handlers.review_pool import ReviewPool
from stoker.models.dljob import DLJob
from stoker.models.verdict import Verdict
from stoker.models.vocabulary import Action

logger = logging.getLogger(__name__)


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
        scope = await self._view.scope(request.namespace or "")
        budget = scope.policy.analysis.review_budget
        try:
            return await self._pool.run(partial(judge, request, scope, self._now()), budget)
        except TimeoutError:
            logger.warning("The review of %s did not end within %g s.", described(request), budget.total_seconds())
            return not_analysed(scope.policy.analysis.on_not_analysed, f"within {budget.total_seconds():g} s")
        except Exception:
            logger.exception("The review of %s failed.", described(request))
            return Answer(allowed=True, warnings=("stoker could not analyse this job: an internal error, logged",))


def judge(request: AdmissionRequest, scope: Scope, now: datetime) -> Answer:
    """The answer to the creation or update of a DLJob; computes, and logs the failures of rules."""
    assert request.new_object is not None
    try:
        job = _read(request.new_object, request)
    except ValidationError as error:
        return unreadable(request, error, partial(_read, request=request))
    verdict = _review(job, scope, now, request)
    if request.old_object is not None and verdict.findings:
        try:
            old = _read(request.old_object, request)
        except ValidationError:
            pass  # then nothing is known to have been wrong before
        else:
            verdict = introduced(_review(old, scope, now, request), verdict)
    return _answer(job, verdict)


def not_analysed(action: Action, why: str) -> Answer:
    """The answer for a job of which nothing is known."""
    message = f"stoker could not analyse this job {why}"
    if action is Action.DENY:
        cause = messages.Cause(reason="FieldValueInvalid", field="spec", message=f"{message}; this policy then denies")
        return Answer(allowed=False, message=f"{cause.field}: {cause.message}", causes=(cause,))
    warnings = (f"{message}: it passes unchecked",) if action is Action.WARN else ()
    return Answer(allowed=True, warnings=warnings, annotations={"not-analysed": why})


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


def _review(job: DLJob, scope: Scope, now: datetime, request: AdmissionRequest) -> Verdict:
    verdict = review(job, scope.policy, namespace_labels=scope.namespace_labels, now=now)
    for rule, failure in verdict.failures:
        logger.error("Rule %s failed on %s.", rule, described(request), exc_info=failure)
    return verdict


def _answer(job: DLJob, verdict: Verdict) -> Answer:
    warnings = tuple(messages.warnings(verdict))
    if verdict.unfinished:
        warnings += (f"stoker could not analyse this job with {', '.join(verdict.unfinished)}; its log says why",)
    annotations = {"findings": " ".join(sorted({finding.rule for finding in verdict.findings}))}
    if not verdict.denied:
        return Answer(allowed=True, warnings=warnings, annotations=annotations if verdict.findings else {})
    denial = messages.denial(job.name, verdict)
    return Answer(
        allowed=False, message=denial.message, causes=denial.causes, warnings=warnings, annotations=annotations
    )
