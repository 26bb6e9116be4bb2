"""The review of an object with several containers, and what of the cluster it knows besides."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import yaml

from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.findings.finding import Location, Problem
from stoker.findings.rule import Rule
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Category, Severity
from stoker.lint.kinds.registry import submissions
from stoker.lint.review import review, review_submissions
from stoker.lint.submission import Submission
from stoker.policy.effective import BUILT_IN
from stoker.policy.resolution import resolve

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, annotations: {}}
spec:
  nprocPerNode: "4"
  pytorchReplicaSpecs:
    Master: &role
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/nlp/bert
            command: [torchrun, train.py]
            resources: {limits: {nvidia.com/gpu: 8}}
    Worker: *role
"""


def job(**spec: Any) -> DLJob:
    fields = {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:1", "script": "torchrun train.py", **spec}
    return DLJob.model_validate({"metadata": {"name": "bert"}, "spec": fields})


def rules(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.rule, one.location.field_path if one.location else "") for one in verdict.findings]


def pytorch_job(**annotations: str) -> Verdict:
    document = yaml.safe_load(PYTORCH_JOB)
    document["metadata"]["annotations"] = {
        f"ignore.stoker.dev/{key.replace('_', '-')}": why for key, why in annotations.items()
    }
    return review_submissions(submissions(document), BUILT_IN, now=NOW)


def test_what_is_wrong_in_two_templates_is_found_in_each_and_what_is_wrong_above_them_once() -> None:
    at = "spec.pytorchReplicaSpecs.{}.template.spec.containers[0].image"
    assert rules(pytorch_job()) == [
        ("launcher-too-few", "spec.nprocPerNode"),
        ("image-unpinned", at.format("Master")),
        ("image-unpinned", at.format("Worker")),
    ]


def test_an_annotation_is_of_the_whole_object() -> None:
    verdict = pytorch_job(image_unpinned="the registry's tags never move", heavy_install="nothing is installed")
    assert [one.finding.rule for one in verdict.suppressed] == ["image-unpinned", "image-unpinned"]
    assert [fault.location.field_path for fault in verdict.suppression_faults] == [
        "metadata.annotations[ignore.stoker.dev/heavy-install]"
    ]


def test_of_several_containers_the_most_costly_finding_comes_first() -> None:
    def at(place: str, severity: Severity) -> Rule[Submission]:
        def check(submission: Submission) -> Iterable[Problem]:
            if place in submission.paths.image:
                yield Problem(detail="A fault.", location=Location(field_path=submission.paths.image))

        return Rule(
            id=place,
            name=place.lower(),
            category=Category.API_MISUSE,
            severity=severity,
            summary="A fault.",
            fix="Mend it.",
            check=check,
        )

    found = review_submissions(
        submissions(yaml.safe_load(PYTORCH_JOB)),
        BUILT_IN,
        now=NOW,
        rules=[at("Master", Severity.ADVICE), at("Worker", Severity.ERROR)],
    )
    assert [one.rule for one in found.warned] == ["worker", "master"]


INIT = {"name": "fetch", "image": "alpine", "command": ["sh", "-c", "pip install flash-attn; sleep 3600"]}


def test_init_containers_are_judged_by_the_rules_that_are_for_them() -> None:
    """What they install holds the GPUs; their image and their ends are nobody's business."""
    verdict = review(job(podTemplate={"spec": {"initContainers": [INIT]}}), BUILT_IN, now=NOW)
    assert rules(verdict) == [("heavy-install", "spec.podTemplate.spec.initContainers[0].command[2]")]


def test_a_clusters_own_images_are_known_by_its_policy() -> None:
    family = {"name": "Warehouse", "kind": "non-dl", "repositories": ["registry.example.com/nlp/*"]}
    document = {"metadata": {"name": "default"}, "spec": {"images": [family]}}
    by = resolve([UtilizationPolicy.model_validate(document)], "nlp", {})
    plain = job(script="./run.sh")
    assert rules(review(plain, BUILT_IN, now=NOW)) == []
    assert rules(review(plain, by, now=NOW)) == [("image-without-framework", "spec.image")]


def test_sources_in_sight_are_judged_with_the_job() -> None:
    sources = {"run.sh": "torchrun --nproc_per_node=4 train.py"}
    with_sources = job(script="bash run.sh", sources={"configMap": "bert"})
    assert rules(review(with_sources, BUILT_IN, now=NOW)) == []
    assert rules(review(with_sources, BUILT_IN, now=NOW, config_maps={"bert": sources})) == [
        ("launcher-too-few", "spec.script")
    ]
