"""What whoever connects can take of the server: connections, time, memory, reviews; and who is answered at all."""

import asyncio
import gzip
import io
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import pytest

from e2e.cluster.pki import CertificateAuthority, write_private
from stoker.adapters.http.listener import Limits
from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse
from stoker.admission.metrics import AdmissionMetrics
from stoker.admission.response_cache import ResponseCache
from stoker.admission.server import AdmissionServer, ServerSettings
from stoker.cluster.view import ClusterView
from tests.admission.conftest import allow, serving
from tests.admission.malformed_reviews import OBJECT, review
from tests.certificates.authority import Authority

JSON = {"Content-Type": "application/json"}
HEAD = (
    b"POST /validate/dljobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
SOMEBODY = ("127.0.0.2", 0)
"""An address of its own for who is not the API server."""


def body(document: object) -> io.BytesIO:
    return io.BytesIO(orjson.dumps(document))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def ask(server: AdmissionServer, client: aiohttp.ClientSession, document: object) -> tuple[int, str | None]:
    """Status and Retry-After of a review."""
    url = f"https://localhost:{server.port}/validate/dljobs"
    async with client.post(url, data=body(document), headers=JSON) as response:
        await response.read()
        return response.status, response.headers.get("Retry-After")


class Connections:
    """What a client opens and leaves open."""

    def __init__(self, authority: Authority) -> None:
        self._context = authority.client_context()
        self.open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Connections":
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self.open:
            writer.transport.abort()

    async def begin(self, port: int, sent: bytes, *, source: tuple[str, int] | None = None) -> asyncio.StreamReader:
        """Connect, send that much and wait."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=self._context, server_hostname="localhost", local_addr=source
        )
        self.open.append(writer)
        writer.write(sent)
        return reader


def limited(settings: ServerSettings, **limits: float | int) -> ServerSettings:
    return replace(settings, limits=Limits(**limits))  # type: ignore[arg-type]  # numbers by name


@pytest.mark.parametrize("sent", [b"", b"POST /validate/dljobs HTTP/1.1\r\nHost: l"], ids=["nothing", "half a header"])
async def test_a_connection_that_sends_no_request_is_closed(
    settings: ServerSettings, authority: Authority, sent: bytes
) -> None:
    async with serving(limited(settings, header_timeout=0.05)) as server, Connections(authority) as somebody:
        reader = await somebody.begin(server.port, sent)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        await until(lambda: server.connections == 0)


async def test_a_second_request_on_a_connection_has_to_come_in_time_as_well(
    settings: ServerSettings, authority: Authority
) -> None:
    content = orjson.dumps(review())
    async with serving(limited(settings, header_timeout=0.2)) as server, Connections(authority) as somebody:
        reader = await somebody.begin(server.port, HEAD % len(content) + content)
        assert b"200 OK" in await reader.readline()
        await reader.readuntil(b"}}")
        somebody.open[0].write(b"POST /validate/dl")
        await until(lambda: server.connections == 0)


async def test_a_connection_without_a_handshake_is_closed(settings: ServerSettings) -> None:
    async with serving(limited(settings, handshake_timeout=0.05)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            await until(lambda: server.connections == 1)
            await until(lambda: server.connections == 0)
            silent.setblocking(False)
            async with asyncio.timeout(10):
                with suppress(ConnectionError):
                    assert await asyncio.get_running_loop().sock_recv(silent, 10) == b""


@pytest.mark.parametrize("kind", ["handshake", "headers", "body"])
async def test_who_holds_all_connections_loses_them_to_others(
    settings: ServerSettings, authority: Authority, client: aiohttp.ClientSession, kind: str
) -> None:
    """The table never has more than its places, and the API server always gets one."""
    sent = {"headers": b"POST ", "body": HEAD % 1000 + b"{"}
    async with serving(limited(settings, connections=20)) as server, Connections(authority) as somebody:
        silent: list[socket.socket] = []
        for _ in range(30):
            if kind == "handshake":
                silent.append(socket.create_connection(("127.0.0.1", server.port), source_address=SOMEBODY))
            else:
                await somebody.begin(server.port, sent[kind], source=SOMEBODY)
        await until(lambda: server.connections == 20)
        for _ in range(5):
            async with asyncio.timeout(10):
                assert (await ask(server, client, review()))[0] == 200
            assert server.connections <= 20
        for one in silent:
            one.close()


async def test_a_connection_whose_review_is_at_work_is_not_closed_for_others(
    settings: ServerSettings, authority: Authority
) -> None:
    entered, release = asyncio.Semaphore(0), asyncio.Event()

    async def slow(request: AdmissionRequest) -> AdmissionResponse:
        entered.release()
        await release.wait()
        return await allow(request)

    content = orjson.dumps(review())
    async with serving(limited(settings, connections=3), slow) as server, Connections(authority) as clients:
        readers = [await clients.begin(server.port, HEAD % len(content) + content) for _ in range(3)]
        for _ in readers:
            await entered.acquire()
        with suppress(ConnectionError, ssl.SSLError):
            await clients.begin(server.port, b"", source=SOMEBODY)
        release.set()
        for reader in readers:
            assert b"200 OK" in await asyncio.wait_for(reader.readline(), 10)


async def test_large_bodies_take_turns_and_small_ones_do_not_wait_for_them(
    settings: ServerSettings, authority: Authority, client: aiohttp.ClientSession
) -> None:
    two = replace(settings, large_bodies=2, room_timeout=0.05, read_timeout=60)
    large = review(new=OBJECT | {"padding": "x" * two.small_body})
    async with serving(two) as server:
        async with Connections(authority) as somebody:
            for _ in range(2):
                await somebody.begin(server.port, HEAD % two.max_body + b"{")
            async with asyncio.timeout(30):
                while (answer := await ask(server, client, large))[0] == 200:
                    await asyncio.sleep(0.001)
            assert answer == (503, "1")
            assert (await ask(server, client, review()))[0] == 200
        async with asyncio.timeout(30):
            while (await ask(server, client, large))[0] != 200:
                await asyncio.sleep(0.001)


async def test_too_many_reviews_at_a_time_are_to_be_asked_again(
    settings: ServerSettings, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    entered, release = asyncio.Semaphore(0), asyncio.Event()
    metrics = AdmissionMetrics(ClusterView().in_force, ResponseCache())

    async def slow(request: AdmissionRequest) -> AdmissionResponse:
        entered.release()
        await release.wait()
        return await allow(request)

    async with serving(replace(settings, max_reviews=2), slow, metrics.refused) as server:
        pending = [asyncio.create_task(ask(server, client, review())) for _ in range(2)]
        for _ in pending:
            await entered.acquire()
        for _ in range(3):
            assert await ask(server, client, review()) == (503, "1")
        assert sum("503" in message for message in caplog.messages) == 1
        assert metrics.registry.get_sample_value("stoker_admission_refused_total") == 3
        release.set()
        assert [await one for one in pending] == [(200, None)] * 2
        assert (await ask(server, client, review()))[0] == 200


async def test_a_packed_body_is_not_unpacked(settings: ServerSettings, client: aiohttp.ClientSession) -> None:
    async with serving(settings) as server:
        packed = io.BytesIO(gzip.compress(orjson.dumps(review())))
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=packed, headers=JSON | {"Content-Encoding": "gzip"}) as response:
            assert response.status == 400


async def test_a_body_of_unknown_length_is_refused(settings: ServerSettings, authority: Authority) -> None:
    async with serving(settings) as server, Connections(authority) as somebody:
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        reader = await somebody.begin(server.port, head + b"1\r\n{\r\n")
        assert b" 411 " in await asyncio.wait_for(reader.readline(), 10)


async def test_headers_without_end_are_refused(settings: ServerSettings, authority: Authority) -> None:
    async with serving(settings) as server, Connections(authority) as somebody:
        many = b"".join(b"X-%d: 1\r\n" % number for number in range(1000))
        reader = await somebody.begin(server.port, b"POST /validate/dljobs HTTP/1.1\r\n" + many)
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 10)


async def test_the_log_does_not_grow_with_what_is_refused(
    settings: ServerSettings,
    client: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stoker.admission.server.LOGGED_A_MINUTE", 5)
    async with serving(settings) as server:
        for _ in range(50):
            async with client.post(f"https://localhost:{server.port}/elsewhere", data=b"") as response:
                assert response.status == 404
    lines = [record.getMessage() for record in caplog.records if record.name == "stoker.admission.server"]
    # A minute may end meanwhile, and the next one begin.
    assert len([line for line in lines if line.startswith("Refused")]) <= 2 * 5
    assert any("further ones are not logged" in line for line in lines)


# ------------------------------------------------------------------------------------------------ clients' certificates


class Clients:
    """An authority for clients, and contexts that show its certificates to the server."""

    def __init__(self, folder: Path, server: Authority) -> None:
        self._folder, self._server = folder, server
        self._trusted, self._other = CertificateAuthority("api-server-clients"), CertificateAuthority("somebody")
        self.ca = write_private(folder / "client-ca.crt", self._trusted.pem)

    def context(self, name: str | None, *, trusted: bool = True) -> ssl.SSLContext:
        context = self._server.client_context()
        if name is not None:
            certificate, key = (self._trusted if trusted else self._other).issue_client(name)
            context.load_cert_chain(
                write_private(self._folder / "client.crt", certificate), write_private(self._folder / "client.key", key)
            )
        return context

    async def status(self, server: AdmissionServer, name: str | None, *, trusted: bool = True) -> int:
        connector = aiohttp.TCPConnector(ssl=self.context(name, trusted=trusted))
        async with aiohttp.ClientSession(connector=connector) as client:
            return (await ask(server, client, review()))[0]


@pytest.fixture
def clients(tmp_path: Path, authority: Authority) -> Clients:
    return Clients(tmp_path, authority)


async def test_with_a_client_ca_only_its_clients_are_answered(settings: ServerSettings, clients: Clients) -> None:
    async with serving(replace(settings, client_ca=clients.ca)) as server:
        assert await clients.status(server, "kube-apiserver") == 200
        for name in (None, "kube-apiserver"):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await clients.status(server, name, trusted=False)


async def test_with_client_names_others_of_the_same_authority_are_refused(
    settings: ServerSettings, clients: Clients
) -> None:
    named = replace(settings, client_ca=clients.ca, client_names=frozenset({"kube-apiserver"}))
    async with serving(named) as server:
        assert await clients.status(server, "kube-apiserver") == 200
        assert await clients.status(server, "somebody") == 403


def test_a_client_ca_that_is_none_is_an_error_at_the_start(settings: ServerSettings, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.crt"
    nonsense.write_text("no certificate")
    for path in (nonsense, tmp_path / "missing"):
        with pytest.raises(OSError, match=r"no certificate|No such file|NO_CERTIFICATE|no certificate or crl"):
            serving(replace(settings, client_ca=path))
