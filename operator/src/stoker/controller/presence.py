"""Finds user presence that GPU metrics don't show: open sessions, notebooks in use, busy CPUs of an interactive job.

Used by the reclaimer for a job that no other gate holds back (docs/presence.md). When a source can't be read, the
presence is unknown, and an unknown presence holds the reclaim back as a known one does.
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
"""Seconds for which a result is reused when a warning or a reclaim depends on it. Chosen so that the fresh check right
before an action uses the same result.
"""
KEPT = 300.0
"""Seconds for which a result is reused when no step depends on it: the job is only observed, or its warning runs."""
FORGOTTEN = 2 * KEPT
"""Seconds after which a result is dropped from memory."""
FAILED = 60.0
"""Seconds after which a check with an unknown result, such as a server that did not answer, is repeated."""
CHECKED_TOGETHER = 4
"""Jobs that are checked at the same time. Fewer than the queue's workers, so that slow notebook servers leave workers
to other jobs.
"""
PATIENCE = 1.0
"""Seconds that a reconcile waits for a free check."""
METRICS_TIMEOUT = 10.0
"""Seconds that the query of a job's CPU series may take."""
NOTEBOOKS_TIMEOUT = 10.0
"""Seconds that all notebook servers of a job may take together. The owner decides how many there are and how slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceQuery:
    """Asks for a check of a job that only user presence could still hold back; a check costs requests.

    child: the job's Job. window: the job's idleAfter. interactive: the finding behind the reclaim is that the job waits
    for a person, so its CPUs are checked, too. afresh: the job would be warned or reclaimed now, so that the result
    must be at most FRESH seconds old.
    """

    child: Object
    window: timedelta
    interactive: bool
    afresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPresence:
    """The result of a check of a job with these live pods (uids), and its time by the monotonic clock."""

    presence: Presence
    pods: frozenset[str]
    at: float


class PresenceChecker:
    """Checks jobs for user presence. Without `jupyter` it queries no notebook server, without `metrics` no CPUs."""

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
        """The latest user presence in the job, or why it is unknown. Without `query` only the sessions in the job's
        status are read. Raises nothing.
        """
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
        """A cached result that is recent enough for the query, or None."""
        answer = self._latest_cached(job, pods)
        if answer is None:
            return None
        presence, age = answer.presence, self._clock.monotonic() - answer.at
        if presence.unknown is not None:
            return presence if age < FAILED else None
        # A result that shows presence leads to no action, so it may be older.
        hangs_on_it = query.afresh and not _attended([presence], self._clock.now() - query.window)
        return presence if age < (FRESH if hangs_on_it else KEPT) else None

    def _latest_cached(self, job: DLJob, pods: Sequence[Object]) -> CachedPresence | None:
        """The latest result for exactly these pods, however old."""
        answer = self._cached.get(job.uid)
        return answer if answer is not None and answer.pods == frozenset(map(pod_status.uid, pods)) else None

    def _keep(self, uid: str, answer: CachedPresence) -> None:
        old = [known for known, other in self._cached.items() if answer.at - other.at >= FORGOTTEN]
        for known in old:
            del self._cached[known]
        self._cached[uid] = answer

    # -------------------------------------------------------------------------------------------------------- checks

    async def _check_in_turn(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery) -> Presence:
        """Check the job once fewer than CHECKED_TOGETHER checks run. After PATIENCE seconds use the last result
        instead; if an action depends on it (`afresh`), the presence is unknown.
        """
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
            # An internal error must not lead to a reclaim.
            logger.exception("%s/%s: people's traces can't be read", job.namespace, job.name)
            return Presence(unknown="an internal error, which the controller's log explains")
        return _latest(seen, earliest)

    async def _all_used(
        self, jupyter: Jupyter, pods: Sequence[Object], notebooks: Sequence[Notebook], query: PresenceQuery
    ) -> list[Presence]:
        """The last use of each notebook server. Stops at the first unknown result, which no other server replaces."""
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
        """The last use of one notebook server."""
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
        """When the job's CPUs last worked, by their series within the window."""
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
    """The notebook server of a pod, at the pod's own IP address. An address that is not a pod's (loopback,
    link-local, the node's network) is refused. Raises Unreadable.
    """
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
    """The latest presence if it is after `earliest`; otherwise the first unknown one; otherwise the latest of all."""
    found = max(
        (one for one in seen if one.last_seen is not None), key=lambda one: one.last_seen or earliest, default=NOBODY
    )
    if _attended([found], earliest):
        return found
    return next((one for one in seen if one.unknown is not None), found)
