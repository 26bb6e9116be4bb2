"""What one job's examination costs: reading its series out of Prometheus, and diagnosing them.

    python -m benchmarks.examination [--rounds 5] [--prometheus] [--against FOLDER]

The jobs are simulated ones made longer and wider: from one GPU for two hours to 64 pods for a day. Printed is the CPU
time of a diagnosis, the mean of several cases, the least of all rounds. With --prometheus the samples of one case are
written into a real Prometheus and read again by the adapter: CPU time of the reading and of the server, queries, and
bytes on the wire, by the server's own count.

--against names the source of another version, for instance a checkout's operator/src. Both versions then take turns, so
that they are measured on the same machine under the same load.
"""

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.examination.exported import exported
from benchmarks.examination.jobs import CASES, READ, SIZES, played
from benchmarks.prometheus import prometheus, served
from benchmarks.screening.history import push

ROOT = Path(__file__).parent.parent.parent
OWN = ROOT / "operator" / "src"


class Measured:
    """A process that measures one version."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.answer()

    def ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        print(question, file=self._process.stdin, flush=True)
        return self.answer()

    def answer(self) -> Any:
        """Raises SystemExit where the process has ended; it has said why."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the measured process ended")
        return json.loads(line)


@contextmanager
def measured(source: Path) -> Iterator[Measured]:
    """A process with the version in this folder."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.examination.timed"]
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Measured(process)
        finally:
            process.kill()


def diagnoses(versions: dict[str, Measured], rounds: int) -> None:
    """Print what a diagnosis takes."""
    times: dict[str, list[list[float]]] = {name: [] for name in versions}
    for _ in range(rounds):
        for name, version in versions.items():
            times[name].append(version.ask("diagnose"))
    print(f"\ndiagnosis, CPU ms, mean of {len(CASES)} cases, least of {rounds}")
    for number, size in enumerate(SIZES):
        best = [min(taken[number] for taken in times[name]) for name in versions]
        print(f"{size!s:22}" + "".join(f"{1000 * one:10.1f}" for one in best) + ratio(best))


def readings(versions: dict[str, Measured], rounds: int) -> None:
    """Print what reading a job takes, here and in Prometheus."""
    print(f"\nreading {READ}, least of {rounds}")
    for number, size in enumerate(SIZES):
        with tempfile.TemporaryDirectory() as name, prometheus(Path(name)) as url:
            facts, series, _ = played(READ, size)
            end = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
            shift = end.timestamp() - float(series.times[-1])
            push(url, exported(facts, series), series.times + shift)
            for version, process in versions.items():
                costs = []
                for _ in range(rounds):
                    before = served(url)
                    seconds = process.ask(f"read {number} {url} {end.timestamp()}")
                    after = served(url)
                    costs.append((seconds, *(now - then for now, then in zip(after, before, strict=True))))
                queries, megabytes = costs[-1][1], costs[-1][3] / 1e6
                own, server = (1000 * min(one[place] for one in costs) for place in (0, 4))
                print(
                    f"{size!s:22} {version:8} {queries:3} queries {megabytes:7.2f} MB   here {own:6.0f} ms   "
                    f"Prometheus {server:6.0f} ms"
                )


def ratio(best: list[float]) -> str:
    """How many times less the first takes than the second."""
    return f"{best[1] / best[0]:10.1f} x" if len(best) > 1 else ""


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prometheus", action="store_true", help="also read the jobs out of a real Prometheus")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="the source of another version")
    options = parser.parse_args()
    sources = {"now": OWN} | ({} if options.against is None else {"other": options.against.resolve()})
    print(f"{platform.machine()}, {multiprocessing.cpu_count()} cores, Python {platform.python_version()}")
    with ExitStack() as stack:
        versions = {name: stack.enter_context(measured(source)) for name, source in sources.items()}
        diagnoses(versions, options.rounds)
        if options.prometheus:
            readings(versions, options.rounds)


if __name__ == "__main__":
    main()
