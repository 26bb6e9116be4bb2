"""The digest: a notification that lists the reclaim events under a policy since the last digest.

The leader sends it at the times that the policy sets. Its content comes from the records in the jobs' status. The
policy's `status.lastDigest` holds the end of the last digest's period.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import POLICIES, ApiError, ConflictError, KubernetesApi, NotFoundError
from stoker.adapters.notifications import NoAddressesError
from stoker.api.names import CHANNEL_ANNOTATION
from stoker.api.notification import Message
from stoker.api.policy import BASE
from stoker.api.weekday import WEEKDAYS
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.cluster.recorder import MetricsRecorder
from stoker.controller.notification_messages import LATEST
from stoker.controller.notifier import Post, counting
from stoker.findings.finding import parse_time, rfc3339, single_line
from stoker.findings.vocabulary import NotificationEvent, NotificationResult, ReclaimEvent, ReclaimState
from stoker.findings.wording import count, interval
from stoker.policy.effective import EffectiveDigest, EffectivePolicy
from stoker.policy.resolution import combined
from stoker.reclaim import NotificationRecord, Record
from stoker.reclaim.record import EVENT_WORDS
from stoker.workload.pods import read_time

logger = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two checks whether a digest is due."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=30)
"""The first and the longest pause after a failed delivery; the pause doubles each time."""
MAX_LINES = 40
"""Lines of each list in a digest. The list ends with the number of the others."""
COUNTED = (ReclaimEvent.WARNED, ReclaimEvent.RECLAIMED, ReclaimEvent.RESUMED, ReclaimEvent.SNOOZED)
"""The events that a digest counts."""


def last_due(digest: EffectiveDigest, now: datetime) -> datetime:
    """The last time up to `now` at which a digest was due, in UTC. A policy without a time zone means UTC."""
    zone = ZoneInfo(digest.time_zone or "UTC")
    at, today = time.fromisoformat(digest.at), now.astimezone(zone).date()
    days = (datetime.combine(today - timedelta(days=back), at, zone) for back in range(8))
    return next(
        day for day in days if day <= now and (not digest.days or WEEKDAYS[day.weekday()] in digest.days)
    ).astimezone(ZoneInfo("UTC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestPeriod:
    """The period that a digest covers: after `start`, up to and including `end`."""

    start: datetime
    end: datetime

    def __contains__(self, time: datetime | None) -> bool:
        return time is not None and self.start < time <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestJob:
    """A DLJob as a digest needs it: its name, the number of its GPUs and its reclaim record."""

    namespace: str
    name: str
    gpus: int
    record: Record

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "DigestJob":
        """Read a DLJob as JSON. Fields of its record that this version can't read are left out."""
        metadata, gpus = raw["metadata"], (raw.get("status") or {}).get("gpus")
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            gpus=gpus if isinstance(gpus, int) else 0,
            record=Record.of(raw),
        )


def digest(
    policy: str, objects: Iterable[Mapping[str, Any]], period: DigestPeriod, brake: Mapping[str, Any] | None = None
) -> Message | None:
    """Write the digest of a policy.

    `objects` are the DLJobs as JSON; `brake` is the policy's status.brake, if the brake is applied. Returns None when
    the period contains no event, no deferred notification and no start of the brake. Warnings that are still in force
    are listed only together with these.
    """
    jobs = [DigestJob.read(raw) for raw in objects]
    events = sorted(
        ((entry.time, one.full_name, entry) for one in jobs for entry in one.record.history if entry.time in period),
        key=lambda event: event[:2],
    )
    deferred = sorted((one.namespace, _named(one, entry)) for one in jobs for entry in _deferred(one, period))
    if not events and not deferred and not (brake and _since(brake) in period):
        return None
    found = Counter(entry.event for _, _, entry in events)
    counts = ", ".join(f"{found[event]} {EVENT_WORDS[event]}" for event in COUNTED if found[event]) or "see below"
    gpus, hours = _given_back(jobs, period)
    warned = sorted((one.namespace, _warning(one)) for one in jobs if _is_warned(one.record))
    lines = [
        f"{interval(period.start, period.end)}: {counts}.",
        f"Given back: {count(gpus, 'GPU')}, and {hours:.1f} GPU-hours by those reclaimed now or before.",
    ]
    if brake:
        lines += [
            "",
            (
                f"The mass-idle brake has stopped reclaims under this policy since {brake['since']}: "
                f"{plain(brake['message'])}"
            ),
        ]
    if warned:
        lines += ["", f"Still warned: {len(warned)}", *_bounded(warned)]
    if deferred:
        lines += ["", f"Not sent at the time, since maxPerHour was reached: {len(deferred)}", *_bounded(deferred)]
    if events:
        happened = [
            (name.partition("/")[0], f"{rfc3339(time)} {name} {plain(entry.text)}") for time, name, entry in events
        ]
        lines += ["", "What happened:", *_bounded(happened)]
    return Message(title=f"Policy {policy}: {counts}", body="\n".join(lines))


def _deferred(one: DigestJob, period: DigestPeriod) -> Iterator[NotificationRecord]:
    """The job's notifications that maxPerHour left to the digest of this period."""
    for entry in one.record.notified:
        if entry.result is NotificationResult.DIGEST and entry.time in period:
            yield entry


def _named(one: DigestJob, entry: NotificationRecord) -> str:
    return f"{one.full_name} {entry.event} {rfc3339(entry.event_time)}"


def _is_warned(record: Record) -> bool:
    return record.state in {ReclaimState.WARNED, ReclaimState.RECLAIMING} and record.deadline is not None


def _warning(one: DigestJob) -> str:
    assert one.record.deadline is not None  # of warned jobs
    since = "an unknown time" if one.record.idle_since is None else rfc3339(one.record.idle_since)
    return f"{one.full_name}: {count(one.gpus, 'GPU')} idle since {since}, deadline {rfc3339(one.record.deadline)}"


def _given_back(jobs: Iterable[DigestJob], period: DigestPeriod) -> tuple[int, float]:
    """The GPUs of the jobs reclaimed in the period, and the GPU-hours within it that reclaimed jobs did not hold, also
    those of jobs reclaimed earlier.
    """
    gpus, hours = 0, 0.0
    for one in jobs:
        start, resumed, end = one.record.reclaimed_at, one.record.resumed_at, period.end
        if start is None:
            continue
        gpus += one.gpus if start in period else 0
        if resumed is not None and resumed > start:
            end = min(end, resumed)
        elif one.record.state is not ReclaimState.RECLAIMED:
            continue
        hours += one.gpus * max((end - max(start, period.start)).total_seconds(), 0.0) / 3600
    return gpus, hours


def _since(brake: Mapping[str, Any]) -> datetime | None:
    return read_time(brake.get("since"))


def plain(text: str) -> str:
    """Text that a user may have written, changed so that no chat reads it as a mention, a link or markup."""
    return single_line(text).translate({ord("<"): "(", ord(">"): ")", ord("@"): " at ", ord("`"): "'"})


def _bounded(lines: Sequence[tuple[str, str]]) -> list[str]:
    """At most MAX_LINES of these (namespace, line) pairs, in the given order. They are selected round-robin over the
    namespaces, so that a namespace with many lines does not hide the others.
    """
    turns: defaultdict[str, list[int]] = defaultdict(list)
    for place, (namespace, _) in enumerate(lines):
        turns[namespace].append(place)
    in_turn = [place for taken in zip_longest(*turns.values()) for place in taken if place is not None]
    more = len(lines) - MAX_LINES
    written = [f"- {lines[place][1]}" for place in sorted(in_turn[:MAX_LINES])]
    return [*written, f"- and {more} more"] if more > 0 else written


@dataclass(slots=True)
class _Try:
    """This process's attempts at one digest: the next is made at `next`, the following one `pause` later."""

    period: DigestPeriod
    next: datetime
    pause: timedelta = FIRST_PAUSE
    taken: set[tuple[str, str]] = field(default_factory=set)
    """The channels and URLs of the addresses that accepted it."""


class Digests:
    """Sends each policy's digest when it is due. The policy's channel gets a digest of all its jobs; a channel that
    namespaces have chosen gets one of the jobs in these namespaces.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        policies: Policies,
        post: Post,
        clock: Clock,
        recorder: MetricsRecorder,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._api = api
        self._cache = cache
        self._policies = policies
        self._post = post
        self._clock = clock
        self._recorder = recorder
        self._tries: dict[str, _Try] = {}

    async def run(self) -> None:
        """Check every INTERVAL seconds until cancelled. Only the leader runs it. A failed check is logged."""
        while True:
            try:
                await self.once()
            except Exception:
                logger.exception("the digests could not be looked after")
            await asyncio.sleep(INTERVAL)

    async def once(self) -> None:
        """Send the digests that are due now."""
        for raw in list(self._cache.policies):
            name = raw["metadata"]["name"]
            try:
                await self._of_policy(name, raw)
            except (ConflictError, NotFoundError):
                pass  # the policy has changed or is gone: the next check reads it again
            except ApiError as error:
                logger.warning("the digest of policy %s could not be noted: %s", name, error)
            except Exception as error:
                self._faults.caught("digest", name, error)
            else:
                self._faults.passed("digest", name)

    async def _of_policy(self, name: str, raw: Mapping[str, Any]) -> None:
        standing = self._policies.state_of(name).read
        if standing is None:
            return
        base = self._policies.state_of(BASE).read
        layers = [base] if base is not None and name != BASE else []
        policy = combined([*layers, standing], {})
        if NotificationEvent.DIGEST in policy.notification.events:
            await self._look_after(raw, policy)

    async def _look_after(self, raw: Mapping[str, Any], policy: EffectivePolicy) -> None:
        name, now = raw["metadata"]["name"], self._clock.now()
        last = raw.get("status", {}).get("lastDigest")
        due = last_due(policy.notification.digest, now)
        start = parse_time(last) if last else None
        attempt = self._tries.get(name)
        if attempt is not None and (attempt.period.end != due or now - due > LATEST):
            attempt = None
            del self._tries[name]
        if attempt is None and start is not None and (start >= due or now - due > LATEST):
            return  # it was sent, or it is so late that the next digest covers its period
        if attempt is not None and now < attempt.next:
            return
        audiences = self._audiences(name, policy)
        if not audiences:
            return
        if start is None:
            await self._note(raw, now)  # the first digest starts now, without the events before it
            return
        if attempt is None:
            attempt = self._tries[name] = _Try(period=DigestPeriod(start=start, end=due), next=now)
        failures: list[str] = []
        for key, jobs in audiences.items():
            message = digest(name, jobs, attempt.period, raw.get("status", {}).get("brake"))
            if message is not None:
                failures += await self._send(key, message, attempt)
        # A digest counts as sent once any address has accepted it. Otherwise one failing channel would have it sent to
        # the others again.
        if start < due and (attempt.taken or not failures):
            await self._note(raw, due)
            if attempt.taken:
                self._recorder.notified(NotificationEvent.DIGEST.value, NotificationResult.SENT.value.lower())
        if not failures:
            del self._tries[name]
            return
        attempt.next, attempt.pause = now + attempt.pause, min(attempt.pause * 2, LONGEST_PAUSE)
        logger.warning("the digest of policy %s is tried again: %s", name, "; ".join(failures))
        if not attempt.taken:
            self._recorder.notified(NotificationEvent.DIGEST.value, NotificationResult.FAILED.value.lower())

    def _audiences(self, name: str, policy: EffectivePolicy) -> dict[str, list[Mapping[str, Any]]]:
        """The jobs of each channel's digest, by the channel's key."""
        own = policy.notification.secret_key
        channels: dict[str, set[str]] = {}
        for namespace in {key.namespace for key in self._cache.dljobs.objects}:
            if counting(self._policies.of(namespace)) == name:
                scope = self._cache.namespaces.get(Key("", namespace))
                annotations = (scope["metadata"].get("annotations") or {}) if scope is not None else {}
                chosen = policy.notification.key_for(namespace, annotations.get(CHANNEL_ANNOTATION))
                channels[namespace] = {channel for channel in (own, chosen) if channel is not None}
        audiences: dict[str, list[Mapping[str, Any]]] = {} if own is None else {own: []}
        if any(channels.values()):
            for key, raw in self._cache.dljobs.objects.items():
                for channel in channels.get(key.namespace, ()):
                    audiences.setdefault(channel, []).append(raw)
        return audiences

    async def _send(self, key: str, message: Message, attempt: _Try) -> list[str]:
        """Send to the addresses of a channel that have not accepted it yet. Returns the reasons of the failures.

        Addresses with placeholders get no digest, because a digest is not about one job.
        """
        try:
            addresses = self._post.addresses(key, {})
        except NoAddressesError as error:
            return [str(error)]
        failures = []
        for address in addresses:
            if (key, address.url) in attempt.taken:
                continue
            failure = await self._post.send(address, message)
            if failure is None:
                attempt.taken.add((key, address.url))
            else:
                failures.append(f"{address.name}: {failure}")
        return failures

    async def _note(self, raw: Mapping[str, Any], until: datetime) -> None:
        name = raw["metadata"]["name"]
        current = await self._api.get(POLICIES, None, name)
        body = {**current, "status": {**(current.get("status") or {}), "lastDigest": rfc3339(until)}}
        self._cache.policies.put(await self._api.replace(POLICIES, None, name, body, subresource="status"))
