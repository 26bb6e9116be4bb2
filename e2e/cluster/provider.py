"""One interface over the clusters that tests and the demo run on.

A test is written against `Cluster` and runs on every provider:

* `local`: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on loopback, kwok for nodes;
* `node`: the local control plane and, beside kwok's nodes, a real one whose pods run, without images from a registry;
* `kind`: Docker, for where images can be pulled.

Pods on the simulated nodes are driven by annotations on the pod (through a DLJob: on `podTemplate.metadata`):

======================================  ==============================================================================
`e2e.stoker.dev/scenario`               what its GPUs and its CPU do: e2e/telemetry/scenario.py
`e2e.stoker.dev/device-labels`          labels that its GPUs' series have besides, such as vgpu=1 of a shared one
`e2e.stoker.dev/started-at`             RFC 3339: containers' start, for a pod with a past (absent: now)
`e2e.stoker.dev/duration`               Go duration from the pod's real start until its containers end (absent: never)
`e2e.stoker.dev/exit-code`              with which all of them end then (default 0; otherwise the pod is Failed)
`e2e.stoker.dev/start-delay`            Go duration for image pull and the like before the containers run
`e2e.stoker.dev/termination`            Go duration to end in after SIGTERM (absent: the pod's whole grace period)
`e2e.stoker.dev/waiting-reason`         never starts; containers wait with this reason, such as ImagePullBackOff
`e2e.stoker.dev/ready`                  "false": containers run but are not ready
`e2e.stoker.dev/restart-after`          Go duration after which the containers restart once in place
======================================  ==============================================================================
"""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.cluster.api import ApiClient

PROVIDERS = ("local", "node", "kind")
H100 = "NVIDIA-H100-80GB-HBM3"


class ClusterError(Exception):
    """A cluster or one of its parts can't do what was asked; the message says what and where its log is."""


class CommandError(ClusterError):
    """A command (kubectl, helm, ...) ended with an error.

    `stdout` and `stderr` are its whole output, `returncode` its exit status.
    """

    def __init__(self, argv: Sequence[str], returncode: int, stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(argv)} ended with {returncode}:\n{(stderr or stdout).strip()}")
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A serving certificate of the cluster's own CA, as files in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = "present"
    effect: str = "NoSchedule"


class Cluster(ABC):
    """A scratch cluster with GPU nodes, telemetry and the processes that a test starts beside it.

    A context manager: `with create("local", name="x") as cluster: ...`. Everything it starts belongs to one
    supervisor, which ends it all when the cluster is stopped or the process that started the cluster is gone,
    however that went. Methods block; none of them is safe to call from two threads at once, except `kubectl`, `api`
    and `helm`.
    """

    name: str
    folder: Path
    """All that the cluster writes: certificates, data, `logs`. Removed by `stop` unless it was given or kept."""
    programs: Mapping[str, Path]
    """The programs that it is made of, by name: for tests that run `kubectl` or `helm` in a way of their own."""
    webhook_host: str = "127.0.0.1"
    """The address that a process started here must listen on for the API server to reach it as a webhook."""

    # ------------------------------------------------------------------------------------------------------- life

    @abstractmethod
    def start(self) -> None:
        """Return once the control plane answers, its controllers work and a pod can be created in `default`.

        Raises ClusterError, with the tail of the log of the part that failed; nothing is left running then.
        """

    @abstractmethod
    def stop(self) -> None:
        """End every process and remove the folder (unless it was given or kept). Safe to call twice."""

    @abstractmethod
    def detach(self) -> None:
        """Leave the cluster up when this process ends: `stop` does nothing from now on.

        It is remembered under its name; `python -m e2e down` (e2e.cluster.registry.stop) ends it.
        """

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -------------------------------------------------------------------------------------------------------- API

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """A kubeconfig of the cluster's administrator (system:masters)."""

    @property
    @abstractmethod
    def ca_pem(self) -> str:
        """The CA that issues the API server's and webhooks' certificates: for `caBundle`."""

    @property
    def logs(self) -> Path:
        """The folder with one log file for each process: `etcd.log`, `kube-apiserver.log`, ..."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """What the operator's accounts asked of the API server, one JSON event a line. kind has none."""
        return self.folder / "audit.log"

    @property
    def etcd_url(self) -> str:
        """Where etcd answers its clients, without TLS. Raises ClusterError where it can't be reached (kind)."""
        raise ClusterError("this provider's etcd can't be reached from here: use the provider `local`")

    @abstractmethod
    def kubectl(self, *args: str, input: str | None = None, kubeconfig: Path | None = None) -> str:
        """What `kubectl ARGS` prints on stdout, as the administrator or as `kubeconfig`.

        Raises CommandError (with stdout and stderr) when it ends with an error.
        """

    @abstractmethod
    def run_kubectl(
        self,
        *args: str,
        input: str | None = None,
        kubeconfig: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Like `kubectl`, for when stderr matters: warnings, refusals. Never raises for an exit status."""

    @abstractmethod
    def api(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        kubeconfig: Path | None = None,
    ) -> Any:
        """One request to the API server: `path` starts with /api or /apis (query included), `body` is JSON-able.

        Returns the decoded answer (text where it is not JSON). Raises e2e.cluster.api.ApiError (status, reason,
        body, warnings) for 4xx and 5xx. For a merge patch the content type is `application/merge-patch+json`.
        """

    @abstractmethod
    def client(self, kubeconfig: Path | None = None) -> ApiClient:
        """A client with answers' warnings and watches, as the administrator or as `kubeconfig`."""

    @abstractmethod
    def apply(self, *manifests: Mapping[str, Any] | str | Path) -> None:
        """`kubectl apply --server-side` of objects, YAML text, files or folders, in this order."""

    @abstractmethod
    def create_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace with a new name `PREFIX-xxxxx`, wait for its default ServiceAccount; return the name."""

    # ------------------------------------------------------------------------------------------------------ nodes

    @abstractmethod
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
        """Add simulated nodes named `PREFIX-N` and wait until they are Ready; return their names.

        With `gpus` they have `nvidia.com/gpu` in capacity, the label `nvidia.com/gpu.product` and, unless `taints`
        says otherwise, the taint `nvidia.com/gpu=present:NoSchedule` of GPU clusters (the API server gives pods that
        request GPUs the toleration, as GPU clouds do). `gpus=0` makes a plain node without a taint.
        """

    @property
    @abstractmethod
    def trainer_log(self) -> Path:
        """What every container named `trainer` on the simulated nodes has logged: a file that a test writes, in the
        container runtime's format (`2026-11-21T05:40:00.000000000Z stdout F a line`). The API server serves it.
        """

    # -------------------------------------------------------------------------------------------------- telemetry

    @property
    @abstractmethod
    def prometheus_url(self) -> str:
        """The address of Prometheus, the same before it is started, while it is down and after a restart."""

    @abstractmethod
    def start_prometheus(
        self, *, scrape_interval: float = 1.0, targets: bool = True, failing_remote_read: bool = False
    ) -> str:
        """Start the telemetry exporter and Prometheus; return `prometheus_url` once it is ready.

        `scrape_interval` is in seconds. Without `targets` Prometheus scrapes nothing more: on a new cluster that is
        an empty data base that answers. With `failing_remote_read` it also asks a remote storage that is down, so
        that its answers are partial and say so in `warnings`. Calling it again restarts Prometheus with the new
        settings on the data it has.
        """

    @abstractmethod
    def stop_prometheus(self) -> None:
        """Prometheus down: connections are refused until `start_prometheus`. Its data stays."""

    @abstractmethod
    def backfill(
        self, namespace: str | None = None, *, step: float = 30.0, scrape_interval: float | None = None
    ) -> int:
        """Write the past of running back-dated pods (in `namespace`, or all) into Prometheus; return the samples.

        Every pod with `e2e.stoker.dev/started-at` that has no history yet gets samples each `step` seconds from its
        containers' start until now, by the function that the exporter plays, then Prometheus starts again on them
        and on all that it had. Starts telemetry where it does not run yet (with `scrape_interval`, default 1 s). As
        with any restart of Prometheus, a series that ends meanwhile looks alive for five minutes more (its look-back).
        """

    @abstractmethod
    def scrape(self, job: str, port: int) -> None:
        """From now on Prometheus scrapes /metrics at this port of the machine, too, whether it runs already or not."""

    @abstractmethod
    def query(self, promql: str, *, at: datetime | None = None) -> list[dict[str, Any]]:
        """`data.result` of an instant query to Prometheus (vector results)."""

    @abstractmethod
    def start_prometheus_proxy(self) -> str:
        """The address of a proxy of ours in front of Prometheus, started on the first call; it starts transparent."""

    @abstractmethod
    def set_prometheus_fault(self, mode: str, **options: float | str) -> None:
        """Make the proxy behave: `none`, `slow` (seconds=), `error` (status=), `reset`, `empty`, `truncate`,
        `partial` (real answers that carry Prometheus' warning of a failed remote read).
        """

    # ------------------------------------------------------------------------------------------------------- helm

    @abstractmethod
    def helm(self, *args: str, input: str | None = None) -> str:
        """What `helm ARGS` prints on stdout, as the administrator. Raises CommandError."""

    @abstractmethod
    def helm_template(
        self,
        chart: Path,
        *,
        release: str = "stoker",
        namespace: str = "stoker-system",
        values: Mapping[str, Any] | None = None,
    ) -> str:
        """The chart's manifests (CRDs included) as YAML text, rendered for the cluster's version."""

    # ----------------------------------------------------------------------------------- identities and processes

    @abstractmethod
    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a day-long token of that ServiceAccount, which must exist: its RBAC is what is tested."""

    @abstractmethod
    def expose_webhook(self, namespace: str, service: str, port: int) -> None:
        """Make requests to that Service reach `webhook_host:port` on this machine, with no other object changed.

        On the local provider the Service becomes `type: ExternalName, externalName: localhost`; a webhook
        configuration that names the Service, with `port` equal to `port`, then works as it is. The certificate must
        be for `SERVICE.NAMESPACE.svc` (`issue_certificate`).
        """

    @abstractmethod
    def issue_certificate(self, *names: str, days: float = 1.0, folder: Path | None = None) -> Certificate:
        """A serving certificate for DNS names or IP addresses, as `tls.crt` and `tls.key` in `folder`.

        Default folder: a new one in the cluster's. Issuing into the same folder again renews in place, atomically for
        each file.
        """

    @abstractmethod
    def reserve_port(self) -> int:
        """A free loopback port that no other cluster of this harness takes while this one lives."""

    @abstractmethod
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
        """Start a process under the supervisor, its output in `logs/NAME.log` (appended); return its pid.

        `env` is added to this process' environment. With `ready` it returns once that gives something true (an
        exception counts as "not yet"). `grace` is how many seconds it gets from SIGTERM to SIGKILL when the cluster
        stops (default: SIGKILL at once). Raises ClusterError with the log's tail when it ends before it is ready, or
        is late.
        """

    @abstractmethod
    def kill(self, name: str, signal: int = 9) -> None:
        """Send a signal to a process; SIGKILL (the default) and SIGTERM wait until it has ended."""

    @abstractmethod
    def restart(self, name: str, *, signal: int = 9) -> int:
        """End a process (if it still runs) and start it again as it was, `ready` included; return the new pid."""

    @abstractmethod
    def running(self, name: str) -> bool:
        """Whether the process `name` was started and has not ended."""

    @abstractmethod
    def log(self, name: str) -> str:
        """All that the process `name` has written so far."""


def create(
    provider: str | None = None,
    *,
    name: str = "e2e",
    folder: Path | None = None,
    keep: bool = False,
    report: Callable[[str], object] | None = None,
) -> Cluster:
    """A cluster of that provider (default: $STOKER_E2E_PROVIDER, or `local`), not started yet.

    `folder` is where it lives (default: a new one under the temporary folder), `keep` leaves it there for a look at
    the logs, `report` is told in one line what takes long. Raises ClusterError for an unknown provider.
    """
    provider = provider or os.environ.get("STOKER_E2E_PROVIDER") or "local"
    if provider == "local":
        from e2e.cluster.local import LocalCluster

        return LocalCluster(name, folder=folder, keep=keep, report=report)
    if provider == "node":
        from e2e.cluster.node import NodeCluster

        return NodeCluster(name, folder=folder, keep=keep, report=report)
    if provider == "kind":
        from e2e.cluster.kind import KindCluster

        return KindCluster(name, folder=folder, keep=keep, report=report)
    raise ClusterError(f"provider {provider!r} is not one of {', '.join(PROVIDERS)}")
