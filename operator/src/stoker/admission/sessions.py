"""Notes when people open sessions in jobs' pods (exec, attach, port-forward). Used by the admission process.

Every session is admitted at once. Afterwards its time is written to the DLJob's `status.lastSession`, which the
controller reads as user presence. Admission does not learn when a session ends, so only the start is noted. The review
contains only the pod's name, so the pod is read after the response to find its DLJob.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import DLJOBS, PODS, ApiError, KubernetesApi, NotFoundError, Object
from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation
from stoker.cluster.cache import Key, owner_key
from stoker.findings.finding import rfc3339

logger = logging.getLogger(__name__)

OPENINGS = frozenset({"exec", "attach", "portforward"})
"""The subresources of a pod that open a session."""
NOTED_EVERY = 60.0
"""Seconds in which a job's sessions are noted once. Chosen because a tool may run a command each second."""
WAITING = 500
"""Sessions that may wait to be noted. Further ones are dropped."""
REMEMBERED = 10_000
"""Pods, and as many jobs, whose latest session is remembered. Bounded because reviews may name pods that don't exist.
"""
AT_ONCE = 8
"""Sessions that are noted at the same time."""
RETRY_AFTER = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between the attempts to note a session. After the last one follows a final attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session that was opened in a pod at a time."""

    pod: Key
    at: datetime


class Sessions:
    """A Reviewer that admits every session at once and notes it later. `count` gets the result for each: noted, failed
    or dropped.
    """

    def __init__(self, clock: Clock, count: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._count = count
        self._opened: asyncio.Queue[Opened] = asyncio.Queue(WAITING)
        self._seen = Recent(clock)
        """Pods with a recent session."""
        self._noted = Recent(clock)
        """DLJobs with a recently noted session."""

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit the session, and queue it to be noted if its pod has no recent one."""
        opens = request.operation is Operation.CONNECT and request.subresource in OPENINGS
        if opens and not request.dry_run and request.namespace and request.name:
            pod = Key(request.namespace, request.name)
            if self._seen.is_due(pod):
                self._take(Opened(pod=pod, at=self._clock.now()))
        return ALLOWED

    async def run(self, api: KubernetesApi, *, retry_after: tuple[float, ...] = RETRY_AFTER) -> None:
        """Note the queued sessions until cancelled; `retry_after` are the pauses between attempts, in seconds."""
        room = asyncio.Semaphore(AT_ONCE)

        async def note(opened: Opened) -> None:
            try:
                await self._note(api, opened, retry_after)
            except ApiError as error:
                self._seen.forget(opened.pod)
                self._count("failed")
                logger.warning("A session in pod %s is not noted: %s", opened.pod, error)
            except Exception:
                # The same process answers reviews of jobs, so an error here must not end it.
                self._count("failed")
                logger.exception("A session in pod %s is not noted", opened.pod)
            finally:
                room.release()

        async with asyncio.TaskGroup() as group:
            while True:
                opened = await self._opened.get()
                await room.acquire()
                group.create_task(note(opened))

    def _take(self, opened: Opened) -> None:
        try:
            self._opened.put_nowait(opened)
        except asyncio.QueueFull:
            self._seen.forget(opened.pod)
            self._count("dropped")
            logger.warning("A session in pod %s is not noted: too many at once", opened.pod)

    async def _note(self, api: KubernetesApi, opened: Opened, retry_after: tuple[float, ...]) -> None:
        for pause in retry_after:
            try:
                return await self._note_once(api, opened)
            except ApiError as error:
                logger.debug("A session in pod %s is noted later: %s", opened.pod, error)
            await asyncio.sleep(pause)
        return await self._note_once(api, opened)

    async def _note_once(self, api: KubernetesApi, opened: Opened) -> None:
        try:
            job = _job_of(await api.get(PODS, opened.pod.namespace, opened.pod.name))
            if job is None or not self._noted.is_due(job):
                return
            body = {"status": {"lastSession": rfc3339(opened.at)}}
            try:
                await api.patch(DLJOBS, job.namespace, job.name, body, subresource="status")
            except ApiError:
                self._noted.forget(job)
                raise
        except NotFoundError:
            return
        self._count("noted")


class Recent:
    """The keys of the last NOTED_EVERY seconds, at most REMEMBERED. The oldest are dropped first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: dict[Key, float] = {}
        """The time of each key by the monotonic clock, the oldest first."""

    def is_due(self, key: Key) -> bool:
        """Whether the key is not recent. If so, it is recent from now on."""
        now = self._clock.monotonic()
        if (at := self._at.get(key)) is not None and now - at < NOTED_EVERY:
            return False
        self._at.pop(key, None)
        while self._at and (now - next(iter(self._at.values())) >= NOTED_EVERY or len(self._at) >= REMEMBERED):
            del self._at[next(iter(self._at))]
        self._at[key] = now
        return True

    def forget(self, key: Key) -> None:
        """Drop a key, so that the next session counts again."""
        self._at.pop(key, None)

    def __len__(self) -> int:
        return len(self._at)


def _job_of(pod: Object) -> Key | None:
    """The DLJob of a pod, or None. The pod must have the label and be owned by the Job of the same name, because
    anybody can set a label.
    """
    key = owner_key(pod)
    owners = pod["metadata"].get("ownerReferences", ())
    is_its = key is not None and any(owner["kind"] == "Job" and owner["name"] == key.name for owner in owners)
    return key if is_its else None
