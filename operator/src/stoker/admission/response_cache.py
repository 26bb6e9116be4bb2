"""Remembers the responses to reviews, so that the same object under the same policy is judged once.

Used by job_review.py. The same object is submitted again and again: a dry run before the real submission, a pipeline
that applies it once more, a client that repeats what it had no answer to. A remembered response needs no worker
process.

A response is remembered by everything that it depends on, and by nothing less:

- what the request asks: the operation, the name, the namespace, the object and the old object, byte for byte (a
  `ReviewKey`), except for the fields that the API server writes and the review doesn't read;
- the effective policy: all responses of a namespace are forgotten with the first request under another one;
- which of the policy's exemptions have ended.

Rules, word lists and settings don't change while a process runs, and nothing outlives the process. Only complete
reviews are remembered (`AdmissionResponse.repeatable`): one that ran out of time may get further the next time.

Namespaces share nothing but the room: a namespace's responses are found by its own requests only. When the room is used
up, the namespace that takes most of it loses its oldest ones. So whoever submits many different objects displaces his
own.
"""

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import orjson
from pydantic import ValidationError

from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse
from stoker.api.meta import ObjectMeta
from stoker.policy.effective import EffectivePolicy

ROOM = 16 * 1024 * 1024
"""Bytes of all remembered responses. Chosen because most take 1 to 3 KB: that is room for some thousands, beside the
100 MiB that the process has anyway.
"""
MAX_RESPONSE = 64 * 1024
"""Bytes of one remembered response; a larger one is not remembered. Chosen so that no response takes more than 1/256 of
the room.
"""
OVERHEAD = 512
"""Bytes counted for each remembered response in addition to its own: the digest, two objects and their place in a
dictionary, measured as 300 and rounded up.
"""
SERVER_FIELDS = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"})
"""Fields of the metadata that the API server writes anew for each request. No rule reads them. One that its model does
not accept stays in the key, because it is a reason for a denial.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewKey:
    """What one review's response depends on. Make it with `of`."""

    namespace: str
    policy: EffectivePolicy
    digest: bytes

    @classmethod
    def of(cls, request: AdmissionRequest, policy: EffectivePolicy, now: datetime) -> Self | None:
        """The key of a request; None for an object that can't be written as JSON again, such as one nested too deep."""
        content = (
            request.operation,
            request.name,
            request.namespace,
            _as_submitted(request.new_object),
            _as_submitted(request.old_object),
            [one.until is None or now < one.until for one in policy.exemptions],
        )
        try:
            document = orjson.dumps(content)
        except orjson.JSONEncodeError:
            return None
        digest = hashlib.blake2b(document, digest_size=32).digest()
        return cls(namespace=request.namespace or "", policy=policy, digest=digest)


@dataclass(slots=True, kw_only=True, eq=False)
class _Remembered:
    """The responses of one namespace under one policy, pickled, the one that was asked for last at the end."""

    policy: EffectivePolicy
    responses: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    size: int = 0


class ResponseCache:
    """Remembers as many responses as `room` bytes hold. `hits` and `misses` count the requests."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._namespaces: dict[str, _Remembered] = {}
        self.size = 0
        """Bytes of what is remembered."""
        self.hits = 0
        self.misses = 0

    def get(self, key: ReviewKey) -> AdmissionResponse | None:
        """The response to an earlier request with this key, or None."""
        own = self._namespaces.get(key.namespace)
        if own is not None and own.policy is not key.policy:
            self._forget(key.namespace)
            own = None
        pickled = own.responses.get(key.digest) if own is not None else None
        if own is None or pickled is None:
            self.misses += 1
            return None
        self.hits += 1
        own.responses.move_to_end(key.digest)
        response = pickle.loads(pickled)  # noqa: S301 - written by `put` in this process
        assert isinstance(response, AdmissionResponse)
        return response

    def put(self, key: ReviewKey, response: AdmissionResponse) -> None:
        """Remember a response, if the same request gets the same one under the same policy."""
        if not response.repeatable:
            return
        pickled = pickle.dumps(response, protocol=pickle.HIGHEST_PROTOCOL)
        if len(pickled) > MAX_RESPONSE:
            return
        own = self._namespaces.setdefault(key.namespace, _Remembered(policy=key.policy))
        if own.policy is not key.policy or key.digest in own.responses:
            return  # the policy was changed during the review, or an equal request was answered meanwhile
        own.responses[key.digest] = pickled
        self._grow(own, len(pickled) + OVERHEAD)
        while self.size > self._room:
            self._displace()

    def _grow(self, own: _Remembered, more: int) -> None:
        own.size += more
        self.size += more

    def _displace(self) -> None:
        """Forget the oldest response of the namespace whose responses take the most room."""
        name, own = max(self._namespaces.items(), key=lambda item: item[1].size)
        _, pickled = own.responses.popitem(last=False)
        self._grow(own, -len(pickled) - OVERHEAD)
        if not own.responses:
            del self._namespaces[name]

    def _forget(self, namespace: str) -> None:
        self.size -= self._namespaces.pop(namespace).size


def _as_submitted(document: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, Sequence[str]]:
    """An object without the fields of its metadata that the API server writes, and the names of these fields."""
    metadata = document.get("metadata") if document is not None else None
    if document is None or not isinstance(metadata, dict):
        return document, ()
    written = {name: value for name, value in metadata.items() if name in SERVER_FIELDS}
    try:
        ObjectMeta.model_validate(written)
    except ValidationError:
        return document, ()
    submitted = {name: value for name, value in metadata.items() if name not in SERVER_FIELDS}
    return {**document, "metadata": submitted}, sorted(written)


__all__ = ["MAX_RESPONSE", "ROOM", "ReviewKey", "ResponseCache"]
