"""Reads and writes AdmissionReview v1: the API server's request and Stoker's response.

Used by the server and the reviewers. Only the needed fields are read, and each of them is checked. A malformed body
raises `NotAReviewError` and gets HTTP 400, so that the webhook's failurePolicy decides about it. It is never answered
with `allowed: true`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Literal, Self

import orjson
from pydantic import ValidationError

from stoker.api.bounds import MAX_DEPTH, out_of_bounds
from stoker.api.schema import Violation, explain
from stoker.api.structural import FaultKind
from stoker.findings.verdict import Verdict
from stoker.lint.messages import StatusCause

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

MAX_CAUSES = 64
"""Causes in a response. Bounded because kubectl prints each on a line of its own."""

MAX_ANNOTATION_BYTES = 1024
"""Characters of an audit annotation's value that are kept. Bounded because people read the audit log."""

# The API server writes the fields of a review in the order of its Go type. So the uid comes before the objects and is
# found in the first bytes.
_LEADING_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9A-Za-z-]{1,64})"')


class Operation(StrEnum):
    """The operation of a request, as in AdmissionReview v1."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class NotAReviewError(ValueError):
    """The body is not an AdmissionReview v1; the message says where and why, in one line."""


class TooDeepError(ValueError):
    """The body is nested deeper than the parser reads. Only the review's uid can still be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """The API server's request to admit `operation`, which turns `old_object` into `new_object`.

    `new_object` is absent for DELETE, `old_object` for CREATE; for CONNECT both may be. `namespace` is None for
    cluster-scoped objects. `name` is empty when the API server is still to generate it.
    """

    uid: str
    operation: Operation
    group: str
    kind: str
    resource: str
    subresource: str
    name: str
    namespace: str | None
    new_object: Mapping[str, Any] | None
    old_object: Mapping[str, Any] | None
    dry_run: bool
    deadline: float | None = None
    """When the API server stops waiting for the response, in the event loop's time; None if it did not say so."""

    @classmethod
    def read(cls, body: bytes | bytearray) -> Self:
        """Read the body of the API server's POST.

        Raises NotAReviewError for a body that is not a complete AdmissionReview v1, and TooDeepError for one that is
        nested too deep to be parsed.
        """
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            if "depth limit" in error.msg:
                raise TooDeepError(
                    f"the object is nested too deep to be reviewed: at most {MAX_DEPTH} levels are allowed"
                ) from error
            raise NotAReviewError(f"the body is not JSON: {error}") from error
        review = _Reader(document, "the body")
        if (kind := review.text("kind")) != KIND:
            raise NotAReviewError(f"kind: must be {KIND}, not {_shown(kind)}")
        if (version := review.text("apiVersion")) != API_VERSION:
            raise NotAReviewError(f"apiVersion: must be {API_VERSION}, not {_shown(version)}")
        request = review.inner("request")
        operation = request.text("operation")
        if operation not in Operation.__members__:
            raise NotAReviewError(f"request.operation: must be one of {', '.join(Operation)}, not {_shown(operation)}")
        kind_of_object, resource = request.inner("kind"), request.inner("resource")
        read = cls(
            uid=request.text("uid"),
            operation=Operation(operation),
            group=resource.text("group", empty=True),
            kind=kind_of_object.text("kind"),
            resource=resource.text("resource"),
            subresource=request.text("subResource", absent="", empty=True),
            name=request.text("name", absent="", empty=True),
            namespace=request.text("namespace", absent="", empty=True) or None,
            new_object=request.mapping("object"),
            old_object=request.mapping("oldObject"),
            dry_run=request.flag("dryRun"),
        )
        if read.new_object is None and read.operation in {Operation.CREATE, Operation.UPDATE}:
            raise NotAReviewError(f"request.object: is required for {read.operation}")
        if read.old_object is None and read.operation is Operation.UPDATE:
            raise NotAReviewError(f"request.oldObject: is required for {read.operation}")
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResponse:
    """The response to a request.

    message, causes: why it is denied. warnings: lines that kubectl prints. annotations: entries for the API server's
    audit log. verdict: the rules' verdict, if they were run; it is counted in the metrics and not sent. repeatable:
    whether the same request gets the same response under the same policy, because its review was complete.
    """

    allowed: bool
    message: str = ""
    causes: tuple[StatusCause, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = field(default=None, compare=False, repr=False)
    repeatable: bool = field(default=False, compare=False, repr=False)

    def write(self, request: AdmissionRequest) -> bytes:
        """The response as JSON. A denial has code 422 and reason Invalid, like those of the API server's own
        validation.
        """
        response: dict[str, Any] = {"uid": request.uid, "allowed": self.allowed}
        if not self.allowed:
            response["status"] = {
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": self.message,
                "details": {
                    "group": request.group,
                    "kind": request.kind,
                    "name": request.name,
                    "causes": [
                        {"reason": cause.reason, "field": cause.field, "message": cause.message}
                        for cause in self.causes
                    ],
                },
            }
        if self.warnings:
            response["warnings"] = list(self.warnings)
        if self.annotations:
            response["auditAnnotations"] = {
                key: value[:MAX_ANNOTATION_BYTES] for key, value in self.annotations.items()
            }
        return _envelope(response)


ALLOWED = AdmissionResponse(allowed=True)


def unreadable(
    request: AdmissionRequest, error: ValidationError, read: Callable[[Mapping[str, Any]], object]
) -> AdmissionResponse:
    """Deny an object that violates its schema, with one cause for each violation that the request introduces.

    `error` is what `read` raised for the new object. Violations that the old object already has are ignored: after the
    schema became stricter, a stored object can still be labelled, suspended and deleted.
    """
    wrong = explain(error)
    if request.old_object is not None:
        try:
            read(request.old_object)
        except ValidationError as before:
            known = set(explain(before))
            wrong = [violation for violation in wrong if violation not in known]
    return refused(wrong) if wrong else ALLOWED


def outside_bounds(request: AdmissionRequest) -> AdmissionResponse | None:
    """Deny an object that is too large or nested too deep; None if it is within the bounds. Fields that already exceed
    a bound in the old object are ignored, so that it can still be labelled, suspended and deleted.
    """
    if request.new_object is None or not (wrong := out_of_bounds(request.new_object)):
        return None
    if request.old_object is not None:
        before = {one.field_path for one in out_of_bounds(request.old_object)}
        wrong = [one for one in wrong if one.field_path not in before]
    return refused(wrong) if wrong else None


def refused(wrong: Iterable[Violation]) -> AdmissionResponse:
    """Deny an object for these violations, with one cause each, at most MAX_CAUSES."""
    causes = tuple(_cause(violation) for violation in islice(wrong, MAX_CAUSES))
    message = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return AdmissionResponse(allowed=False, message=message, causes=causes)


def _cause(violation: Violation) -> StatusCause:
    reason: Literal["FieldValueRequired", "FieldValueInvalid"]
    reason = "FieldValueRequired" if violation.kind is FaultKind.REQUIRED else "FieldValueInvalid"
    return StatusCause(reason=reason, field=violation.field_path or "spec", message=violation.message)


def refuse_unread(start: bytes | bytearray, message: str, *, code: int, reason: str) -> bytes | None:
    """Deny a review of which only the `start` was read. Returns the response as JSON, or None if the start lacks the
    uid, which every response must repeat.
    """
    uid = _LEADING_UID.search(start)
    if uid is None:
        return None
    status = {"status": "Failure", "code": code, "reason": reason, "message": message}
    return _envelope({"uid": uid[1].decode("ascii"), "allowed": False, "status": status})


def _envelope(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


class _Reader:
    """Reads the members of one JSON object. Errors name the member's path."""

    __slots__ = ("_members", "_path")

    def __init__(self, document: object, path: str, prefix: str = "") -> None:
        if not isinstance(document, dict):
            raise NotAReviewError(f"{path}: must be an object, not {_json_type(document)}")
        self._members: dict[str, Any] = document
        self._path = prefix

    def inner(self, name: str) -> "_Reader":
        path = self._path + name
        return _Reader(self._required(name), path, f"{path}.")

    def text(self, name: str, *, absent: str | None = None, empty: bool = False) -> str:
        value = self._members.get(name)
        if value is None and absent is not None:
            return absent
        value = self._required(name)
        if not isinstance(value, str):
            raise NotAReviewError(f"{self._path}{name}: must be a string, not {_json_type(value)}")
        if not value and not empty:
            raise NotAReviewError(f"{self._path}{name}: must not be empty")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        value = self._members.get(name)
        if value is not None and not isinstance(value, dict):
            raise NotAReviewError(f"{self._path}{name}: must be an object, not {_json_type(value)}")
        return value

    def flag(self, name: str) -> bool:
        value = self._members.get(name)
        if value is not None and not isinstance(value, bool):
            raise NotAReviewError(f"{self._path}{name}: must be true or false, not {_json_type(value)}")
        return bool(value)

    def _required(self, name: str) -> object:
        value = self._members.get(name)
        if value is None:
            raise NotAReviewError(f"{self._path}{name}: is required")
        return value


_JSON_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


def _json_type(value: object) -> str:
    return _JSON_TYPES.get(type(value), "null")


def _shown(text: str) -> str:
    """A value from outside for an error message: quoted, on one line, at most 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
