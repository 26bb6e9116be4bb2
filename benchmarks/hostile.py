"""How long a bystander waits at the door while somebody else submits the worst that can be submitted.

    python -m benchmarks.hostile [--seconds 10] [--workers 2]

The real webhook serves over TLS on loopback, in a process of its own with its worker processes. A bystander submits a
job with a wrong launch once every 0.2 s, from a namespace of his own; it must be refused, each time. Beside it, nobody,
one or fifty clients of another namespace submit hostile jobs without a pause. What is printed: the bystander's latency,
how many of his jobs were judged rightly, and the memory of the webhook's main process and of its largest worker.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from stoker.adapters.workers import Workers
from stoker.admission import judgement
from stoker.admission.job_review import JobReviewer
from stoker.admission.server import AdmissionServer, Route, ServerSettings
from stoker.cluster.view import ClusterView
from tests.admission.malformed_reviews import OBJECT, review
from tests.certificates.authority import Authority

WRONG = "torchrun --nproc_per_node=4 train.py\n"
COSTLY = "parallel " + "{} " * 19_000
LONG_WORDS = "x=" + "a," * 15_000 + "\n" + "a $x\n" * 5_000
TIMEOUT = 5
"""Seconds: the chart's timeoutSeconds."""


def with_init_containers(number: int) -> dict[str, Any]:
    """A job with so many init containers of costly scripts."""
    containers = [
        {"name": f"i{index}", "image": "a.example/b:1", "command": ["bash", "-c", COSTLY]} for index in range(number)
    ]
    return {"script": WRONG, "podTemplate": {"spec": {"initContainers": containers}}}


LOADS: dict[str, tuple[int, dict[str, Any]]] = {
    "nobody": (0, {}),
    "one costly script": (1, {"script": COSTLY}),
    "one, long words": (1, {"script": LONG_WORDS}),
    "one, 4 init containers": (1, with_init_containers(4)),
    "fifty, 4 init containers": (50, with_init_containers(4)),
}


async def serve(folder: Path, workers: int) -> None:
    """The webhook; prints its port."""
    view = ClusterView()
    for name in ("team", "hostile"):
        view.namespaces.watched(None, {"metadata": {"name": name, "resourceVersion": "1"}})
    async with Workers(workers, warm_up=judgement.warm_up, modules=[judgement.__name__]) as pool:
        reviewer = JobReviewer(view, pool, lambda: datetime.now(UTC))
        settings = ServerSettings(address="127.0.0.1", port=0, certificate_folder=folder)
        route = Route(path="/validate/dljobs", group="stoker.dev", resource="dljobs", reviewer=reviewer)
        async with AdmissionServer(settings, [route]) as server:
            await pool.ready()
            print(server.port, flush=True)
            await asyncio.Event().wait()


def serve_for_ever(folder: str, workers: int) -> None:
    """The whole process of the webhook."""
    asyncio.run(serve(Path(folder), workers))


class Client:
    """Submits jobs, as the API server asks for them to be reviewed."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"https://localhost:{port}/validate/dljobs?timeout={TIMEOUT}s"

    async def submit(self, namespace: str, spec: dict[str, Any]) -> str:
        """How it ended: denied, allowed, or the error."""
        new = {**OBJECT, "metadata": {"name": "bert", "namespace": namespace}, "spec": {**OBJECT["spec"], **spec}}
        body = json.dumps(review(new=new, namespace=namespace)).encode()
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            ) as answer:
                if answer.status != 200:
                    return f"HTTP {answer.status}"
                response = (await answer.json())["response"]
                return "allowed" if response["allowed"] else "denied"
        except (TimeoutError, aiohttp.ClientError) as error:
            return type(error).__name__


async def measure(client: Client, clients: int, spec: dict[str, Any], seconds: float) -> tuple[list[float], list[str]]:
    """The bystander's latencies, and how each of his jobs ended."""

    async def flood() -> None:
        while True:
            await client.submit("hostile", spec)

    floods = [asyncio.create_task(flood()) for _ in range(clients)]
    latencies: list[float] = []
    ends: list[str] = []
    await asyncio.sleep(0.5)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        ends.append(await client.submit("team", {"script": WRONG}))
        latencies.append(time.monotonic() - begun)
        await asyncio.sleep(0.2)
    for one in floods:
        one.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    return latencies, ends


def peaks(pid: int) -> tuple[int, int]:
    """MiB that the process has held at most, and the largest of those that it started now."""
    found: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, KeyError, ValueError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            ancestor = int(fields["PPid"])
            found[int(status.parent.name)] = int(fields["VmHWM"].split()[0]) // 1024
            if ancestor != pid and int(status.parent.name) != pid and not _descends(ancestor, pid):
                del found[int(status.parent.name)]
    return found.pop(pid), max(found.values(), default=0)


def _descends(process: int, ancestor: int) -> bool:
    """Whether a process was started by another one, or by what that started."""
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@contextmanager
def webhook(folder: Path, workers: int) -> Iterator[tuple[int, int]]:
    """The webhook in a process of its own; its process id and port."""
    # Not as `-m benchmarks.hostile`, which every worker would import.
    code = "import sys; from benchmarks import hostile; hostile.serve_for_ever(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-c", code, str(folder), str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


async def run(folder: Path, authority: Authority, seconds: float, workers: int) -> None:
    """Measure under each load, each with a webhook of its own, and print."""
    print("| beside it | bystander's reviews | judged rightly | p50 | max | main, MiB | worker, MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, (clients, spec) in LOADS.items():
        with webhook(folder, workers) as (pid, port):
            connector = aiohttp.TCPConnector(ssl=authority.client_context(), limit=200)
            async with aiohttp.ClientSession(connector=connector) as session:
                latencies, ends = await measure(Client(session, port), clients, spec, seconds)
            main_peak, worker_peak = peaks(pid)
        median, most = statistics.median(latencies) * 1000, max(latencies) * 1000
        print(
            f"| {name} | {len(ends)} | {ends.count('denied')} | {median:.0f} ms | {most:.0f} ms | {main_peak} |"
            f" {worker_peak} |",
            flush=True,
        )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="under each load")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.machine()}, "
          f"Python {platform.python_version()}, {options.workers} workers\n")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority()
        authority.issue(Path(folder))
        asyncio.run(run(Path(folder), authority, options.seconds, options.workers))


if __name__ == "__main__":
    main()
