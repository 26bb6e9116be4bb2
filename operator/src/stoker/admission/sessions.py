"""Sessions that people open in pods (exec, attach, port-forward): let through at once, always, and noted in the DLJob's
status afterwards.

When a session ends is not told to admission, and the review says nothing of the pod but its name. So what is noted is
when the latest one was opened, and whose pod it is, is asked once the answer is given.
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
"""The subresources of a pod that a session begins with."""
NOTED_EVERY = 60.0
"""Seconds in which a job's sessions are noted once: a tool that runs a command each second is one session."""
WAITING = 500
"""Sessions whose job is still to be found; more are passed over."""
REMEMBERED = 10_000
"""Pods, and as many jobs, whose latest session is remembered: names in reviews need not exist."""
AT_ONCE = 8
"""Sessions that are noted at a time."""
RETRY_AFTER = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts to note a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session that somebody opened in a pod."""

    pod: Key
    at: datetime


class Sessions:
    """A Reviewer that never refuses, never waits, and remembers whom it saw. `count` counts how noting ended: noted,
    failed or dropped.
    """

    def __init__(self, clock: Clock, count: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._count = count
        self._opened: asyncio.Queue[Opened] = asyncio.Queue(WAITING)
        self._seen = Recent(clock)
        """Pods whose session was taken up, and jobs whose session was noted."""
        self._noted = Recent(clock)

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Allow it."""
        opens = request.operation is Operation.CONNECT and request.subresource in OPENINGS
        if opens and not request.dry_run and request.namespace and request.name:
            pod = Key(request.namespace, request.name)
            if self._seen.is_due(pod):
                self._take(Opened(pod=pod, at=self._clock.now()))
        return ALLOWED

    async def run(self, api: KubernetesApi, *, retry_after: tuple[float, ...] = RETRY_AFTER) -> None:
        """Note what is opened, for ever."""
        room = asyncio.Semaphore(AT_ONCE)

        async def note(opened: Opened) -> None:
            try:
                await self._note(api, opened, retry_after)
            except ApiError as error:
                self._seen.forget(opened.pod)
                self._count("failed")
                logger.warning("A session in pod %s is not noted: %s", opened.pod, error)
            except Exception:
                # Reviews of jobs are answered by the same process, which must not end over this.
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
    """Keys that were taken up lately, at most REMEMBERED of them: the oldest first, as time goes on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: dict[Key, float] = {}
        """By the steady clock."""

    def is_due(self, key: Key) -> bool:
        """Whether nothing was taken up under this key lately; it counts as taken up from now on."""
        now = self._clock.monotonic()
        if (at := self._at.get(key)) is not None and now - at < NOTED_EVERY:
            return False
        self._at.pop(key, None)
        while self._at and (now - next(iter(self._at.values())) >= NOTED_EVERY or len(self._at) >= REMEMBERED):
            del self._at[next(iter(self._at))]
        self._at[key] = now
        return True

    def forget(self, key: Key) -> None:
        """What was taken up came to nothing."""
        self._at.pop(key, None)

    def __len__(self) -> int:
        return len(self._at)


def _job_of(pod: Object) -> Key | None:
    """The DLJob that a pod of a Job belongs to. The Job has its name: a label alone makes no pod one of a job's."""
    key = owner_key(pod)
    owners = pod["metadata"].get("ownerReferences", ())
    is_its = key is not None and any(owner["kind"] == "Job" and owner["name"] == key.name for owner in owners)
    return key if is_its else None
