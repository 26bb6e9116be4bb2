"""The policies in force, from the cluster's UtilizationPolicies and Namespaces."""

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
"""Namespaces that are remembered beyond the number of those that exist: reviews may ask for any name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What is known of one policy: the newest version that could be `read`, None if none could, and the `faults` of the
    newest of all.
    """

    read: UtilizationPolicy | None
    faults: tuple[Violation, ...] = ()
    spec_of: tuple[str | None, int | None] = (None, None)
    """uid and generation of the newest: its spec can't be another while they stay."""


class Policies:
    """Resolves the policy of a namespace; what did not change is not computed again.

    Iterating gives the policies that count: of one that has become invalid the last valid version. Where there is none,
    as after a restart, nobody knows what it protects: until it is valid, nothing is reclaimed anywhere.

    `revision` grows whenever a policy's spec or a namespace may have changed; `taken` and `rejected` count the versions
    of policies that could and could not be read.
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
        """How it stands with the policy of that name."""
        return self._states.get(Key("", name), PolicyState(read=None))

    def follow(self, follower: Callable[[str | None], None]) -> None:
        """Tell from now on where another policy may hold: in one namespace, or anywhere (None)."""
        self._followers.append(follower)

    @property
    def invalid(self) -> int:
        """How many policies are not in force as they are written."""
        return sum(bool(one.faults) for one in self._states.values())

    def of(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace. One that is unknown has no labels but its name."""
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
        # Read as it comes: when it is first asked for, the last valid version may be gone.
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
            # Whatever keeps it from being read: what it protects stays protected.
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
    """What of a policy decides about namespaces: its spec, or that it is there and unreadable."""
    if state is None:
        return "absent"
    return state.read.spec if state.read is not None else "unreadable"
