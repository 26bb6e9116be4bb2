"""The policies in force, from the store's UtilizationPolicies and Namespaces."""

import logging

from pydantic import ValidationError

from stoker.controller.store import Key, Store
from stoker.models.policy import EffectivePolicy, UtilizationPolicy, resolve

logger = logging.getLogger(__name__)


class Policies:
    """Resolves the policy of a namespace; what did not change is not computed again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[Key, tuple[str, UtilizationPolicy | None]] = {}
        self._resolved: dict[str, tuple[tuple[str, ...], EffectivePolicy]] = {}

    def of(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace."""
        scope = self._store.namespaces.get(Key("", namespace))
        labels = scope["metadata"].get("labels", {}) if scope is not None else {}
        known_as = (one["metadata"] for one in self._store.policies)
        versions = sorted(f"{metadata['uid']}/{metadata['resourceVersion']}" for metadata in known_as)
        state = (*versions, scope["metadata"]["resourceVersion"] if scope is not None else "")
        known = self._resolved.get(namespace)
        if known is not None and known[0] == state:
            return known[1]
        policy = resolve(self._policies(), namespace, labels)
        self._resolved[namespace] = (state, policy)
        return policy

    def _policies(self) -> list[UtilizationPolicy]:
        """All readable policies; of one that has become unreadable the last good version."""
        read: dict[Key, tuple[str, UtilizationPolicy | None]] = {}
        for key, raw in self._store.policies.objects.items():
            version = raw["metadata"]["resourceVersion"]
            before = self._read.get(key)
            if before is not None and before[0] == version:
                read[key] = before
                continue
            try:
                read[key] = (version, UtilizationPolicy.model_validate(raw))
            except ValidationError as error:
                logger.warning("policy %s is invalid, the last good version stays: %s", key.name, error.error_count())
                read[key] = (version, before[1] if before is not None else None)
        self._read = read
        return [policy for _, policy in read.values() if policy is not None]
