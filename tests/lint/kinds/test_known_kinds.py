"""The list of kinds: the page that shows it, versions, and what is no kind."""

import re
from pathlib import Path
from typing import Any

import pytest

from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.registry import KINDS, kind_named, readable_kind, submissions
from tests.lint.kinds.manifests import faults, skipped

PAGE = (Path(__file__).parents[3] / "docs" / "kinds.md").read_text()
WEB = """
    apiVersion: {version}
    kind: StatefulSet
    metadata: {{name: web}}
    spec:
      replicas: {replicas}
      template:
        spec:
          containers:
          - name: web
            image: {image}
            command: [torchrun, --nproc_per_node=4, serve.py]
            resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


def web(version: str = "apps/v1", *, replicas: str = "2", image: str = "registry.example.com/web:1") -> str:
    return WEB.format(version=version, replicas=replicas, image=image)


def test_the_page_lists_the_kinds_that_are_read() -> None:
    table = PAGE[PAGE.index("<!-- kinds -->") : PAGE.index("<!-- /kinds -->")]
    rows = re.findall(r"^\| (\w+) \| ([\w./-]+) \| (\w+)", table, re.MULTILINE)[1:]
    known = [(k.kind or k.name, k.api_version, k.job_type.lower()) for k in KINDS if k.reader is not None]
    assert sorted(rows) == sorted(known)


def test_a_kind_is_found_by_its_group() -> None:
    for kind in KINDS:
        document = {"apiVersion": kind.api_version, "kind": kind.kind or kind.name}
        assert readable_kind(document) is (kind if kind.reader is not None else None)


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "Service"},
        {"apiVersion": "example.com/v1", "kind": "Job", "spec": 1},
        {"apiVersion": "example.com/v1", "kind": "Deployment"},
        {"apiVersion": 1, "kind": "Pod"},
        {"kind": "Pod"},
        {},
    ],
)
def test_other_kinds_are_not_read(document: dict[str, Any]) -> None:
    assert readable_kind(document) is None
    assert submissions(document) == []


def test_another_version_with_the_same_fields_is_read() -> None:
    assert (
        faults(web("apps/v2")) == faults(web()) == [("launcher-too-few", "spec.template.spec.containers[0].command[1]")]
    )


def test_another_version_with_other_fields_is_skipped_with_the_field() -> None:
    (reason,) = skipped(web("apps/v2", replicas="{web: 2}"))
    what, _, why = reason.partition(": ")
    assert what == "the StatefulSet web, which is not read"
    assert why == "apps/v1 is known, and apps/v2 differs in spec.replicas: must be a whole number"
    assert faults(web(replicas="{web: 2}")) == [("schema", "spec.replicas")]


def test_an_unknown_kind_has_a_record_of_its_name() -> None:
    assert kind_named("ElasticJob") == WorkloadKind(name="ElasticJob")


def test_each_kind_has_a_name_and_each_label_one_kind() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names))
    labels = [label for kind in KINDS if not kind.shares_labels for label in kind.name_labels]
    assert len(labels) == len(set(labels))
    assert all(kind.plural for kind in KINDS if kind.owned or kind.reader is not None)
