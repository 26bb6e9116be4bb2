"""The controller's process: watches, lists, the lease, and once it leads, the queue's workers and the metrics scan."""

import asyncio
import logging
import os
import socket
import uuid
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import kopf

from stoker.adapters.clock import SystemClock
from stoker.adapters.http.health import HealthServer
from stoker.adapters.http.metrics_server import MetricsServer, MetricsSettings
from stoker.adapters.jupyter import Jupyter
from stoker.adapters.kubernetes.client import Kubernetes
from stoker.adapters.kubernetes.events import EventWriter
from stoker.adapters.kubernetes.pod_logs import PodLogs
from stoker.adapters.notifications import Mail
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.adapters.workers import Workers
from stoker.catalogue import all_rules
from stoker.cluster.cache import Key, Store, namespace_of
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.cluster.process import until_one_ends
from stoker.cluster.watch import Resync, SilentWatchError, kopf_settings, queue_jobs, watching
from stoker.cluster.workqueue import WorkQueue
from stoker.controller.audit import Audit
from stoker.controller.brake import Brakes
from stoker.controller.children import Children
from stoker.controller.constraints import ClusterConstraints
from stoker.controller.digest import Digests
from stoker.controller.leader_election import Elector, LeadersApi, LeadershipLostError
from stoker.controller.manifest_cache import Manifests, warm_up
from stoker.controller.metrics import ControllerMetrics
from stoker.controller.notifier import Notifier
from stoker.controller.pending_workloads import QueuedJobs
from stoker.controller.policy_status import PolicyReporter
from stoker.controller.presence import PresenceChecker
from stoker.controller.reclaimer import Reclaimer
from stoker.controller.reconcile import Reconciler
from stoker.controller.scan import Scanner
from stoker.controller.scan_results import Looks
from stoker.controller.status_writer import Publisher
from stoker.policy.checks import ClusterSettings

logger = logging.getLogger(__name__)

LEASE = "stoker-controller"
WORKERS = 16
"""Of these one namespace has at most half at work, two three quarters, and so on."""
RESYNC = 300.0
RETRY = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How the controller runs. `namespace` is where its lease is; `notification_folder` has the addresses of channels,
    a file each; `exit_timeout` is below the pod's grace period. `asks_jupyter`: whether notebook servers in jobs' pods
    are asked when they were used. `review_workers`: processes that read jobs' manifests.
    """

    namespace: str
    prometheus: PrometheusAccess
    scan_interval: timedelta = timedelta(seconds=30)
    minimum_warning_grace: timedelta = timedelta(minutes=5)
    scrape_interval: timedelta = timedelta(seconds=30)
    leader_elect: bool = True
    asks_jupyter: bool = True
    notification_folder: Path | None = None
    health_address: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    health_port: int = 8081
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    review_workers: int = 2
    exit_timeout: float = 20.0


def run(settings: ControllerSettings) -> None:
    """Control until SIGTERM or SIGINT.

    Raises CredentialsError without credentials, OSError for a port that is taken, LeadershipLostError and
    SilentWatchError when the process must be started anew.
    """
    with suppress(asyncio.CancelledError):
        asyncio.run(serve(settings))


async def serve(settings: ControllerSettings) -> None:
    """The whole process; see `run`."""
    clock = SystemClock()
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    leading = asyncio.Event()
    told = ControllerMetrics()
    faults = Faults(told)
    store, looks = Store(faults), Looks()
    queue: WorkQueue[Key] = WorkQueue(group=namespace_of, faults=faults)
    async with AsyncExitStack() as stack:
        kubernetes = await stack.enter_async_context(await Kubernetes.connect())
        elector = Elector(kubernetes, clock, namespace=settings.namespace, name=LEASE, identity=identity)

        def may_act() -> bool:
            return elector.is_leader or not settings.leader_elect

        api = LeadersApi(kubernetes, may_act)
        metrics = await stack.enter_async_context(PrometheusSource(settings.prometheus, observer=told))
        resync = Resync(kubernetes, store, queue, clock)
        children, policies = Children(api, store, clock), Policies(store.policies, store.namespaces)
        policies.follow(queue_jobs(store, queue))
        workers = await stack.enter_async_context(
            Workers(settings.review_workers, warm_up=warm_up, modules=[Manifests.__module__])
        )
        manifests = Manifests(policies, clock, workers)
        audit = Audit(clock, told)
        events = EventWriter(api, clock, instance=identity)
        publisher = Publisher(api, store, events, told, audit)
        brakes = Brakes(api, store, events, audit, clock, faults)
        constraints = ClusterConstraints(
            api, store, policies, brakes, clock, minimum_warning_grace=settings.minimum_warning_grace, faults=faults
        )
        jupyter = await stack.enter_async_context(Jupyter()) if settings.asks_jupyter else None
        presences = PresenceChecker(clock, manifests, jupyter=jupyter, metrics=metrics)
        reclaimer = Reclaimer(
            api, children, publisher, policies, manifests, metrics, clock, presences=presences, constraints=constraints
        )
        queued = QueuedJobs(store, queue, children.suspension, clock, faults)
        reconciler = Reconciler(api, store, looks, children, policies, manifests, publisher, reclaimer, queued, clock)
        scanner = Scanner(
            store,
            queue,
            looks,
            metrics,
            policies,
            manifests,
            clock,
            interval=settings.scan_interval,
            brakes=brakes,
            meter=told,
            faults=faults,
            logs=PodLogs(kubernetes, clock),
        )
        surroundings = ClusterSettings(
            scrape_interval=settings.scrape_interval, minimum_warning_grace=settings.minimum_warning_grace
        )
        reporter = PolicyReporter(api, store, policies, all_rules(), surroundings, clock, faults)
        post = Mail(settings.notification_folder, may_send=may_act)
        notifier = Notifier(api, store, policies, publisher, post, clock, told, faults)
        digests = Digests(api, store, policies, post, clock, told, faults)
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
        await stack.enter_async_context(MetricsServer(told.page, settings.metrics, kubernetes))

        async def lead() -> None:
            await resync.done.wait()
            if settings.leader_elect:
                await elector.acquire()
            leading.set()
            told.lead(store, looks, queue.__len__, clock, faults)
            async with asyncio.TaskGroup() as group:
                group.create_task(queue.run(reconciler.reconcile, workers=WORKERS))
                group.create_task(scanner.run())
                group.create_task(queued.run())
                group.create_task(reporter.run())
                group.create_task(notifier.run())
                group.create_task(digests.run())
                if settings.leader_elect:
                    group.create_task(_hold(elector))

        watch = kopf.operator(
            registry=watching(store, queue),
            settings=kopf_settings(exit_timeout=settings.exit_timeout),
            clusterwide=True,
            standalone=True,
        )
        try:
            await until_one_ends(watch, resync.run(interval=RESYNC, retry=RETRY), lead())
        finally:
            await elector.release()


async def _hold(elector: Elector) -> None:
    """Renew the lease. Without it another controller may act any moment: nothing is unwound, the process ends."""
    try:
        await elector.hold()
    except LeadershipLostError as lost:
        logger.critical("%s: exiting at once", lost)
        os._exit(1)


__all__ = ["ControllerSettings", "SilentWatchError", "run", "serve"]
