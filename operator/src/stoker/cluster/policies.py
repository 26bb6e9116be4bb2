"""Resolves the effective policy of each namespace from the cached UtilizationPolicies and Namespaces.

Used by the controller and by admission.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pydantic import ValidationError

from stoker.adapters.kubernetes.client import Object
from stoker.api.policy import UtilizationPolicy
from stoker.api.schema import Violation, explain
from stoker.cluster.cache import Collection, Key
from stoker.cluster.faults import described
from stoker.findings.vocabulary import ReclaimMode
from stoker.policy.effective import EffectivePolicy
from stoker.policy.resolution import resolve

logger = logging.getLogger(__name__)

SPARE = 1000
"""Cached results beyond the number of existing namespaces, since a review may name any namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """The state of one policy. read: its newest valid version, None if no valid one was seen. faults: what is wrong
    with its newest version; empty if that is valid.
    """

    read: UtilizationPolicy | None
    faults: tuple[Violation, ...] = ()
    spec_of: tuple[str | None, int | None] = (None, None)
    """uid and generation of the newest version. The spec is the same as long as they are."""


class Policies:
    """Resolves the effective policy of a namespace and caches it until a policy or the namespace changes.

    Iterating gives the policies in force. An invalid policy counts with its last valid version. If no valid version was
    seen, as after a restart, its exemptions are unknown: then every policy's mode is Observe until it is valid.

    `revision` grows whenever a policy's spec or a namespace may have changed. `taken` and `rejected` count the valid
    and invalid versions of policies.
    """

    def __init__(self, policies: Collection, namespaces: Collection) -> None:
        self._namespaces = namespaces
        self._states: dict[Key, PolicyState] = {}
        self._resolved: dict[str, EffectivePolicy] = {}
        self.revision = 0
        self.taken = 0
        self.rejected = 0
        self._followers: list[Callable[[str | None], None]] = []
        policies.follow(self._policy_changed)
        namespaces.follow(self._namespace_changed)

    def __iter__(self) -> Iterator[UtilizationPolicy]:
        return iter([one.read for one in self._states.values() if one.read is not None])

    def state_of(self, name: str) -> PolicyState:
        """The state of the policy with that name; an empty one if it does not exist."""
        return self._states.get(Key("", name), PolicyState(read=None))

    def follow(self, follower: Callable[[str | None], None]) -> None:
        """Call `follower` from now on when the effective policy may have changed: with the namespace, or with None for
        all namespaces.
        """
        self._followers.append(follower)

    @property
    def invalid(self) -> int:
        """The number of policies whose newest version is invalid."""
        return sum(bool(one.faults) for one in self._states.values())

    def of(self, namespace: str) -> EffectivePolicy:
        """The effective policy of a namespace. An unknown namespace is resolved with its name as its only label."""
        policy = self._resolved.get(namespace)
        if policy is None:
            scope = self._namespaces.get(Key("", namespace))
            labels = scope["metadata"].get("labels") or {} if scope is not None else {}
            policy = resolve(self, namespace, labels)
            if any(one.read is None for one in self._states.values()):
                policy = replace(policy, reclaim=replace(policy.reclaim, mode=ReclaimMode.OBSERVE))
            while len(self._resolved) >= len(self._namespaces.objects) + SPARE:
                del self._resolved[next(iter(self._resolved))]
            self._resolved[namespace] = policy
        return policy

    def _policy_changed(self, key: Key, obj: Object | None) -> None:
        # Read at once: later a newer, invalid version may have replaced this one.
        before = self._states.pop(key, None)
        if obj is not None:
            self._states[key] = self._read(obj, before)
        after = self._states.get(key)
        if _in_force(before) != _in_force(after):
            self._resolved.clear()
            self._notify(None)

    def _read(self, obj: Object, before: PolicyState | None) -> PolicyState:
        metadata = obj["metadata"]
        spec_of = (metadata.get("uid"), metadata.get("generation"))
        if before is not None and before.spec_of == spec_of and None not in spec_of:
            return before
        try:
            state = PolicyState(read=UtilizationPolicy.model_validate(obj), spec_of=spec_of)
        except Exception as error:
            # Any error counts as an invalid version, so that the exemptions of the last valid one stay in force.
            own = (Violation(field_path="", message=f"Stoker fails to read it ({described(error)})"),)
            faults = tuple(explain(error)) if isinstance(error, ValidationError) else own
            last = before.read if before is not None else None
            follows = "it is ignored, and no job is reclaimed" if last is None else "the last valid one stays in force"
            said = "; ".join(map(str, faults))
            logger.error("UtilizationPolicy %s is invalid, %s: %s", metadata["name"], follows, said)  # noqa: TRY400 -- not our fault
            self.rejected += 1
            return PolicyState(read=last, faults=faults, spec_of=spec_of)
        self.taken += 1
        return state

    def _namespace_changed(self, key: Key, _: Object | None) -> None:
        self._resolved.pop(key.name, None)
        self._notify(key.name)

    def _notify(self, namespace: str | None) -> None:
        self.revision += 1
        for follower in self._followers:
            follower(namespace)


def _in_force(state: PolicyState | None) -> object:
    """The part of a policy's state that affects effective policies: its spec, or whether it is absent or unreadable."""
    if state is None:
        return "absent"
    return state.read.spec if state.read is not None else "unreadable"
