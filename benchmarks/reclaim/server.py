"""An API server of the simulation's own: objects with versions, preconditions, garbage collection and watches."""

import marshal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from benchmarks.reclaim.virtual_time import SkewedClock
from stoker.adapters.kubernetes.client import (
    DLJOBS,
    EVENTS,
    JOBS,
    PODS,
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    Object,
    Resource,
)
from stoker.findings.finding import rfc3339

Name = tuple[str, str]
"""A namespace, empty for what has none, and a name."""
OWNED = (JOBS, PODS)
"""What the garbage collector takes away after its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asked for a change, and when the request was sent; `controller` None: a person or the cluster itself."""

    controller: int | None = None
    sent_at: float


class Watcher(Protocol):
    """An observer of changes."""

    def changed(self, resource: Resource, kind: str, obj: Object) -> None:
        """ADDED, MODIFIED or DELETED."""
        ...


ChangeObserver = Callable[[Resource, Object | None, Object | None, Request], None]
"""Sees every change at the moment at which it takes effect: what was, and what is."""


class ApiServer:
    """What the cluster holds. Objects that are handed out are the caller's own."""

    def __init__(self, clock: SkewedClock) -> None:
        self.clock = clock
        self.version = 100
        self.watchers: list[Watcher] = []
        self.observers: list[ChangeObserver] = []
        self.events: dict[str, int] = {}
        """How many events were written, by reason; the objects are not kept."""
        self._event_names: set[str] = set()
        self._objects: dict[Resource, dict[Name, Object]] = {}
        self._uids = 0

    def all(self, resource: Resource) -> Iterator[Object]:
        """The objects themselves, not to be changed."""
        return iter(list(self._objects.get(resource, {}).values()))

    def peek(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """The object itself, not to be changed."""
        return self._objects.get(resource, {}).get((namespace or "", name))

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return _copy(self._find("get", resource, namespace, name))

    def list(
        self, resource: Resource, namespace: str | None, labels: str | None, fields: str | None
    ) -> tuple[list[Object], str]:
        if resource == EVENTS:
            return [], str(self.version)
        wanted = dict(one.split("=", 1) for one in (labels or "").split(",") if "=" in one)
        has = [one for one in (labels or "").split(",") if one and "=" not in one]
        phase = dict(one.split("=", 1) for one in (fields or "").split(",") if "=" in one).get("status.phase")
        found = [
            _copy(obj)
            for (space, _), obj in self._objects.get(resource, {}).items()
            if namespace in {None, space}
            and all(obj["metadata"].get("labels", {}).get(key) == value for key, value in wanted.items())
            and all(key in obj["metadata"].get("labels", {}) for key in has)
            and (phase is None or obj.get("status", {}).get("phase") == phase)
        ]
        return found, str(self.version)

    def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any], request: Request) -> Object:
        name = body["metadata"]["name"]
        if resource == EVENTS:
            return self._create_event(body)
        if self.peek(resource, namespace, name) is not None:
            raise AlreadyExistsError("create", code=409, reason="AlreadyExists")
        obj = _sent(body)
        self._uids += 1
        obj["metadata"] = {
            **obj["metadata"],
            "uid": f"{resource.plural}-{self._uids}",
            "generation": 1,
            "creationTimestamp": rfc3339(self.clock.now()),
        }
        return self._keep(resource, None, obj, request)

    def _create_event(self, body: Mapping[str, Any]) -> Object:
        name = body["metadata"]["name"]
        if name in self._event_names:
            raise AlreadyExistsError("create", code=409, reason="AlreadyExists")
        self._event_names.add(name)
        self.events[body["reason"]] = self.events.get(body["reason"], 0) + 1
        return dict(body)

    def patch(
        self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any], request: Request
    ) -> Object:
        if resource == EVENTS:
            return dict(body)
        known = self._find("patch", resource, namespace, name)
        _fence(known, body)
        changes = {
            **body,
            "metadata": {key: value for key, value in body.get("metadata", {}).items() if key in WRITABLE},
        }
        return self._keep(resource, known, _merged(known, _sent(changes)), request)

    def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None,
        request: Request,
    ) -> Object:
        known = self._find("replace", resource, namespace, name)
        _fence(known, body)
        if subresource == "status":
            return self._keep(resource, known, {**known, "status": _sent(body.get("status", {}))}, request)
        metadata = {**known["metadata"], **{key: value for key, value in body["metadata"].items() if key in WRITABLE}}
        return self._keep(
            resource, known, {**_sent(body), "metadata": metadata, "status": known.get("status", {})}, request
        )

    def delete(
        self, resource: Resource, namespace: str | None, name: str, uid: str, version: str | None, request: Request
    ) -> None:
        known = self._find("delete", resource, namespace, name)
        _fence(known, {"metadata": {"uid": uid, **({"resourceVersion": version} if version else {})}})
        self.remove(resource, known, request)

    def remove(self, resource: Resource, known: Object, request: Request) -> None:
        """Take an object away. What it owns is for the garbage collector, which is an observer."""
        metadata = known["metadata"]
        del self._objects[resource][metadata.get("namespace", ""), metadata["name"]]
        self.version += 1
        gone = {**known, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        self._publish(resource, "DELETED", known, None, gone, request)

    def update(self, resource: Resource, known: Object, changes: Mapping[str, Any], request: Request) -> Object:
        """The cluster's own change of an object, or a person's."""
        return self._keep(resource, known, _merged(known, changes), request)

    def touch(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Somebody else's write in a field that is nobody's business here: the version moves on."""
        known = self.peek(resource, namespace, name)
        if known is not None:
            note = {"metadata": {"annotations": {"example.org/touched": str(self.version)}}}
            self._keep(resource, known, _merged(known, note), Request(sent_at=0.0))

    def _find(self, verb: str, resource: Resource, namespace: str | None, name: str) -> Object:
        found = self.peek(resource, namespace, name)
        if found is None:
            raise NotFoundError(verb, code=404, reason="NotFound")
        return found

    def _keep(self, resource: Resource, known: Object | None, obj: Object, request: Request) -> Object:
        if known is not None and obj == known:
            return _copy(known)
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        if known is not None and obj.get("spec") != known.get("spec"):
            metadata["generation"] = known["metadata"].get("generation", 1) + 1
        obj = {**obj, "metadata": metadata}
        self._objects.setdefault(resource, {})[metadata.get("namespace", ""), metadata["name"]] = obj
        self._publish(resource, "ADDED" if known is None else "MODIFIED", known, obj, obj, request)
        return _copy(obj)

    def _publish(
        self, resource: Resource, kind: str, before: Object | None, after: Object | None, obj: Object, request: Request
    ) -> None:
        for observer in self.observers:
            observer(resource, before, after, request)
        for watcher in self.watchers:
            watcher.changed(resource, kind, obj)


WRITABLE = frozenset({"labels", "annotations", "finalizers"})
"""What of an object's metadata a write can change."""


def _sent(body: Mapping[str, Any]) -> Object:
    """A body as it arrives: what its sender changes in it later is not in it."""
    sent: Object = orjson.loads(orjson.dumps(body))
    return sent


def _copy(obj: Mapping[str, Any]) -> Object:
    """All its values are JSON's, which marshal copies fastest."""
    copied: Object = marshal.loads(marshal.dumps(dict(obj)))
    return copied


def _fence(known: Object, body: Mapping[str, Any]) -> None:
    fence = body.get("metadata", {})
    for name in ("resourceVersion", "uid"):
        if name in fence and fence[name] != known["metadata"].get(name):
            raise ConflictError("write", code=409, reason="Conflict")


def _merged(known: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    merged = dict(known)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = _merged(merged.get(name) or {}, value)
        else:
            merged[name] = value
    return merged


def owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    """Whether the object of that uid owns this one."""
    return any(owner.get("uid") == uid for owner in obj["metadata"].get("ownerReferences", ()))


__all__ = ["DLJOBS", "ApiServer", "Request", "Watcher", "ChangeObserver", "owned_by"]
