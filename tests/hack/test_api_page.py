"""docs/api.md has each field of the kinds, with what the API server does about it."""

from typing import Any

import pytest

from hack.api_page import OPAQUE, api_page, of_schema, table, type_of
from stoker.api.crds import definitions

PAGE = api_page()["docs/api.md"]


@pytest.mark.parametrize("plural", list(definitions()))
def test_every_field_has_a_row_with_a_description(plural: str) -> None:
    (version,) = definitions()[plural]["spec"]["versions"]
    for part in ("spec", "status"):
        found = of_schema(version["schema"]["openAPIV3Schema"]["properties"][part], part)
        fields = [one for one in found if one.description or not one.messages]
        assert len(fields) >= 5
        assert [one.path for one in fields if not one.description] == []
        assert [one.path for one in fields if f"| `{one.path}` | {one.type} |" not in PAGE] == []
        assert not [one.path for one in fields if any(one.path.startswith(f"{name}.") for name in OPAQUE)]


def test_a_field_tells_its_default_its_bounds_and_its_messages() -> None:
    schema: dict[str, Any] = {
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "default": 1, "minimum": 1, "maximum": 9, "description": "How large | wide."},
            "names": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b"]}},
            "by": {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}},
        },
        "x-kubernetes-validations": [
            {"fieldPath": ".size", "message": "the field is immutable", "rule": "true"},
            {"fieldPath": ".names", "message": "no a before b", "rule": "true"},
        ],
    }
    fields = list(of_schema(schema, "spec"))
    assert table(fields)[2:] == [
        "| `spec.size` | integer | `1` | required; at least 1; at most 9; immutable | How large \\| wide. |",
        "| `spec.names` | []string |  | not empty |  |",
        "| `spec.by` | map of date-time |  |  |  |",
    ]
    assert [one.messages for one in fields] == [(), ("no a before b",), ()]
    assert type_of(schema["properties"]["names"]) == "[]string"
