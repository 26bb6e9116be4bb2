"""What isn't a whole answer of Prometheus says so, in time; what is, comes through with its warnings.

The server here answers whatever a test wants it to: these are claims about HTTP, those about Prometheus are
end-to-end tests.
"""

import base64
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection
from stoker.adapters.prometheus.series import MAX_QUERIES
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.adapters.prometheus.transport import LimitExceeded
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import MetricsUnavailable, Screen, ScreenRequest
from stoker.telemetry.series import JobFacts, PodFacts

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
QUESTION = ScreenRequest(pods=(("team", "bert-0"),), window=timedelta(hours=1))
EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


class Stub:
    """A server with one scripted behaviour."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.behave: Callable[[BaseHTTPRequestHandler], None] = lambda handler: answer(handler, EMPTY)
        self.released = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                stub.requests.append((self.path, dict(self.headers), form))
                stub.behave(self)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return format_datetime(NOW, usegmt=True)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def answer(handler: BaseHTTPRequestHandler, body: object, status: int = 200, *, promised: int | None = None) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content) if promised is None else promised))
    handler.end_headers()
    handler.wfile.write(content)


@pytest.fixture
def server() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.close()


async def unavailable(server: Stub, timeout: timedelta = timedelta(seconds=5)) -> MetricsUnavailable:
    async with PrometheusSource(PrometheusAccess(url=server.url, timeout=timeout)) as source:
        with pytest.raises(MetricsUnavailable) as raised:
            await source.screen([QUESTION], NOW)
    return raised.value


async def screened(server: Stub) -> Screen:
    async with PrometheusSource(PrometheusAccess(url=server.url)) as source:
        (screen,) = await source.screen([QUESTION], NOW)
    return screen


async def test_the_query_travels_in_the_body_with_time_and_timeout(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=server.url + "/", timeout=timedelta(seconds=5))) as source:
        (screen,) = await source.screen([QUESTION], NOW)
    assert screen.complete
    assert screen.gpus == {}
    ((path, _, form),) = server.requests
    assert path == "/api/v1/query"
    assert form["time"] == ["1795262400.000"]
    assert form["timeout"] == ["5s"]
    assert 'avg_over_time(DCGM_FI_DEV_GPU_UTIL{exported_pod=~"bert-0"}[600s])' in form["query"][0]


async def test_a_bearer_token_is_read_anew_for_each_request(server: Stub, tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with PrometheusSource(PrometheusAccess(url=server.url, token_file=token)) as source:
        for secret in ("first", "second"):
            token.write_text(f"{secret}\n")
            await source.screen([QUESTION], NOW)
        token.unlink()
        with pytest.raises(MetricsUnavailable, match="token"):
            await source.screen([QUESTION], NOW)
    assert [headers["Authorization"] for _, headers, _ in server.requests] == ["Bearer first", "Bearer second"]


async def test_a_warning_makes_the_answer_partial_and_an_info_does_not(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=server.url)) as source:
        server.behave = lambda handler: answer(handler, EMPTY | {"infos": ["PromQL info: not a counter"]})
        assert (await source.screen([QUESTION], NOW))[0].complete
        server.behave = lambda handler: answer(handler, EMPTY | {"warnings": ["remote_read: refused"]})
        (screen,) = await source.screen([QUESTION], NOW)
        assert not screen.complete
        assert screen.message == "remote_read: refused"


@pytest.mark.parametrize(
    "body, status, said",
    [
        ({"status": "error", "errorType": "timeout", "error": "query timed out"}, 503, "query timed out"),
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, 400, "parse error"),
        (b"<html>Bad gateway</html>", 502, "502"),
        (b"<html>Please log in</html>", 200, "other than a Prometheus response"),
        (b'{"status": "success", "data": {"result": [', 200, "other than a Prometheus response"),
        ({"status": "success"}, 200, "without a result"),
        ({"status": "success", "data": {"result": {}}}, 200, "without a result"),
        (b"[]", 200, "other than a Prometheus response"),
    ],
)
async def test_what_is_no_answer_of_prometheus_is_unavailable(
    server: Stub, body: object, status: int, said: str
) -> None:
    server.behave = lambda handler: answer(handler, body, status)
    error = await unavailable(server)
    assert error.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
    assert said in error.message


async def test_an_answer_cut_short_is_unavailable(server: Stub) -> None:
    server.behave = lambda handler: answer(handler, EMPTY, promised=5000)
    assert (await unavailable(server)).reason is UnknownReason.PROMETHEUS_UNAVAILABLE


async def test_a_redirect_is_not_followed_with_the_token(server: Stub, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")

    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("Location", f"{server.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.behave = redirect
    async with PrometheusSource(PrometheusAccess(url=server.url, token_file=token)) as source:
        with pytest.raises(MetricsUnavailable, match="307"):
            await source.screen([QUESTION], NOW)
    assert [path for path, _, _ in server.requests] == ["/api/v1/query"]


async def test_of_a_long_error_the_middle_is_left_out(server: Stub) -> None:
    """VictoriaMetrics repeats the whole query, then says why."""
    said = f'error when executing query="{"x" * 100_000}": too many samples'
    server.behave = lambda handler: answer(handler, {"status": "error", "errorType": "422", "error": said}, 422)
    unanswered = await unavailable(server)
    assert isinstance(unanswered, LimitExceeded)
    assert len(unanswered.message) < 1000
    assert "error when executing" in unanswered.message
    assert unanswered.message.endswith("too many samples")


async def test_what_a_server_says_takes_one_line_and_commands_no_terminal(server: Stub) -> None:
    server.behave = lambda handler: answer(handler, {"status": "error", "error": "bad\r\n2026 INFO \x1b[2Jquery"}, 400)
    assert (await unavailable(server)).message.endswith("answered 400, error: bad 2026 INFO [2Jquery")


async def test_of_a_long_warning_the_middle_is_left_out(server: Stub, caplog: pytest.LogCaptureFixture) -> None:
    server.behave = lambda handler: answer(handler, {**EMPTY, "warnings": ["x" * 100_000 + " store is down"]})
    assert (await screened(server)).message.endswith("store is down")
    assert max(len(record.getMessage()) for record in caplog.records) < 1000


async def test_a_date_without_its_zone_is_none(server: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    def zoneless(handler: BaseHTTPRequestHandler) -> None:
        monkeypatch.setattr(handler, "date_time_string", lambda *_: "Sat, 21 Nov 2026 12:00:00 -0000")
        answer(handler, EMPTY)

    server.behave = zoneless
    assert (await screened(server)).complete


async def test_silence_ends_with_the_timeout(server: Stub) -> None:
    server.behave = lambda _: (server.released.wait(30), None)[1]
    assert "did not answer within 0.2 s" in (await unavailable(server, timedelta(seconds=0.2))).message


async def test_an_answer_that_trickles_ends_with_the_timeout(server: Stub) -> None:
    """Each byte comes in time; the whole does not."""

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not server.released.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            pass

    server.behave = trickle
    assert "did not answer within 0.3 s" in (await unavailable(server, timedelta(seconds=0.3))).message


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_nobody_listens(scheme: str) -> None:
    """Then nobody asks for a certificate either."""
    async with PrometheusSource(PrometheusAccess(url=f"{scheme}://127.0.0.1:9")) as source:
        with pytest.raises(MetricsUnavailable, match=r"refused$"):
            await source.screen([QUESTION], NOW)


async def test_another_clock_is_noticed(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=server.url)) as source:
        with pytest.raises(MetricsUnavailable, match="300 s ahead of ours") as raised:
            await source.screen([QUESTION], NOW - timedelta(minutes=5))
    assert raised.value.reason is UnknownReason.STALE


async def test_a_time_without_a_zone_is_refused(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=server.url)) as source:
        with pytest.raises(ValueError, match="zone"):
            await source.screen([QUESTION], NOW.replace(tzinfo=None))


async def test_a_password_is_read_anew_and_sent_as_basic_authentication(server: Stub, tmp_path: Path) -> None:
    password = tmp_path / "password"
    access = PrometheusAccess(url=server.url, username="stoker", password_file=password)
    async with PrometheusSource(access) as source:
        for secret in ("first", "zwölf"):
            password.write_text(f"{secret}\n")
            await source.screen([QUESTION], NOW)
    sent = [base64.b64decode(headers["Authorization"].removeprefix("Basic ")) for _, headers, _ in server.requests]
    assert [pair.decode() for pair in sent] == ["stoker:first", "stoker:zwölf"]


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "abc\N{HORIZONTAL ELLIPSIS}def"])
async def test_a_token_that_is_none_is_said_and_not_sent(server: Stub, tmp_path: Path, content: str) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    async with PrometheusSource(PrometheusAccess(url=server.url, token_file=token)) as source:
        with pytest.raises(MetricsUnavailable, match="holds no token"):
            await source.screen([QUESTION], NOW)
    assert server.requests == []


async def test_the_tenant_travels_with_each_query(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=server.url, headers={"X-Scope-OrgID": "a|b"})) as source:
        await source.screen([QUESTION], NOW)
    ((_, headers, _),) = server.requests
    assert headers["X-Scope-OrgID"] == "a|b"


async def test_a_path_before_the_api_is_kept(server: Stub) -> None:
    async with PrometheusSource(PrometheusAccess(url=f"{server.url}/prometheus/")) as source:
        await source.screen([QUESTION], NOW)
    assert [path for path, _, _ in server.requests] == ["/prometheus/api/v1/query"]


@pytest.mark.parametrize("file", ["ca_file", "cert_file"])
async def test_a_certificate_that_is_missing_is_named(tmp_path: Path, file: str) -> None:
    missing = tmp_path / "missing.pem"
    given: dict[str, Any] = {"url": "https://127.0.0.1:9", file: missing}
    access = PrometheusAccess(**given)
    async with PrometheusSource(access) as source:
        with pytest.raises(MetricsUnavailable, match=str(missing)):
            await source.screen([QUESTION], NOW)


@pytest.mark.parametrize(
    "status, error",
    [
        (422, "query processing would load too many samples into memory in query execution"),
        (400, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution"),
        (
            422,
            "the query exceeded the maximum number of chunks (limit: 9 chunks) (err-mimir-max-chunks-per-query)",
        ),
        (422, "exceeded series limit: rpc error: limit 1000 violated (got 1001)"),
        (422, "cannot select more than -search.maxSamplesPerQuery=1000000000 samples; possible solutions: increase it"),
    ],
)
async def test_a_query_that_is_too_large_for_the_server_is_told_from_other_refusals(
    server: Stub, status: int, error: str
) -> None:
    """As Prometheus, Mimir, Thanos and VictoriaMetrics say it."""
    refusal = {"status": "error", "errorType": "execution", "error": error}
    server.behave = lambda handler: answer(handler, refusal, status)
    assert isinstance(await unavailable(server), LimitExceeded)
    server.behave = lambda handler: answer(handler, refusal | {"error": "query timed out"}, status)
    assert not isinstance(await unavailable(server), LimitExceeded)


async def test_victoriametrics_own_word_for_an_answer_in_part_is_understood(server: Stub) -> None:
    server.behave = lambda handler: answer(handler, EMPTY | {"isPartial": True})
    assert not (await screened(server)).complete
    server.behave = lambda handler: answer(handler, EMPTY | {"isPartial": False})
    assert (await screened(server)).complete


async def test_an_older_servers_remark_on_the_querys_style_is_no_warning(server: Stub) -> None:
    remark = "PromQL info: metric might not be a counter, name does not end in _total"
    server.behave = lambda handler: answer(handler, EMPTY | {"warnings": [remark]})
    assert (await screened(server)).complete


@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_not_let_in_is_told_so(server: Stub, status: int) -> None:
    server.behave = lambda handler: answer(handler, b"Unauthorized\n", status)
    assert "credentials" in (await unavailable(server)).message


async def test_a_job_is_looked_at_within_a_budget_of_queries(server: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses every size is not asked for ever."""
    refusal = {"status": "error", "errorType": "execution", "error": "too many samples"}
    server.behave = lambda handler: answer(handler, refusal, 422)
    started = NOW - timedelta(days=20)
    pod = PodFacts(name="a", uid="a", rank=0, gpus=8, started_at=started)
    job = JobFacts(namespace="team", name="a", uid="a", nodes=1, gpus_per_node=8, pods=(pod,))
    async with PrometheusSource(PrometheusAccess(url=server.url), max_skew=None) as source:
        with pytest.raises(LimitExceeded):
            await source.series(job, started, NOW, timedelta(seconds=30))
        assert len(server.requests) <= MAX_QUERIES
        monkeypatch.setattr("stoker.adapters.prometheus.series.MAX_QUERIES", 4)
        with pytest.raises(MetricsUnavailable, match="within 4 queries"):
            await source.series(job, started, NOW, timedelta(seconds=30))


class RecordingObserver:
    """A QueryObserver that remembers."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, str | None]] = []

    def queried(self, kind: str, seconds: float, failure: str | None) -> None:
        assert seconds > 0
        self.queries.append((kind, failure))


async def test_the_observer_is_told_what_each_query_was_for_and_why_it_failed(server: Stub) -> None:
    observer, pod = (
        RecordingObserver(),
        PodFacts(name="bert-0", uid="u", rank=0, gpus=1, started_at=NOW - timedelta(hours=1)),
    )
    facts = JobFacts(namespace="team", name="bert", uid="j", nodes=1, gpus_per_node=1, pods=(pod,))
    async with PrometheusSource(PrometheusAccess(url=server.url), observer=observer) as source:
        await source.screen([QUESTION], NOW)
        assert set(observer.queries) == {("screen", None)}
        observer.queries.clear()
        server.behave = lambda handler: answer(handler, b"no", status=503)
        with pytest.raises(MetricsUnavailable):
            await source.series(facts, NOW - timedelta(hours=1), NOW, timedelta(seconds=30))
    assert set(observer.queries) == {("examination", "PrometheusUnavailable")}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "with spaces"])
async def test_samples_come_as_arrays_whatever_stands_in_labels(server: Stub, separators: tuple[str, str]) -> None:
    rows = [
        {"metric": {"pod": 'x"values":[[1,"2"]]'}, "values": [[30, "0.5"], [60.5, "NaN"], [90, "+Inf"]]},
        {"metric": {"pod": "none"}, "values": []},
        {"metric": {"pod": "last"}, "values": [[90, "1e+06"]]},
    ]
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": rows}}, separators=separators)
    server.behave = lambda handler: answer(handler, body.encode())
    connection = PrometheusConnection(PrometheusAccess(url=server.url), max_skew=None)
    read = await connection.range("up", 30, 90, 30)
    await connection.close()
    assert [row["metric"]["pod"] for row in read] == ['x"values":[[1,"2"]]', "none", "last"]
    assert repr(read[0]["values"].tolist()) == "[[30.0, 0.5], [60.5, nan], [90.0, inf]]"
    assert [row["values"].shape for row in read[1:]] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("values", [b'[[30,"one"]]', b"[[30]]", b"[[30,null]]", b"7", b"null", b'"x"', b'[[30,"1"]'])
async def test_samples_that_are_none_are_no_answer(server: Stub, values: bytes) -> None:
    body = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":%s}]}}' % values
    server.behave = lambda handler: answer(handler, body)
    connection = PrometheusConnection(PrometheusAccess(url=server.url), max_skew=None)
    with pytest.raises(MetricsUnavailable, match="answered"):
        await connection.range("up", 30, 90, 30)
    await connection.close()
