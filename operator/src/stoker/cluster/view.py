"""The cached policies and namespaces of an admission process. Reviews read the effective policy from here."""

import asyncio
from contextlib import suppress

from stoker.adapters.kubernetes.client import NAMESPACES, POLICIES, KubernetesApi, Object
from stoker.cluster.cache import Collection, Key
from stoker.cluster.policies import Policies
from stoker.cluster.process import keep_listed
from stoker.policy.effective import EffectivePolicy

NAMESPACE_PATIENCE = 0.25
"""Seconds that a review waits for the watch to deliver its namespace. `kubectl apply` may create a namespace and a job
in it within milliseconds.
"""


class ClusterView:
    """Policies and namespaces, filled by watches and corrected by lists. No review sends a request."""

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
        """The effective policy of a namespace. If the namespace is still unknown after NAMESPACE_PATIENCE seconds, it
        is resolved with its name as its only label.
        """
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
        """List policies and namespaces and bring the cache to the lists. Raises ApiError."""
        for resource, collection in ((POLICIES, self.policies), (NAMESPACES, self.namespaces)):
            objects, version = await api.list(resource)
            collection.compare(objects, int(version))
        self.listed.set()

    async def keep_listed(self, api: KubernetesApi, *, interval: float, retry: float) -> None:
        """Call `list_all` at once and every `interval` seconds, after a failure in `retry` seconds, until cancelled."""
        await keep_listed(
            lambda: self.list_all(api),
            "policies and namespaces",
            due=lambda: asyncio.sleep(interval),
            retry=retry,
        )

    def not_listed(self) -> str | None:
        """For the readiness probe: what is not listed yet, or None."""
        missing = (f"{name} not listed yet" for name, collection in self._named.items() if not collection.is_listed)
        return next(missing, None)

    def stalled(self) -> str | None:
        """For the liveness probe: which watch has stopped delivering changes, or None (`Collection.overdue`)."""
        silent = (
            f"the watch of {name} missed {collection.overdue} changes"
            for name, collection in self._named.items()
            if collection.overdue
        )
        return next(silent, None)

    def _namespace_changed(self, _: Key, __: Object | None) -> None:
        self._change.set()
        self._change = asyncio.Event()
