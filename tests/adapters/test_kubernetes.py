"""The client's paths and errors; its requests are tried on a real API server."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    LONGEST_WAIT,
    PATIENCE,
    PODS,
    RETRY_AFTER,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    default_namespace,
    error_of,
    find_credentials,
    patiently,
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
        (429, "TooManyRequests", TooManyRequestsError),
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
    "header, seconds", [("7", 7), ("0", RETRY_AFTER), ("", RETRY_AFTER), ("soon", RETRY_AFTER), ("-1", RETRY_AFTER)]
)
def test_a_429_says_when_to_come_back(header: str, seconds: float) -> None:
    error = error_of("GET /x", 429, b"Too many requests, please try again later.", retry_after=header)
    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after == seconds


class Throttled:
    """A server that refuses the first requests with 429, and the clock of whoever waits meanwhile."""

    def __init__(self, refusals: int, *, retry_after: float) -> None:
        self.refusals = refusals
        self.retry_after = retry_after
        self.now = 0.0
        self.asked_at: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def answer(self) -> str:
        self.asked_at.append(self.now)
        if len(self.asked_at) <= self.refusals:
            raise TooManyRequestsError("GET /x", retry_after=self.retry_after, reason="TooManyRequests")
        return "done"


async def test_a_refused_request_is_sent_again_when_its_retry_after_is_over() -> None:
    server = Throttled(refusals=2, retry_after=7.0)
    assert await patiently(server.answer, sleep=server.sleep) == "done"
    assert server.asked_at == [0.0, 7.0, 14.0]


@pytest.mark.parametrize("retry_after, waited", [(7.0, 35.0), (PATIENCE, PATIENCE), (1e9, LONGEST_WAIT)])
async def test_who_is_refused_for_long_gets_the_error_when_the_next_request_may_be_sent(
    retry_after: float, waited: float
) -> None:
    server = Throttled(refusals=1000, retry_after=retry_after)
    with pytest.raises(TooManyRequestsError):
        await patiently(server.answer, sleep=server.sleep)
    assert server.now == waited
    assert server.asked_at[-1] + min(retry_after, LONGEST_WAIT) == server.now


async def test_another_error_is_not_repeated() -> None:
    asked = list[int]()

    async def fail() -> None:
        asked.append(1)
        raise UnavailableError("GET /x", code=503, reason="ServiceUnavailable")

    with pytest.raises(UnavailableError):
        await patiently(fail)
    assert len(asked) == 1


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
