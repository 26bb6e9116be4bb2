"""Writes Kubernetes Events (events.k8s.io/v1): one object for each episode, whose series count grows on a repeat.

Used by the controller's status writer and brake.
"""

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
"""Bytes of a note. The API server's limit, which counts bytes, not characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event about an object. type, reason, action and note are those of the API.

    rule, episode: identify the event together with its reason. The same values again are a repeat of the same event.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    rule: str
    episode: str


class EventWriter:
    """Writes events. `instance` is their reportingInstance. Events are best effort: a failure is only logged."""

    def __init__(self, api: KubernetesApi, clock: Clock, *, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._instance = instance

    async def record(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Write `event` about the object `regarding` (JSON), or count it up if it exists. Raises nothing."""
        metadata = regarding["metadata"]
        # Events are namespaced. The API server requires those of cluster-scoped objects to be in `default`.
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
                **({"resourceVersion": metadata["resourceVersion"]} if "resourceVersion" in metadata else {}),
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
    """The name of the event object. It depends only on the object and the event's identity, so a restart finds it
    again.
    """
    identity = "\0".join((uid, event.reason, event.rule, event.episode))
    return f"{name[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def cut(text: str) -> str:
    """Shorten a text to MAX_NOTE_BYTES bytes of UTF-8, at the end of a character."""
    content = text.encode()
    if len(content) <= MAX_NOTE_BYTES:
        return text
    return content[: MAX_NOTE_BYTES - 3].decode(errors="ignore") + "..."


def micro_time(time: datetime) -> str:
    """A time in the API's MicroTime format."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
