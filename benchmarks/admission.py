"""How long a submission waits at the door: Stoker's webhook beside a minimal one in Go, within the same run.

    python -m benchmarks.admission [--seconds 6]

Both serve over TLS and are asked over kept connections at a fixed rate, whether they have answered or not; a latency
counts from when its request was due (benchmarks/webhook/load). Every request has another script, so that the remembered
responses don't flatter; the lines "repeated" are of a script that is submitted again and again. The servers are
measured in turns, so that other work on the machine hits both.

The Go webhook decodes the review and its object and allows it (benchmarks/webhook/serve): the least that any webhook
does. "allow all" is Stoker's server with a reviewer that does the same: what is left of the difference is the review.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

from stoker.adapters.workers import Workers
from stoker.admission import judgement
from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from stoker.admission.job_review import JobReviewer
from stoker.admission.server import AdmissionServer, Reviewer, Route, ServerSettings
from stoker.cluster.view import ClusterView
from tests.admission.malformed_reviews import OBJECT, review
from tests.certificates.authority import Authority

HERE = Path(__file__).resolve().parent
TURNS = 2
SMALL = "torchrun --nproc_per_node=8 train.py --batch-size 32 --seed @NUMBER@\n"
SCRIPTS = {"small": SMALL, "200 lines": (HERE / "long.sh").read_text()}
SERVERS = ("Go", "allow all", "Stoker")
QUIET = 1
"""Requests per second that disturb nobody."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of every server, in turns."""

    rate: int
    script: str
    repeated: bool = False

    def __str__(self) -> str:
        return f"{self.script}{', repeated' if self.repeated else ''}"


LOADS = (
    Load(50, "small"),
    Load(300, "small"),
    Load(300, "small", repeated=True),
    Load(50, "200 lines"),
    Load(100, "200 lines"),
    Load(300, "200 lines"),
    Load(50, "200 lines", repeated=True),
    Load(300, "200 lines", repeated=True),
)


# ------------------------------------------------------------------------------------------------------------- servers


async def allow(_: AdmissionRequest) -> AdmissionResponse:
    """What the Go webhook answers."""
    return ALLOWED


async def serve(folder: Path, workers: int, ready: Connection) -> None:
    """Serve both kinds of answer on two ports until killed."""
    view = ClusterView()
    view.namespaces.watched(None, {"metadata": {"name": "team", "resourceVersion": "1"}})
    async with Workers(workers, warm_up=judgement.warm_up, modules=[judgement.__name__]) as pool:
        reviewer = JobReviewer(view, pool, lambda: datetime.now(UTC))
        async with serving(folder, allow) as trivial, serving(folder, reviewer) as real:
            await pool.ready()
            ready.send((trivial.port, real.port))
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(folder: Path, reviewer: Reviewer) -> AsyncIterator[AdmissionServer]:
    """A server on any port of loopback."""
    settings = ServerSettings(address="127.0.0.1", port=0, certificate_folder=folder)
    route = Route(path="/validate/dljobs", group="stoker.dev", resource="dljobs", reviewer=reviewer)
    async with AdmissionServer(settings, [route]) as server:
        yield server


@contextmanager
def stoker(folder: Path, workers: int) -> Iterator[dict[str, int]]:
    """Stoker's servers, in a process of their own; their ports."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(serve(folder, workers, there)))
    server.start()
    try:
        there.close()
        yield dict(zip(("allow all", "Stoker"), here.recv(), strict=True))
    finally:
        server.kill()


@contextmanager
def go(program: Path, folder: Path) -> Iterator[int]:
    """The Go webhook; its port."""
    command = [program, folder / "tls.crt", folder / "tls.key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


# ------------------------------------------------------------------------------------------------------- measurements


class Bench:
    """The servers' ports, the loader, and what it has measured, in milliseconds."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self._folder = folder
        self._ports = ports
        self._first = 0
        self.measured: dict[tuple[Load, str], list[float]] = {}
        self.unanalysed: Counter[Load] = Counter()
        self.refused: Counter[Load] = Counter()
        for name, script in SCRIPTS.items():
            body = review(new=OBJECT | {"spec": OBJECT["spec"] | {"script": script}})
            (folder / name).write_text(json.dumps(body))

    def measure(self, loads: list[Load], servers: tuple[str, ...], seconds: float) -> None:
        """Put loads on servers, all of them at once."""
        running = [(load, server, self._loader(load, server, seconds)) for load in loads for server in servers]
        for load, server, process in running:
            output, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"the load of {server} failed")
            measured = json.loads(output)
            self.measured.setdefault((load, server), []).extend(
                each / 1e3 for each in measured["latencies"] if each >= 0
            )
            self.unanalysed[load] += measured["unanalysed"]
            self.refused[load] += measured["refused"]

    def _loader(self, load: Load, server: str, seconds: float) -> "subprocess.Popen[bytes]":
        self._first += 1_000_000
        command = [
            str(self._folder / "load"),
            f"-url=https://localhost:{self._ports[server]}/validate/dljobs",
            f"-ca={self._folder / 'ca.crt'}",
            f"-body={self._folder / load.script}",
            f"-rate={load.rate}",
            f"-seconds={seconds}",
            f"-first={-1 if load.repeated else self._first}",
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE)


def percentile(values: list[float], percent: float) -> float:
    """The value that `percent` of them do not exceed; of few values the largest."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def table(bench: Bench) -> Iterator[str]:
    """The lines of the table."""
    yield "| requests/s | script | requests | not analysed | refused | | Go | allow all | Stoker | Stoker / Go |"
    yield "|---:|---|---:|---:|---:|---|---:|---:|---:|---:|"
    measured = bench.measured
    for load in dict.fromkeys(load for load, _ in measured):
        for name, percent in (("p50", 50.0), ("p99", 99.0)):
            cells = {server: percentile(measured[load, server], percent) for server in SERVERS}
            ratio = f"{cells['Stoker'] / cells['Go']:.1f}"
            count = len(measured[load, "Stoker"]) + bench.refused[load]
            figures = " | ".join(f"{cells[server]:.2f} ms" for server in SERVERS)
            shortfalls = f"{bench.unanalysed[load]} | {bench.refused[load]}"
            yield f"| {load.rate} | {load} | {count} | {shortfalls} | {name} | {figures} | {ratio} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="of each load on each server; the lowest rate longer"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that review")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subprocess.run(["go", "build", "-o", folder, "./..."], cwd=HERE / "webhook", check=True)
        authority = Authority()
        authority.issue(folder)
        (folder / "ca.crt").write_text(authority.pem)
        ports = {
            "Go": stack.enter_context(go(folder / "serve", folder)),
            **stack.enter_context(stoker(folder, options.workers)),
        }
        bench = Bench(folder, ports)
        # Once a second disturbs nobody: these run side by side.
        bench.measure([Load(QUIET, script) for script in SCRIPTS], SERVERS, options.seconds * 4)
        for load in LOADS:
            for _ in range(TURNS):
                for server in SERVERS:
                    bench.measure([load], (server,), options.seconds / TURNS)
        median = statistics.median(bench.measured[LOADS[0], "Go"])
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.machine()}, "
              f"Python {platform.python_version()}; Go's median at {LOADS[0].rate}/s: {median:.2f} ms\n")  # fmt: skip
        print("\n".join(table(bench)))


if __name__ == "__main__":
    main()
