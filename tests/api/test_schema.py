"""The schemas are structural, complete and affordable: what the API server demands, and what users read."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import pytest
from pydantic import Field

from stoker.api.crds import definitions
from stoker.api.dljob import DLJob, DLJobSpec
from stoker.api.policy import UtilizationPolicySpec
from stoker.api.schema import (
    INT_OR_STRING,
    LIST_TYPE,
    VALIDATIONS,
    ApiModel,
    Validation,
    structural_schema,
    validations,
    violations,
)
from stoker.api.structural import PRESERVE_UNKNOWN

FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "const", "prefixItems", "uniqueItems", "title", "definitions"}


@cache
def root(plural: str) -> dict[str, Any]:
    schema: dict[str, Any] = definitions()[plural]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below and including this one, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}[*]")


PLURALS = ["dljobs", "utilizationpolicies"]


@pytest.mark.parametrize("plural", PLURALS)
def test_every_field_has_one_type(plural: str) -> None:
    untyped = [path for path, node in nodes(root(plural)) if "type" not in node and INT_OR_STRING not in node]
    assert untyped == []


@pytest.mark.parametrize("plural", PLURALS)
def test_nothing_that_the_api_server_refuses_is_left(plural: str) -> None:
    left = [(path, FORBIDDEN & node.keys()) for path, node in nodes(root(plural)) if FORBIDDEN & node.keys()]
    assert left == []
    assert not [path for path, node in nodes(root(plural)) if node.get("additionalProperties") is False]


@pytest.mark.parametrize("plural", PLURALS)
def test_every_named_field_of_ours_explains_itself(plural: str) -> None:
    """`kubectl explain` shows a text for each field; the open part of podTemplate is Kubernetes' own."""
    silent = [
        f"{path}.{name}"
        for path, node in nodes(root(plural))
        if "podTemplate" not in path
        for name, child in node.get("properties", {}).items()
        if not child.get("description") and f"{path}.{name}" not in {".metadata", ".metadata.name"}
    ]
    assert silent == []


@pytest.mark.parametrize("plural", PLURALS)
def test_lists_and_strings_of_the_spec_are_bounded(plural: str) -> None:
    """Without bounds the estimated cost of any rule over them exceeds the API server's budget."""
    spec = root(plural)["properties"]["spec"]
    unbounded = [
        path
        for path, node in nodes(spec)
        if (node.get("type") == "array" and "maxItems" not in node)
        or (node.get("type") == "object" and "additionalProperties" in node and "maxProperties" not in node)
        or (node.get("type") == "string" and not {"maxLength", "enum", "format"} & node.keys())
        if "podTemplate" not in path
    ]
    assert unbounded == []


@pytest.mark.parametrize("plural", PLURALS)
def test_every_list_says_how_it_merges(plural: str) -> None:
    lists = {path: node.get(LIST_TYPE) for path, node in nodes(root(plural)) if node.get("type") == "array"}
    assert None not in lists.values()
    assert {path for path, kind in lists.items() if kind == "map"} == {".status.conditions"}


def test_a_policy_has_no_schema_defaults() -> None:
    """They would materialize in every override and cover what the policy "default" says."""
    assert [path for path, node in nodes(structural_schema(UtilizationPolicySpec)) if "default" in node] == []


def test_a_job_has_exactly_the_documented_schema_defaults() -> None:
    defaults = {path: node["default"] for path, node in nodes(structural_schema(DLJobSpec)) if "default" in node}
    assert defaults == {".nodes": 1, ".gpuResource": "nvidia.com/gpu", ".successPolicy": "All"}


@pytest.mark.parametrize("plural", PLURALS)
def test_every_default_stands_in_the_description(plural: str) -> None:
    for path, node in nodes(root(plural)):
        if "default" in node:
            assert f"Default: {node['default']}." in node["description"], path


def test_every_field_of_a_policy_that_sets_a_number_names_its_default() -> None:
    spec = structural_schema(UtilizationPolicySpec)
    leaves = [
        (path, node)
        for path, node in nodes(spec)
        if node.get("type") in {"integer", "boolean"} and not path.startswith((".exemptions", ".rules"))
    ]
    assert leaves
    assert [path for path, node in leaves if "Default:" not in node["description"]] == []


def test_status_is_modelled_throughout_or_it_would_be_pruned() -> None:
    status = root("dljobs")["properties"]["status"]
    assert [path for path, node in nodes(status) if PRESERVE_UNKNOWN in node] == []
    assert status["properties"]["findings"]["maxItems"] == 32
    assert status["properties"]["advice"]["maxItems"] == 4
    assert {"state", "handledResume", "idleSince", "warnedAt", "deadline", "action", "history"} <= set(
        status["properties"]["reclaim"]["properties"]
    )


def test_only_the_name_is_ruled_at_the_root_of_a_job() -> None:
    """Rules at the root are checked at every write: a tightened one would lock the status of stored jobs."""
    assert [rule["fieldPath"] for rule in root("dljobs")[VALIDATIONS]] == [".metadata.name"]


def test_every_field_of_the_spec_but_the_mutable_ones_has_a_transition_rule() -> None:
    spec = root("dljobs")["properties"]["spec"]
    ruled = {
        rule["fieldPath"] for rule in spec[VALIDATIONS] if "oldSelf." in rule["rule"] and "optionalOldSelf" not in rule
    }
    mutable = {"suspend", "reclaim", "activeDeadlineSeconds", "ttlSecondsAfterFinished"}
    assert ruled == {f".{name}" for name in spec["properties"] if name not in mutable}


@pytest.mark.parametrize("plural", PLURALS)
def test_every_rule_says_what_is_allowed(plural: str) -> None:
    for path, node in nodes(root(plural)):
        for rule in node.get(VALIDATIONS, []):
            assert len(rule["message"]) > 20, path
            assert "\n" not in rule["message"], path


class Inner(ApiModel):
    """An inner thing."""

    size: Annotated[int, Field(gt=0, lt=10)]
    """Its size."""


class Outer(ApiModel):
    """An outer thing."""

    inner: Annotated[Inner | None, Field(json_schema_extra=validations(Validation(rule="true", message="fine")))] = None
    """The inner thing, in its field's own words."""
    names: tuple[str, ...] = ()
    """Names."""


def test_references_are_inlined_and_null_is_dropped() -> None:
    inner = structural_schema(Outer)["properties"]["inner"]
    assert inner == {
        "description": "The inner thing, in its field's own words.",
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {
                "description": "Its size.",
                "type": "integer",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 10,
                "exclusiveMaximum": True,
            }
        },
        VALIDATIONS: [{"rule": "true", "message": "fine"}],
    }


def test_an_empty_default_is_absence() -> None:
    assert "default" not in structural_schema(Outer)["properties"]["names"]


class Recursive(ApiModel):
    child: "Recursive | None" = None


class Union(ApiModel):
    value: int | str


class Anything(ApiModel):
    value: Any


class Pair(ApiModel):
    value: tuple[int, str]


class Opaque(ApiModel):
    value: dict[str, Any]


@pytest.mark.parametrize("model", [Recursive, Union, Anything, Pair, Opaque])
def test_what_a_structural_schema_cannot_say_is_an_error(model: type[ApiModel]) -> None:
    with pytest.raises(TypeError, match=r"value|child"):
        structural_schema(model)


def test_violations_name_field_value_and_what_is_allowed() -> None:
    document = {
        "metadata": {"name": "x", "labels": {"example.com/pool": True}},
        "spec": {
            "gpusPerNode": "8",
            "nodes": 0,
            "image": "",
            "jobType": "Trainning",
            "env": [{"name": "A"}, {"value": "b"}],
            "resources": {"limits": {"memory": "8X"}},
            "gpuPerNode": 8,
            "command": "train.py",
            "sources": [],
            "script": 7,
        },
    }
    assert {str(violation) for violation in violations(DLJob, document)} == {
        "spec.gpusPerNode: '8': input should be a valid integer",
        "spec.nodes: 0: input should be greater than or equal to 1",
        "spec.image: must not be empty",
        "spec.jobType: 'Trainning': input should be 'Training', 'Evaluation', 'Interactive' or 'Serving'",
        "spec.env[1].name: required",
        "spec.resources.limits.memory: '8X': must be a quantity such as 8, 500m or 64Gi",
        "spec.gpuPerNode: unknown field: did you mean gpusPerNode?",
        "spec.command: 'train.py': must be a list",
        "spec.sources: must be an object",
        "spec.script: 7: must be a text, in quotes where it looks like a number",
        "metadata.labels[example.com/pool]: true: must be a text, in quotes where it looks like a number",
    }


def test_a_right_document_has_no_violations_with_what_the_server_adds() -> None:
    document = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {
            "name": "x",
            "uid": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"gpusPerNode": 8, "image": "a/b:1"},
        "status": {"phase": "Running"},
    }
    assert violations(DLJob, document) == []
