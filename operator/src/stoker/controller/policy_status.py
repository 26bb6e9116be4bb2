"""Keeps the status of the UtilizationPolicies: whether each is in force, where others come before it, and what in it
deserves a look.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import POLICIES, ApiError, ConflictError, KubernetesApi, NotFoundError, Object
from stoker.api.meta import matches
from stoker.api.policy import BASE, MAX_OVERLAPS, UtilizationPolicy
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies, PolicyState
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import PolicyConditionType, ReclaimMode
from stoker.policy.checks import ClusterSettings, RemarkReason, review_policy
from stoker.policy.resolution import combined, rank
from stoker.workload.conditions import FALSE, TRUE, Fact, clamp, written

logger = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two looks at all policies: exemptions end without an event."""
NAMES = 5
"""So many names are written out, the others are counted."""
MAX_OVERLAP = 512
"""Characters of the text about one overlap."""
CONTRADICTION = "Contradiction"


@dataclass(slots=True)
class PolicyScope:
    """Where one policy selects: the number of `selected` namespaces, in how many it `counts`, which policies come
    before it elsewhere, and in words what it shares with others.
    """

    selected: int = 0
    counts: int = 0
    outranked_by: set[str] = field(default_factory=set)
    overlaps: list[str] = field(default_factory=list)


def policy_scopes(
    policies: Iterable[UtilizationPolicy], namespaces: Iterable[tuple[str, Mapping[str, str]]]
) -> dict[str, PolicyScope]:
    """The territory of each policy but `default`, by its name. `namespaces` are names with labels."""
    overrides = sorted((one for one in policies if one.name != BASE), key=rank)
    contested: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for namespace, labels in namespaces:
        selecting = tuple(one.name for one in overrides if matches(one.spec.namespace_selector, labels))
        contested[selecting].append(namespace)
    found = {one.name: PolicyScope() for one in overrides}
    for selecting, shared in sorted(contested.items(), key=lambda item: min(item[1])):
        for name in selecting:
            scope = found[name]
            scope.selected += len(shared)
            scope.counts += len(shared) if name == selecting[0] else 0
            if name != selecting[0]:
                scope.outranked_by.add(selecting[0])
            if len(selecting) > 1:
                others = _listed([one for one in selecting if one != name])
                line = f"{_listed(sorted(shared))}: also selected by {others}; {selecting[0]} applies"
                scope.overlaps.append(clamp(line, MAX_OVERLAP))
    return found


def policy_status(
    raw: Object,
    state: PolicyState,
    scope: PolicyScope | None,
    remarks: Sequence[tuple[str, str]],
    mode: ReclaimMode | None,
    now: datetime,
) -> dict[str, Any]:
    """A policy's next status, equal to the present one when nothing has changed; what others have written in it stays.

    `remarks` are what deserves a look, each with its reason, the weightiest first; `territory` is None for `default`.
    `mode` is what is done with idle jobs under it, None where it can't be read.
    """
    before = raw.get("status") or {}
    generation = raw["metadata"]["generation"]
    facts = [_ready(state, scope)]
    seen = {condition["type"] for condition in before.get("conditions", ())}
    if remarks:
        message = "; ".join(text for _, text in remarks)
        attention = Fact(type=PolicyConditionType.NEEDS_ATTENTION, status=TRUE, reason=remarks[0][0], message=message)
        facts.append(attention)
    elif PolicyConditionType.NEEDS_ATTENTION in seen:
        facts.append(Fact(type=PolicyConditionType.NEEDS_ATTENTION, status=FALSE, reason="None"))
    fields = {
        "observedGeneration": generation,
        "conditions": written(facts, before.get("conditions", ()), generation=generation, now=now),
        "overlaps": _bounded(scope.overlaps) if scope is not None else [],
    }
    if mode is not None:
        fields["reclaimMode"] = mode.value
    kept = {key: value for key, value in before.items() if key not in fields}
    return kept | {key: value for key, value in fields.items() if value != []}


def _ready(state: PolicyState, scope: PolicyScope | None) -> Fact:
    kind = PolicyConditionType.READY
    if state.faults:
        if state.read is None:
            follows = "no earlier version is known: the policy is ignored, and no job is reclaimed in any namespace"
        else:
            follows = f"generation {state.read.metadata.generation} stays in force"
        said = "; ".join(map(str, state.faults))
        return Fact(type=kind, status=FALSE, reason="Invalid", message=f"{follows}: {said}")
    if scope is None:
        return Fact(type=kind, status=TRUE, reason="InForce", message="the base of all namespaces")
    if not scope.selected:
        message = "no namespace has the labels that spec.namespaceSelector asks for"
        return Fact(type=kind, status=FALSE, reason="SelectsNothing", message=message)
    if not scope.counts:
        others = _listed(sorted(scope.outranked_by))
        message = f"other policies have precedence in all {scope.selected} namespaces that it selects: {others}"
        return Fact(type=kind, status=FALSE, reason="Overridden", message=message)
    message = f"applies in {scope.counts} of {scope.selected} selected namespaces"
    return Fact(type=kind, status=TRUE, reason="InForce", message=message)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES
    return ", ".join(names[:NAMES]) + (f" and {more} more" if more > 0 else "")


def _bounded(lines: Sequence[str]) -> list[str]:
    if len(lines) <= MAX_OVERLAPS:
        return list(lines)
    return [*lines[: MAX_OVERLAPS - 1], f"and {len(lines) - MAX_OVERLAPS + 1} more"]


class PolicyStatusWriter:
    """Writes each policy's status when it has changed, fenced by the resource version: what reclaim has noted in it
    meanwhile is never lost.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        policies: Policies,
        rules: Collection[Rule[Any]],
        surroundings: ClusterSettings,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._api = api
        self._cache = cache
        self._policies = policies
        self._rules = rules
        self._surroundings = surroundings
        self._clock = clock
        self._scopes: dict[str, PolicyScope] = {}
        self._revision = -1

    async def run(self) -> None:
        """Report for ever. A pass that fails is logged, and the next one comes."""
        while True:
            try:
                await self.once()
            except Exception:
                logger.exception("the policies' status could not be kept")
            await asyncio.sleep(INTERVAL)

    async def once(self) -> None:
        """Look at all policies once."""
        revision = self._policies.revision
        if self._revision != revision:
            # Thousands of namespaces and tens of policies take a fraction of a second, which would hold up the watches.
            self._scopes = await asyncio.to_thread(policy_scopes, list(self._policies), list(self._namespaces()))
            self._revision = revision
        for raw in list(self._cache.policies):
            name = raw["metadata"]["name"]
            try:
                await self._report(raw)
            except Exception as error:
                self._faults.caught("policy", name, error)
            else:
                self._faults.passed("policy", name)

    def _namespaces(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for namespace in self._cache.namespaces:
            yield namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}

    async def _report(self, raw: Object) -> None:
        name = raw["metadata"]["name"]
        now = self._clock.now()
        state, scope = self._policies.state_of(name), self._scopes.get(name)
        if scope is None and state.read is not None and name != BASE:
            return  # it came while the territories were found: the next look knows its own
        status = policy_status(raw, state, scope, self._remarks(state, now), self._mode(state), now)
        if status == raw.get("status"):
            return
        try:
            body = {**raw, "status": status}
            self._cache.policies.put(await self._api.replace(POLICIES, None, name, body, subresource="status"))
        except (ConflictError, NotFoundError):
            pass  # it has changed or gone since: the watch will tell, and the next look sees it
        except ApiError as error:
            logger.warning("The status of UtilizationPolicy %s could not be written: %s", name, error)

    def _mode(self, state: PolicyState) -> ReclaimMode | None:
        """The policy's own mode, else that of `default`, else the built-in one."""
        if state.read is None:
            return None
        base = [one for one in self._policies if one.name == BASE and state.read.name != BASE]
        return combined([*base, state.read], {}).reclaim.mode

    def _remarks(self, state: PolicyState, now: datetime) -> list[tuple[str, str]]:
        if state.read is None:
            return []
        review = review_policy(state.read, self._policies, self._rules, self._surroundings, now)
        contradictions = [(CONTRADICTION, str(one)) for one in review.contradictions]
        # That it counts nowhere is what Ready says; that Delete is for good is said to who applies the policy.
        unsaid = {RemarkReason.OUTRANKED, RemarkReason.SELECTS_NOTHING, RemarkReason.IRREVERSIBLE}
        others = [one for one in review.remarks if one.reason not in unsaid]
        return [*contradictions, *((one.reason.value, str(one)) for one in others)]
