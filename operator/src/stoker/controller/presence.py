"""Whether somebody works in a job's pods, by what the GPUs don't show: sessions, notebooks, the CPUs of an interactive
job. What should tell and can't be read is not known, and not knowing counts as somebody being there.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from stoker.adapters.clock import Clock, SystemClock
from stoker.adapters.jupyter import Jupyter, Server, Unreadable
from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.api.names import JUPYTER_ANNOTATION
from stoker.controller.manifest_cache import ManifestCache
from stoker.reclaim import NOBODY, Presence
from stoker.reclaim.cpu_presence import as_told, by_cpus
from stoker.telemetry.screen import MIN_STEP, MetricsSource, MetricsUnavailable
from stoker.workload import job_facts
from stoker.workload import pods as pod_status
from stoker.workload.notebooks import Notebook, literal_token, named

logger = logging.getLogger(__name__)

FRESH = 5.0
"""Seconds for which a result is used for a warning or a reclaim: the fresh check before an action follows at once."""
KEPT = 300.0
"""Seconds for which it serves where nothing does: a job that is only observed, or whose warning runs."""
FORGOTTEN = 2 * KEPT
"""Seconds after which a result is dropped from memory."""
FAILED = 60.0
"""Seconds after which a server that did not answer is asked again."""
CHECKED_TOGETHER = 4
"""Jobs that are checked at the same time, of those that eight workers handle."""
PATIENCE = 1.0
"""Seconds that a job's pass waits for one of these checks."""
METRICS_TIMEOUT = 10.0
"""Seconds for the series of a job's CPUs."""
NOTEBOOKS_TIMEOUT = 10.0
"""Seconds for all servers of a job together: its owner chooses how many there are, and how slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceQuery:
    """A job that nothing else speaks for, so that traces are worth looking for, which cost something.

    `window` is the job's idleAfter. `interactive`: the cause of its reclaim is that it waits for a person. `afresh`:
    it would be warned or reclaimed now.
    """

    child: Object
    window: timedelta
    interactive: bool
    afresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPresence:
    """The result of a check, and its time by the monotonic clock."""

    presence: Presence
    pods: frozenset[str]
    at: float


class PresenceChecker:
    """Reads the traces that people leave. Without `jupyter` notebooks are not asked, without `metrics` no CPUs are
    looked at.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        manifests: ManifestCache | None = None,
        *,
        jupyter: Jupyter | None = None,
        metrics: MetricsSource | None = None,
    ) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._manifests = manifests
        self._jupyter = jupyter
        self._metrics = metrics
        self._cached: dict[str, CachedPresence] = {}
        self._checks = asyncio.Semaphore(CHECKED_TOGETHER)

    async def of(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery | None = None) -> Presence:
        """The latest trace of somebody in the job; without `query` as far as its status tells. Raises nothing."""
        session = job.status.last_session if job.status is not None else None
        told = NOBODY if session is None else Presence(last_seen=session, how="a session was opened")
        if query is None or not self._may_tell(job, query):
            return told
        known = self._known(job, pods, query)
        if known is None:
            known = await self._check_in_turn(job, pods, query)
        return _latest((told, known), self._clock.now() - query.window)

    def _may_tell(self, job: DLJob, query: PresenceQuery) -> bool:
        return bool(self._jupyter is not None and self._notebooks(job)) or (
            self._metrics is not None and query.interactive
        )

    def _notebooks(self, job: DLJob) -> tuple[Notebook, ...]:
        told = named(job.metadata.annotations)
        if told is not None:
            return told
        return self._manifests.program(job).notebooks if self._manifests is not None else ()

    # ------------------------------------------------------------------------------------------------- what is known

    def _known(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery) -> Presence | None:
        """An answer that serves."""
        answer = self._latest_cached(job, pods)
        if answer is None:
            return None
        presence, age = answer.presence, self._clock.monotonic() - answer.at
        if presence.unknown is not None:
            return presence if age < FAILED else None
        # That somebody is there leads to no action, so it need not be news.
        hangs_on_it = query.afresh and not _attended([presence], self._clock.now() - query.window)
        return presence if age < (FRESH if hangs_on_it else KEPT) else None

    def _latest_cached(self, job: DLJob, pods: Sequence[Object]) -> CachedPresence | None:
        """The latest answer about these pods, however old."""
        answer = self._cached.get(job.uid)
        return answer if answer is not None and answer.pods == frozenset(map(pod_status.uid, pods)) else None

    def _keep(self, uid: str, answer: CachedPresence) -> None:
        old = [known for known, other in self._cached.items() if answer.at - other.at >= FORGOTTEN]
        for known in old:
            del self._cached[known]
        self._cached[uid] = answer

    # -------------------------------------------------------------------------------------------------------- checks

    async def _check_in_turn(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery) -> Presence:
        """Check if one of CHECKED_TOGETHER is free soon; else use the last result, unless an action needs a new one."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._checks.acquire()
        except TimeoutError:
            answer = self._latest_cached(job, pods)
            if answer is None or query.afresh:
                return Presence(unknown="other jobs are checked first")
            return answer.presence
        try:
            presence = await self._check(job, pods, query)
        finally:
            self._checks.release()
        live = frozenset(map(pod_status.uid, pods))
        self._keep(job.uid, CachedPresence(presence=presence, pods=live, at=self._clock.monotonic()))
        return presence

    async def _check(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery) -> Presence:
        live = [pod for pod in pods if not pod_status.is_finished(pod)]
        seen: list[Presence] = []
        earliest = self._clock.now() - query.window
        try:
            if self._jupyter is not None:
                seen += await self._all_used(self._jupyter, live, self._notebooks(job), query)
            if query.interactive and self._metrics is not None and not _attended(seen, earliest):
                seen.append(await self._worked(self._metrics, job, live, query))
        except Exception:
            # A fault of ours must not become a reclaim.
            logger.exception("%s/%s: people's traces can't be read", job.namespace, job.name)
            return Presence(unknown="an internal error, which the controller's log explains")
        return _latest(seen, earliest)

    async def _all_used(
        self, jupyter: Jupyter, pods: Sequence[Object], notebooks: Sequence[Notebook], query: PresenceQuery
    ) -> list[Presence]:
        """What all notebook servers say, as far as it matters: of one that does not tell no other makes up for it."""
        seen: list[Presence] = []
        try:
            async with asyncio.timeout(NOTEBOOKS_TIMEOUT):
                for pod in pods:
                    for notebook in notebooks:
                        seen.append(await self._used(jupyter, pod, notebook, query))
                        if seen[-1].unknown is not None:
                            return seen
        except TimeoutError:
            seen.append(Presence(unknown="its Jupyter servers do not all answer in time"))
        return seen

    async def _used(self, jupyter: Jupyter, pod: Object, notebook: Notebook, query: PresenceQuery) -> Presence:
        """What a notebook server says."""
        now = self._clock.now()
        try:
            use = await jupyter.use(_whereabouts(pod, notebook), now)
        except Unreadable as why:
            where = f"its Jupyter in pod {pod_status.name(pod)}"
            return Presence(unknown=f"{where}: {why} (see annotation {JUPYTER_ANNOTATION})")
        if use.busy is not None:
            return Presence(last_seen=as_told(now, query.window), how=use.busy)
        return Presence(last_seen=min(use.last_activity, now), how="its Jupyter was used")

    async def _worked(
        self, metrics: MetricsSource, job: DLJob, pods: Sequence[Object], query: PresenceQuery
    ) -> Presence:
        """What the CPUs say."""
        assert self._manifests is not None
        now = self._clock.now()
        facts = job_facts(job, pods, self._manifests.program(job), child=query.child, now=now)
        try:
            async with asyncio.timeout(METRICS_TIMEOUT):
                series = await metrics.series(facts, now - query.window, now, MIN_STEP)
        except TimeoutError:
            return Presence(unknown="its CPUs' metrics did not come in time")
        except MetricsUnavailable as unavailable:
            return Presence(unknown=f"its CPUs' metrics can't be read ({unavailable.reason})")
        return by_cpus(series, map(pod_status.name, pods), window=query.window, now=now)


def _whereabouts(pod: Mapping[str, Any], notebook: Notebook) -> Server:
    """Where a pod's notebook server answers: at the pod's own address, nowhere else. Raises Unreadable."""
    started = pod_status.started_at(pod)
    if notebook.fault is not None:
        raise Unreadable(notebook.fault)
    if started is None:
        raise Unreadable("its container has not started")
    if pod["spec"].get("hostNetwork"):
        raise Unreadable("its pod has its node's network")
    try:
        address = ip_address(pod.get("status", {}).get("podIP", ""))
    except ValueError:
        raise Unreadable("its pod has no address") from None
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise Unreadable("its pod's address is not a pod address")
    token = notebook.token if notebook.token is not None else literal_token(pod)
    return Server(address=address, port=notebook.port, base=notebook.base, token=token, started=started)


def _attended(seen: Sequence[Presence], earliest: datetime) -> bool:
    return any(one.last_seen is not None and one.last_seen > earliest for one in seen)


def _latest(seen: Sequence[Presence], earliest: datetime) -> Presence:
    """The latest trace, if it is one of now; else what is not known; else the latest of all."""
    found = max(
        (one for one in seen if one.last_seen is not None), key=lambda one: one.last_seen or earliest, default=NOBODY
    )
    if _attended([found], earliest):
        return found
    return next((one for one in seen if one.unknown is not None), found)
