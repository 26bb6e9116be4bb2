"""An API server of one's own for tests of who asks what and when. It knows names, versions and preconditions, no more:
what Kubernetes does is tried end to end.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

from stoker.adapters.kubernetes.client import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    Object,
    Resource,
    Warn,
)


class HeldClock:
    """A clock that stands at a time until the test sets another one."""

    def __init__(self, time: datetime) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


class FakeApi:
    """Implements KubernetesApi in memory. `before` is called with each request (`patch jobs`) and may raise."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, str | None, str], Object] = {}
        self.requests: list[str] = []
        self.unserved: set[Resource] = set()
        """Resources that this server does not have."""
        self.before: Callable[[str], None] = lambda _: None
        self.warnings: tuple[str, ...] = ()
        """What it warns of at each create."""
        self._version = 0

    def _ask(self, verb: str) -> None:
        self.requests.append(verb)
        self.before(verb)

    def _find(self, resource: Resource, namespace: str | None, name: str) -> Object:
        found = self.objects.get((resource, namespace, name))
        if found is None:
            raise NotFoundError("get", code=404, reason="NotFound")
        return found

    @staticmethod
    def _fence(known: Object, body: Mapping[str, Any]) -> None:
        fence = body.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if field in fence and fence[field] != known["metadata"].get(field):
                raise ConflictError("write", code=409, reason="Conflict")

    def store(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> Object:
        """Keep an object under the next resource version, as anybody's write would."""
        self._version += 1
        kept = deepcopy(dict(body))
        kept["metadata"] = {"uid": f"uid-{self._version}", **kept["metadata"], "resourceVersion": str(self._version)}
        self.objects[resource, namespace, kept["metadata"]["name"]] = kept
        return deepcopy(kept)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        self._ask(f"get {resource.plural}")
        return deepcopy(self._find(resource, namespace, name))

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        self._ask(f"list {resource.plural}")
        if resource in self.unserved:
            raise NotFoundError("list", code=404, reason="no reason given")
        # Selectors of the form `key=value`; that a label exists is not asked here.
        wanted = dict(part.split("=", 1) for part in (labels or "").split(",") if "=" in part)
        chosen = dict(part.split("=", 1) for part in (fields or "").split(",") if "=" in part)
        found = [
            deepcopy(obj)
            for key, obj in self.objects.items()
            if key[0] == resource
            and namespace in {None, key[1]}
            and wanted.items() <= obj["metadata"].get("labels", {}).items()
            if all(_at(obj, path) == value for path, value in chosen.items())
        ]
        return found, str(self._version)

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        if warn is not None:
            for text in self.warnings:
                warn(text)
        self._ask(f"create {resource.plural}")
        if (resource, namespace, body["metadata"]["name"]) in self.objects:
            raise AlreadyExistsError("create", code=409, reason="AlreadyExists")
        return self.store(resource, namespace, body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object:
        self._ask(f"patch {resource.plural}")
        known = self._find(resource, namespace, name)
        self._fence(known, body)
        return self.store(resource, namespace, _merged(known, body))

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        self._ask(f"replace {resource.plural}")
        known = self._find(resource, namespace, name)
        self._fence(known, body)
        return self.store(resource, namespace, body)

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str, resource_version: str | None = None
    ) -> None:
        self._ask(f"delete {resource.plural}")
        known = self._find(resource, namespace, name)
        self._fence(
            known, {"metadata": {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}}
        )
        del self.objects[resource, namespace, name]


def _at(obj: Mapping[str, Any], path: str) -> Any:
    for name in path.split("."):
        obj = obj.get(name, {})
    return obj


def _field(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _merged(known: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = _merged(merged.get(name, {}), value)
        else:
            merged[name] = value
    return merged


def failing(error: ApiError) -> Callable[[str], None]:
    """Every request fails."""

    def fail(_: str) -> None:
        raise error

    return fail
