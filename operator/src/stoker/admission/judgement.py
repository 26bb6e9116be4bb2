"""The part of a DLJob's review that runs in a worker process: it reads the job, runs the rules and writes the response.

Used by job_review.py, which starts it in a worker and handles tasks that end early.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation, unreadable
from stoker.api import dljob
from stoker.api.dljob import DLJob
from stoker.api.names import API_VERSION, GROUP
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action
from stoker.lint import messages
from stoker.lint.review import introduced, review, review_without_scripts
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.shell.model import Shortfall

Judge = Callable[[DLJob], Verdict]

COLLECT_AFTER = 100_000
"""Allocations between two runs of the garbage collector, as many as about ten reviews of long scripts make. With
Python's default of 700 the collector takes a fifth of a review's time, and sometimes 100 ms at once.
"""


def judge(request: AdmissionRequest, policy: EffectivePolicy, now: datetime) -> Iterator[AdmissionResponse]:
    """Review the creation or update of a DLJob. Yields a response without reading its scripts, then one with them.

    The first response takes little time. It is used when the second takes more than the budget.
    """
    assert request.new_object is not None
    try:
        job = _read(request.new_object, request)
    except ValidationError as error:
        yield replace(unreadable(request, error, partial(_read, request=request)), repeatable=True)
        return
    for judged in (review_without_scripts, review):
        verdict, complete = _judged(job, request, partial(judged, policy=policy, now=now))
        answer = replace(_answer(job, verdict), verdict=verdict, repeatable=complete)
        if judged is review:
            for shortfall in (verdict.shortfall, Shortfall.FAULT if verdict.failures else None):
                answer = answer if shortfall is None else not_analysed(answer, policy, request, shortfall)
        yield answer


def not_analysed(
    answer: AdmissionResponse, policy: EffectivePolicy, request: AdmissionRequest, shortfall: Shortfall
) -> AdmissionResponse:
    """Add the policy's action for an unfinished analysis to a response.

    An update is warned instead of denied, because the program is immutable and it must remain possible to suspend the
    job.
    """
    message = messages.not_analysed(shortfall)
    action = policy.analysis.action(shortfall)
    if action is Action.DENY and request.operation is Operation.UPDATE:
        action = Action.WARN
    match action:
        case Action.DENY:
            why = f"{message}. The policy's {policy.analysis.field(shortfall)} is Deny."
            cause = messages.StatusCause(reason="FieldValueInvalid", field="spec", message=why)
            said = "; ".join(filter(None, (answer.message, f"{cause.field}: {cause.message}")))
            return replace(answer, allowed=False, message=said, causes=(*answer.causes, cause))
        case Action.WARN:
            return replace(answer, warnings=(*answer.warnings, messages.warning_line(message)))
        case _:
            return answer


def warm_up() -> None:
    """Review one job when a worker starts, then exclude all present objects from garbage collection.

    After one review everything is imported and compiled, and these objects live as long as the process. A full
    collection that walks them takes tens of milliseconds.
    """
    request = AdmissionRequest(
        uid="warm-up",
        operation=Operation.CREATE,
        group=GROUP,
        kind=dljob.KIND,
        resource=dljob.PLURAL,
        subresource="",
        name="warm-up",
        namespace="default",
        new_object=WARM_UP,
        old_object=None,
        dry_run=True,
    )
    for _ in judge(request, BUILT_IN, datetime.now(UTC)):
        pass
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)


WARM_UP: Mapping[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": dljob.KIND,
    "metadata": {"name": "warm-up"},
    "spec": {"gpusPerNode": 8, "image": "warm-up:1", "script": "pip install x\ntorchrun --nproc_per_node=4 train.py\n"},
}


def _judged(job: DLJob, request: AdmissionRequest, by: Judge) -> tuple[Verdict, bool]:
    """The verdict on the job; on an update without the denied findings that the old object already had. And whether
    everything that it rests on was judged completely.
    """
    verdict = by(job)
    if request.old_object is None or not verdict.denied:
        return verdict, verdict.complete
    try:
        old = _read(request.old_object, request)
    except ValidationError:
        return verdict, verdict.complete  # the old object can't be read, so all findings count as new
    before = by(old)
    return introduced(before, verdict), verdict.complete and before.complete


def _read(document: Mapping[str, Any], request: AdmissionRequest) -> DLJob:
    """The job as it will be stored. Name and namespace are taken from the request where the metadata lacks them. Raises
    ValidationError.
    """
    metadata = document.get("metadata")
    if isinstance(metadata, Mapping):
        given = {"name": request.name or metadata.get("generateName", ""), "namespace": request.namespace or ""}
        document = {**document, "metadata": {**metadata, **{k: v for k, v in given.items() if not metadata.get(k)}}}
    return DLJob.model_validate(document)


def _answer(job: DLJob, verdict: Verdict) -> AdmissionResponse:
    told = {
        "findings": {finding.rule for finding in verdict.findings},
        "suppressed": {one.finding.rule for one in verdict.suppressed},
    }
    answer = AdmissionResponse(
        allowed=True,
        warnings=tuple(messages.warnings(verdict)),
        annotations={name: " ".join(sorted(rules)) for name, rules in told.items() if rules},
    )
    if verdict.denied:
        denial = messages.denial(job.name, verdict)
        return replace(answer, allowed=False, message=denial.message, causes=denial.causes)
    return answer


__all__ = ["ALLOWED", "judge", "not_analysed", "warm_up"]
