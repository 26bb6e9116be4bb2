"""The client's paths and errors; its requests are tried on a real API server."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    PODS,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    default_namespace,
    error_of,
    find_credentials,
)


def test_paths() -> None:
    assert DLJOBS.path("team", "bert", "status") == "/apis/stoker.dev/v1alpha1/namespaces/team/dljobs/bert/status"
    assert PODS.path() == "/api/v1/pods"


PIECES = st.sampled_from(["..", ".", "/", "%2e", "%2F", "?", "#", ";", "\\", "\n", " ", "@", ":", "é", "a", "pods"])


@given(name=st.text(max_size=8) | st.lists(PIECES, max_size=8).map("".join))
@example(name="")
@example(name="../../other/secrets")
@example(name="x?limit=1")
def test_a_name_that_a_tenant_chose_leads_to_no_other_object(name: str) -> None:
    """A pod's claim or an owner reference may have any text as its name, for the API server does not check it."""
    if name in {"", ".", ".."} or set("/%") & set(name):
        with pytest.raises(NotFoundError, match=r"^pods: no object can have the name that is referred to$"):
            PODS.path("team", name)
        return
    sent = URL(f"https://api{PODS.path('team', name)}")
    assert (sent.raw_query_string, sent.raw_fragment) == ("", "")
    assert sent.parts == ("/", "api", "v1", "namespaces", "team", "pods", name)


@pytest.mark.parametrize(
    "code, reason, kind",
    [
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (401, "Unauthorized", ForbiddenError),
        (403, "Forbidden", ForbiddenError),
        (400, "BadRequest", InvalidError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", UnavailableError),
        (503, "ServiceUnavailable", UnavailableError),
        (405, "MethodNotAllowed", ApiError),
    ],
)
def test_a_status_becomes_its_error_and_its_words_stay_out_of_the_text(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    status = {"kind": "Status", "reason": reason, "message": 'Invalid value: {"env":[{"value":"s3cr3t"}]}'}
    error = error_of("PATCH /x", code, json.dumps(status).encode())
    assert type(error) is kind
    assert reason in str(error)
    assert "s3cr3t" not in str(error)
    assert "s3cr3t" in error.answer


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"null", b'{"reason": null}', b'"x"', b"\xff"])
def test_what_a_proxy_answers_is_an_error_like_any_other(content: bytes) -> None:
    assert isinstance(error_of("GET /x", 502, content), UnavailableError)


@pytest.mark.parametrize(
    "content", ["", "[]", "contexts: 3", "\t{", "current-context: none\ncontexts: []\nclusters: []"]
)
async def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=str(path)):
        await find_credentials(kubeconfig=str(path))


async def test_a_kubeconfig_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere"):
        await find_credentials(kubeconfig=str(tmp_path / "nowhere"))
    assert await default_namespace(kubeconfig=str(tmp_path / "nowhere")) == "default"


async def test_a_context_that_the_kubeconfig_does_not_have_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u, namespace: nlp}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    assert await default_namespace(kubeconfig=str(path)) == "nlp"
    assert await default_namespace(kubeconfig=str(path), context="b") == "default"
    with pytest.raises(CredentialsError, match="name b"):
        await find_credentials(kubeconfig=str(path), context="b")
