"""A real Prometheus for benchmarks, and what it has served by its own count."""

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.binaries import resolve_all
from e2e.cluster.ports import PortReservations


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """A Prometheus that takes samples of the last hours in any order of series; its address."""
    programs = resolve_all(["prometheus"])
    ports = PortReservations()
    port = ports.reserve()
    (folder / "prometheus.yml").write_text("global: {}\n")
    command = [
        str(programs["prometheus"]),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        # The head takes what is younger than half a block.
        "--storage.tsdb.min-block-duration=96h",
        "--storage.tsdb.max-block-duration=96h",
    ]
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            while not ready(url):
                if server.poll() is not None:
                    raise SystemExit((folder / "prometheus.log").read_text()[-2000:])
                time.sleep(0.1)
            yield url
        finally:
            server.kill()
            ports.release()


def ready(url: str) -> bool:
    """Whether it answers."""
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def served(url: str) -> tuple[int, int, float, float]:
    """What Prometheus has served and needed for it: queries, range queries among them, bytes, CPU seconds."""
    with urllib.request.urlopen(f"{url}/metrics") as response:
        text = response.read().decode()

    def total(metric: str, handler: str = "/api/v1/query(?:_range)?") -> float:
        found = re.findall(rf'^{metric}\{{.*?handler="{handler}".*?\}} (\S+)$', text, re.MULTILINE)
        return sum(map(float, found))

    return (
        int(total("prometheus_http_requests_total")),
        int(total("prometheus_http_requests_total", "/api/v1/query_range")),
        total("prometheus_http_response_size_bytes_sum"),
        float(re.findall(r"^process_cpu_seconds_total (\S+)$", text, re.MULTILINE)[0]),
    )
