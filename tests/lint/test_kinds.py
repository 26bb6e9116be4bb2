"""The same work as a DLJob, a Job, a Pod or a PyTorchJob gives the same findings."""

import copy
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from stoker.api.dljob import DLJob
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Confidence, Framework
from stoker.lint.kinds.registry import submissions
from stoker.lint.review import review, review_submissions
from stoker.policy.effective import BUILT_IN
from stoker.workload import job_manifest
from stoker.workload.manifest import verbatim
from tests.rules.fixtures import cases

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OF_DLJOBS = frozenset({"job-type-untrusted", "restart-cannot-rejoin", "shebang-ignored"})
"""Rules about what only a DLJob has."""

DLJOB_WORDS = (
    "spec.nodes",
    "gpusPerNode",
    "spec.image",
    "spec.script",
    "podTemplate",
    "jobType",
    "maxRestarts",
    "DLJob",
)


def jobs() -> dict[str, DLJob]:
    """The rules' own bad fixtures: those that declare nothing that only a DLJob can."""
    found = {}
    for case in cases("admission", "bad_"):
        document = yaml.safe_load(case.manifest)
        declared = {"jobType", "framework"} & document["spec"].keys()
        if document["kind"] == "DLJob" and document["spec"]["gpusPerNode"] and not declared:
            found[str(case)] = DLJob.model_validate(document)
    return found


JOBS = jobs()


def as_job(job: DLJob) -> dict[str, Any]:
    """The Job that the operator would make of it, with script and variables as people write them there."""
    manifest = copy.deepcopy(job_manifest(job))
    trainer = next(one for one in manifest["spec"]["template"]["spec"]["containers"] if one["name"] == "trainer")
    if job.spec.script is not None:
        trainer |= {"command": ["bash", "-c"], "args": [verbatim(job.spec.script)]}
    words = " ".join([*trainer.get("command", []), *trainer.get("args", [])])
    trainer["env"] = [one for one in trainer["env"] if not one["name"].startswith("STOKER_") or one["name"] in words]
    return manifest


def as_pod(job: DLJob) -> dict[str, Any]:
    """One of its pods."""
    spec = as_job(job)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": job.name}, "spec": spec}


def as_pytorch_job(job: DLJob) -> dict[str, Any]:
    """The same pods as Workers; the processes per node are the PyTorchJob's to say."""
    template = as_job(job)["spec"]["template"]
    trainer = next(one for one in template["spec"]["containers"] if one["name"] == "trainer")
    processes = [one for one in trainer["env"] if one["name"] == "PET_NPROC_PER_NODE"]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": job.name},
        "spec": {
            "nprocPerNode": processes[-1]["value"],
            "pytorchReplicaSpecs": {"Worker": {"replicas": job.spec.nodes, "template": template}},
        },
    }


def findings(verdict: Verdict, *, left_out: frozenset[str]) -> set[tuple[str, str]]:
    """Rules and confidences. What is only possible rests on words that the injected variables hold, too."""
    return {
        (one.rule, one.confidence)
        for one in verdict.findings
        if one.rule not in left_out and one.confidence is not Confidence.POSSIBLE
    }


CASES = [
    pytest.param(job, kind, id=f"{name}-{kind.__name__}")
    for name, job in JOBS.items()
    for kind in (as_job, as_pod, as_pytorch_job)
    if kind is not as_pod or job.spec.nodes == 1
]


@pytest.mark.parametrize("job,kind", CASES)
def test_the_fixtures_of_all_rules_are_judged_alike_and_in_the_words_of_their_kind(job: DLJob, kind: Any) -> None:
    left_out = OF_DLJOBS
    if kind is as_pytorch_job:
        job = job.model_copy(update={"spec": job.spec.model_copy(update={"framework": Framework.PYTORCH})})
        if re.search(r"_rank[= ]\d", job.spec.script or ""):
            left_out |= {"launcher-nodes-mismatch"}  # the Master and the Workers may each be told their own
    elif job.spec.nodes == 1:
        left_out |= {"launcher-nodes-mismatch"}  # other Pods and Jobs may belong to it
        if "accelerate launch --config_file" in (job.spec.script or ""):
            left_out |= {"launcher-too-many"}  # and the file may say so
    verdict = review_submissions(submissions(kind(job)), BUILT_IN, now=NOW)
    expected = findings(review(job, BUILT_IN, now=NOW), left_out=left_out)
    assert findings(verdict, left_out=left_out) == expected
    said = " ".join(f"{one.detail} {one.evidence} {one.fix} {one.location}" for one in verdict.findings)
    assert not [word for word in DLJOB_WORDS if word in said]
