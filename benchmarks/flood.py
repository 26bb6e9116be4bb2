"""What a flood of connections makes of the admission server: its memory, and how a review fares beside it.

    python -m benchmarks.flood [--connections 500] [--size 4000000] [--seconds 8] [--kind body|headers|handshake]

The server runs in a process of its own, with a reviewer that allows at once. So many connections are opened from an
address of their own (127.0.0.2); each sends `size` bytes of a body that it announced as longer by one, or half a
header, or no handshake, and waits; one that is closed is opened again. Beside them a review a quarter second is asked
from 127.0.0.1, each over a new connection, within 3 s, as the API server would.
"""

import argparse
import asyncio
import multiprocessing
import ssl
import statistics
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import orjson

from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from stoker.admission.process import warm_up
from stoker.admission.server import AdmissionServer, Route, ServerSettings
from tests.admission.malformed_reviews import review
from tests.certificates.authority import Authority

SOMEBODY = ("127.0.0.2", 0)
CHUNK = b"x" * 65_536
HEAD = (
    b"POST /validate/dljobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
PATIENCE = 3.0
PAUSE = 0.25


async def allow(_: AdmissionRequest) -> AdmissionResponse:
    """The least that a reviewer can do."""
    return ALLOWED


def serve(folder: str, told: Connection) -> None:
    """The server's process: tells its port and runs until it is ended."""

    async def run() -> None:
        settings = ServerSettings(address="127.0.0.1", port=0, certificate_folder=Path(folder), drain_delay=0)
        warm_up()
        routes = [Route(path="/validate/dljobs", group="stoker.dev", resource="dljobs", reviewer=allow)]
        async with AdmissionServer(settings, routes) as server:
            told.send(server.port)
            await asyncio.Event().wait()

    asyncio.run(run())


def resident(pid: int) -> int:
    """Megabytes in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024


async def flood(port: int, kind: str, size: int, context: ssl.SSLContext) -> None:
    """One connection after the other that takes what it can get."""
    while True:
        with suppress(OSError, ssl.SSLError, TimeoutError):
            if kind == "handshake":
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=SOMEBODY)
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=SOMEBODY)
            try:
                if kind == "body":
                    writer.write(HEAD % (size + 1))
                    for _ in range(size // len(CHUNK)):
                        writer.write(CHUNK)
                        await writer.drain()
                elif kind == "headers":
                    writer.write(HEAD[:60])
                while await reader.read(4096):
                    pass
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.05)


async def one_review(url: str, context: ssl.SSLContext) -> float | None:
    """Seconds that a review took over a new connection; None without an answer in time."""
    start = time.perf_counter()
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as client,
            client.post(
                url,
                data=orjson.dumps(review()),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=PATIENCE),
            ) as response,
        ):
            await response.read()
            return time.perf_counter() - start if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None


def attack(port: int, kind: str, size: int, connections: int) -> None:
    """The flood's own process: its work should not be taken for the server's."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(flood(port, kind, size, context))

    asyncio.run(run())


async def measure(url: str, context: ssl.SSLContext, pid: int, seconds: float) -> tuple[int, list[float | None]]:
    """The most megabytes seen, and what reviews took meanwhile."""
    most, took = 0, list[float | None]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        took.append(await one_review(url, context))
        most = max(most, resident(pid))
        await asyncio.sleep(PAUSE)
    return most, took


def main() -> None:
    """Run it once and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--size", type=int, default=4_000_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--kind", choices=["body", "headers", "handshake"], default="body")
    chosen = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority()
        authority.issue(Path(folder))
        ours, theirs = spawn.Pipe()
        server = spawn.Process(target=serve, args=(folder, theirs), daemon=True)
        server.start()
        port = ours.recv()
        assert server.pid is not None
        url, context = f"https://localhost:{port}/validate/dljobs", authority.client_context()
        asyncio.run(measure(url, context, server.pid, 1.0))
        before = resident(server.pid)
        attacker = spawn.Process(target=attack, args=(port, chosen.kind, chosen.size, chosen.connections), daemon=True)
        attacker.start()
        most, took = asyncio.run(measure(url, context, server.pid, chosen.seconds))
        attacker.terminate()
        server.terminate()
    answered = [one for one in took if one is not None]
    median = f"{statistics.median(answered):.3f} s" if answered else "-"
    print(
        f"{chosen.kind}, {chosen.connections} connections: {before} MB before, at most {most} MB;"
        f" {len(answered)} of {len(took)} reviews answered, median {median}"
    )


if __name__ == "__main__":
    main()
