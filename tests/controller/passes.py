"""One DLJob and the reconciler, in an API server of one's own."""

from datetime import UTC, datetime
from typing import Any

from stoker.adapters.kubernetes.client import DLJOBS, EVENTS, JOBS, PODS
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.cluster.workqueue import Requeue
from stoker.controller.assembly import Substitutes
from stoker.controller.presence import PresenceChecker
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock
from tests.workload.building import dljob_object, job

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = Key("team", "bert")


class World:
    """A DLJob `bert` that nothing is known of yet but its `status`, and passes over it."""

    def __init__(
        self, status: dict[str, Any] | None = None, *, recorder: MetricsRecorder = NO_RECORDER, **spec: Any
    ) -> None:
        self._recorder = recorder
        self.api, self.cache, self.clock = FakeApi(), ClusterCache(Faults()), HeldClock(NOW)
        raw = self.api.store(DLJOBS, "team", dljob_object(status=status, **spec))
        self.cache.dljobs.put(raw)
        self.restart()

    async def reconcile(self) -> Requeue:
        return await self.reconciler.reconcile(KEY)

    def put_job(self, **options: Any) -> None:
        """The Job, in the cluster and in the store."""
        self.cache.jobs.put(self.api.store(JOBS, "team", job(**options)))

    def put_pods(self, *pods: Any) -> None:
        """Pods in the store."""
        for one in pods:
            self.cache.pods.put(self.api.store(PODS, "team", one))

    def restart(self) -> None:
        """The operator's process begins anew: what it had in memory is gone."""
        parts = Substitutes(cache=self.cache, presences=PresenceChecker())
        self.controller = assembled(self.api, self.clock, substitutes=parts, recorder=self._recorder)
        self.reconciler, self.scan_results = self.controller.reconciler, self.controller.scan_results

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
