"""Load on the webhook: right and wrong DLJobs in turn, and what came of them (benchmarks/webhook/verdicts)."""

import base64
import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from e2e.installed import InstalledOperator
from e2e.operator import ADMISSION, NAMESPACE

SOURCES = Path(__file__).resolve().parents[2] / "benchmarks" / "webhook"
SCRIPTS = {
    "right": "torchrun --nproc_per_node=8 train.py --seed @NUMBER@\n",
    "wrong": "torchrun --nproc_per_node=4 train.py --seed @NUMBER@\n",
}
RULE = "launcher-too-few"
"""What the wrong one is refused for."""
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{ADMISSION}"
CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{ADMISSION}"
PATIENCE = 60.0
"""Seconds that a load may take beyond its own time, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What came of a load. Latencies in milliseconds; `wrong` and `failed` with their time in seconds since the epoch
    and the text of the answer or the fault.
    """

    requests: int
    seconds: float
    p50: float
    p99: float
    wrong: list[tuple[float, str]]
    failed: list[tuple[float, str]]

    @property
    def rate(self) -> float:
        """Requests in a second."""
        return self.requests / self.seconds


class Load:
    """Sends DLJobs to an installed operator: to the webhook's Service from inside the node, or to the API server as
    dry runs.
    """

    def __init__(self, operator: InstalledOperator, namespace: str) -> None:
        self._cluster = operator.cluster
        self._folder = self._cluster.folder / "load"
        self._folder.mkdir(exist_ok=True)
        subprocess.run(["go", "build", "-o", self._folder, "./verdicts"], cwd=SOURCES, check=True, timeout=300)
        self._namespace = namespace
        self._write_objects()
        self._write_credentials()
        self.trust()

    def trust(self) -> None:
        """Take the webhook's authorities from its configuration, as the API server does: for new connections."""
        [bundle] = {one["clientConfig"]["caBundle"] for one in self._cluster.api("GET", CONFIGURATION)["webhooks"]}
        unfinished = self._folder / "webhook.new"
        unfinished.write_bytes(base64.b64decode(bundle))
        unfinished.replace(self._folder / "webhook.crt")

    def on_webhook(self, *, seconds: float, rate: float = 0.0, clients: int = 8) -> "Running":
        """Start asking the webhook's Service; `rate` in requests a second, 0 for as many as are answered."""
        service = self._cluster.api("GET", SERVICE)["spec"]
        options = [
            f"-url=https://{service['clusterIP']}:{service['ports'][0]['port']}/validate/dljobs?timeout=5s",
            f"-ca={self._folder / 'webhook.crt'}",
            f"-name={ADMISSION}.{NAMESPACE}.svc",
            f"-right={self._folder / 'right.review'}",
            f"-wrong={self._folder / 'wrong.review'}",
            '-accepted="allowed":true',
        ]
        return self._start(self._cluster.inside, options, seconds=seconds, rate=rate, clients=clients)

    def on_api_server(self, *, seconds: float, rate: float = 0.0, clients: int = 8) -> "Running":
        """Start asking the API server, as the administrator."""
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{self._namespace}/dljobs?dryRun=All"
        options = [
            f"-url={self._server}{path}",
            *(f"-{name}={self._folder / f'api.{name}'}" for name in ("ca", "cert", "key")),
            f"-right={self._folder / 'right.json'}",
            f"-wrong={self._folder / 'wrong.json'}",
            '-accepted="kind":"DLJob"',
        ]
        return self._start(list, options, seconds=seconds, rate=rate, clients=clients)

    def _start(self, placed: Any, options: list[str], *, seconds: float, rate: float, clients: int) -> "Running":
        numbers = [f"-refused={RULE}", f"-seconds={seconds}", f"-rate={rate}", f"-clients={clients}"]
        argv = placed([str(self._folder / "verdicts"), *options, *numbers])
        # a file, because nobody reads a pipe meanwhile, and a program that fills one stops
        output = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - it is gone with its last reader
        return Running(subprocess.Popen(argv, stdout=output, stdin=subprocess.DEVNULL), output, seconds)

    def _write_objects(self) -> None:
        for name, script in SCRIPTS.items():
            job = {
                "apiVersion": "stoker.dev/v1alpha1",
                "kind": "DLJob",
                "metadata": {"name": name, "namespace": self._namespace},
                "spec": {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:2026.11", "script": script},
            }
            (self._folder / f"{name}.json").write_text(json.dumps(job))
            (self._folder / f"{name}.review").write_text(json.dumps(self._review(job)))

    def _review(self, job: Mapping[str, Any]) -> dict[str, Any]:
        kind = {"group": "stoker.dev", "version": "v1alpha1", "kind": "DLJob"}
        resource = {"group": "stoker.dev", "version": "v1alpha1", "resource": "dljobs"}
        request = {
            "uid": "00000000-0000-0000-0000-000000000000",
            "kind": kind,
            "requestKind": kind,
            "resource": resource,
            "requestResource": resource,
            "name": job["metadata"]["name"],
            "namespace": self._namespace,
            "operation": "CREATE",
            "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
            "object": job,
            "oldObject": None,
            "dryRun": True,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}

    def _write_credentials(self) -> None:
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        sources = {
            "ca": (cluster, "certificate-authority"),
            "cert": (user, "client-certificate"),
            "key": (user, "client-key"),
        }
        for name, (part, key) in sources.items():
            data = base64.b64decode(part[f"{key}-data"]) if f"{key}-data" in part else Path(part[key]).read_bytes()
            target = self._folder / f"api.{name}"
            target.touch(mode=0o600)
            target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Running:
    """A load that is being put on."""

    process: "subprocess.Popen[bytes]"
    output: IO[bytes]
    seconds: float

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def answers(self) -> Answers:
        """Wait for its end."""
        self.process.wait(timeout=self.seconds + PATIENCE)
        assert self.process.returncode == 0, "the load's program failed"
        with self.output:
            self.output.seek(0)
            found = json.load(self.output)
        listed = {kind: [(one["at"], one["text"]) for one in found[kind]] for kind in ("wrong", "failed")}
        return Answers(**(found | listed))
