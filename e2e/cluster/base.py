"""What all providers share: everything above an administrator's kubeconfig."""

import json
import os
import random
import shutil
import string
import subprocess
import tempfile
import urllib.parse
import urllib.request
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import binaries, registry
from e2e.cluster.api import ApiClient, kubeconfig_text
from e2e.cluster.pki import CertificateAuthority, write_private
from e2e.cluster.ports import PortReservations
from e2e.cluster.provider import H100, Certificate, Cluster, ClusterError, CommandError, Taint
from e2e.cluster.supervisor import ProcessStatus, Supervisor, SupervisorError
from e2e.cluster.waiting import NotYetError, wait_for
from e2e.telemetry.products import product_named
from e2e.telemetry.stack import Telemetry

STAGES = Path(__file__).with_name("stages.yaml")
_FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}
_CONTAINER_LOGS = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {{name: trainers}}
spec:
  logs: [{{containers: [trainer], logsFile: "{file}"}}]
"""
_PORTS = 20
"""Reserved at the start, so that the supervisor inherits the reservations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    argv: list[str]
    env: dict[str, str]
    cwd: Path
    ready: Callable[[], object] | None
    timeout: float
    grace: float


class SupervisedCluster(Cluster):
    """A cluster whose processes on this machine belong to one supervisor. Providers add the control plane."""

    needs: Sequence[str] = binaries.COMMON

    def __init__(
        self,
        name: str,
        *,
        folder: Path | None = None,
        keep: bool = False,
        report: Callable[[str], object] | None = None,
    ) -> None:
        self.name = name
        self._given_folder = folder
        self._keep = keep
        self._detached = False
        self._report = report or (lambda _: None)
        self._ports = PortReservations()
        self._free_ports: list[int] = []
        self._supervisor: Supervisor | None = None
        self._processes: dict[str, _Process] = {}
        self._clients: dict[Path, ApiClient] = {}
        self._nodes: dict[str, int] = {}
        self._certificates = 0
        self._telemetry: Telemetry | None = None
        self._authority = CertificateAuthority(f"stoker-e2e-{name}")
        self.programs = {}

    # ------------------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        if self._supervisor is not None:
            raise ClusterError(f"cluster {self.name} is started already")
        self.programs = binaries.resolve_all(self.needs, self._report)
        if self._given_folder is not None:
            self._given_folder.mkdir(parents=True, exist_ok=True)
            self.folder = self._given_folder.resolve()
        else:
            self.folder = Path(tempfile.mkdtemp(prefix=f"stoker-{self.name}-")).resolve()
        self.folder.chmod(0o700)
        self.logs.mkdir(exist_ok=True)
        try:
            self._free_ports = [self._ports.reserve() for _ in range(_PORTS)]
            self._telemetry = Telemetry(self, self.programs, prometheus_port=self.reserve_port())
            self._supervisor = Supervisor(self.folder)
            temporary = self._given_folder is None and not self._keep
            self._supervisor.start(keep_open=self._ports.descriptors, temporary=temporary)
            self._start_control_plane()
            wait_for(
                "the default ServiceAccount",
                lambda: self.api("GET", "/api/v1/namespaces/default/serviceaccounts/default"),
                interval=0.02,
                quiet=True,
            )
        except (NotYetError, SupervisorError, OSError) as error:
            self._keep = True  # for the logs
            self.stop()
            raise ClusterError(f"{error}; see the logs in {self.logs}") from error
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _start_control_plane(self) -> None:
        """Return once the API server is ready, with kwok and the controllers started."""

    def stop(self) -> None:
        if self._detached:
            return
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self._supervisor is not None:
            self._supervisor.shut_down()
            self._supervisor = None
        self._stop_control_plane()
        self._ports.release()
        if not self._keep and self._given_folder is None and hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _stop_control_plane(self) -> None:
        """End what is not a process of the supervisor."""

    def detach(self) -> None:
        self._owner.detach()
        self._detached = True
        registry.record(self.name, self.folder, kubeconfig=self.kubeconfig, prometheus_url=self.prometheus_url)

    @property
    def _owner(self) -> Supervisor:
        if self._supervisor is None:
            raise ClusterError(f"cluster {self.name} is not running")
        return self._supervisor

    # -------------------------------------------------------------------------------------------------------- API

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def ca_pem(self) -> str:
        return self._authority.pem

    def client(self, kubeconfig: Path | None = None) -> ApiClient:
        path = kubeconfig or self.kubeconfig
        if path not in self._clients:
            self._clients[path] = ApiClient(path)
        return self._clients[path]

    def api(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        kubeconfig: Path | None = None,
    ) -> Any:
        return self.client(kubeconfig).request(method, path, body, content_type).body

    def run_kubectl(
        self,
        *args: str,
        input: str | None = None,
        kubeconfig: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        env = {"KUBECONFIG": str(kubeconfig or self.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        return self._run(self.programs["kubectl"], args, env, input)

    def kubectl(self, *args: str, input: str | None = None, kubeconfig: Path | None = None) -> str:
        answer = self.run_kubectl(*args, input=input, kubeconfig=kubeconfig)
        if answer.returncode != 0:
            raise CommandError(["kubectl", *args], answer.returncode, answer.stdout, answer.stderr)
        return answer.stdout

    def apply(self, *manifests: Mapping[str, Any] | str | Path) -> None:
        for manifest in manifests:
            if isinstance(manifest, Path):
                self.kubectl("apply", "--server-side", "--filename", str(manifest))
            else:
                text = manifest if isinstance(manifest, str) else json.dumps(manifest)
                self.kubectl("apply", "--server-side", "--filename", "-", input=text)

    def create_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        name = f"{prefix}-{''.join(random.choices(string.ascii_lowercase + string.digits, k=5))}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        self.api("POST", "/api/v1/namespaces", body)
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_for(f"the default ServiceAccount of {name}", lambda: self.api("GET", path), interval=0.02, quiet=True)
        return name

    @staticmethod
    def _run(
        program: Path, args: Sequence[str], env: Mapping[str, str], text: str | None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [program, *args],
            input=text or "",  # never this process' own stdin
            env=os.environ | env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    # ------------------------------------------------------------------------------------------------------ nodes

    def add_nodes(
        self,
        count: int = 1,
        *,
        gpus: int = 8,
        product: str = H100,
        prefix: str = "gpu",
        cpu: str = "128",
        memory: str = "1Ti",
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Taint] | None = None,
    ) -> list[str]:
        if taints is None:
            taints = [Taint(key="nvidia.com/gpu")] if gpus else []
        spec = {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in taints]}
        resources = {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": "110"}
        kinds = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        if gpus:
            resources["nvidia.com/gpu"] = str(gpus)
            kinds["nvidia.com/gpu.product"] = product
            kinds["nvidia.com/gpu.count"] = str(gpus)
            kinds["nvidia.com/gpu.memory"] = str(product_named(product).memory)
        first = self._nodes.get(prefix, 0) + 1
        self._nodes[prefix] = first + count - 1
        names = [f"{prefix}-{number}" for number in range(first, first + count)]
        for name in names:
            metadata = {
                "name": name,
                "labels": kinds | {"kubernetes.io/hostname": name} | dict(labels or {}),
                "annotations": _FAKE_NODE,
            }
            self.api("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
            status = {"status": {"capacity": resources, "allocatable": resources}}
            self.api("PATCH", f"/api/v1/nodes/{name}/status", status, "application/merge-patch+json")
        for name in names:
            wait_for(f"node {name} to be Ready", partial(self._schedulable, name), interval=0.02)
        return names

    def _schedulable(self, name: str) -> bool:
        node = self.api("GET", f"/api/v1/nodes/{name}")
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        return ready and not any(t["key"].startswith("node.kubernetes.io/") for t in node["spec"].get("taints", []))

    def _start_kwok(self, kubeconfig: Path) -> None:
        port = self.reserve_port()
        self.trainer_log.touch()
        logs = self.folder / "container-logs.yaml"
        logs.write_text(_CONTAINER_LOGS.format(file=self.trainer_log))
        self.start_process(
            "kwok",
            [
                self.programs["kwok"],
                f"--kubeconfig={kubeconfig}",
                f"--config={STAGES}",
                f"--config={logs}",
                "--manage-all-nodes=false",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                f"--server-address=127.0.0.1:{port}",
                "--node-ip=127.0.0.1",
                f"--node-port={port}",
                # without a lease the controllers call a node dead after 50 s, and its pods not ready
                "--node-lease-duration-seconds=40",
            ],
        )

    @property
    def trainer_log(self) -> Path:
        return self.folder / "trainer.log"

    # -------------------------------------------------------------------------------------------------- telemetry

    @property
    def telemetry(self) -> Telemetry:
        """The exporter, Prometheus and the proxy."""
        if self._telemetry is None:
            raise ClusterError(f"cluster {self.name} is not running")
        return self._telemetry

    @property
    def prometheus_url(self) -> str:
        return self.telemetry.url

    def start_prometheus(
        self, *, scrape_interval: float = 1.0, targets: bool = True, failing_remote_read: bool = False
    ) -> str:
        self.telemetry.start(scrape_interval=scrape_interval, targets=targets, failing_remote_read=failing_remote_read)
        return self.prometheus_url

    def stop_prometheus(self) -> None:
        self.telemetry.stop()

    def backfill(
        self, namespace: str | None = None, *, step: float = 30.0, scrape_interval: float | None = None
    ) -> int:
        return self.telemetry.backfill(namespace, step=step, scrape_interval=scrape_interval)

    def scrape(self, job: str, port: int) -> None:
        self.telemetry.scrape(job, port)

    def query(self, promql: str, *, at: datetime | None = None) -> list[dict[str, Any]]:
        parameters = {"query": promql} | ({"time": f"{at.timestamp():.3f}"} if at is not None else {})
        url = f"{self.prometheus_url}/api/v1/query?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def start_prometheus_proxy(self) -> str:
        return self.telemetry.start_proxy()

    def set_prometheus_fault(self, mode: str, **options: float | str) -> None:
        self.telemetry.set_fault(mode, **options)

    # ------------------------------------------------------------------------------------------------------- helm

    def helm(self, *args: str, input: str | None = None) -> str:
        homes = {f"HELM_{kind}_HOME": str(self.folder / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        answer = self._run(self.programs["helm"], args, {"KUBECONFIG": str(self.kubeconfig), **homes}, input)
        if answer.returncode != 0:
            raise CommandError(["helm", *args], answer.returncode, answer.stdout, answer.stderr)
        return answer.stdout

    def helm_template(
        self,
        chart: Path,
        *,
        release: str = "stoker",
        namespace: str = "stoker-system",
        values: Mapping[str, Any] | None = None,
    ) -> str:
        version = self.api("GET", "/version")["gitVersion"]
        return self.helm(
            *("template", release, str(chart), "--namespace", namespace, "--include-crds"),
            *("--kube-version", version, "--values", "-"),
            input=yaml.safe_dump(dict(values or {})),
        )

    # ----------------------------------------------------------------------------------- identities and processes

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 24 * 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.api("POST", path, request)["status"]["token"]
        admin = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        config = yaml.safe_load(kubeconfig_text(server=admin["server"], ca=Path("unused"), token=token))
        config["clusters"][0]["cluster"] = admin
        return write_private(self.folder / f"{namespace}.{name}.kubeconfig", yaml.safe_dump(config, sort_keys=False))

    def issue_certificate(self, *names: str, days: float = 1.0, folder: Path | None = None) -> Certificate:
        if folder is None:
            self._certificates += 1
            folder = self.folder / "certificates" / str(self._certificates)
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = self._authority.issue_server(names, days=days)
        # the key first: whoever watches the certificate reads the pair when that changes
        key_file = write_private(folder / "tls.key", key)
        return Certificate(certificate=write_private(folder / "tls.crt", certificate), key=key_file)

    def reserve_port(self) -> int:
        return self._free_ports.pop() if self._free_ports else self._ports.reserve()

    def start_process(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: Callable[[], object] | None = None,
        timeout: float = 30.0,
        grace: float = 0.0,
    ) -> int:
        process = _Process(
            argv=[str(word) for word in argv],
            env=os.environ | dict(env or {}),
            cwd=cwd or Path.cwd(),
            ready=ready,
            timeout=timeout,
            grace=grace,
        )
        self._processes[name] = process
        return self._spawn(name, process)

    def _spawn(self, name: str, process: _Process) -> int:
        log = self.logs / f"{name}.log"
        before = log.stat().st_size if log.exists() else 0
        try:
            pid = self._owner.spawn(name, process.argv, env=process.env, cwd=process.cwd, log=log, grace=process.grace)
        except SupervisorError as error:
            raise ClusterError(f"{name} did not start: {error}") from error
        if process.ready is not None:
            ready = process.ready

            def probe() -> object:
                status = self._status(name)
                if status is None or status.returncode is not None:
                    raise _EndedError
                return ready()

            try:
                wait_for(f"{name} to be ready", probe, timeout=process.timeout, interval=0.02, quiet=True)
            except (NotYetError, _EndedError) as error:
                status = self._status(name)
                fate = "is not ready" if status is None or status.returncode is None else f"ended ({status.returncode})"
                with log.open(errors="replace") as file:
                    file.seek(before)
                    tail = "".join(file.readlines()[-20:])
                raise ClusterError(f"{name} {fate}; {log} ends with:\n{tail}") from error
        return pid

    def _status(self, name: str) -> ProcessStatus | None:
        return self._owner.status().get(name)

    def kill(self, name: str, signal: int = 9) -> None:
        if name not in self._processes:
            raise ClusterError(f"no process {name!r} was started; there are {', '.join(self._processes)}")
        self._owner.signal(name, signal)
        if signal in {9, 15}:
            wait_for(f"{name} to end after signal {signal}", lambda: not self.running(name), interval=0.01)

    def restart(self, name: str, *, signal: int = 9) -> int:
        if self.running(name):
            self.kill(name, signal)
        return self._spawn(name, self._processes[name])

    def running(self, name: str) -> bool:
        status = self._status(name)
        return status is not None and status.returncode is None

    def log(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


class _EndedError(BaseException):
    """A process ended before it was ready; not an Exception, so that waiting does not take it for "not yet"."""
