"""kopf's part of the controller: watches feed the store and the queue, nothing else. No handler decides or writes
anything.
"""

import asyncio
import logging
import os
from typing import Any

import kopf

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes import DLJOBS, JOBS, NAMESPACES, PODS, POLICIES, ApiError, KubernetesApi, Resource
from stoker.controller.queue import WorkQueue
from stoker.controller.store import Key, Store, concerned
from stoker.models.meta import GROUP
from stoker.workload.manifest import DLJOB_LABEL

logger = logging.getLogger(__name__)

LIST_LATE = 1200.0
"""Seconds without a complete list after which the process is started anew."""
SELECTORS = {JOBS: DLJOB_LABEL, PODS: DLJOB_LABEL}
"""Of Jobs and pods only those that DLJobs have made are read."""


class SilentWatchError(Exception):
    """A watch has stopped telling of changes: the process must be started anew."""


def watching(store: Store, queue: WorkQueue[Key]) -> kopf.OperatorRegistry:
    """The handlers of all watches."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        if os.environ.get("KUBECONFIG"):
            return kopf.login_with_kubeconfig(**kwargs)
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    for resource in store.resources:
        _watch(registry, resource, store, queue)
    return registry


def _watch(registry: kopf.OperatorRegistry, resource: Resource, store: Store, queue: WorkQueue[Key]) -> None:
    collection = store.collection(resource)

    @kopf.on.event(
        resource.group, resource.version, resource.plural, id=f"{resource.plural}-changed", registry=registry
    )
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        obj: dict[str, Any] = dict(event["object"])
        if collection.watched(event["type"], obj) and (key := concerned(resource, obj)) is not None:
            queue.add(key)


def kopf_settings(*, exit_timeout: float) -> kopf.OperatorSettings:
    """Watch only: no peering, no events, no finalizers, no annotations."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.admission.managed = None
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.inactivity_timeout = 70
    for resource, selector in SELECTORS.items():
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = selector
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 30
    settings.queueing.worker_limit = None
    settings.queueing.idle_timeout = 0.5
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.execution.max_workers = 2
    settings.process.ultimate_exiting_timeout = exit_timeout
    return settings


class Resync:
    """Compares the store with full lists: what was deleted while a watch was away is told by no event, and a watch may
    fall silent.
    """

    def __init__(self, api: KubernetesApi, store: Store, queue: WorkQueue[Key], clock: Clock) -> None:
        self._api = api
        self._store = store
        self._queue = queue
        self._clock = clock
        self._last = clock.monotonic()
        self.done = asyncio.Event()

    async def once(self) -> None:
        """List everything and have every DLJob looked at. Raises ApiError, or SilentWatchError."""
        for resource in (NAMESPACES, POLICIES, JOBS, PODS, DLJOBS):
            collection = self._store.collection(resource)
            objects, version = await self._api.list(resource, labels=SELECTORS.get(resource))
            missed = collection.compare(objects, int(version))
            if collection.overdue:
                msg = f"the watch of {resource.plural} has missed {collection.overdue} changes"
                raise SilentWatchError(msg)
            for key in filter(None, (concerned(resource, obj) for obj in missed)):
                self._queue.add(key)
        for key in self._store.dljobs.objects:
            self._queue.add(key)
        self._last = self._clock.monotonic()
        self.done.set()

    async def run(self, *, interval: float, retry: float) -> None:
        """List at once and every `interval` seconds; after a failure every `retry` seconds."""
        while True:
            try:
                await self.once()
            except ApiError as error:
                logger.warning("objects can't be listed: %s", error)
                await asyncio.sleep(retry)
            else:
                await asyncio.sleep(interval)

    def stalled(self) -> str | None:
        """Says so when the cluster has not been listed for much longer than it should take."""
        late = self._clock.monotonic() - self._last
        return f"not listed for {late:.0f} s" if self.done.is_set() and late > LIST_LATE else None

    def not_listed(self) -> str | None:
        """Why the store can't be relied on yet, or None."""
        return None if self.done.is_set() else "objects not listed yet"
