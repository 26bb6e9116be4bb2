from typing import Any

import pytest

from stoker.api.bounds import MAX_METADATA_BYTES, MAX_SPEC_BYTES, out_of_bounds


def nested(levels: int) -> Any:
    value: Any = {}
    for number in range(levels - 1):
        value = [value] if number % 2 else {"a": value}
    return value


def messages(document: dict[str, Any]) -> list[str]:
    return [str(one) for one in out_of_bounds(document)]


def test_64_levels_are_allowed_and_65_are_not() -> None:
    assert messages({"spec": {"podTemplate": nested(64)}}) == []
    assert messages({"spec": {"podTemplate": nested(65)}}) == [
        "spec.podTemplate: has 65 levels, at most 64 are allowed"
    ]


def test_no_depth_is_too_deep_to_be_measured() -> None:
    assert messages({"spec": {"podTemplate": nested(100_000)}})[0].startswith("spec.podTemplate: has 100000 levels")


@pytest.mark.parametrize("text", ["a", "ä", "\U0001f600", "\udc80"])
def test_a_spec_may_have_256_kib(text: str) -> None:
    length = (MAX_SPEC_BYTES - 100) // len(text.encode("utf-8", "surrogatepass"))
    assert messages({"spec": {"args": [text * length]}}) == []
    (message,) = messages({"spec": {"image": "a/b:1", "args": [text * (length + 200)]}})
    assert message.startswith("spec: has ")
    assert "of them in args; at most 262144 are allowed" in message


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {f"label-{number}": "x" * 63 for number in range(1000)}},
        {"finalizers": ["example.com/f"] * 5000},
        {"ownerReferences": [{"uid": str(number)} for number in range(8000)]},
    ],
)
def test_what_the_api_server_does_not_bound_of_the_metadata_is_bounded(metadata: dict[str, Any]) -> None:
    (message,) = messages({"metadata": metadata, "spec": {}})
    assert message.endswith(f"at most {MAX_METADATA_BYTES} are allowed")


def test_annotations_and_status_are_not_counted() -> None:
    large = "x" * MAX_SPEC_BYTES
    assert messages({"metadata": {"annotations": {"a": large}}, "spec": {}, "status": {"a": large}}) == []


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": [], "metadata": 1}, {"spec": {1: None, "a": 1.5}}])
def test_what_is_no_object_is_within_bounds(document: Any) -> None:
    assert messages(document) == []
