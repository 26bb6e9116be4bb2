"""Kinds that a site adds as data."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stoker.cli.lint import lint
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import ReadContext, WorkloadKind
from stoker.lint.kinds.site_kinds import SiteKindsError, site_kinds
from stoker.lint.submission import Submission

PAGE = (Path(__file__).parents[3] / "docs" / "kinds.md").read_text()
SHOWN = re.search(r"^## A site's own kinds\n.*?^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TRAIN = """
    apiVersion: elastic.iml.github.io/v1alpha1
    kind: ElasticJob
    metadata: {name: resnet}
    spec:
      replicaSpecs:
        worker:
          replicas: 4
          template:
            spec:
              containers:
              - name: main
                image: registry.example.com/train:1
                command: [torchrun, --nproc_per_node=4, train.py]
                resources: {limits: {nvidia.com/gpu: 8}}
        dlrover-master:
          template:
            spec:
              containers:
              - {name: main, image: "registry.example.com/master:1"}
"""
TASKS = """
    apiVersion: jobs.example.com/v1
    kind: Train
    spec:
      groups:
      - {count: 2, pods: {spec: {containers: [{name: a, image: "x:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}}
      - {pods: {spec: {containers: [{name: b, image: "x:1", resources: {limits: {nvidia.com/gpu: 2}}}]}}}
"""


def shown() -> str:
    assert SHOWN is not None
    return SHOWN[1]


def kind(**changed: Any) -> dict[str, Any]:
    own = {
        "kind": "Train",
        "group": "jobs.example.com",
        "version": "v1",
        "podTemplates": [{"template": "spec.groups[].pods", "copies": "spec.groups[].count"}],
    }
    return {"kinds": [{**own, **changed}]}


def read(record: WorkloadKind, text: str) -> list[Submission]:
    assert record.reader is not None
    return record.reader.submissions(yaml.safe_load(dedent(text)), ReadContext())


def run(tmp_path: Path, kinds: str, manifest: str = TRAIN) -> tuple[int, str]:
    (tmp_path / "kinds.yaml").write_text(kinds)
    (tmp_path / "train.yaml").write_text(dedent(manifest))
    outcome = CliRunner().invoke(lint, ["--kinds", str(tmp_path / "kinds.yaml"), str(tmp_path / "train.yaml")])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome.exit_code, outcome.output


def test_the_record_that_the_page_shows_is_that_of_a_kind_in_code() -> None:
    (record,) = site_kinds(yaml.safe_load(shown()))
    assert (record.api_version, record.name, record.plural) == (
        "elastic.iml.github.io/v1alpha1",
        "ElasticJob",
        "elasticjobs",
    )
    assert record.name_labels == ("elasticjob.dlrover/name",)
    assert record.role_labels == ("elasticjob.dlrover/replica-type",)
    assert record.number_labels == (("elasticjob.dlrover/rank-index",),)


def test_manifests_of_the_kind_are_judged(tmp_path: Path) -> None:
    code, output = run(tmp_path, shown())
    assert code == 1
    assert "launcher-too-few" in output
    assert "spec.replicaSpecs.worker.template.spec.containers[0].resources.limits[nvidia.com/gpu]" in output
    assert "1 ElasticJob: 1 denied" in output


def test_items_and_entries_have_their_own_copies() -> None:
    (record,) = site_kinds(kind(jobType="Serving"))
    first, second = read(record, TASKS)
    assert (first.copies, second.copies, first.job_type) == (2, 1, JobType.SERVING)
    assert second.paths.image == "spec.groups[1].pods.spec.containers[0].image"
    (elastic,) = site_kinds(yaml.safe_load(shown()))
    (worker,) = read(elastic, TRAIN)
    assert (worker.copies, worker.gpus) == (4, 32)


def test_a_manifest_that_breaks_the_kinds_schema_is_told_with_the_field(tmp_path: Path) -> None:
    code, output = run(tmp_path, shown(), TRAIN.replace("replicas: 4", "replicas: many"))
    assert (code, "spec.replicaSpecs.worker.replicas: 'many': must be a whole number" in output) == (1, True), output


@pytest.mark.parametrize(
    "document, said",
    [
        ([], "must be an object"),
        ({}, "kinds: required"),
        ({"kinds": []}, "kinds: must not be empty"),
        (kind(version="1"), "kinds[0].version: '1': must match"),
        (kind(group="example"), "kinds[0].group: 'example': must match"),
        (kind(jobType="Batch"), "kinds[0].jobType: 'Batch': must be one of Training, Evaluation, Interactive, Serving"),
        (kind(podTemplates=[]), "kinds[0].podTemplates: must not be empty"),
        (kind(podTemplates=[{"path": "spec.template"}]), "kinds[0].podTemplates[0].path: unknown field"),
        (
            kind(podTemplates=[{"template": "template"}]),
            "kinds[0].podTemplates[0].template: 'template': must be a field",
        ),
        (kind(podTemplates=[{"template": "spec..a"}]), "must be a field path such as spec.template"),
        (
            kind(podTemplates=[{"template": "spec.template", "copies": "spec.groups[].count"}]),
            "kinds[0].podTemplates[0].copies: 'spec.groups[].count': must be one field for each spec.template",
        ),
        (kind(kind="Deployment", group="apps.example.com", labels={"nam": []}), "did you mean name?"),
        (kind(kind="JobSet", group="jobset.x-k8s.io"), "kinds[0].kind: 'JobSet': jobset.x-k8s.io has a kind"),
        ({"kinds": [*kind()["kinds"], *kind()["kinds"]]}, "kinds[1].kind: 'Train': jobs.example.com has a kind"),
    ],
)
def test_what_is_wrong_is_told_with_the_field_and_what_is_allowed(document: Any, said: str) -> None:
    with pytest.raises(SiteKindsError) as error:
        site_kinds(document)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["kinds: [", "kinds: {}", "", "- 1", "a: b"])
def test_a_file_that_is_no_list_of_kinds_is_a_usage_error(tmp_path: Path, text: str) -> None:
    code, output = run(tmp_path, text)
    assert (code, "Traceback" in output) == (2, False), output


def test_a_kind_is_described_once(tmp_path: Path) -> None:
    code, output = run(tmp_path, f"{shown()}---\n{shown()}")
    assert (code, "a second ElasticJob of elastic.iml.github.io" in output) == (2, True)
