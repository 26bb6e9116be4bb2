"""The policies in force, from the cluster's UtilizationPolicies and Namespaces."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from pydantic import ValidationError

from stoker.adapters.kubernetes import Object
from stoker.controller.store import Collection, Key
from stoker.models.policy import EffectivePolicy, UtilizationPolicy, resolve
from stoker.models.vocabulary import ReclaimMode

logger = logging.getLogger(__name__)


class Policies:
    """Resolves the policy of a namespace; what did not change is not computed again.

    Iterating gives the policies that count: of one that has become invalid the last valid version. Where there is none,
    as after a restart, nobody knows what it protects: until it is valid, nothing is reclaimed anywhere.
    """

    def __init__(self, policies: Collection, namespaces: Collection) -> None:
        self._namespaces = namespaces
        self._valid: dict[Key, UtilizationPolicy] = {}
        self._unreadable: set[Key] = set()
        self._resolved: dict[str, EffectivePolicy] = {}
        policies.follow(self._policy_changed)
        namespaces.follow(self._namespace_changed)

    def __iter__(self) -> Iterator[UtilizationPolicy]:
        return iter(self._valid.values())

    def of(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace. One that is unknown has no labels but its name."""
        policy = self._resolved.get(namespace)
        if policy is None:
            scope = self._namespaces.get(Key("", namespace))
            labels = scope["metadata"].get("labels") or {} if scope is not None else {}
            policy = resolve(self, namespace, labels)
            if self._unreadable:
                policy = replace(policy, reclaim=replace(policy.reclaim, mode=ReclaimMode.OBSERVE))
            self._resolved[namespace] = policy
        return policy

    def _policy_changed(self, key: Key, obj: Object | None) -> None:
        # Read as it comes: when it is first asked for, the last valid version may be gone.
        before, was_unreadable = self._valid.get(key), key in self._unreadable
        self._unreadable.discard(key)
        if obj is None:
            self._valid.pop(key, None)
        else:
            try:
                self._valid[key] = UtilizationPolicy.model_validate(obj)
            except ValidationError as error:
                if before is None:
                    self._unreadable.add(key)
                lost = "it is ignored, and nothing is reclaimed"
                follows = lost if before is None else "the last valid one stays in force"
                message = "UtilizationPolicy %s is invalid, %s: %s"
                logger.error(message, key.name, follows, error)  # noqa: TRY400 -- not our fault
        after = self._valid.get(key)
        if (before and before.spec) != (after and after.spec) or was_unreadable != (key in self._unreadable):
            self._resolved.clear()

    def _namespace_changed(self, key: Key, _: Object | None) -> None:
        self._resolved.pop(key.name, None)
