"""What a notebook server says of its use: a real jupyter_server with a real kernel, and servers that lie."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import pytest
from aiohttp import web

from e2e.cluster.ports import PortReservations
from e2e.cluster.waiting import wait_for
from stoker.adapters import jupyter as adapter
from stoker.adapters.jupyter import MAX_ANSWER, Jupyter, Server, Unreadable, Use

LOOPBACK = ip_address("127.0.0.1")
TOKEN = "a-token-of-this-test"
AT_WORK, OPEN = "a kernel of its Jupyter is at work", "a notebook is open"
STATES = ("starting", "busy", "restarting")


# ------------------------------------------------------------------------------------------------------ the real server


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """jupyter_server under a base URL, on loopback; started as in a pod. It may take its time: the machine is busy."""
    with pytest.MonkeyPatch.context() as patience:
        patience.setattr(adapter, "TIMEOUT", 60.0)
        yield from _started(tmp_path_factory)


def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("jupyter")
    started = datetime.now(UTC)
    ports = PortReservations()
    port = ports.reserve()
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyter_server", f"--port={port}", "--ip=127.0.0.1", "--no-browser"),
            *(f"--IdentityProvider.token={TOKEN}", "--ServerApp.base_url=/user/ann", "--allow-root"),
            f"--ServerApp.root_dir={folder}",
        ],
        env={**os.environ, "HOME": str(folder), "JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_NO_CONFIG": "1"},
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
    log.close()
    server = Server(address=LOOPBACK, port=port, base="/user/ann", token=TOKEN, started=started)
    try:
        wait_for("jupyter_server", lambda: _ask(server, "GET", "/api/status"), timeout=120)
        yield server
    finally:
        process.terminate()
        process.wait(60)
        ports.release()


def _ask(server: Server, method: str, path: str) -> Any:
    url = f"http://127.0.0.1:{server.port}{server.base}{path}"
    request = Request(url, method=method, headers={"Authorization": f"token {server.token}"})
    with urlopen(request, timeout=60) as response:
        content = response.read()
    return json.loads(content) if content else None


async def used(server: Server, now: datetime | None = None) -> Use:
    async with Jupyter() as jupyter:
        return await jupyter.use(server, now or datetime.now(UTC))


async def until(server: Server, probe: Callable[[Use], bool]) -> Use:
    """Ask until it says this."""
    async with asyncio.timeout(120), Jupyter() as jupyter:
        while True:
            use = await jupyter.use(server, datetime.now(UTC))
            if probe(use):
                return use
            await asyncio.sleep(0.05)


async def test_a_real_server_tells_of_its_kernels_and_of_what_is_open_and_asking_is_no_use_of_it(real: Server) -> None:
    _ask(real, "GET", "/api/contents")
    before = await used(real)
    assert before.busy is None
    assert real.started <= before.last_activity <= datetime.now(UTC)
    assert (await used(real)).last_activity == before.last_activity, "asking counts as no activity"

    kernel = _ask(real, "POST", "/api/kernels")["id"]
    assert (await used(real)).busy == AT_WORK, "it is starting, until somebody connects"
    header = {"msg_id": "1", "msg_type": "execute_request", "username": "ann", "session": "s", "version": "5.3"}
    message = {
        "header": {**header, "date": "2026-11-21T12:00:00Z"},
        "parent_header": {},
        "metadata": {},
        "content": {"code": "import time; time.sleep(3600)", "silent": False},
        "channel": "shell",
        "buffers": [],
    }
    url = f"http://127.0.0.1:{real.port}/user/ann/api/kernels/{kernel}/channels"
    headers = {"Authorization": f"token {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.ws_connect(url):
            await until(real, lambda use: use.busy == OPEN)
        idle = await until(real, lambda use: use.busy is None)
        assert idle.last_activity > before.last_activity
        async with session.ws_connect(url) as socket:
            await socket.send_json(message)
            working = await until(real, lambda use: use.busy == AT_WORK)
    assert (await used(real)).busy == AT_WORK, "nobody is connected any more, and the cell still runs"
    _ask(real, "DELETE", f"/api/kernels/{kernel}")
    assert (await until(real, lambda use: use.busy is None)).last_activity >= working.last_activity


@pytest.mark.parametrize("token", [None, "", "another"])
async def test_a_real_server_that_wants_another_token_says_nothing(real: Server, token: str | None) -> None:
    with pytest.raises(Unreadable, match=r"requires a token that Stoker does not have \(HTTP 403\)"):
        await used(replace(real, token=token))


async def test_a_real_server_under_another_base_url_says_nothing(real: Server) -> None:
    with pytest.raises(Unreadable, match="answers with HTTP 404"):
        await used(replace(real, base="/user/bob"))


# ---------------------------------------------------------------------------------------------------- servers that lie

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DATE = format_datetime(NOW, usegmt=True)
STATUS = {"started": "2026-11-21T08:00:00Z", "last_activity": "2026-11-21T09:00:00.5Z", "connections": 0, "kernels": 1}
KERNEL = {"id": "k", "name": "python3", "last_activity": "2026-11-21T09:00:00Z", "execution_state": "idle"}
KERNELS = [{**KERNEL, "connections": 0}]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Server]:
    """A server of one's own at any path."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        started = NOW - timedelta(hours=4)
        yield Server(address=LOOPBACK, port=runner.addresses[0][1], base="", token="t", started=started)
    finally:
        await runner.cleanup()


def telling(status: Any = STATUS, kernels: Any = KERNELS, *, date: str | None = DATE) -> Handler:
    """Answers as Jupyter does, with these documents."""

    async def handle(request: web.Request) -> web.Response:
        document = status if request.path.endswith("/status") else kernels
        response = web.json_response(document)
        if date is not None:
            response.headers["Date"] = date
        return response

    return handle


async def test_the_latest_of_all_times_counts() -> None:
    async with serving(telling()) as server:
        assert await used(server, NOW) == Use(last_activity=datetime(2026, 11, 21, 9, 0, 0, 500_000, tzinfo=UTC))
    later = [{**KERNELS[0], "last_activity": "2026-11-21T12:30:00+01:00"}]
    async with serving(telling(kernels=later)) as server:
        assert (await used(server, NOW)).last_activity == datetime(2026, 11, 21, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize("state", [*STATES, "unheard-of"])
async def test_a_kernel_in_any_state_but_rest_is_at_work(state: str) -> None:
    async with serving(telling(kernels=[*KERNELS, {**KERNELS[0], "execution_state": state}])) as server:
        assert (await used(server, NOW)).busy == AT_WORK


@pytest.mark.parametrize(
    "status, kernels",
    [({**STATUS, "connections": 2}, KERNELS), (STATUS, [{**KERNELS[0], "connections": 1}])],
    ids=["of the server", "of a kernel"],
)
async def test_a_connection_is_an_open_notebook(status: Any, kernels: Any) -> None:
    async with serving(telling(status, kernels)) as server:
        assert (await used(server, NOW)).busy == OPEN


NONSENSE: dict[str, tuple[Any, Any]] = {
    "a list": ([], KERNELS),
    "nothing": (None, KERNELS),
    "no time": ({**STATUS, "last_activity": None}, KERNELS),
    "a number for a time": ({**STATUS, "last_activity": 1763719200}, KERNELS),
    "a word for a time": ({**STATUS, "last_activity": "yesterday"}, KERNELS),
    "a time of no zone": ({**STATUS, "last_activity": "2026-11-21T09:00:00"}, KERNELS),
    "a time beyond all": ({**STATUS, "last_activity": "9999-12-31T23:59:59-23:00"}, KERNELS),
    "no count": ({**STATUS, "connections": "0"}, KERNELS),
    "a truth for a count": ({**STATUS, "connections": False}, KERNELS),
    "less than none": ({**STATUS, "connections": -1}, KERNELS),
    "kernels are an object": (STATUS, {}),
    "a kernel is a word": (STATUS, ["idle"]),
    "a kernel without a state": (STATUS, [{"last_activity": "2026-11-21T09:00:00Z", "connections": 0}]),
    "a state that is none": (STATUS, [{**KERNELS[0], "execution_state": None}]),
}


@pytest.mark.parametrize("status, kernels", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_not_understood(status: Any, kernels: Any) -> None:
    async with serving(telling(status, kernels)) as server:
        with pytest.raises(Unreadable, match="not from Jupyter"):
            await used(server, NOW)


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00Z", "2026-11-21T07:00:00Z", "2026-11-21T12:02:00Z"])
@pytest.mark.parametrize("where", ["server", "kernel"])
async def test_a_time_before_the_start_or_to_come_says_nothing(time: str, where: str) -> None:
    status = {**STATUS, "last_activity": time} if where == "server" else STATUS
    kernels = [{**KERNELS[0], "last_activity": time}] if where == "kernel" else KERNELS
    async with serving(telling(status, kernels)) as server:
        with pytest.raises(Unreadable, match="a time before its start or in the future"):
            await used(server, NOW)


@pytest.mark.parametrize(
    "date, why",
    [
        (format_datetime(NOW + timedelta(minutes=2), usegmt=True), "its clock is off"),
        (format_datetime(NOW - timedelta(minutes=2), usegmt=True), "its clock is off"),
        ("Thu, 01 Jan 1970 00:00:00 GMT", "its clock is off"),
        ("noon", "does not report its time"),
        ("Sat, 21 Nov 2026 12:00:00", "does not report its time"),
    ],
)
async def test_another_clock_says_nothing(date: str, why: str) -> None:
    async with serving(telling(date=date)) as server:
        with pytest.raises(Unreadable, match=why):
            await used(server, NOW)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere", "Date": DATE})

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match=f"answers with HTTP {status}"):
            await used(server, NOW)
    assert asked == ["/api/status"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503, 204])
async def test_a_refusal_says_nothing(status: int) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Date": DATE})

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match=str(status)):
            await used(server, NOW)


async def test_an_endless_answer_is_read_no_further_than_its_limit() -> None:
    sent = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Date": DATE})
        await response.prepare(request)
        while True:
            await response.write(b"[" * 65536)
            sent += 65536

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match="too long"):
            await used(server, NOW)
    assert sent < 100 * MAX_ANSWER


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"<html>Sign in</html>"],
    ids=["empty", "cut", "bytes", "deep", "html"],
)
async def test_what_is_no_json_is_not_understood(body: bytes) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Date": DATE})

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match="not from Jupyter"):
            await used(server, NOW)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    async def handle(_: web.Request) -> web.Response:
        response = web.json_response(STATUS, headers={"Date": DATE})
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match="not from Jupyter"):
            await used(server, NOW)


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "TIMEOUT", 0.2)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Date": DATE})
        await response.prepare(request)
        while True:  # trickles: no read of it ever waits long
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with serving(handle) as server:
        with pytest.raises(Unreadable, match="does not answer in time"):
            await used(server, NOW)


async def test_where_nothing_listens_nothing_is_said() -> None:
    async with serving(telling()) as server:
        pass
    with pytest.raises(Unreadable, match=r"can't be asked \(ClientConnectorError\)"):
        await used(server, NOW)


async def test_the_token_goes_to_the_server_alone_and_into_no_message() -> None:
    shown: list[str | None] = []

    async def handle(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization"))
        return web.Response(status=500, body=b"secret")

    async with serving(handle) as server:
        secret = replace(server, token="do-not-tell")
        with pytest.raises(Unreadable) as told:
            await used(secret, NOW)
        with pytest.raises(Unreadable) as broken:
            await used(replace(server, token="do-not\r\nX-Tell: 1"), NOW)
    assert shown == ["token do-not-tell"]
    assert "do-not" not in f"{told.value}{broken.value}{secret!r}"
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "body",
    [b"HTTP/1.1 200 OK\r\nDate: x\r\n" + b"X: y\r\n" * 5000, b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00" * 64],
    ids=["endless headers", "ssh", "zeros"],
)
async def test_what_speaks_no_http_says_nothing(body: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(body)
        writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        with pytest.raises(Unreadable, match="can't be asked"):
            await used(Server(address=LOOPBACK, port=port, base="", started=NOW), NOW)
