"""Builds the controller's object graph. Add a new collaborator here.

Used by the process (process.py), by the reclaim simulation (benchmarks/reclaim) and by the tests of the controller, so
that all of them run the same wiring.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from stoker.adapters.clock import Clock
from stoker.adapters.jupyter import Jupyter
from stoker.adapters.kubernetes.client import GPU_WORKLOADS, KubernetesApi
from stoker.adapters.kubernetes.events import EventWriter
from stoker.adapters.kubernetes.pod_logs import PodLogs
from stoker.adapters.workers import Workers
from stoker.catalogue import all_rules
from stoker.cluster.cache import ClusterCache, Key, namespace_of
from stoker.cluster.faults import Faults
from stoker.cluster.gpu_pods import GPUPods, PodReader
from stoker.cluster.owners import OwnerReader, Owners
from stoker.cluster.policies import Policies
from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.cluster.watch import Resync, queue_jobs
from stoker.cluster.workqueue import WorkQueue
from stoker.controller.audit import Audit
from stoker.controller.brake import Brakes
from stoker.controller.children import Children
from stoker.controller.constraints import ClusterConstraints
from stoker.controller.digest import Digests
from stoker.controller.gpu_workloads import GPUWorkloadReconciler, GPUWorkloads, Readings, ScannedGPUWorkloads
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.notifier import Notifier, Post
from stoker.controller.pending_workloads import PendingWorkloads
from stoker.controller.policy_status import PolicyStatusWriter
from stoker.controller.presence import PresenceChecker
from stoker.controller.reclaimer import PresenceReader, Reclaimer
from stoker.controller.reconcile import Reconciler
from stoker.controller.scan import Scanner
from stoker.controller.scan_results import ScanResults
from stoker.controller.scanned_dljobs import ScannedDLJobs
from stoker.controller.scanned_job import ScanSource
from stoker.controller.status_writer import StatusWriter
from stoker.policy.checks import ClusterSettings
from stoker.telemetry.screen import MetricsSource

WORKERS = 16
"""DLJobs reconciled at the same time. One namespace has at most half of the workers, two have three quarters, and so on
(WorkQueue). Chosen because reconciling waits for the API server most of the time.
"""


class GPUPodReader(PodReader, OwnerReader, Protocol):
    """Reads pods, and the owners of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The controller's connections to the outside: adapters in production, fakes of our own interfaces in the
    simulation and in tests.
    """

    api: KubernetesApi
    """Writes must be refused while another controller leads (leader_election.LeaderOnlyApi)."""
    metrics: MetricsSource
    clock: Clock
    workers: Workers
    """The processes that read jobs' manifests."""
    post: Post
    instance: str
    """The name of this process: the reportingInstance of its events."""
    jupyter: Jupyter | None = None
    """None: notebook servers are not queried for their last use."""
    pods: GPUPodReader | None = None
    """Reads pods that no DLJob made, where policies ask for them; None: only DLJobs are watched."""
    logs: PodLogs | None = None
    """None: no trainer's log is read, also where a policy sets readLogs."""
    recorder: MetricsRecorder = NO_RECORDER
    jitter: Callable[[], float] = random.random
    """Returns a random number in 0..1 for the queue's backoff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The controller's intervals.

    scan_interval: between two scans of the metrics. scrape_interval: Prometheus' own; policies whose windows are too
    short for it get a condition. minimum_warning_grace: the lower bound of every policy's warningGrace.
    """

    scan_interval: timedelta = timedelta(seconds=30)
    scrape_interval: timedelta = timedelta(seconds=30)
    minimum_warning_grace: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitutes:
    """Parts that the simulation, benchmarks and tests replace because they are not their subject. Production replaces
    none.
    """

    cache: ClusterCache | None = None
    """A cache that already holds objects; None: an empty one."""
    queue: WorkQueue[Key] | None = None
    manifests: Callable[[Policies, Clock, Workers], ManifestCache] = ManifestCache
    scanner: type[Scanner] = Scanner
    presences: PresenceReader | None = None


NO_SUBSTITUTES = Substitutes()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedWorkloads:
    """The parts for workloads besides DLJobs, wired."""

    queue: WorkQueue[Key]
    pods: GPUPods
    scanned: ScannedGPUWorkloads
    reconciler: GPUWorkloadReconciler

    async def run(self) -> None:
        """Watch pods and reconcile GPUWorkloads until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pods.run())
            group.create_task(self._reconcile())

    async def _reconcile(self) -> None:
        # Before the pods are listed a workload would seem to have none.
        await self.pods.listed.wait()
        await self.queue.run(self.reconciler.reconcile, workers=WORKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """The parts of one controller, wired."""

    cache: ClusterCache
    queue: WorkQueue[Key]
    resync: Resync
    scan_results: ScanResults
    policies: Policies
    manifests: ManifestCache
    children: Children
    status_writer: StatusWriter
    brakes: Brakes
    constraints: ClusterConstraints
    presences: PresenceReader
    reclaimer: Reclaimer
    reconciler: Reconciler
    scanner: Scanner
    pending_workloads: PendingWorkloads
    policy_status: PolicyStatusWriter
    notifier: Notifier
    digests: Digests
    faults: Faults
    others: WatchedWorkloads | None
    """The workloads besides DLJobs; None: they are not watched."""

    async def lead(self) -> None:
        """Run the leader's loops until cancelled: reconcile, scan, policies' status, notifications and digests."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(self.reconciler.reconcile, workers=WORKERS))
            group.create_task(self.scanner.run())
            group.create_task(self.pending_workloads.run())
            group.create_task(self.policy_status.run())
            group.create_task(self.notifier.run())
            group.create_task(self.digests.run())
            if self.others is not None:
                group.create_task(self.others.run())


def assemble(
    ports: Ports, timing: Timing, substitutes: Substitutes = NO_SUBSTITUTES, *, namespaces: Sequence[str] = ()
) -> Controller:
    """Build a controller from its ports, for these `namespaces` or for all. Starts no task and sends no request; call
    `Controller.lead` to run it.
    """
    api, clock, metrics, recorder = ports.api, ports.clock, ports.metrics, ports.recorder
    faults = Faults(recorder)
    cache = substitutes.cache if substitutes.cache is not None else ClusterCache(faults)
    queue = substitutes.queue
    if queue is None:
        queue = WorkQueue(group=namespace_of, jitter=ports.jitter, faults=faults)
    policies = Policies(cache.policies, cache.namespaces)
    policies.follow(queue_jobs(cache, queue))
    scan_results = ScanResults()

    audit = Audit(clock, recorder)
    events = EventWriter(api, clock, instance=ports.instance)
    status_writer = StatusWriter(api, cache, events, recorder, audit)
    children = Children(api, cache, clock)
    manifests = substitutes.manifests(policies, clock, ports.workers)
    pending_workloads = PendingWorkloads(cache, queue, children.suspension, clock, faults)

    brakes = Brakes(api, cache, events, audit, clock, faults)
    constraints = ClusterConstraints(
        api, cache, policies, brakes, clock, minimum_warning_grace=timing.minimum_warning_grace, faults=faults
    )
    presences = substitutes.presences or PresenceChecker(clock, manifests, jupyter=ports.jupyter, metrics=metrics)
    reclaimer = Reclaimer(
        api, children, status_writer, policies, manifests, metrics, clock, presences=presences, constraints=constraints
    )
    reconciler = Reconciler(
        api, cache, scan_results, children, policies, manifests, status_writer, reclaimer, pending_workloads, clock
    )
    sources: list[ScanSource] = [ScannedDLJobs(cache, queue, policies, manifests)]
    others = None
    if ports.pods is not None:
        others = watched_workloads(
            ports, ports.pods, cache, policies, scan_results, events, faults, namespaces=namespaces
        )
        sources.append(others.scanned)
    scanner = substitutes.scanner(
        sources,
        scan_results,
        metrics,
        clock,
        interval=timing.scan_interval,
        brakes=brakes,
        recorder=recorder,
        faults=faults,
        logs=ports.logs,
    )

    limits = ClusterSettings(scrape_interval=timing.scrape_interval, minimum_warning_grace=timing.minimum_warning_grace)
    return Controller(
        cache=cache,
        queue=queue,
        resync=Resync(
            api,
            cache,
            queue,
            clock,
            namespaces=namespaces,
            gpu_workloads=others.queue if others is not None else None,
        ),
        scan_results=scan_results,
        policies=policies,
        manifests=manifests,
        children=children,
        status_writer=status_writer,
        brakes=brakes,
        constraints=constraints,
        presences=presences,
        reclaimer=reclaimer,
        reconciler=reconciler,
        scanner=scanner,
        pending_workloads=pending_workloads,
        policy_status=PolicyStatusWriter(api, cache, policies, all_rules(), limits, clock, faults),
        notifier=Notifier(api, cache, policies, status_writer, ports.post, clock, recorder, faults),
        digests=Digests(api, cache, policies, ports.post, clock, recorder, faults),
        faults=faults,
        others=others,
    )


def watched_workloads(
    ports: Ports,
    reader: GPUPodReader,
    cache: ClusterCache,
    policies: Policies,
    scan_results: ScanResults,
    events: EventWriter,
    faults: Faults,
    *,
    namespaces: Sequence[str],
) -> WatchedWorkloads:
    """The parts that watch workloads besides DLJobs. Starts no task and sends no request."""
    queue: WorkQueue[Key] = WorkQueue(group=namespace_of, jitter=ports.jitter, place="workloads", faults=faults)
    pods = GPUPods(reader, Owners(reader), policies, faults, namespaces=namespaces)
    workloads = GPUWorkloads(pods, cache.gpu_workloads, queue)
    policies.follow(workloads.queue_all)
    readings = Readings(workloads)
    reconciler = GPUWorkloadReconciler(
        ports.api,
        cache.gpu_workloads,
        workloads,
        readings,
        scan_results,
        policies,
        StatusWriter(ports.api, cache, events, ports.recorder, resource=GPU_WORKLOADS),
        ports.clock,
    )
    return WatchedWorkloads(
        queue=queue,
        pods=pods,
        scanned=ScannedGPUWorkloads(cache.gpu_workloads, readings, policies, queue),
        reconciler=reconciler,
    )
