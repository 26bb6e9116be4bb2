"""Writes the status of workloads: of DLJobs, or of GPUWorkloads. After a successful write it records events and audit
lines for what is new.

Used by reconcile, the reclaimer and the notifier.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import DLJOBS, ApiError, ConflictError, KubernetesApi, Object, Resource
from stoker.adapters.kubernetes.events import Event, EventWriter
from stoker.cluster.cache import ClusterCache
from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.controller.audit import Audit
from stoker.controller.lifecycle_events import status_events
from stoker.controller.next_status import NextStatus
from stoker.controller.status_findings import opened
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import Source
from stoker.reclaim import Notice, NoticeReason

ALARMING = frozenset({NoticeReason.WARNED, NoticeReason.RECLAIMED, NoticeReason.SNOOZE_IGNORED})


class StatusWriter:
    """Writes the status of one kind of workload with the resource version that was read as a precondition, and puts the
    written object into the cache.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        events: EventWriter,
        recorder: MetricsRecorder = NO_RECORDER,
        audit: Audit | None = None,
        *,
        resource: Resource = DLJOBS,
    ) -> None:
        self._audit = audit or Audit(SystemClock(), recorder)
        self._api = api
        self._collection = cache.collection(resource)
        self._resource = resource
        self._events = events
        self._recorder = recorder

    async def publish(
        self,
        raw: Object,
        next_status: NextStatus,
        *,
        before: Sequence[Finding],
        notices: Sequence[Notice],
        now: datetime,
    ) -> Object:
        """Write the status if it has changed, then record the notices, the job's lifecycle events, and an event for
        each finding from metrics that was not open `before`.

        Returns the object as written, or `raw` when nothing has changed. Raises ConflictError when it has changed
        since it was read.
        """
        was = raw.get("status", {})
        raw = await self.write(raw, next_status.status(was, now))
        await self.announce(raw, notices)
        for event in status_events(was, raw.get("status", {}), now):
            await self._events.record(raw, event)
        for finding in opened(before, next_status.findings):
            await self.record_finding(raw, finding)
        return raw

    async def record_finding(self, regarding: Object, finding: Finding) -> None:
        """Write an event about an object for a finding from metrics; nothing for others, which admission has told."""
        if Source.METRICS not in finding.sources:
            return
        episode = rfc3339(finding.since) if finding.since is not None else "open"
        note = f"{finding.detail} {finding.fix}"
        await self.record(regarding, "Warning", finding.category.value, note, rule=finding.rule, episode=episode)

    async def write(self, raw: Object, status: dict[str, Any]) -> Object:
        """Write a status if it differs from that of `raw`, and return the object as written. Raises ConflictError
        when it has changed since it was read.
        """
        if status == raw.get("status", {}):
            return raw
        metadata = raw["metadata"]
        body = {**raw, "status": status}
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            written = await self._api.replace(self._resource, namespace, name, body, subresource="status")
        except ApiError as error:
            self._recorder.wrote("conflict" if isinstance(error, ConflictError) else "failed")
            raise
        self._recorder.wrote("done")
        self._collection.put(written)
        return written

    async def announce(self, raw: Object, notices: Iterable[Notice]) -> None:
        """Record reclaim's notices as audit lines and events. `raw` is the object as written."""
        for notice in notices:
            self._audit.of_job(raw, notice)
            kind: Literal["Normal", "Warning"] = "Warning" if notice.reason in ALARMING else "Normal"
            reason = notice.reason.value
            await self.record(raw, kind, reason, notice.message, rule="reclaim", episode=notice.episode)

    async def record(
        self, raw: Object, kind: Literal["Normal", "Warning"], reason: str, note: str, *, rule: str, episode: str
    ) -> None:
        """Write one event about the object. A repeat with the same reason, `rule` and `episode` increases its count."""
        event = Event(type=kind, reason=reason, action=reason, note=note, rule=rule, episode=episode)
        await self._events.record(raw, event)
