"""What a review knows of the cluster: its policies and the labels of its namespaces, from memory."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stoker.adapters.kubernetes import NAMESPACES, POLICIES, ApiError, KubernetesApi
from stoker.handlers.mirror import Mirror
from stoker.models.policy import EffectivePolicy, UtilizationPolicy, resolve

logger = logging.getLogger(__name__)

NAMESPACE_PATIENCE = 0.25
"""Seconds that a review waits to hear of its namespace: `kubectl apply` may create the two within milliseconds."""


class ClusterView:
    """The policies and namespaces, followed by a watch and checked against lists; no review asks the API server."""

    def __init__(self) -> None:
        self.policies = Mirror("UtilizationPolicies", _read_policy, self._changed)
        self.namespaces = Mirror("Namespaces", _read_labels, self._changed)
        self._resolved: dict[str, EffectivePolicy] = {}
        self._change = asyncio.Event()
        self.listed = asyncio.Event()
        """Set once both have been listed."""

    async def policy(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace. One that is still unknown after a moment has no labels but its name."""
        if self.namespaces.get(namespace) is None:
            await self._glance(namespace)
        policy = self._resolved.get(namespace)
        if policy is None:
            policy = resolve(self.policies, namespace, self.namespaces.get(namespace) or {})
            self._resolved[namespace] = policy
        return policy

    async def _glance(self, namespace: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(NAMESPACE_PATIENCE):
                while self.namespaces.get(namespace) is None:
                    await self._change.wait()

    async def list_all(self, api: KubernetesApi) -> None:
        """Compare with what the API server lists now. Raises ApiError."""
        for resource, mirror in ((POLICIES, self.policies), (NAMESPACES, self.namespaces)):
            objects, version = await api.list(resource)
            mirror.listed(objects, int(version))
        self.listed.set()

    async def keep_listed(self, api: KubernetesApi, *, interval: float, retry: float) -> None:
        """List again every `interval` seconds, for ever; after a failure already in `retry` seconds."""
        failing = False
        while True:
            try:
                await self.list_all(api)
            except ApiError as error:
                if not failing:
                    logger.warning("Can't list policies and namespaces, trying again every %g s: %s", retry, error)
                failing = True
                await asyncio.sleep(retry)
            else:
                if failing:
                    logger.info("Policies and namespaces are listed again.")
                failing = False
                await asyncio.sleep(interval)

    def not_listed(self) -> str | None:
        """Why reviews can't be answered yet, or None."""
        return self.policies.not_listed() or self.namespaces.not_listed()

    def stalled(self) -> str | None:
        """Which watch has fallen silent, or None."""
        return self.policies.stalled() or self.namespaces.stalled()

    def _changed(self) -> None:
        self._resolved.clear()
        self._change.set()
        self._change = asyncio.Event()


def _read_policy(obj: Mapping[str, Any]) -> UtilizationPolicy:
    return UtilizationPolicy.model_validate(obj)


def _read_labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return dict(obj["metadata"].get("labels") or {})
