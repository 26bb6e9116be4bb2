"""Keeps the mass-idle brake of every policy: fed by each scan of the metrics, stored in the policy's status."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import POLICIES, ApiError, ConflictError, KubernetesApi, Object
from stoker.adapters.kubernetes.events import Event, EventWriter
from stoker.api.names import RELEASE_BRAKE_ANNOTATION
from stoker.api.policy import UtilizationPolicyStatus
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.controller.audit import Audit
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import PolicyConditionType
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim
from stoker.reclaim import NoticeReason, Obstruction
from stoker.reclaim.brake import Brake, JobActivity, after
from stoker.workload.conditions import FALSE, TRUE, Fact, written

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Conflicting writes of one policy's status before the next scan tries again."""
NO_SETTINGS = EffectiveReclaim()
"""Of a policy under which no job holds a GPU: it has nothing to count."""


class Brakes:
    """The brakes by their policies' names. What could not be written yet holds all the same."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        events: EventWriter,
        audit: Audit,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._api = api
        self._cache = cache
        self._events = events
        self._audit = audit
        self._clock = clock
        self._brakes: dict[str, Brake] = {}

    def obstruction(self, policy: str) -> Obstruction | None:
        """Why nothing is reclaimed under the policy of that name."""
        brake = self._of(policy)
        if brake is None or brake.since is None:
            return None
        return stopped(policy, brake.since, brake.message)

    def doubted_until(self, policy: str) -> datetime | None:
        """Until when the metrics of the jobs under that policy were doubted last, by the brake that has let go."""
        brake = self._of(policy)
        return brake.doubted_until if brake is not None else None

    def _of(self, policy: str) -> Brake | None:
        brake = self._brakes.get(policy)
        if brake is None:
            raw = self._cache.policies.get(Key("", policy))
            brake = _read(raw, self._clock.now()) if raw is not None else None
        return brake

    async def scanned(self, seen: Iterable[tuple[EffectivePolicy, JobActivity]]) -> None:
        """Take in one scan of all jobs that hold GPUs, each with its policy. Raises nothing where a status can't be
        written: the next scan tries again.
        """
        now = self._clock.now()
        activities: defaultdict[str, list[JobActivity]] = defaultdict(list)
        settings: dict[str, EffectiveReclaim] = {}
        for policy, activity in seen:
            if (name := policy.counts_in) is not None:
                activities[name].append(activity)
                settings[name] = policy.reclaim
        present = {raw["metadata"]["name"]: raw for raw in self._cache.policies}
        self._brakes = {name: brake for name, brake in self._brakes.items() if name in present}
        for name, raw in present.items():
            try:
                await self._look(name, raw, activities[name], settings.get(name, NO_SETTINGS), now)
            except Exception as error:
                words = self._faults.caught("brake", name, error)
                # Nobody knows how much has turned idle at once.
                self._brakes[name] = Brake(
                    since=now, message=f"the share of GPUs that turned idle at once is unknown ({words})"
                )
            else:
                self._faults.passed("brake", name)

    async def _look(
        self, name: str, raw: Object, seen: Sequence[JobActivity], held: EffectiveReclaim, now: datetime
    ) -> None:
        """Take in one scan of the jobs of one policy."""
        before = self._brakes.get(name) or _read(raw, now)
        release = (raw["metadata"].get("annotations") or {}).get(RELEASE_BRAKE_ANNOTATION)
        # Ten thousand jobs take a while, which would hold up the watches.
        brake = await asyncio.to_thread(after, before, seen, held.mass_idle_brake, held.window, release, now)
        self._brakes[name] = brake
        try:
            raw = await self._write(raw, brake, now)
        except ApiError as error:
            logger.warning("the brake of UtilizationPolicy %s could not be recorded: %s", name, error)
        if before.is_on is not brake.is_on:
            await self._announce(raw, before, brake)

    async def _write(self, raw: Object, brake: Brake, now: datetime) -> Object:
        """Write the status if it has changed, over whatever else was written in it meanwhile."""
        name = raw["metadata"]["name"]
        for attempt in range(ATTEMPTS):
            status = _status(raw, brake, now)
            if status == (raw.get("status") or {}):
                return raw
            try:
                body = {**raw, "status": status}
                raw = await self._api.replace(POLICIES, None, name, body, subresource="status")
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
                raw = await self._api.get(POLICIES, None, name)
                continue
            self._cache.policies.put(raw)
            return raw
        raise AssertionError("unreachable")

    async def _announce(self, raw: Object, before: Brake, brake: Brake) -> None:
        """Tell that reclaim stops, or goes on: in the log, in the audit, and by an event of the policy."""
        name = raw["metadata"]["name"]
        episode = rfc3339(brake.since or before.since or self._clock.now())
        if brake.is_on:
            reason, at_rest = NoticeReason.BRAKED, brake.turned_idle
            message = (
                f"{brake.message}. No job is reclaimed under this policy."
                f" If the jobs are really idle, release the brake: {how_to_release(name)}"
            )
        else:
            reason, at_rest = NoticeReason.RELEASED, before.turned_idle
            asked = brake.handled_release != before.handled_release
            why = "the brake was released by annotation" if asked else "the GPUs work again, or their jobs are gone"
            message = f"Jobs may be reclaimed under the policy again: {why}."
        logger.warning("UtilizationPolicy %s: %s", name, message)
        self._audit.of_policy(name, reason, message, {"jobsAtRest": len(at_rest), "stoppedAt": episode})
        event = Event(
            type="Warning" if brake.is_on else "Normal",
            reason=reason.value,
            action=reason.value,
            note=message,
            rule="brake",
            episode=episode,
        )
        await self._events.record(raw, event)


def stopped(policy: str, since: datetime, message: str) -> Obstruction:
    """What holds back the jobs of a policy whose brake is on."""
    reason = f"the mass-idle brake has stopped reclaims under the policy {policy} since {rfc3339(since)}: {message}"
    return Obstruction(
        reason=reason, change=f"if the jobs are really idle, release the brake: {how_to_release(policy)}"
    )


def how_to_release(policy: str) -> str:
    """What to do when the jobs are idle indeed."""
    return f"kubectl annotate utilizationpolicy {policy} --overwrite {RELEASE_BRAKE_ANNOTATION}=$(date -u +%FT%TZ)"


def _read(raw: Mapping[str, Any], now: datetime) -> Brake:
    """The brake as the policy's status has it. Of one that can't be read nobody knows whether it was on."""
    try:
        return Brake.from_status(UtilizationPolicyStatus.model_validate(raw.get("status") or {}))
    except ValidationError:
        return Brake(since=now, message="whether it was stopped can't be read from its status")


def _status(raw: Mapping[str, Any], brake: Brake, now: datetime) -> dict[str, Any]:
    """The policy's next status, equal to the present one when nothing of the brake has changed."""
    status = raw.get("status") or {}
    before = status.get("conditions", ())
    kind = PolicyConditionType.RECLAIM_STOPPED
    facts = []
    if brake.is_on:
        message = (
            f"{brake.message}; if the jobs are really idle, release the brake: "
            f"{how_to_release(raw['metadata']['name'])}"
        )
        facts.append(Fact(type=kind, status=TRUE, reason="MassIdle", message=message))
    elif any(condition["type"] == kind for condition in before):
        facts.append(Fact(type=kind, status=FALSE, reason="GoesOn"))
    fields: dict[str, Any] = dict(brake.to_status())
    if facts:
        # What the other conditions were computed from does not change by this.
        generation = status.get("observedGeneration") or raw["metadata"]["generation"]
        fields["conditions"] = written(facts, before, generation=generation, now=now)
    kept = {key: value for key, value in status.items() if key not in fields}
    return kept | {key: value for key, value in fields.items() if value not in (None, [])}
