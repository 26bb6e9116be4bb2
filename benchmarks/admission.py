"""How much of a review's time is the review: the admission server with its rules against the same server allowing all.

    python benchmarks/admission.py [--seconds 5] [--connections 8]

One process serves over TLS, another one asks over kept connections, as the API server does; both kinds of answer are
measured in turns within the same run, so that their ratio means something on any machine.
"""

import argparse
import asyncio
import io
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from stoker.handlers.admission import warm_up
from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer
from stoker.handlers.cluster_view import ClusterView
from stoker.handlers.job_review import JobReviewer
from stoker.handlers.review_pool import ReviewPool
from stoker.handlers.server import AdmissionServer, Reviewer, Route, ServerSettings
from tests.handlers.certificates import Authority
from tests.handlers.malformed_reviews import OBJECT, review

SCRIPTS = {
    "short script": OBJECT["spec"]["script"],
    "64 KiB script": 'for step in 1 2 3; do echo "$step" | tee -a log; done\n' * 1180 + "torchrun train.py\n",
}
TURNS = 3


async def allow(_: AdmissionRequest) -> Answer:
    """What everything is compared with."""
    return ALLOWED


async def serve(folder: Path, threads: int, ready: Any) -> None:
    """Serve both kinds of answer on two ports until killed."""
    view = ClusterView()
    view.namespaces.listed([{"metadata": {"name": "team", "resourceVersion": "1"}}], 1)
    view.policies.listed([], 1)
    warm_up()
    async with serving(folder, allow) as trivial:
        reviewer = JobReviewer(view, ReviewPool(threads), lambda: datetime.now(UTC))
        async with serving(folder, reviewer) as real:
            ready.send((trivial.port, real.port))
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(folder: Path, reviewer: Reviewer) -> AsyncIterator[AdmissionServer]:
    """A server on any port of loopback."""
    settings = ServerSettings(address="127.0.0.1", port=0, certificate_folder=folder)
    route = Route(path="/validate/dljobs", group="stoker.dev", resource="dljobs", reviewer=reviewer)
    async with AdmissionServer(settings, [route]) as server:
        yield server


async def ask(port: int, body: bytes, authority: Authority, seconds: float, connections: int) -> list[float]:
    """Ask as fast as answers come; the times of all answers, in seconds."""
    times: list[float] = []
    connector = aiohttp.TCPConnector(ssl=authority.client_context(), limit=connections)
    async with aiohttp.ClientSession(connector=connector, headers={"Content-Type": "application/json"}) as session:
        end = time.perf_counter() + seconds

        async def one() -> None:
            while (start := time.perf_counter()) < end:
                url = f"https://localhost:{port}/validate/dljobs"
                async with session.post(url, data=io.BytesIO(body)) as response:
                    response.raise_for_status()
                    await response.read()
                times.append(time.perf_counter() - start)

        await asyncio.gather(*(one() for _ in range(connections)))
    return times


def shown(name: str, times: list[float], seconds: float) -> str:
    """One line of the table."""
    cuts = statistics.quantiles(times, n=1000)
    figures = f"{cuts[499] * 1e3:9.2f} {cuts[989] * 1e3:9.2f} {cuts[998] * 1e3:9.2f}"
    return f"  {name:24} {len(times) / seconds:9.0f} {figures}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each of the measurements")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2, help="review threads of the server")
    options = parser.parse_args()
    authority = Authority()
    with tempfile.TemporaryDirectory() as folder:
        authority.issue(Path(folder))
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("fork").Process(
            target=lambda: asyncio.run(serve(Path(folder), options.threads, there)), daemon=True
        )
        server.start()
        ports = here.recv()
        for title, script in SCRIPTS.items():
            body = json.dumps(review(new=OBJECT | {"spec": OBJECT["spec"] | {"script": script}})).encode()
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(TURNS):
                for port, measured in zip(ports, times, strict=True):
                    part = options.seconds / TURNS
                    measured += asyncio.run(ask(port, body, authority, part, options.connections))
            print(f"{title}, {len(body):,} bytes, {options.connections} connections")
            print(f"  {'':24} {'req/s':>9} {'p50 ms':>9} {'p99 ms':>9} {'p99.9 ms':>9}")
            print(shown("allow everything", times[0], options.seconds))
            print(shown("review", times[1], options.seconds))
            print(f"  throughput of the review: {len(times[1]) / len(times[0]):.0%} of allowing everything\n")
        server.kill()


if __name__ == "__main__":
    main()
