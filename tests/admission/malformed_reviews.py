"""More than 200 bodies that are not an AdmissionReview v1, the same in every run."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OBJECT: dict[str, Any] = {
    "apiVersion": "stoker.dev/v1alpha1",
    "kind": "DLJob",
    "metadata": {"name": "bert", "namespace": "team", "uid": "0f3c", "labels": {"stoker.dev/owner": "ann"}},
    "spec": {
        "gpusPerNode": 8,
        "image": "registry.example/nlp/bert:2026.11",
        "script": "torchrun train.py --batch-size 32\n",
    },
}


def review(operation: str = "CREATE", new: Any = OBJECT, old: Any = None, **request: Any) -> dict[str, Any]:
    """A well-formed AdmissionReview of a DLJob."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "stoker.dev", "version": "v1alpha1", "kind": "DLJob"},
            "resource": {"group": "stoker.dev", "version": "v1alpha1", "resource": "dljobs"},
            "requestKind": {"group": "stoker.dev", "version": "v1alpha1", "kind": "DLJob"},
            "requestResource": {"group": "stoker.dev", "version": "v1alpha1", "resource": "dljobs"},
            "name": "bert",
            "namespace": "team",
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
            "object": new,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


@dataclass(frozen=True, slots=True)
class Malformed:
    """A body that can't be read, with the Content-Type that it is sent as."""

    name: str
    body: bytes
    content_type: str = "application/json"

    def __str__(self) -> str:
        return self.name


def malformed_reviews() -> list[Malformed]:
    """All of them."""
    return [*_cut(), *_missing(), *_wrongly_typed(), *_wrong_values(), *_not_text(), *_too_deep(), *_other_documents()]


def _encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _cut() -> Iterator[Malformed]:
    """Truncated anywhere."""
    body = _encoded(review())
    for length in range(0, len(body), len(body) // 48):
        yield Malformed(f"cut after {length} bytes", body[:length])


_REQUIRED = (
    ("kind",),
    ("apiVersion",),
    ("request",),
    ("request", "uid"),
    ("request", "operation"),
    ("request", "kind"),
    ("request", "kind", "group"),
    ("request", "kind", "kind"),
    ("request", "resource"),
    ("request", "resource", "group"),
    ("request", "resource", "resource"),
    ("request", "object"),
)
_OPTIONAL = (
    ("request", "oldObject"),
    ("request", "name"),
    ("request", "namespace"),
    ("request", "subResource"),
    ("request", "dryRun"),
)
_ALIENS: tuple[Any, ...] = (0, -1.5, 10**30, True, [], ["x"], {}, {"x": 1}, "", "\u0000", "x" * 5000)


def _changed(path: tuple[str, ...], value: Any = None, *, remove: bool = False) -> dict[str, Any]:
    document = copy.deepcopy(review())
    parent = document
    for name in path[:-1]:
        parent = parent[name]
    if remove:
        parent.pop(path[-1], None)
    else:
        parent[path[-1]] = value
    return document


def _missing() -> Iterator[Malformed]:
    for path in _REQUIRED:
        if path != ("request", "kind", "group"):
            yield Malformed(f"without {'.'.join(path)}", _encoded(_changed(path, remove=True)))
            yield Malformed(f"null at {'.'.join(path)}", _encoded(_changed(path, None)))
    updated = review("UPDATE", old=None)
    yield Malformed("UPDATE without oldObject", _encoded(updated))


def _wrongly_typed() -> Iterator[Malformed]:
    """A value of another type at every path that is read."""
    whole = review()
    for path in _REQUIRED + _OPTIONAL:
        if path == ("request", "kind", "group"):
            continue
        value: Any = whole
        for name in path:
            value = value.get(name, "")
        right = dict if path[-1] in {"object", "oldObject"} else type(value)
        for number, alien in enumerate(_ALIENS):
            if type(alien) is not right:
                yield Malformed(f"{'.'.join(path)} is {type(alien).__name__} {number}", _encoded(_changed(path, alien)))


def _wrong_values() -> Iterator[Malformed]:
    for version in ("admission.k8s.io/v1beta1", "admission.k8s.io/v2", "v1", "ADMISSION.K8S.IO/V1", ""):
        yield Malformed(f"version {version!r}", _encoded(_changed(("apiVersion",), version)))
    for kind in ("Pod", "admissionreview", "AdmissionReviewList", ""):
        yield Malformed(f"kind {kind!r}", _encoded(_changed(("kind",), kind)))
    for operation in ("create", "PATCH", "*", "CREATE ", ""):
        yield Malformed(f"operation {operation!r}", _encoded(_changed(("request", "operation"), operation)))
    for resource in ("pods", "dljobs/status", "DLJobs", "utilizationpolicies"):
        yield Malformed(f"resource {resource!r}", _encoded(_changed(("request", "resource", "resource"), resource)))
    for group in ("", "batch", "stoker.dev.example"):
        yield Malformed(f"group {group!r}", _encoded(_changed(("request", "resource", "group"), group)))
    yield Malformed("no uid in it", _encoded(_changed(("request", "uid"), "")))


def _not_text() -> Iterator[Malformed]:
    """Not UTF-8, or not JSON's idea of a text."""
    body = _encoded(review())
    for position in range(0, len(body), len(body) // 16):
        yield Malformed(f"byte 0xff at {position}", body[:position] + b"\xff" + body[position:])
    for place in range(10, len(body), len(body) // 8):
        yield Malformed(f"NUL at {place}", body[:place] + b"\0" + body[place:])
    text = body.decode()
    for encoding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"):
        yield Malformed(encoding, text.encode(encoding))
    yield Malformed("a lone surrogate", text.replace("bert", "\\ud800").encode())
    yield Malformed("an overlong encoding", body.replace(b"bert", b"\xc0\xaf"))


def _too_deep() -> Iterator[Malformed]:
    for depth in (1_100, 10_000, 200_000):
        yield Malformed(f"{depth} lists", b"[" * depth)
        yield Malformed(f"{depth} lists, closed", b"[" * depth + b"]" * depth)


def _other_documents() -> Iterator[Malformed]:
    body = _encoded(review())
    for name, document in {
        "nothing": b"",
        "white space": b" \n\t ",
        "null": b"null",
        "a number": b"42",
        "a string": b'"AdmissionReview"',
        "true": b"true",
        "an empty object": b"{}",
        "an empty list": b"[]",
        "a list of reviews": b"[" + body + b"]",
        "two reviews": body + body,
        "a review and more": body + b"}",
        "NaN": body.replace(b"8", b"NaN", 1),
        "Infinity": body.replace(b":8", b":Infinity", 1),
        "a leading zero": body.replace(b":8", b":08", 1),
        "single quotes": body.replace(b'"', b"'"),
        "a comment": b"// review\n" + body,
        "a trailing comma": body[:-1] + b",}",
        "YAML": b"kind: AdmissionReview\napiVersion: admission.k8s.io/v1\n",
        "XML": b"<AdmissionReview/>",
        "a bare DLJob": _encoded(OBJECT),
        "only a response": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"allowed":true}}',
        "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
        "zeroes": b"\0" * 4096,
        "too large, and no review": b'{"padding":"' + b"x" * (9 * 1024 * 1024) + b'"}',
    }.items():
        yield Malformed(name, document)
    for content_type in (
        "text/plain",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "multipart/form-data; boundary=x",
    ):
        yield Malformed(f"sent as {content_type}", body, content_type)
