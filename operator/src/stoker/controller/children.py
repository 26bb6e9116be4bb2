"""Reads and writes a DLJob's child Job and Service.

Used by reconcile and the reclaimer. Children are created once and afterwards changed by merge patches of single fields.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    EVENTS,
    JOBS,
    SERVICES,
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    NotFoundError,
    Object,
    Resource,
    UnavailableError,
    Warn,
)
from stoker.api.dljob import DLJob
from stoker.cluster.cache import ClusterCache, key_of, version_of
from stoker.controller.api_refusals import not_created, warned
from stoker.controller.suspension import Suspension
from stoker.workload.manifest import is_ours, job_manifest, service_manifest
from stoker.workload.observation import creation_obstacle
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)


FIRST_PAUSE, LAST_PAUSE = 5.0, 300.0
"""Seconds after which the events of a Job that lacks pods are listed again: the first pause and the longest. The pause
doubles each time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CreationCheck:
    """The obstacle that a Job's events showed. It is valid `until` a monotonic time, as long as `seen`, the Job's
    resource version and its number of pods, stays the same. pause: seconds from this listing to the next.
    """

    seen: tuple[str, int]
    until: float
    pause: float
    obstacle: Obstacle | None


class NameConflictError(Exception):
    """An object with the child's name exists and does not belong to the DLJob. It is left unchanged."""


class NotCreatedError(Exception):
    """The API server has refused to create a child; `obstacle` says why."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class Children:
    """Makes all writes to children: a create, a delete, or a merge patch of single fields. Patches and deletes carry
    the resource version that was read as a precondition.
    """

    def __init__(self, api: KubernetesApi, cache: ClusterCache, clock: Clock) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._creation_checks: dict[str, _CreationCheck] = {}
        """The latest checks of the events of Jobs that lack pods, by the Job's uid."""
        self.suspension = Suspension(api, cache, clock)

    async def find(self, job: DLJob, *, afresh: bool = False) -> Object | None:
        """The DLJob's own Job, or None. It is read from the cache. It is read from the API server with `afresh`, and
        when the cache lacks it although the status says that one was created.
        """
        known = self.cached(job)
        if known is not None and not afresh:
            return known
        if job.status is None or job.status.job_uid is None:
            return None
        try:
            found = await self._api.get(JOBS, job.namespace, job.name)
        except NotFoundError:
            return None
        if not is_ours(found, job.uid):
            return None
        self._cache.jobs.put(found)
        return found

    def cached(self, job: DLJob) -> Object | None:
        """The DLJob's own Job, as far as the cache has it."""
        known = self._cache.jobs.get(key_of({"metadata": {"namespace": job.namespace, "name": job.name}}))
        return known if known is not None and is_ours(known, job.uid) else None

    async def create(self, job: DLJob) -> tuple[Object, str]:
        """Create the Service and then the Job. Children that an earlier, interrupted attempt has created are reused.

        Returns the Job and the API server's warnings as one text. Raises NameConflictError, NotCreatedError or another
        ApiError.
        """
        service = service_manifest(job)
        if service is not None:
            await self._create(SERVICES, job, service)
        manifest, warnings = job_manifest(job), list[str]()
        child = await self._create(JOBS, job, manifest, warnings.append)
        self._cache.jobs.put(child)
        return child, warned(warnings, manifest)

    async def _create(
        self, resource: Resource, job: DLJob, manifest: Mapping[str, Any], warn: Warn | None = None
    ) -> Object:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            return await self._api.create(resource, job.namespace, manifest, warn=warn)
        except AlreadyExistsError:
            found = await self._api.get(resource, job.namespace, name)
        except (ForbiddenError, InvalidError, UnavailableError) as error:
            raise NotCreatedError(not_created(error, manifest)) from error
        if is_ours(found, job.uid):
            return found
        msg = (
            f"a {kind} named {name} exists and does not belong to this DLJob: delete it, or give the DLJob another name"
        )
        raise NameConflictError(msg)

    async def set_deadline(self, child: Mapping[str, Any], seconds: int | None) -> Object:
        """Set the Job's activeDeadlineSeconds; None removes it. Returns the Job as written. Raises ConflictError when
        the Job has changed since it was read.
        """
        metadata = child["metadata"]
        fence = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": fence, "spec": {"activeDeadlineSeconds": seconds}}
        patched = await self._api.patch(JOBS, metadata["namespace"], metadata["name"], body)
        self._cache.jobs.put(patched)
        return patched

    async def delete(self, child: Mapping[str, Any]) -> None:
        """Delete the Job; its pods follow. Raises ConflictError when the Job has changed since it was read."""
        metadata = child["metadata"]
        await self._api.delete(
            JOBS,
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )

    async def obstacle(
        self, child: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
    ) -> tuple[Obstacle | None, float | None]:
        """Why the Job controller could not create all pods, from its latest FailedCreate event (None without one), and
        in how many seconds to call this again (None when no pod is missing).

        The events are listed again after a growing pause, or when the Job or the number of its pods has changed. The
        event may be written after the last change of the Job.
        """
        uid, spec, status = child["metadata"]["uid"], child["spec"], child.get("status", {})
        missing = spec.get("parallelism", 0) - len(pods)
        if spec.get("suspend") or missing <= 0 or status.get("active", 0) >= spec.get("parallelism", 0):
            self._creation_checks.pop(uid, None)
            return None, None
        now, seen = self._clock.monotonic(), (child["metadata"]["resourceVersion"], len(pods))
        known = self._creation_checks.get(uid)
        if known is None or known.seen != seen or now >= known.until:
            pause = min(known.pause * 2, LAST_PAUSE) if known is not None and known.seen == seen else FIRST_PAUSE
            found = await self._failure_to_create(child)
            known = _CreationCheck(seen=seen, until=now + pause, pause=pause, obstacle=found)
            old = [other for other, one in self._creation_checks.items() if now - one.until > LAST_PAUSE]
            for other in old:
                del self._creation_checks[other]
            self._creation_checks[uid] = known
        return known.obstacle, max(known.until - now, 0.0)

    async def _failure_to_create(self, child: Mapping[str, Any]) -> Obstacle | None:
        selector = f"regarding.uid={child['metadata']['uid']},reason=FailedCreate"
        try:
            events, _ = await self._api.list(EVENTS, child["metadata"]["namespace"], fields=selector)
        except ApiError as error:
            logger.info("events of Job %s not read: %s", child["metadata"]["name"], error)
            return None
        if not events:
            return None
        latest = max(events, key=version_of)
        return creation_obstacle(latest.get("note", ""), child["metadata"]["name"])
