"""What a review knows of the cluster: its policies and the labels of its namespaces, from memory."""

import asyncio
from contextlib import suppress

from stoker.adapters.kubernetes.client import NAMESPACES, POLICIES, KubernetesApi, Object
from stoker.cluster.cache import Collection, Key
from stoker.cluster.policies import Policies
from stoker.cluster.process import keep_listed
from stoker.policy.effective import EffectivePolicy

NAMESPACE_PATIENCE = 0.25
"""Seconds that a review waits to hear of its namespace: `kubectl apply` may create the two within milliseconds."""


class ClusterView:
    """The policies and namespaces, followed by a watch and checked against lists; no review asks the API server."""

    def __init__(self) -> None:
        self.policies = Collection()
        self.namespaces = Collection()
        self.in_force = Policies(self.policies, self.namespaces)
        self.listed = asyncio.Event()
        """Set once both have been listed."""
        self._named = {"UtilizationPolicies": self.policies, "Namespaces": self.namespaces}
        self._change = asyncio.Event()
        self.namespaces.follow(self._namespace_changed)

    async def policy(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace. One that is still unknown after a moment has no labels but its name."""
        key = Key("", namespace)
        if self.namespaces.get(key) is None:
            await self._wait_for_namespace(key)
        return self.in_force.of(namespace)

    async def _wait_for_namespace(self, namespace: Key) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(NAMESPACE_PATIENCE):
                while self.namespaces.get(namespace) is None:
                    await self._change.wait()

    async def list_all(self, api: KubernetesApi) -> None:
        """Compare with what the API server lists now. Raises ApiError."""
        for resource, collection in ((POLICIES, self.policies), (NAMESPACES, self.namespaces)):
            objects, version = await api.list(resource)
            collection.compare(objects, int(version))
        self.listed.set()

    async def keep_listed(self, api: KubernetesApi, *, interval: float, retry: float) -> None:
        """List again every `interval` seconds, for ever; after a failure already in `retry` seconds."""
        await keep_listed(lambda: self.list_all(api), "policies and namespaces", interval=interval, retry=retry)

    def not_listed(self) -> str | None:
        """Why reviews can't be answered yet, or None."""
        missing = (f"{name} not listed yet" for name, collection in self._named.items() if not collection.is_listed)
        return next(missing, None)

    def stalled(self) -> str | None:
        """Which watch has fallen silent, or None: it did not tell until the next list of changes that a list saw."""
        silent = (
            f"the watch of {name} missed {collection.overdue} changes"
            for name, collection in self._named.items()
            if collection.overdue
        )
        return next(silent, None)

    def _namespace_changed(self, _: Key, __: Object | None) -> None:
        self._change.set()
        self._change = asyncio.Event()
