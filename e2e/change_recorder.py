"""A record of the changes of jobs and policies, from a watch of the API server: no change in between is missed."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from e2e.cluster.api import ApiClient, ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for

JOB, DLJOB, POLICY = "Job", "DLJob", "UtilizationPolicy"
_WATCHED: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    JOB: ("/apis/batch/v1/jobs", lambda job: bool(job["spec"].get("suspend"))),
    DLJOB: ("/apis/stoker.dev/v1alpha1/dljobs", lambda job: job.get("status", {}).get("reclaim", {})),
    POLICY: (
        "/apis/stoker.dev/v1alpha1/utilizationpolicies",
        lambda policy: policy.get("status", {}).get("recentReclaims", []),
    ),
}
_CHUNK = 20.0
"""Seconds of one watch; the next goes on after the version that this one has ended with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of what is watched: whether a Job is suspended, a DLJob's `status.reclaim`, or a policy's
    `status.recentReclaims`.

    `before` is None for an object seen first, `after` None for one that is gone. `version` orders all changes of all
    kinds; `written_at` is when it was written by the API server's clock (a deletion: told), rounded down to seconds.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: int
    written_at: datetime
    before: Any
    after: Any

    @property
    def is_suspension(self) -> bool:
        """Whether a Job that ran, or was made to run, is suspended by it."""
        return self.kind == JOB and self.after is True and self.before is not True

    @property
    def is_resumption(self) -> bool:
        """Whether a suspended Job runs again by it."""
        return self.kind == JOB and self.before is True and self.after is False

    @property
    def is_deletion(self) -> bool:
        """Whether the object is gone by it."""
        return self.after is None

    def enters(self, state: str) -> bool:
        """Whether a DLJob's `status.reclaim.state` becomes that by it."""
        if self.kind != DLJOB or self.after is None:
            return False
        return bool(self.after.get("state") == state and (self.before or {}).get("state") != state)


class ChangeRecorder:
    """Watches every Job, DLJob and policy of a cluster inside `with ChangeRecorder(cluster) as recorder: ...`.

    Safe for threads. A gap in the watch makes every later question fail.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._client: ApiClient = cluster.client()
        self._changes: list[Change] = []
        self._changed = threading.Condition()
        self._known: dict[tuple[str, str], Any] = {}
        self._failure: Exception | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        """Returns once everything is watched from now on."""
        for kind, (path, _) in _WATCHED.items():
            answer = wait_for(f"a list of {kind}s", partial(self._client.get, path), quiet=True)
            for found in answer["items"]:
                self._note(kind, found, "ADDED")
            version = answer["metadata"]["resourceVersion"]
            threading.Thread(target=self._follow, args=(kind, path, version), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()

    # ---------------------------------------------------------------------------------------------------- questions

    @property
    def changes(self) -> list[Change]:
        """All changes so far, in the order in which each kind was written."""
        with self._changed:
            self._check()
            return list(self._changes)

    def of(self, kind: str, namespace: str, name: str) -> list[Change]:
        """The changes of one Job or DLJob."""
        return [one for one in self.changes if (one.kind, one.namespace, one.name) == (kind, namespace, name)]

    def suspensions(self, namespace: str, name: str) -> list[Change]:
        """How often, and when, a Job was suspended."""
        return [one for one in self.of(JOB, namespace, name) if one.is_suspension]

    def states(self, namespace: str, name: str) -> list[str]:
        """The states of reclaim that a DLJob went through."""
        path = [one.after.get("state", "") for one in self.of(DLJOB, namespace, name) if one.after]
        return [state for number, state in enumerate(path) if number == 0 or path[number - 1] != state]

    def records(self, namespace: str, name: str, *, until: Change) -> list[dict[str, Any]]:
        """Every `status.reclaim` of a DLJob that was written before a change."""
        return [one.after for one in self.of(DLJOB, namespace, name) if one.after and one.version < until.version]

    def wait(self, what: str, holds: Callable[[Change], bool], *, timeout: float = 30.0, since: int = 0) -> Change:
        """The first change that this holds of, among those with a number of at least `since` (`len(changes)` then);
        waits for it, and answers as soon as it is told. Raises AssertionError.
        """
        deadline = time.monotonic() + timeout
        number = since
        with self._changed:
            while True:
                self._check()
                while number < len(self._changes):
                    if holds(self._changes[number]):
                        return self._changes[number]
                    number += 1
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"after {timeout:g} s still waiting for {what}")
                self._changed.wait(left)

    # ----------------------------------------------------------------------------------------------------- watching

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the record has a gap: {self._failure}") from self._failure

    def _follow(self, kind: str, path: str, version: str) -> None:
        while not self._stopped.is_set():
            try:
                for event in self._watch(path, version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(kind, event["object"], event["type"])
            except ApiError as error:
                if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                    time.sleep(0.1)
                    continue
                # The server has forgotten what came after this version.
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.1)

    def _watch(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        return self._client.watch(f"{path}?resourceVersion={version}", timeout=_CHUNK)

    def _note(self, kind: str, found: dict[str, Any], event: str) -> None:
        metadata = found["metadata"]
        look = _WATCHED[kind][1]
        after = None if event == "DELETED" else json.loads(json.dumps(look(found)))
        key = (kind, metadata["uid"])
        with self._changed:
            before = self._known.get(key)
            if key in self._known and before == after:
                return
            self._known[key] = after
            self._changes.append(
                Change(
                    kind=kind,
                    namespace=metadata.get("namespace", ""),
                    name=metadata["name"],
                    uid=metadata["uid"],
                    version=int(metadata["resourceVersion"]),
                    written_at=_written_at(metadata) if after is not None else datetime.now(UTC).replace(microsecond=0),
                    before=before,
                    after=after,
                )
            )
            self._changed.notify_all()


def _written_at(metadata: dict[str, Any]) -> datetime:
    times = [entry["time"] for entry in metadata.get("managedFields", ()) if "time" in entry]
    return datetime.fromisoformat(max([metadata["creationTimestamp"], *times]))
