"""Events of ours on events.k8s.io/v1: one object per episode, counted up when it repeats."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import EVENTS, AlreadyExistsError, ApiError, KubernetesApi
from stoker.findings.finding import single_line

logger = logging.getLogger(__name__)

CONTROLLER = "stoker.dev/controller"
MAX_NOTE_BYTES = 1024
"""The API server counts bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What is to be told of an object. `rule` and `episode` identify it: the same rule in the same episode is the same
    event again.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    rule: str
    episode: str


class EventWriter:
    """Writes events. They are best effort: nothing depends on one, and a failure is only logged."""

    def __init__(self, api: KubernetesApi, clock: Clock, *, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._instance = instance

    async def record(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Tell `event` of the object `regarding`."""
        metadata = regarding["metadata"]
        # An event is a namespace's; those of cluster-scoped objects are in this one (the API server wants it so).
        namespace = metadata.get("namespace", "default")
        name = event_name(metadata["name"], metadata["uid"], event)
        now = micro_time(self._clock.now())
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": now,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": cut(single_line(event.note)),
            "regarding": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                **({"namespace": namespace} if "namespace" in metadata else {}),
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        try:
            try:
                await self._api.create(EVENTS, namespace, body)
            except AlreadyExistsError:
                known = await self._api.get(EVENTS, namespace, name)
                count = (known.get("series") or {}).get("count", 1) + 1
                series = {"series": {"count": count, "lastObservedTime": now}}
                await self._api.patch(EVENTS, namespace, name, series)
        except ApiError as error:
            logger.warning("event %s of %s/%s not written: %s", event.reason, namespace, metadata["name"], error)


def event_name(name: str, uid: str, event: Event) -> str:
    """The event object's name: the same for the same object, rule and episode, so that a restart repeats no event."""
    identity = "\0".join((uid, event.reason, event.rule, event.episode))
    return f"{name[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def cut(text: str) -> str:
    """At most 1,024 bytes, no character halved."""
    content = text.encode()
    if len(content) <= MAX_NOTE_BYTES:
        return text
    return content[: MAX_NOTE_BYTES - 3].decode(errors="ignore") + "..."


def micro_time(time: datetime) -> str:
    """A MicroTime of the API."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
