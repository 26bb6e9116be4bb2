"""Sends notifications about warnings and reclaims to people outside the cluster. The leader runs it.

A notification is due while a job's record contains the event and `status.reclaim.notified` lacks its result. So a
restart or a failover loses no notification. It repeats at most the one that was sent but not yet recorded.
Notifications are best effort: no warning and no action waits for one.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import DLJOBS, ApiError, ConflictError, KubernetesApi, NotFoundError, Object
from stoker.adapters.notifications import Address, NoAddressesError
from stoker.api.dljob import DLJob
from stoker.api.names import CHANNEL_ANNOTATION
from stoker.api.notification import Message
from stoker.api.status import MAX_NOTIFIED
from stoker.cluster.cache import ClusterCache, Key, namespace_of
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.cluster.recorder import MetricsRecorder
from stoker.cluster.workqueue import Transient, WorkQueue
from stoker.controller.notification_messages import Occasion, notification, occasion, people
from stoker.controller.rate_limit import HOUR, LastHour, Sent
from stoker.controller.status_writer import StatusWriter
from stoker.findings.vocabulary import FINAL_PHASES, NotificationEvent, NotificationResult
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import NotificationRecord, Record

logger = logging.getLogger(__name__)

WORKERS = 4
"""Jobs whose notifications are sent at the same time. Chosen because sending mostly waits for other servers."""
TRIED_FOR = timedelta(hours=1)
"""How long a failed delivery to an address is repeated, with growing delays."""
CONFLICTS = 5
"""Attempts to write a result that conflict with other writes of the job, before the queue's backoff applies."""


class Post(Protocol):
    """Finds a channel's addresses and sends to one of them. Implemented by adapters.notifications.Mail."""

    def addresses(self, key: str, values: Mapping[str, str]) -> list[Address]:
        """The addresses of the channel `key`, with `values` put into their placeholders. Raises NoAddressesError."""
        ...

    async def send(self, address: Address, message: Message) -> str | None:
        """Send a message. Returns None on success, otherwise the reason of the failure. Raises nothing."""
        ...


@dataclass(slots=True)
class Delivery:
    """This process's attempts at one notification, the first at the time `since`."""

    occasion: Occasion
    since: datetime
    taken: set[str] = field(default_factory=set)
    """The URLs of the addresses that accepted it."""


class Notifier:
    """Sends due notifications. At most one worker at a time handles a job."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        policies: Policies,
        status_writer: StatusWriter,
        post: Post,
        clock: Clock,
        recorder: MetricsRecorder,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._api = api
        self._cache = cache
        self._policies = policies
        self._status_writer = status_writer
        self._post = post
        self._clock = clock
        self._recorder = recorder
        self._queue: WorkQueue[Key] = WorkQueue(group=namespace_of, place="notification", faults=self._faults)
        self._deliveries: dict[Key, Delivery] = {}
        self._sent_lately: defaultdict[str, LastHour] = defaultdict(LastHour)
        """The notifications of the last hour, by policy."""

    async def run(self) -> None:
        """Send notifications until cancelled. Only the leader runs it."""
        self.remember()
        self._cache.dljobs.follow(self._changed)
        self._policies.follow(self._policy_changed)
        await self._queue.run(self.notify, workers=WORKERS)

    def remember(self) -> None:
        """Rebuild the count of the last hour's notifications from the jobs' records, as after a restart."""
        now = self._clock.now()
        found: defaultdict[str, list[Sent]] = defaultdict(list)
        for key, raw in self._cache.dljobs.objects.items():
            try:
                sent = [
                    Sent(one.time, key.namespace, one.event is NotificationEvent.WARNED)
                    for one in Record.of(raw).notified
                    if one.result is NotificationResult.SENT and now - one.time < HOUR
                ]
            except Exception as error:
                self._faults.caught("notification", str(key), error)
                continue
            if sent:
                found[counting(self._policies.of(key.namespace))] += sent
        self._sent_lately = defaultdict(LastHour, {name: LastHour(sent) for name, sent in found.items()})

    def _changed(self, key: Key, raw: Object | None) -> None:
        record = (raw or {}).get("status", {}).get("reclaim", {})
        if "warnedAt" in record or "reclaimedAt" in record:
            self._queue.add(key)

    def _policy_changed(self, namespace: str | None) -> None:
        for key, raw in self._cache.dljobs.objects.items():
            if namespace in {None, key.namespace}:
                self._changed(key, raw)

    async def notify(self, key: Key) -> None:
        """Send the notification that is due for one job, if any, and record its result. Raises Transient when a
        delivery or the record must be tried again.
        """
        raw = self._cache.dljobs.get(key)
        try:
            job = DLJob.model_validate(raw) if raw is not None else None
        except ValidationError:
            job = None
        if raw is None or job is None or job.status is None or job.status.phase in FINAL_PHASES:
            self._deliveries.pop(key, None)
            return
        record, policy = Record.from_status(job.status.reclaim), self._policies.of(job.namespace)
        due = occasion(record, policy.notification.events, self._clock.now())
        if key in self._deliveries and self._deliveries[key].occasion != due:
            del self._deliveries[key]  # the warning has ended
        if due is not None and (key in self._deliveries or not due.is_in(record.notified)):
            await self._notify(raw, job, record, due, policy)

    async def _notify(self, raw: Object, job: DLJob, record: Record, due: Occasion, policy: EffectivePolicy) -> None:
        channel = self._channel(job.namespace, policy)
        if channel is None:
            return
        key, now = Key(job.namespace, job.name), self._clock.now()
        delivery = self._deliveries.setdefault(key, Delivery(occasion=due, since=now))
        sent_lately, sending = (
            self._sent_lately[counting(policy)],
            Sent(now, job.namespace, due.event is NotificationEvent.WARNED),
        )
        most = policy.notification.max_per_hour
        if not delivery.taken and not sent_lately.has_room(job.namespace, most, now, is_warning=sending.is_warning):
            await self._note(raw, due, NotificationResult.DIGEST)
            del self._deliveries[key]
            return
        failures: list[str] = []
        try:
            addresses = self._post.addresses(channel, people(job))
        except NoAddressesError as error:
            addresses, failures = [], [str(error)]
        if not addresses and not failures:
            await self._note(raw, due, NotificationResult.NOBODY)
            del self._deliveries[key]
            return
        counts = not delivery.taken
        if counts:
            sent_lately.add(sending)  # counted before the send, because other workers send at the same time
        failures += await self._send(addresses, notification(due, job, record, policy), delivery)
        if counts and not delivery.taken:
            sent_lately.remove(sending)
        if delivery.taken:
            raw = await self._note(raw, due, NotificationResult.SENT)
        reasons = "; ".join(failures)
        if failures and self._clock.now() - delivery.since < TRIED_FOR:
            raise Transient(f"{due.event} message: {reasons}")
        if failures:
            raw = await self._note(raw, due, NotificationResult.FAILED)
            note = f"The notification {due.event} was not delivered: {reasons}."
            await self._status_writer.record(
                raw, "Warning", "NotificationFailed", note, rule="notification", episode=str(due)
            )
        del self._deliveries[key]

    def _channel(self, namespace: str, policy: EffectivePolicy) -> str | None:
        scope = self._cache.namespaces.get(Key("", namespace))
        annotations: Mapping[str, str] = (scope["metadata"].get("annotations") or {}) if scope is not None else {}
        asked = annotations.get(CHANNEL_ANNOTATION)
        channel = policy.notification.key_for(namespace, asked)
        if asked and channel != asked:
            logger.warning("namespace %s may not name the channel %.64r: see namespaceKeys", namespace, asked)
        return channel

    async def _send(self, addresses: list[Address], message: Message, delivery: Delivery) -> list[str]:
        """Send to each address that has not accepted the message yet. Returns the reasons of the failures."""
        failures: list[str] = []
        for address in addresses:
            if address.url in delivery.taken:
                continue
            failure = await self._post.send(address, message)
            if failure is not None:
                failures.append(f"{address.name}: {failure}")
            else:
                delivery.taken.add(address.url)
        return failures

    async def _note(self, raw: Object, due: Occasion, result: NotificationResult) -> Object:
        """Record the result of a notification once. Returns the DLJob as written. Raises Transient when the API server
        does not accept the write.
        """
        metadata = raw["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        entry = NotificationRecord(event=due.event, event_time=due.at, result=result, time=self._clock.now())
        try:
            for _ in range(CONFLICTS):
                status: Mapping[str, Any] = raw.get("status", {})
                notified = Record.of(raw).notified
                if due.is_in(notified) or raw["metadata"]["uid"] != metadata["uid"]:
                    return raw
                entries = [one.to_status() for one in (*notified, entry)][-MAX_NOTIFIED:]
                reclaim = {**status.get("reclaim", {}), "notified": entries}
                try:
                    raw = await self._status_writer.write(raw, {**status, "reclaim": reclaim})
                except ConflictError:
                    raw = await self._api.get(DLJOBS, namespace, name)
                else:
                    self._recorder.notified(due.event.value, result.value.lower())
                    return raw
        except NotFoundError:
            return raw
        except ApiError as error:
            raise Transient(f"{due.event} message: not noted: {error}") from error
        raise Transient(f"{due.event} message: not noted: the job keeps changing")


def counting(policy: EffectivePolicy) -> str:
    """The name of the policy under which notifications are counted; `built-in` where no policy exists."""
    return policy.counts_in or "built-in"
