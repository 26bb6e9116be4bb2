"""The digest: what reclaim has said and done under a policy since the last one, told at the policy's hour.

It is made of what the jobs' records say; the policy's status remembers up to when it was told.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import POLICIES, ApiError, ConflictError, KubernetesApi, NotFoundError
from stoker.adapters.notifications import NoAddressesError
from stoker.api.meta import CHANNEL_ANNOTATION
from stoker.api.notification import Message
from stoker.api.policy import BASE, WEEKDAYS, DigestTime, EffectivePolicy, combined
from stoker.cluster.cache import Key, Store
from stoker.cluster.faults import Faults, described
from stoker.cluster.policies import Policies
from stoker.cluster.recorder import UNMETERED, Meter
from stoker.controller.notification_messages import LATEST, Note, moment, time_of
from stoker.controller.notifier import DIGEST, FAILED, SENT, Post, counting
from stoker.findings.finding import parse_time, rfc3339, single_line
from stoker.findings.vocabulary import NotificationEvent, ReclaimState
from stoker.findings.wording import count

logger = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two looks whether a digest is due."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=30)
"""After a digest that nobody took; doubled each time."""
MAX_LINES = 40
"""So many jobs and so many events are written out, the others are counted."""
COUNTED = ("warned", "reclaimed", "resumed", "snoozed")
"""The first words of lines in a job's history that a digest counts."""


def last_due(digest: DigestTime, now: datetime) -> datetime:
    """The last time up to `now` at which a digest was to be sent; what has no time of its own is in UTC."""
    zone = ZoneInfo(digest.time_zone or "UTC")
    at, today = time.fromisoformat(digest.at), now.astimezone(zone).date()
    days = (datetime.combine(today - timedelta(days=back), at, zone) for back in range(8))
    return next(
        day for day in days if day <= now and (not digest.days or WEEKDAYS[day.weekday()] in digest.days)
    ).astimezone(ZoneInfo("UTC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From when, exclusive, to when a digest tells."""

    start: datetime
    end: datetime

    def __contains__(self, time: datetime) -> bool:
        return self.start < time <= self.end


def digest(
    policy: str, jobs: Sequence[Mapping[str, Any]], period: Period, brake: Mapping[str, Any] | None = None
) -> Message | None:
    """What is told of the DLJobs `jobs`, as the API server has them; None where there is nothing to tell. Only what was
    said and done in the period makes a digest, and what stands at its end is told with it.
    """
    jobs = [raw for raw in jobs if _is_readable(raw, period)]
    events = sorted(event for raw in jobs for event in _events(raw, period))
    put_off = sorted((_namespace(raw), entry) for raw in jobs for entry in _put_off(raw, period))
    if not events and not put_off and not (brake and _is_in(brake["since"], period)):
        return None
    counts = Counter(word for _, _, words in events if (word := words.split(" ", 1)[0].rstrip(":")) in COUNTED)
    told = ", ".join(f"{counts[word]} {word}" for word in COUNTED if counts[word]) or "see below"
    gpus, hours = _given_back(jobs, period)
    warned = sorted((_namespace(raw), line) for raw in jobs if (line := _still_warned(raw)) is not None)
    lines = [
        f"{moment(period.start)} to {moment(period.end)}: {told}.",
        f"Given back: {count(gpus, 'GPU')}, and {hours:.1f} GPU-hours by those reclaimed now or before.",
    ]
    if brake:
        lines += ["", f"Nothing is reclaimed under this policy since {brake['since']}: {plain(brake['message'])}"]
    if warned:
        lines += ["", f"Still warned: {len(warned)}", *_bounded(warned)]
    if put_off:
        lines += ["", f"Not told at the time, since the hour was full: {len(put_off)}", *_bounded(put_off)]
    if events:
        told_of = [(name.partition("/")[0], f"{when} {name} {plain(words)}") for when, name, words in events]
        lines += ["", "What happened:", *_bounded(told_of)]
    return Message(title=f"Policy {policy}: {told}", body="\n".join(lines))


def _is_readable(raw: Mapping[str, Any], period: Period) -> bool:
    """Whether a job's record can be told of. One that can't, which another version may have written, is left out."""
    try:
        list(_events(raw, period))
        list(_put_off(raw, period))
        _still_warned(raw)
        _given_back([raw], period)
    except Exception as error:
        logger.warning("%s is left out of a digest: %s", _name(raw), described(error))
        return False
    return True


def _events(raw: Mapping[str, Any], period: Period) -> Iterator[tuple[str, str, str]]:
    """The lines of a job's history in the period: time, job, words."""
    for line in _record(raw).get("history", ()):
        when, _, words = line.partition(" ")
        if _is_in(when, period):
            yield when, _name(raw), words


def _put_off(raw: Mapping[str, Any], period: Period) -> Iterator[str]:
    for entry in _record(raw).get("notified", ()):
        note = Note.read(entry)
        if note is not None and note.became == DIGEST and note.at in period:
            yield f"{_name(raw)} {note.about}"


def _still_warned(raw: Mapping[str, Any]) -> str | None:
    record = _record(raw)
    if record.get("state") not in {ReclaimState.WARNED, ReclaimState.RECLAIMING} or "deadline" not in record:
        return None
    gpus = raw.get("status", {}).get("gpus", 0)
    return f"{_name(raw)}: {count(gpus, 'GPU')} idle since {record.get('idleSince')}, deadline {record['deadline']}"


def _given_back(jobs: Sequence[Mapping[str, Any]], period: Period) -> tuple[int, float]:
    """GPUs of the jobs reclaimed in the period, and GPU-hours in it for which reclaimed jobs have held none."""
    gpus, hours = 0, 0.0
    for raw in jobs:
        record, held = _record(raw), raw.get("status", {}).get("gpus", 0)
        start, end = parse_time(record.get("reclaimedAt")), period.end
        if start is None:
            continue
        gpus += held if start in period else 0
        resumed = parse_time(record.get("resumedAt"))
        if resumed is not None and resumed > start:
            end = min(end, resumed)
        elif record.get("state") != ReclaimState.RECLAIMED:
            continue
        hours += held * max((end - max(start, period.start)).total_seconds(), 0.0) / 3600
    return gpus, hours


def _is_in(time: str, period: Period) -> bool:
    at = time_of(time)
    return at is not None and at in period


def plain(text: str) -> str:
    """Words that a user may have written, so that no chat takes them for a mention, a link or markup."""
    return single_line(text).translate({ord("<"): "(", ord(">"): ")", ord("@"): " at ", ord("`"): "'"})


def _record(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    record: Mapping[str, Any] = raw.get("status", {}).get("reclaim", {})
    return record


def _namespace(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["namespace"])


def _name(raw: Mapping[str, Any]) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


def _bounded(lines: Sequence[tuple[str, str]]) -> list[str]:
    """At most MAX_LINES of these (namespace, line), in their order: namespaces take turns, so that one with many leaves
    no other out.
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
    """What this process has tried of one digest."""

    period: Period
    next: datetime
    pause: timedelta = FIRST_PAUSE
    taken: set[tuple[str, str]] = field(default_factory=set)
    """Channels and addresses that have taken it."""


class Digests:
    """Sends each policy's digest when it is due: to the policy's channel about all its jobs, to a channel that
    namespaces have chosen about theirs.
    """

    def __init__(
        self,
        api: KubernetesApi,
        store: Store,
        policies: Policies,
        post: Post,
        clock: Clock,
        meter: Meter = UNMETERED,
        faults: Faults | None = None,
    ) -> None:
        self._faults = faults if faults is not None else Faults(meter)
        self._api = api
        self._store = store
        self._policies = policies
        self._post = post
        self._clock = clock
        self._meter = meter
        self._tries: dict[str, _Try] = {}

    async def run(self) -> None:
        """Look for ever; of leaders only. A pass that fails is logged, and the next one comes."""
        while True:
            try:
                await self.once()
            except Exception:
                logger.exception("the digests could not be looked after")
            await asyncio.sleep(INTERVAL)

    async def once(self) -> None:
        """Send what is due now."""
        for raw in list(self._store.policies):
            name = raw["metadata"]["name"]
            try:
                await self._of_policy(name, raw)
            except (ConflictError, NotFoundError):
                pass  # it has changed or gone: the watch will tell, and the next look sees it
            except ApiError as error:
                logger.warning("the digest of policy %s could not be noted: %s", name, error)
            except Exception as error:
                self._faults.caught("digest", name, error)
            else:
                self._faults.passed("digest", name)

    async def _of_policy(self, name: str, raw: Mapping[str, Any]) -> None:
        standing = self._policies.standing(name).read
        if standing is None:
            return
        base = self._policies.standing(BASE).read
        layers = [base] if base is not None and name != BASE else []
        policy = combined([*layers, standing], {})
        if NotificationEvent.DIGEST in policy.notification.events:
            await self._look_after(raw, policy)

    async def _look_after(self, raw: Mapping[str, Any], policy: EffectivePolicy) -> None:
        name, now = raw["metadata"]["name"], self._clock.now()
        told = raw.get("status", {}).get("lastDigest")
        due = last_due(policy.notification.digest, now)
        start = parse_time(told) if told else None
        attempt = self._tries.get(name)
        if attempt is not None and (attempt.period.end != due or now - due > LATEST):
            attempt = None
            del self._tries[name]
        if attempt is None and start is not None and (start >= due or now - due > LATEST):
            return  # told; or the next one tells of it
        if attempt is not None and now < attempt.next:
            return
        audiences = self._audiences(name, policy)
        if not audiences:
            return
        if start is None:
            await self._note(raw, now)  # what was before the first digest nobody has asked for
            return
        if attempt is None:
            attempt = self._tries[name] = _Try(period=Period(start=start, end=due), next=now)
        failures: list[str] = []
        for key, jobs in audiences.items():
            message = digest(name, jobs, attempt.period, raw.get("status", {}).get("brake"))
            if message is not None:
                failures += await self._send(key, message, attempt)
        # Told is what anybody has taken: one channel without an address must not have the others told again each day.
        if start < due and (attempt.taken or not failures):
            await self._note(raw, due)
            if attempt.taken:
                self._meter.notified(NotificationEvent.DIGEST.value, SENT)
        if not failures:
            del self._tries[name]
            return
        attempt.next, attempt.pause = now + attempt.pause, min(attempt.pause * 2, LONGEST_PAUSE)
        logger.warning("the digest of policy %s is tried again: %s", name, "; ".join(failures))
        if not attempt.taken:
            self._meter.notified(NotificationEvent.DIGEST.value, FAILED)

    def _audiences(self, name: str, policy: EffectivePolicy) -> dict[str, list[Mapping[str, Any]]]:
        """By channel, the jobs that its digest is about."""
        own = policy.notification.secret_key
        channels: dict[str, set[str]] = {}
        for namespace in {key.namespace for key in self._store.dljobs.objects}:
            if counting(self._policies.of(namespace)) == name:
                scope = self._store.namespaces.get(Key("", namespace))
                annotations = (scope["metadata"].get("annotations") or {}) if scope is not None else {}
                chosen = policy.notification.key_for(namespace, annotations.get(CHANNEL_ANNOTATION))
                channels[namespace] = {channel for channel in (own, chosen) if channel is not None}
        audiences: dict[str, list[Mapping[str, Any]]] = {} if own is None else {own: []}
        if any(channels.values()):
            for key, raw in self._store.dljobs.objects.items():
                for channel in channels.get(key.namespace, ()):
                    audiences.setdefault(channel, []).append(raw)
        return audiences

    async def _send(self, key: str, message: Message, attempt: _Try) -> list[str]:
        """Send to those of a channel that have not taken it; what went wrong. No job is its subject: lines with a
        placeholder are for none.
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
        self._store.policies.put(await self._api.replace(POLICIES, None, name, body, subresource="status"))
