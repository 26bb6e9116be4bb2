"""A Prometheus of the platform's own, which scrapes the operator."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from e2e.cluster import binaries
from e2e.cluster.provider import Cluster

NAME = "observer"


@dataclass(frozen=True, slots=True)
class Observer:
    """Started with `start`; gone with the cluster."""

    url: str

    @classmethod
    def start(cls, cluster: Cluster, *targets: str) -> "Observer":
        """Scrape these addresses each second."""
        folder, port = cluster.folder / NAME, cluster.reserve_port()
        folder.mkdir()
        scrape = {"job_name": "stoker", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        observer = cls(f"http://127.0.0.1:{port}")
        cluster.start_process(
            NAME,
            [
                binaries.resolve("prometheus"),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            ready=observer._ready,
        )
        return observer

    def query(self, promql: str, *, at: datetime | None = None) -> list[dict[str, Any]]:
        """The rows of an instant query."""
        parameters = {"query": promql} | ({} if at is None else {"time": f"{at.timestamp():.3f}"})
        with urlopen(f"{self.url}/api/v1/query?{urlencode(parameters)}", timeout=10) as response:
            rows: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return rows

    def _ready(self) -> bool:
        with urlopen(f"{self.url}/-/ready", timeout=1) as response:
            return bool(response.status == 200)
