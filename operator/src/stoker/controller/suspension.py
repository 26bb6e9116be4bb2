"""How a Job's pods are taken away and given back, whoever manages it: by the Job's own `spec.suspend`, or by
`spec.active` of the Workload with which Kueue manages it. Of a managed Job `suspend` is Kueue's: true would kill what
it has started and leave its quota taken, false would by-pass the queue.

That Kueue manages a Job is a fact of the Job after its creation, not of a label: Kueue can be set to manage those
without one, too. Its Workload carries the Job's uid as a label
(https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/).

Every suspension is marked on the Job, before the Workload is touched: the Job is watched, so that whatever was begun is
found again. What counts is the mark on the object that takes the pods away, written in one patch with that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    JOBS,
    WORKLOADS,
    ForbiddenError,
    KubernetesApi,
    NotFoundError,
    Object,
    Resource,
    UnavailableError,
)
from stoker.api.names import KUEUE, QUEUE_LABEL
from stoker.cluster.cache import ClusterCache
from stoker.controller.candidates import is_of
from stoker.lint.kinds.job import SUSPEND
from stoker.lint.kinds.kind import SuspendField
from stoker.workload.observation import SUSPENDED_BY

JOB_UID_LABEL = f"{KUEUE}/job-uid"
WORKLOAD_SUSPEND = SuspendField(name="active", suspended=False)
"""`spec.active` of Kueue's Workload."""
ABSENT_FOR = 600.0
"""Seconds for which Kueue is taken to be absent once its API was not there."""


class NotSuspendableError(Exception):
    """A Job can't be suspended and resumed; the text says why, as a clause that follows a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendMechanism:
    """What takes a Job's pods away, as it was read: the Job itself, or its Workload."""

    resource: Resource
    target: Object

    @property
    def field(self) -> SuspendField:
        """The field that takes the pods away."""
        return SUSPEND if self.resource == JOBS else WORKLOAD_SUSPEND

    @property
    def is_suspended(self) -> bool:
        """Whether it keeps the pods away."""
        return self.field.is_suspended(self.target)

    @property
    def suspended_by(self) -> str | None:
        """Who had Stoker turn it off; None where it is on, or somebody else has turned it off."""
        return mark_of(self.target) if self.is_suspended else None


def mark_of(target: Mapping[str, Any]) -> str | None:
    """Who had Stoker suspend the object, as is written on it."""
    mark: str | None = target["metadata"].get("annotations", {}).get(SUSPENDED_BY)
    return mark


class Suspension:
    """Turns Jobs' pods off and on. Each write is fenced by the versions that were read: what has changed since then is
    left as it is (ConflictError).
    """

    def __init__(self, api: KubernetesApi, cache: ClusterCache, clock: Clock) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._served: Resource | None = None
        self._absent_until = 0.0

    async def mechanism_of(self, child: Object, *, afresh: bool = False) -> SuspendMechanism:
        """What takes the Job's pods away; a Workload is read anew. `afresh`: that Kueue is absent is, too. Raises
        NotSuspendableError, ApiError.
        """
        found = await self._workloads(child, afresh=afresh)
        if found is None and QUEUE_LABEL in child["metadata"].get("labels", {}):
            msg = f"it has the label {QUEUE_LABEL}, but Kueue has not created a Workload for it"
            raise NotSuspendableError(msg)
        if found is None:
            return SuspendMechanism(resource=JOBS, target=child)
        resource, workloads = found
        live = _live(workloads, child)
        if len(live) != 1:
            msg = f"Kueue manages it with {len(live)} Workloads, where one is expected"
            raise NotSuspendableError(msg)
        return SuspendMechanism(resource=resource, target=live[0])

    async def workloads(self, child: Object) -> list[Object]:
        """The Workloads of the Job that are not over; none where Kueue does not manage it.

        Raises NotSuspendableError.
        """
        found = await self._workloads(child, afresh=False)
        return [] if found is None else _live(found[1], child)

    async def suspend(self, child: Object, mechanism: SuspendMechanism, by: str) -> tuple[Object, SuspendMechanism]:
        """Take the Job's pods away; the Job and its mechanism as they are then."""
        if mechanism.resource == JOBS:
            child = await self._patch(JOBS, child, by, mechanism.field.patch(suspend=True))
            return child, SuspendMechanism(resource=JOBS, target=child)
        child = await self._patch(JOBS, child, by, {})
        workload = await self._patch(mechanism.resource, mechanism.target, by, mechanism.field.patch(suspend=True))
        return child, SuspendMechanism(resource=mechanism.resource, target=workload)

    async def resume(self, child: Object, mechanism: SuspendMechanism) -> tuple[Object, SuspendMechanism]:
        """Undo `suspend`. When a Job of a queue starts again is the queue's affair."""
        if mechanism.resource == JOBS:
            child = await self._patch(JOBS, child, None, mechanism.field.patch(suspend=False))
            return child, SuspendMechanism(resource=JOBS, target=child)
        workload = await self._patch(mechanism.resource, mechanism.target, None, mechanism.field.patch(suspend=False))
        child = await self._patch(JOBS, child, None, {})
        return child, SuspendMechanism(resource=mechanism.resource, target=workload)

    async def unmark(self, child: Object) -> Object:
        """Take the mark from a Job that Stoker does not hold: what was begun was not done, or was undone."""
        return await self._patch(JOBS, child, None, {})

    async def _patch(self, resource: Resource, target: Object, mark: str | None, fields: Mapping[str, Any]) -> Object:
        metadata = target["metadata"]
        fence = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**fence, "annotations": {SUSPENDED_BY: mark}}, **fields}
        patched = await self._api.patch(resource, metadata["namespace"], metadata["name"], body)
        if resource == JOBS:
            self._cache.jobs.put(patched)
        return patched

    async def _workloads(self, child: Object, *, afresh: bool) -> tuple[Resource, list[Object]] | None:
        """The Job's Workloads; None where there are none."""
        if not afresh and self._clock.monotonic() < self._absent_until:
            return None
        namespace, uid = child["metadata"]["namespace"], child["metadata"]["uid"]
        for resource in WORKLOADS if self._served is None else (self._served, *WORKLOADS):
            try:
                found, _ = await self._api.list(resource, namespace, labels=f"{JOB_UID_LABEL}={uid}")
            except NotFoundError:
                continue
            except ForbiddenError as error:
                msg = "the operator may not list Kueue's Workloads, so it is unknown whether Kueue manages it"
                raise NotSuspendableError(msg) from error
            except UnavailableError as error:
                msg = "Kueue's Workloads can't be read now"
                raise NotSuspendableError(msg) from error
            self._served, self._absent_until = resource, 0.0
            return (resource, found) if found else None
        self._served, self._absent_until = None, self._clock.monotonic() + ABSENT_FOR
        return None


def _live(workloads: Iterable[Object], child: Object) -> list[Object]:
    """The Job's own Workloads, without those that are over: of a Job that was scaled by slices the replaced ones. A
    label is easily copied; whose a Workload is, its owner says.
    """
    return [one for one in workloads if is_of(one, child) and not _is_over(one)]


def _is_over(workload: Mapping[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    finished = any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)
    return finished or "deletionTimestamp" in workload["metadata"]
