"""A real Prometheus over a history whose truth is known, without a cluster."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from e2e.cluster.binaries import resolve_all
from e2e.cluster.ports import PortReservations
from e2e.cluster.supervisor import Supervisor
from e2e.cluster.waiting import wait_for

NAMESPACE = "team"
Value = Callable[[float], float | None]
"""A signal as a function of seconds before the end of the history (0: its end); None: no sample."""


def constant(value: float) -> Value:
    """Always the same."""
    return lambda _: value


def until(seconds: float, before: float, after: float | None) -> Value:
    """One value until so many seconds before the end, then another."""
    return lambda age: before if age > seconds else after


@dataclass(frozen=True, kw_only=True)
class Track:
    """The samples of one metric of one thing."""

    metric: str
    labels: Mapping[str, str]
    value: Value
    counter: bool = False
    """The value is a rate; the samples are its integral."""


@dataclass(kw_only=True)
class History:
    """What a Prometheus has scraped up to `end`, each `step` seconds for `seconds`."""

    end: datetime
    seconds: float
    step: float = 30.0
    tracks: list[Track] = field(default_factory=list)

    def gpu(
        self, pod: str, index: int, metrics: Mapping[str, Value], *, uuid: str | None = None, **labels: str
    ) -> None:
        """A GPU of a pod, by dcgm-exporter's metric names."""
        identity = {
            "namespace": NAMESPACE,
            "pod": pod,
            "container": "trainer",
            "UUID": uuid or f"GPU-{pod}-{index}",
            "gpu": str(index),
            "modelName": "NVIDIA H100 80GB HBM3",
            "Hostname": "gpu-1",
            **labels,
        }
        identity = {name: value for name, value in identity.items() if value}
        self.tracks += [Track(metric=metric, labels=identity, value=value) for metric, value in metrics.items()]

    def pod(self, pod: str, metric: str, value: Value, *, counter: bool = True, **labels: str) -> None:
        """A series of a pod, as the kubelet's cAdvisor serves it."""
        identity = {"namespace": NAMESPACE, "pod": pod, **labels}
        self.tracks.append(Track(metric=metric, labels=identity, value=value, counter=counter))

    def lines(self) -> Iterator[str]:
        """OpenMetrics text: families in one piece each, as the format demands."""
        families: dict[str, list[Track]] = {}
        for track in self.tracks:
            families.setdefault(track.metric, []).append(track)
        count = int(self.seconds / self.step)
        for metric, tracks in families.items():
            # Untyped: what a chart types as a counter is a gauge in truth, and only names matter here.
            yield f"# TYPE {metric} unknown"
            for track in tracks:
                labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in track.labels.items())
                total = 0.0
                for number in range(count, -1, -1):
                    age = number * self.step
                    value = track.value(age)
                    if value is None:
                        continue
                    total += value * self.step
                    shown = total if track.counter else value
                    yield f"{metric}{{{labels}}} {float(shown)!r} {self.end.timestamp() - age:.3f}"
        yield "# EOF"


class RecordedPrometheus:
    """A Prometheus process on a history. A context manager; `url` stays the same while it is down."""

    def __init__(
        self,
        folder: Path,
        lines: Iterable[str] = (),
        *,
        failing_remote_read: bool = False,
        options: Sequence[str] = (),
        secured_by: Path | None = None,
    ) -> None:
        """`options` are Prometheus' own; `secured_by` is its web configuration: it serves https by it."""
        self._folder = folder
        self._supervisor = Supervisor(folder)
        self._ports = PortReservations()
        self._port = self._ports.reserve()
        self._lines = lines
        self._failing_remote_read = failing_remote_read
        self._options = [*options, *([f"--web.config.file={secured_by}"] if secured_by else [])]
        self._secured = secured_by is not None
        self.url = f"{'https' if self._secured else 'http'}://127.0.0.1:{self._port}"

    def __enter__(self) -> "RecordedPrometheus":
        programs = resolve_all(["prometheus", "promtool"])
        text = self._folder / "history.om"
        with text.open("w") as out:
            out.writelines(f"{line}\n" for line in self._lines)
        data = self._folder / "data"
        if text.stat().st_size > 10:
            subprocess.run(
                [
                    *(programs["promtool"], "tsdb", "create-blocks-from", "openmetrics", "-q"),
                    "--max-block-duration=10000h",  # one block: the text is read once for each
                    *(text, data),
                ],
                check=True,
                capture_output=True,
            )
        config = self._folder / "prometheus.yml"
        # A remote storage that is asked for recent data too, and that nobody serves: every answer is partial.
        remote = f"remote_read:\n- url: http://127.0.0.1:{self._ports.reserve()}/read\n  read_recent: true\n"
        config.write_text(remote if self._failing_remote_read else "global: {}\n")
        self._supervisor.start(keep_open=self._ports.descriptors)
        self._supervisor.spawn(
            "prometheus",
            [
                str(programs["prometheus"]),
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                *self._options,
            ],
            env={},
            cwd=self._folder,
            log=self._folder / "prometheus.log",
        )
        try:
            wait_for("Prometheus", self._ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.shut_down()
        self._ports.release()

    def stop(self) -> None:
        """End the process; its address refuses connections."""
        self._supervisor.signal("prometheus", 9)
        wait_for("its end", lambda: self._supervisor.status()["prometheus"].returncode is not None)

    def _ready(self) -> bool:
        if self._secured:
            # Whom it lets in is the tests' question; it says itself when it is ready.
            return "Server is ready to receive web requests" in (self._folder / "prometheus.log").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
