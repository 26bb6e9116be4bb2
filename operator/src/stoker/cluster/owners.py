"""Finds the topmost owner of an object: of a pod of a TrainJob that is the TrainJob, not its JobSet or its Job. Used by
the controller for pods that no DLJob made.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.adapters.kubernetes.client import Answer, ForbiddenError, NotFoundError, Object, Resource
from stoker.lint.kinds.registry import KINDS
from stoker.workload.manifest import controller_of

logger = logging.getLogger(__name__)

MAX_OWNERS = 8
"""Owners above one another that are followed; chosen over what controllers nest (RayService, RayCluster, pod)."""
API_VERSION = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,252}/)?v[a-z0-9]{1,62}")
REMEMBERED = 50_000
"""Owners that are remembered. Beyond this number all are forgotten and asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An object that others belong to. An object of the same name with another uid is another one."""

    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> dict[str, str]:
        """As owner references and specs name it."""
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}


class OwnerReader(Protocol):
    """The requests that are made here. Each may raise ApiError."""

    async def get_metadata(self, resource: Resource, namespace: str | None, name: str) -> Object: ...

    async def read(self, path: str) -> Answer: ...


class Owners:
    """Follows owner references upwards. Owners are remembered by their uid, since an object's owners rarely change."""

    def __init__(self, api: OwnerReader) -> None:
        self._api = api
        self._above: dict[str, Mapping[str, Any] | None] = {}
        """The controller's reference of an object, by the object's uid; None: it is the topmost."""
        self._plurals: dict[tuple[str, str], str | None] = {
            (kind.api_version, kind.kind or kind.name): kind.plural for kind in KINDS if kind.plural
        }

    async def topmost(self, obj: Mapping[str, Any]) -> Owner:
        """The topmost controller of a namespaced object, or the object itself where nothing controls it.

        An owner that can't be read, because its kind is not known to the API server or may not be read, counts as the
        topmost. Raises ApiError where the API server can't be asked.
        """
        namespace = str(obj["metadata"]["namespace"])
        current = Owner(
            namespace=namespace,
            api_version=str(obj.get("apiVersion", "v1")),
            kind=str(obj.get("kind", "Pod")),
            name=str(obj["metadata"]["name"]),
            uid=str(obj["metadata"]["uid"]),
        )
        reference = controller_of(obj)
        for _ in range(MAX_OWNERS):
            if reference is None:
                return current
            current = _owner(namespace, reference)
            reference = await self._reference_above(current)
        return current

    async def _reference_above(self, owner: Owner) -> Mapping[str, Any] | None:
        if owner.uid not in self._above:
            if len(self._above) >= REMEMBERED:
                self._above.clear()
            self._above[owner.uid] = await self._ask(owner)
        return self._above[owner.uid]

    async def _ask(self, owner: Owner) -> Mapping[str, Any] | None:
        try:
            resource = await self._resource(owner)
            found = None if resource is None else await self._api.get_metadata(resource, owner.namespace, owner.name)
        except (NotFoundError, ForbiddenError) as error:
            logger.info("%s %s/%s counts as the topmost owner: %s", owner.kind, owner.namespace, owner.name, error)
            return None
        # A reference names its owner by uid: another object of that name owns nothing of it.
        return None if found is None or found["metadata"]["uid"] != owner.uid else controller_of(found)

    async def _resource(self, owner: Owner) -> Resource | None:
        """Where an owner's kind is served; None where the API server does not serve it."""
        key = (owner.api_version, owner.kind)
        if key not in self._plurals:
            self._plurals[key] = await self._discovered(owner)
        plural = self._plurals[key]
        group, _, version = owner.api_version.rpartition("/")
        return None if plural is None else Resource(group, version, plural)

    async def _discovered(self, owner: Owner) -> str | None:
        # Whoever may write a pod may write any text here, and it becomes part of a path.
        if not API_VERSION.fullmatch(owner.api_version):
            return None
        prefix = "/apis" if "/" in owner.api_version else "/api"
        try:
            answer = await self._api.read(f"{prefix}/{owner.api_version}")
        except NotFoundError:
            return None
        resources = answer.content.get("resources") or ()
        names = (str(one["name"]) for one in resources if one.get("kind") == owner.kind and one.get("namespaced"))
        return next((name for name in names if "/" not in name), None)


def _owner(namespace: str, reference: Mapping[str, Any]) -> Owner:
    return Owner(
        namespace=namespace,
        api_version=str(reference.get("apiVersion", "")),
        kind=str(reference.get("kind", "")),
        name=str(reference.get("name", "")),
        uid=str(reference.get("uid", "")),
    )


__all__ = ["Owner", "Owners"]
