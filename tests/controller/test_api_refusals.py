"""What a DLJob's owner reads of a Job that the API server did not take. The answers are those of a real API server."""

from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    ErrorCause,
    ForbiddenError,
    InvalidError,
    UnavailableError,
    error_of,
    warning_text,
)
from stoker.api.dljob import DLJob
from stoker.controller.api_refusals import not_changed, not_created, warned
from stoker.workload.manifest import job_manifest
from tests.workload.building import dljob_object

MANIFEST = job_manifest(DLJob.model_validate(dljob_object()))


def invalid(*causes: tuple[str, str], answer: str = "") -> InvalidError:
    made = tuple(ErrorCause(field=field, message=message) for field, message in causes)
    return InvalidError("create", code=422, reason="Invalid", answer=answer, causes=made)


def forbidden(answer: str) -> ForbiddenError:
    return ForbiddenError("create", code=403, reason="Forbidden", answer=answer)


def test_an_invalid_job_is_told_in_the_servers_words_with_the_dljobs_paths() -> None:
    error = invalid(
        ("spec.template.spec.containers[0].volumeMounts[0].name", 'Not found: "data"'),
        ("spec.template.spec.containers[0].image", "Required value"),
    )
    told = not_created(error, MANIFEST)
    assert told.reason == "JobInvalid"
    assert told.message == (
        "the API server rejects the Job as invalid:"
        ' spec.podTemplate.spec.containers[trainer].volumeMounts[0].name: Not found: "data"; spec.image: Required value'
    )


def test_causes_are_bounded_in_number_and_length_and_keep_their_end() -> None:
    error = invalid(*((f"spec.x{n}", f'Invalid value: "{"v" * 5000}": must be short') for n in range(9)))
    message = not_created(error, MANIFEST).message
    assert message.endswith("; and 6 more")
    assert message.count("must be short") == 3
    assert len(message) < 1024


@pytest.mark.parametrize("value", ['{"env":[{"value":"s3cr3t"}]}', "core.Container{Env: s3cr3t}", "map[a:s3cr3t]"])
def test_a_whole_object_is_never_repeated(value: str) -> None:
    message = not_created(invalid(("spec.x", f"Invalid value: {value}: must be small")), MANIFEST).message
    assert "s3cr3t" not in message
    assert message.endswith("spec.x: Invalid value: must be small")


@pytest.mark.parametrize(
    "answer, words",
    [
        (
            'jobs.batch "bert" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2',
            "leaves no room for the Job: exceeded quota few, requested: pods=1, used: pods=2",
        ),
        (
            'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: bad',
            "the admission webhook vjob.kb.io refuses it: metadata.labels[kueue.x-k8s.io/queue-name]: bad",
        ),
        (
            "\"bert\" is forbidden: ValidatingAdmissionPolicy 'calm' with binding 'all' denied request: not on Fridays",
            "the ValidatingAdmissionPolicy calm refuses it: not on Fridays",
        ),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', 'PodSecurity "restricted'),
        (
            'jobs.batch is forbidden: User "system:serviceaccount:s:c" cannot create resource "jobs" in the namespace',
            "the operator's account may not create a Job in this namespace (RBAC)",
        ),
        (
            '"bert" is forbidden: unable to create new content in namespace team because it is being terminated',
            "the namespace is being deleted",
        ),
        ('jobs.batch "bert" is forbidden: some plugin says so', "forbids the Job: some plugin says so"),
    ],
)
def test_who_forbids_a_job_is_named_with_what_it_says(answer: str, words: str) -> None:
    told = not_created(forbidden(answer), MANIFEST)
    assert told.reason == "JobForbidden"
    assert words in told.message


def test_a_webhook_that_answers_invalid_is_named_as_well() -> None:
    answer = 'admission webhook "vjob.kb.io" denied the request: metadata.labels: Invalid value: "Bad_Queue": a name'
    told = not_created(invalid(("metadata.labels", "Invalid value"), answer=answer), MANIFEST)
    assert told.reason == "JobForbidden"
    assert "the admission webhook vjob.kb.io refuses it" in told.message
    assert "Bad_Queue" in told.message


DOWN = (
    'Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post '
    '"https://kueue.svc:443":'
    " dial tcp 10.0.0.1:443: connect: connection refused"
)


@pytest.mark.parametrize(
    "error, words",
    [
        (
            UnavailableError("create", code=500, reason="InternalError", answer=DOWN),
            "webhook mjob.kb.io does not answer",
        ),
        (UnavailableError("create", code=None, reason="TimeoutError"), "the API server did not answer (TimeoutError)"),
        (UnavailableError("create", code=503, reason="ServiceUnavailable"), "the API server answered 503"),
    ],
)
def test_without_an_answer_it_is_said_who_did_not_answer(error: UnavailableError, words: str) -> None:
    told = not_created(error, MANIFEST)
    assert told.reason == "JobNotCreated"
    assert words in told.message
    assert told.message.endswith("; Stoker tries again")
    assert words in not_changed(error, "suspended")


def test_of_a_refused_change_nothing_but_the_refuser_is_repeated() -> None:
    echo = 'admission webhook "vjob.kb.io" denied the request: spec: Invalid value: core.PodTemplateSpec{Env: s3cr3t}'
    assert not_changed(forbidden(echo), "resumed") == (
        "its Job can't be resumed: the admission webhook vjob.kb.io refuses it; Stoker tries again"
    )
    assert "s3cr3t" not in not_changed(invalid(("spec.template", "Invalid value: core.X{s3cr3t}")), "resumed")


def test_the_causes_and_the_warnings_of_an_answer_are_read() -> None:
    content = (
        b'{"kind":"Status","reason":"Invalid","message":"m","details":{"causes":'
        b'[{"reason":"FieldValueNotFound","message":"Not found: \\"data\\"","field":"spec.x"}]}}'
    )
    assert error_of("POST /x", 422, content).causes == (ErrorCause(field="spec.x", message='Not found: "data"'),)
    assert warning_text(r'299 - "unknown field \"spec.template.spec.tolerationz\""') == (
        'unknown field "spec.template.spec.tolerationz"'
    )


@pytest.mark.parametrize("details", [b'"text"', b'{"causes": [1]}', b"[]", b'{"causes": "x"}'])
def test_a_status_that_is_none_is_an_error_without_words(details: bytes) -> None:
    error = error_of("POST /x", 422, b'{"reason":"Invalid","message":"m","details":' + details + b"}")
    assert (type(error), error.causes) == (InvalidError, ())


def test_warnings_are_told_once_each_in_the_dljobs_paths() -> None:
    unknown = 'unknown field "spec.template.spec.tolerationz"'
    assert warned([unknown, unknown], MANIFEST) == 'unknown field "spec.podTemplate.spec.tolerationz"'
    assert warned([], MANIFEST) == ""
    assert warned([f"{n}" for n in range(7)], MANIFEST).endswith("; and 2 more")


def test_no_answer_of_a_server_makes_a_message_of_more_than_one_printable_line() -> None:
    hostile: Any = "x\x1b[31m\n\u202e" * 4000
    for error in (invalid((hostile, hostile)), forbidden(f"is forbidden: {hostile}"), invalid(answer=hostile)):
        message = not_created(error, MANIFEST).message
        assert message.isprintable()
        assert len(message) <= 1024
