"""One DLJob and the reconciler, in an API server of one's own."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.adapters.kubernetes.client import DLJOBS, EVENTS, JOBS, PODS
from stoker.adapters.kubernetes.events import EventWriter
from stoker.cluster.cache import Key, Store
from stoker.cluster.policies import Policies
from stoker.cluster.recorder import UNMETERED, Meter
from stoker.cluster.workqueue import Answer, WorkQueue
from stoker.controller.audit import Audit
from stoker.controller.brake import Brakes
from stoker.controller.children import Children
from stoker.controller.constraints import ClusterConstraints
from stoker.controller.manifest_cache import Manifests
from stoker.controller.pending_workloads import QueuedJobs
from stoker.controller.presence import PresenceChecker
from stoker.controller.reclaimer import Reclaimer
from stoker.controller.reconcile import Reconciler
from stoker.controller.scan_results import Looks
from stoker.controller.status_writer import Publisher
from tests.controller.cluster import FakeApi, HeldClock
from tests.inline_workers import InlineWorkers
from tests.workload.building import dljob_object, job

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = Key("team", "bert")


class NoMetrics:
    """A MetricsSource that must not be asked."""

    async def screen(self, *_: Any) -> Any:
        raise AssertionError("not asked by reconcile")

    async def series(self, *_: Any) -> Any:
        raise AssertionError("not asked by reconcile")


class World:
    """A DLJob `bert` that nothing is known of yet but its `status`, and passes over it."""

    def __init__(self, status: dict[str, Any] | None = None, *, meter: Meter = UNMETERED, **spec: Any) -> None:
        self._meter = meter
        self.api, self.store, self.clock = FakeApi(), Store(), HeldClock(NOW)
        raw = self.api.store(DLJOBS, "team", dljob_object(status=status, **spec))
        self.store.dljobs.put(raw)
        self.looks = Looks()
        self.reconciler = self._reconciler()

    def _reconciler(self) -> Reconciler:
        policies = Policies(self.store.policies, self.store.namespaces)
        manifests = Manifests(policies, self.clock, InlineWorkers())
        self.children = children = Children(self.api, self.store, self.clock)
        events = EventWriter(self.api, self.clock, instance="test")
        self.publisher = publisher = Publisher(self.api, self.store, events, self._meter)
        reclaimer = Reclaimer(
            self.api,
            children,
            publisher,
            policies,
            manifests,
            NoMetrics(),
            self.clock,
            presences=PresenceChecker(),
            constraints=ClusterConstraints(
                self.api,
                self.store,
                policies,
                Brakes(self.api, self.store, events, Audit(self.clock), self.clock),
                self.clock,
                minimum_warning_grace=timedelta(minutes=5),
            ),
        )
        self.queued = QueuedJobs(self.store, WorkQueue(), children.suspension, self.clock)
        return Reconciler(
            self.api,
            self.store,
            self.looks,
            children,
            policies,
            manifests,
            publisher,
            reclaimer,
            self.queued,
            self.clock,
        )

    async def reconcile(self) -> Answer:
        return await self.reconciler.reconcile(KEY)

    def put_job(self, **options: Any) -> None:
        """The Job, in the cluster and in the store."""
        self.store.jobs.put(self.api.store(JOBS, "team", job(**options)))

    def put_pods(self, *pods: Any) -> None:
        """Pods in the store."""
        for one in pods:
            self.store.pods.put(self.api.store(PODS, "team", one))

    def restart(self) -> None:
        """The operator's process begins anew: what it had in memory is gone."""
        self.looks = Looks()
        self.reconciler = self._reconciler()

    @property
    def uid(self) -> str:
        """The DLJob's."""
        return str(self.api.objects[DLJOBS, "team", "bert"]["metadata"]["uid"])

    @property
    def events(self) -> list[Any]:
        """All events that were written."""
        return [obj for (resource, _, _), obj in self.api.objects.items() if resource == EVENTS]

    def events_of(self, reason: str) -> list[Any]:
        """The events of one reason."""
        return [event for event in self.events if event["reason"] == reason]

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.api.objects[DLJOBS, "team", "bert"].get("status", {})
        return status

    @property
    def writes(self) -> list[str]:
        return [one for one in self.api.requests if one.split()[0] in {"create", "replace", "patch", "delete"}]
