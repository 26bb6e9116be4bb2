"""The exporter, Prometheus and the fault proxy of one cluster, as processes of its supervisor."""

import json
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.provider import Cluster, ClusterError
from e2e.cluster.waiting import wait_for
from e2e.telemetry.history import create_blocks, write_open_metrics
from e2e.telemetry.metrics import CADVISOR_JOB, CADVISOR_PATH, DCGM_JOB, DCGM_PATH, PlayedPod, annotation

PROMETHEUS, EXPORTER, PROXY = "prometheus", "exporter", "prometheus-proxy"
SIMULATION = Path(__file__).with_name("simulation.yaml")
"""Lets ConfigMaps say what the pods of a Job do, so that manifests stay as users write them."""
_ROOT = Path(__file__).resolve().parents[2]


class Telemetry:
    """Telemetry of one cluster; see the methods of Cluster, which lead here."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Path], *, prometheus_port: int) -> None:
        self._cluster = cluster
        self._programs = programs
        self._port = prometheus_port
        self._exporter_port: int | None = None
        self._proxy_port: int | None = None
        self._interval = 1.0
        self._generation = 0
        self._filled: set[str] = set()
        self._settings: dict[str, bool] = {"targets": True, "failing_remote_read": False}
        self.url = f"http://127.0.0.1:{prometheus_port}"

    # -------------------------------------------------------------------------------------------------- Prometheus

    def start(self, *, scrape_interval: float, targets: bool, failing_remote_read: bool) -> None:
        """Start everything, or Prometheus again with new settings."""
        self._interval = scrape_interval
        self._settings = {"targets": targets, "failing_remote_read": failing_remote_read}
        self._start_exporter()
        self._start_prometheus()

    def scrape(self, job: str, port: int) -> None:
        """See Cluster.scrape. Prometheus watches the folder of the targets."""
        self._targets.mkdir(parents=True, exist_ok=True)
        unfinished = self._targets / f"{job}.unfinished"
        unfinished.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"], "labels": {"job": job}}]))
        unfinished.replace(self._targets / f"{job}.json")

    def stop(self) -> None:
        """Prometheus down. SIGTERM, so that it writes down what it has."""
        if self._cluster.running(PROMETHEUS):
            self._cluster.kill(PROMETHEUS, 15)

    @property
    def _folder(self) -> Path:
        return self._cluster.folder / "prometheus"

    @property
    def _targets(self) -> Path:
        return self._folder / "targets"

    @property
    def _data(self) -> Path:
        return self._folder / f"data-{self._generation}"

    def _start_prometheus(self) -> None:
        self.stop()
        self._data.mkdir(parents=True, exist_ok=True)
        self._targets.mkdir(parents=True, exist_ok=True)
        config = self._folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(self._config(), sort_keys=False))
        self._cluster.start_process(
            PROMETHEUS,
            [
                self._programs["prometheus"],
                f"--config.file={config}",
                f"--storage.tsdb.path={self._data}",
                "--storage.tsdb.retention.time=60d",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--web.enable-admin-api",  # for snapshots
                "--scrape.discovery-reload-interval=10ms",  # the first scrape would wait for 5 s
                "--log.level=warn",
            ],
            ready=lambda: b"Ready" in _get(f"{self.url}/-/ready"),
        )

    def _config(self) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = []
        if self._settings["targets"]:
            target = [{"targets": [f"127.0.0.1:{self._exporter_port}"]}]
            jobs = [
                {"job_name": job, "honor_labels": True, "metrics_path": path, "static_configs": target}
                for job, path in ((DCGM_JOB, DCGM_PATH), (CADVISOR_JOB, CADVISOR_PATH))
            ]
            jobs.append({"job_name": "added", "file_sd_configs": [{"files": [f"{self._targets}/*.json"]}]})
        interval = f"{round(self._interval * 1000)}ms"
        config: dict[str, Any] = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": jobs,
        }
        if self._settings["failing_remote_read"]:
            # nothing listens on a port that was reserved for nobody
            config["remote_read"] = [
                {"url": f"http://127.0.0.1:{self._cluster.reserve_port()}/read", "read_recent": True}
            ]
        return config

    # --------------------------------------------------------------------------------------------- exporter, history

    def _start_exporter(self) -> None:
        if self._exporter_port is not None:
            return
        self._exporter_port = self._cluster.reserve_port()
        self._cluster.start_process(
            EXPORTER,
            [
                *(sys.executable, "-m", "e2e.telemetry.exporter"),
                f"--kubeconfig={self._cluster.kubeconfig}",
                f"--port={self._exporter_port}",
            ],
            env={"PYTHONPATH": str(_ROOT)},
            cwd=_ROOT,
            ready=lambda: _get(f"http://127.0.0.1:{self._exporter_port}/pods"),
        )

    def played_pods(self) -> dict[str, PlayedPod]:
        """What the exporter plays, by pod UID."""
        pods = json.loads(_get(f"http://127.0.0.1:{self._exporter_port}/pods"))
        return {pod["uid"]: PlayedPod(**pod | {"gpus": tuple(pod["gpus"])}) for pod in pods}

    def backfill(self, namespace: str | None, *, step: float, scrape_interval: float | None) -> int:
        """Write the past of back-dated pods. See Cluster.backfill."""
        if scrape_interval is not None:
            self._interval = scrape_interval
        self._start_exporter()
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        running = [pod for pod in self._cluster.api("GET", path)["items"] if pod["status"].get("phase") == "Running"]
        uids = {pod["metadata"]["uid"] for pod in running if annotation(pod, "started-at")} - self._filled
        if not uids:
            if not self._cluster.running(PROMETHEUS):
                self._start_prometheus()
            return 0
        played = wait_for(
            "the exporter to play the back-dated pods",
            lambda: {u: p for u, p in self.played_pods().items() if u in uids and p.started is not None},
        )
        pods = [played[uid] for uid in sorted(uids) if uid in played]
        if len(pods) < len(uids):
            raise ClusterError(f"the exporter does not play {uids - set(played)}; see its log")
        self._scraped_anew()
        old = self._snapshot()
        text = self._folder / "history.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        with text.open("w") as file:
            samples = write_open_metrics(file, pods, until=time.time(), step=step, interval=30.0)
        self.stop()
        self._generation += 1
        if old is not None:
            shutil.move(old, self._data)
        create_blocks(self._programs["promtool"], text, self._data)
        text.unlink()
        self._start_prometheus()
        self._scraped_anew()
        self._filled |= uids
        return samples

    def _scraped_anew(self) -> None:
        """Wait until Prometheus, if it runs, has scraped what the exporter shows now. Before it ends: it then notes
        that no GPU of a new pod is free any more, or another pod's; a series that ends unnoted is told for five minutes
        more, as if by a second exporter. After its start: it notes only the end of what it has scraped itself.
        """
        if not self._cluster.running(PROMETHEUS) or not self._settings["targets"]:
            return
        now = time.time()
        last = f'timestamp(up{{job="{DCGM_JOB}"}})'
        wait_for("a scrape", lambda: any(float(row["value"][1]) > now for row in self._cluster.query(last)))

    def _snapshot(self) -> Path | None:
        """All that Prometheus has, as blocks: what is still in its head would not survive newer blocks beside it."""
        if not self._cluster.running(PROMETHEUS):
            if not self._data.exists():
                return None
            self._start_prometheus()
        answer = json.loads(_get(f"{self.url}/api/v1/admin/tsdb/snapshot", method="POST"))
        return self._data / "snapshots" / str(answer["data"]["name"])

    # -------------------------------------------------------------------------------------------------------- proxy

    def start_proxy(self) -> str:
        """The proxy's address; it starts with the first call."""
        if self._proxy_port is None:
            self._proxy_port = self._cluster.reserve_port()
            self._cluster.start_process(
                PROXY,
                [
                    *(sys.executable, "-m", "e2e.telemetry.proxy"),
                    f"--upstream={self.url}",
                    f"--port={self._proxy_port}",
                ],
                env={"PYTHONPATH": str(_ROOT)},
                cwd=_ROOT,
                ready=self._set_none,
            )
        return f"http://127.0.0.1:{self._proxy_port}"

    def _set_none(self) -> bool:
        self.set_fault("none")
        return True

    def set_fault(self, mode: str, **options: float | str) -> None:
        """Tell the proxy how to behave. Raises ClusterError for an unknown mode."""
        if self._proxy_port is None:
            raise ClusterError("start_prometheus_proxy comes first")
        body = json.dumps({"mode": mode, **options}).encode()
        _get(f"http://127.0.0.1:{self._proxy_port}/-/fault", method="PUT", body=body)


def _get(url: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise ClusterError(f"{url}: {error.code} {error.read().decode(errors='replace').strip()}") from None
