"""What a worker process does of a DLJob's review: reads the job, asks the rules, and puts the answer into words."""

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
"""Objects, some ten reviews of long scripts: Python's 700 are collected dozens of times within one such review, a fifth
of its time, and now and then for 100 ms.
"""


def judge(request: AdmissionRequest, policy: EffectivePolicy, now: datetime) -> Iterator[AdmissionResponse]:
    """The answer to the creation or update of a DLJob: first by its manifest alone, then with its scripts.

    The first costs next to nothing, and is what is left where the second takes too much.
    """
    assert request.new_object is not None
    try:
        job = _read(request.new_object, request)
    except ValidationError as error:
        yield unreadable(request, error, partial(_read, request=request))
        return
    for judged in (review_without_scripts, review):
        verdict = _judged(job, request, partial(judged, policy=policy, now=now))
        answer = replace(_answer(job, verdict), verdict=verdict)
        if judged is review:
            for shortfall in (verdict.shortfall, Shortfall.FAULT if verdict.failures else None):
                answer = answer if shortfall is None else not_analysed(answer, policy, request, shortfall)
        yield answer


def not_analysed(
    answer: AdmissionResponse, policy: EffectivePolicy, request: AdmissionRequest, shortfall: Shortfall
) -> AdmissionResponse:
    """An answer with what the policy does about a job that could not be analysed to its end.

    An update is not denied for that: the program is immutable, and the job must stay one that can be suspended.
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
    """Review once, then take what is there by then out of the garbage collector's sight.

    Everything is imported and compiled after one review. A full collection walks all that is alive, which takes tens of
    milliseconds, and what was there before the first review stays for ever.
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


def _judged(job: DLJob, request: AdmissionRequest, by: Judge) -> Verdict:
    """The verdict; on an update without what the old object was guilty of."""
    verdict = by(job)
    if request.old_object is None or not verdict.denied:
        return verdict
    try:
        old = _read(request.old_object, request)
    except ValidationError:
        return verdict  # then nothing is known to have been wrong before
    return introduced(by(old), verdict)


def _read(document: Mapping[str, Any], request: AdmissionRequest) -> DLJob:
    """The job as it will be stored: what the API server still leaves out of its metadata stands in the request."""
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
