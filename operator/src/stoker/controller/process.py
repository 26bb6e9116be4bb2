"""The controller's process, started by `stoker run controller`.

Every replica watches and lists the cluster's objects and serves its probes and metrics. The replica that holds the
Lease also runs the queue's workers, the metrics scan, the notifications and the policies' status.
"""

import asyncio
import logging
import os
import socket
import uuid
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from stoker.adapters.clock import SystemClock
from stoker.adapters.http.health import HealthServer
from stoker.adapters.http.metrics_server import MetricsServer, MetricsSettings
from stoker.adapters.jupyter import Jupyter
from stoker.adapters.kubernetes.client import Kubernetes
from stoker.adapters.kubernetes.pod_logs import PodLogs
from stoker.adapters.notifications import Mail
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.adapters.workers import Workers
from stoker.cluster.process import until_one_ends, watching, when_stopping
from stoker.cluster.watch import SilentWatchError, kopf_settings, watch_registry
from stoker.controller.assembly import Ports, Timing, assemble
from stoker.controller.leader_election import LEASE, LeaderElector, LeaderOnlyApi, LeadershipLostError
from stoker.controller.manifest_cache import warm_up
from stoker.controller.metrics import ControllerMetrics

logger = logging.getLogger(__name__)

RESYNC = 300.0
"""Seconds between two complete lists. Chosen because watches deliver changes at once, and a list of thousands of pods
costs the API server much more than a watch.
"""
RETRY = 2.0
"""Seconds after which a failed list is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How the controller runs.

    namespace: where its Lease is. watched: the namespaces whose DLJobs it controls; empty: all. notification_folder:
    the mounted Secret with the addresses of channels, one file a channel; None: no notification is sent. asks_jupyter:
    whether the controller queries notebook servers in jobs' pods for their last use. watches_workloads: whether
    workloads besides DLJobs are watched, where policies ask for them. review_workers: processes that
    read jobs' manifests. exit_timeout: seconds that stopping may take; shorter than the pod's
    terminationGracePeriodSeconds.
    """

    namespace: str
    prometheus: PrometheusAccess
    timing: Timing = field(default_factory=Timing)
    watched: tuple[str, ...] = ()
    leader_elect: bool = True
    asks_jupyter: bool = True
    watches_workloads: bool = False
    notification_folder: Path | None = None
    health_address: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    health_port: int = 8081
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    review_workers: int = 2
    exit_timeout: float = 20.0


def run(settings: ControllerSettings) -> None:
    """Run the controller until SIGTERM or SIGINT.

    Raises CredentialsError without credentials, OSError for a port in use, and SilentWatchError when a watch has
    stopped and the process must be restarted. A process that loses the Lease exits at once with status 1.
    """
    with suppress(asyncio.CancelledError):
        asyncio.run(serve(settings))


async def serve(settings: ControllerSettings) -> None:
    """Run the controller on the running event loop; see `run`."""
    clock = SystemClock()
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    leading = asyncio.Event()
    recorder = ControllerMetrics()
    async with AsyncExitStack() as stack:
        kubernetes = await stack.enter_async_context(await Kubernetes.connect())
        elector = LeaderElector(kubernetes, clock, namespace=settings.namespace, name=LEASE, identity=identity)

        def may_act() -> bool:
            return elector.is_leader or not settings.leader_elect

        ports = Ports(
            api=LeaderOnlyApi(kubernetes, may_act),
            metrics=await stack.enter_async_context(PrometheusSource(settings.prometheus, observer=recorder)),
            clock=clock,
            workers=await stack.enter_async_context(
                Workers(settings.review_workers, warm_up=warm_up, modules=[warm_up.__module__])
            ),
            post=Mail(settings.notification_folder, may_send=may_act),
            instance=identity,
            jupyter=await stack.enter_async_context(Jupyter()) if settings.asks_jupyter else None,
            logs=PodLogs(kubernetes, clock),
            pods=kubernetes if settings.watches_workloads else None,
            recorder=recorder,
        )
        controller = assemble(ports, settings.timing, namespaces=settings.watched)
        resync, scanner = controller.resync, controller.scanner
        await stack.enter_async_context(
            HealthServer(
                address=settings.health_address,
                port=settings.health_port,
                live={"cluster": resync.stalled, "metrics": lambda: scanner.stalled() if leading.is_set() else None},
                ready={
                    "cluster": resync.not_listed,
                    "metrics": lambda: scanner.failing() if leading.is_set() else None,
                },
            )
        )
        await stack.enter_async_context(MetricsServer(recorder.page, settings.metrics, kubernetes))

        async def lead() -> None:
            await resync.done.wait()
            if settings.leader_elect:
                await elector.acquire()
            leading.set()
            recorder.lead(controller.cache, controller.scan_results, controller.queue.__len__, clock, controller.faults)
            async with asyncio.TaskGroup() as group:
                group.create_task(controller.lead())
                if settings.leader_elect:
                    group.create_task(_hold(elector))

        stopping = asyncio.Event()

        async def stopped() -> None:
            await stopping.wait()

        others = controller.others.queue if controller.others is not None else None
        registry = watch_registry(controller.cache, controller.queue, resync.watch_began_anew, others)
        # What leads ends at once, so that the other replica need not wait for the Lease.
        when_stopping(registry, stopping.set)
        watch = watching(registry, kopf_settings(exit_timeout=settings.exit_timeout), settings.watched)
        try:
            await until_one_ends(watch, resync.run(interval=RESYNC, retry=RETRY), lead(), stopped())
        finally:
            await elector.release()


async def _hold(elector: LeaderElector) -> None:
    """Renew the Lease. When it is lost, exit without any cleanup: another controller may already act."""
    try:
        await elector.hold()
    except LeadershipLostError as lost:
        logger.critical("%s: exiting at once", lost)
        os._exit(1)


__all__ = ["ControllerSettings", "SilentWatchError", "run", "serve"]
