"""The controller's watches and its resync. Watches put objects into the cache and keys into the work queue.

Used by the controller's process and assembly. kopf only watches: no handler decides or writes anything.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import kopf

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    DLJOBS,
    GPU_WORKLOADS,
    JOBS,
    NAMESPACES,
    PODS,
    POLICIES,
    ApiError,
    KubernetesApi,
    Object,
    Resource,
)
from stoker.cluster.cache import ClusterCache, Key, concerned, key_of
from stoker.cluster.process import WatchHandler, keep_listed, watch_only, watches
from stoker.cluster.workqueue import WorkQueue
from stoker.workload.manifest import DLJOB_LABEL

LIST_LATE = 1200.0
"""Seconds without a complete list after which the process is not live and the kubelet restarts it."""
SELECTORS = {JOBS: DLJOB_LABEL, PODS: DLJOB_LABEL}
"""Label selectors of the watches and lists: only the Jobs and pods of DLJobs are read."""
NAMESPACED = frozenset({DLJOBS, GPU_WORKLOADS, JOBS, PODS})
"""What a controller that is restricted to some namespaces lists in each of them. Policies and namespaces have none."""
BEGUN_ANEW = 10.0
"""Seconds from the moment that a watch begins anew to the list that follows. Chosen so that one list serves all watches
that begin anew when an API server restarts.
"""


class SilentWatchError(Exception):
    """A watch has stopped delivering changes, and the process must be restarted."""


def watch_registry(
    cache: ClusterCache,
    queue: WorkQueue[Key],
    began_anew: Callable[[], object],
    gpu_workloads: WorkQueue[Key] | None = None,
) -> kopf.OperatorRegistry:
    """A registry for kopf with the watches of all cached resources; of GPUWorkloads where they have a queue.
    `began_anew` is called for every object that a watch delivers once more in a new initial list.
    """
    handlers = {resource: feeding(resource, cache, queue, began_anew) for resource in cache.resources}
    if gpu_workloads is not None:
        handlers[GPU_WORKLOADS] = feeding(GPU_WORKLOADS, cache, gpu_workloads, began_anew)
    return watches(handlers)


def feeding(
    resource: Resource, cache: ClusterCache, queue: WorkQueue[Key], began_anew: Callable[[], object]
) -> WatchHandler:
    """The handler of one resource's watch; see `watch_registry`."""
    collection = cache.collection(resource)
    delivered = set[Key]()

    def handle(kind: str | None, obj: Object) -> None:
        if kind is None and key_of(obj) in delivered:
            began_anew()
        (delivered.discard if kind == "DELETED" else delivered.add)(key_of(obj))
        if collection.watched(kind, obj) and (key := concerned(resource, obj)) is not None:
            queue.add(key, changed=True)

    return handle


def queue_jobs(cache: ClusterCache, queue: WorkQueue[Key]) -> Callable[[str | None], None]:
    """A follower for `Policies`: it queues the DLJobs of a namespace, or all (None), when their policy may have
    changed.
    """

    def changed(namespace: str | None) -> None:
        for key in cache.dljobs.objects:
            if namespace in {None, key.namespace}:
                queue.add(key, changed=True)

    return changed


def kopf_settings(*, exit_timeout: float) -> kopf.OperatorSettings:
    """Settings with which kopf only watches, and of Jobs and pods only those that SELECTORS select."""
    settings = watch_only(exit_timeout=exit_timeout)
    for resource, selector in SELECTORS.items():
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = selector
    return settings


class Resync:
    """Corrects the cache by lists. A watch does not report objects that were deleted while it was interrupted, so it is
    listed when a watch has begun anew; and a watch may stop without an error, so it is listed periodically, too.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        queue: WorkQueue[Key],
        clock: Clock,
        *,
        namespaces: Sequence[str] = (),
        gpu_workloads: WorkQueue[Key] | None = None,
    ) -> None:
        """Without `namespaces` all are listed; GPUWorkloads where they have a queue."""
        self._queues = {JOBS: queue, PODS: queue, DLJOBS: queue}
        if gpu_workloads is not None:
            self._queues[GPU_WORKLOADS] = gpu_workloads
        self._api = api
        self._namespaces = namespaces
        self._cache = cache
        self._clock = clock
        self._last = clock.monotonic()
        self._begun_anew = asyncio.Event()
        self.done = asyncio.Event()

    def watch_began_anew(self) -> None:
        """A watch was interrupted and has started again with all objects: list them in BEGUN_ANEW seconds."""
        self._begun_anew.set()

    async def once(self) -> None:
        """List all resources and queue every DLJob. Raises ApiError, and SilentWatchError if a watch has not delivered
        what the last list has. A watch that has begun anew may need longer, and is not judged.
        """
        begun_anew = self._begun_anew.is_set()
        self._begun_anew.clear()
        try:
            await self._list_all(judges=not begun_anew)
        except ApiError:
            if begun_anew:
                self._begun_anew.set()  # the list that is tried again must not judge the watch either
            raise
        self._last = self._clock.monotonic()
        self.done.set()

    async def _list_all(self, *, judges: bool) -> None:
        for resource in (NAMESPACES, POLICIES, *self._queues):
            collection = self._cache.collection(resource)
            objects, version = await self._list(resource)
            missed = collection.compare(objects, version)
            if collection.overdue and judges:
                msg = f"the watch of {resource.plural} has missed {collection.overdue} changes"
                raise SilentWatchError(msg)
            for key in filter(None, (concerned(resource, obj) for obj in missed)):
                self._queues[resource].add(key, changed=True)
        for resource in self._queues.keys() & {DLJOBS, GPU_WORKLOADS}:
            for key in self._cache.collection(resource).objects:
                self._queues[resource].add(key)

    async def _list(self, resource: Resource) -> tuple[list[Object], int]:
        """All objects of a resource, and the resource version as of which none of them is missing."""
        scopes: Sequence[str | None] = self._namespaces if resource in NAMESPACED and self._namespaces else (None,)
        objects, versions = list[Object](), list[int]()
        for namespace in scopes:
            found, version = await self._api.list(resource, namespace, labels=SELECTORS.get(resource))
            objects.extend(found)
            versions.append(int(version))
        return objects, min(versions)

    async def run(self, *, interval: float, retry: float) -> None:
        """Call `once` at once, every `interval` seconds, after a failure in `retry` seconds, and when a watch has begun
        anew, until cancelled.
        """

        async def due() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._begun_anew.wait()
                    await asyncio.sleep(BEGUN_ANEW)

        await keep_listed(self.once, "the cluster's objects", due=due, retry=retry)

    def stalled(self) -> str | None:
        """For the liveness probe: why the process must be restarted, or None. See LIST_LATE."""
        late = self._clock.monotonic() - self._last
        return f"not listed for {late:.0f} s" if self.done.is_set() and late > LIST_LATE else None

    def not_listed(self) -> str | None:
        """For the readiness probe: why the cache is not complete yet, or None."""
        return None if self.done.is_set() else "objects not listed yet"
