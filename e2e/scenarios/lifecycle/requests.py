"""What the operator's processes asked of the API server and what it answered, by its audit log."""

import json
from dataclasses import dataclass
from datetime import datetime

from e2e.cluster.provider import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that was answered: when it came, when it was answered, and the status code. `name` is the object's;
    empty where the API server refused the creation before it read the object.
    """

    received: datetime
    answered: datetime
    code: int
    name: str


def creations(cluster: Cluster, namespace: str) -> list[Request]:
    """The controller's requests to create Jobs in a namespace, in order of arrival."""
    with cluster.audit_log.open() as lines:
        events = [json.loads(line) for line in lines if line.endswith("\n")]
    wanted = {"resource": "jobs", "namespace": namespace}
    found = [
        Request(
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            answered=datetime.fromisoformat(event["stageTimestamp"]),
            code=event["responseStatus"]["code"],
            name=event["objectRef"].get("name", ""),
        )
        for event in events
        if event["stage"] == "ResponseComplete"
        and event["user"]["username"].endswith(":stoker-controller")
        and event["userAgent"] == "stoker"
        and event["verb"] == "create"
        and wanted.items() <= event.get("objectRef", {}).items()
    ]
    return sorted(found, key=lambda one: one.received)


def created(cluster: Cluster, namespace: str) -> list[str]:
    """The Jobs that the controller has created in a namespace, each as often as it did."""
    return [one.name for one in creations(cluster, namespace) if one.code == 201]
