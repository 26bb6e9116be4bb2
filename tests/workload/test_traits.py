"""What decides about a job's class of reclaim settings, above all which GPUs it has."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.api.policy import ReclaimClass
from stoker.policy.effective import EffectiveReclaim
from stoker.workload import job_facts, job_traits
from stoker.workload.facts import ProgramFacts
from tests.workload.building import dljob

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
LABEL = "nvidia.com/gpu.product"


def pod(name: str = "bert-0", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "nlp", "uid": name}, "spec": {"containers": [], **spec}}


def affinity(*values: str, operator: str = "In") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": LABEL, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    "made, pods, product",
    [
        (dljob(), [], None),
        (dljob(gpuProduct=H100), [], H100),
        (dljob(podTemplate={"spec": {"nodeSelector": {LABEL: H100}}}), [], H100),
        (dljob(podTemplate={"spec": {"affinity": affinity(H100)}}), [], H100),
        (dljob(podTemplate={"spec": {"affinity": affinity(H100, A100)}}), [], None),
        (dljob(podTemplate={"spec": {"affinity": affinity(H100, operator="NotIn")}}), [], None),
        (dljob(), [pod(nodeSelector={LABEL: H100})], H100),
        (dljob(), [pod(affinity=affinity(H100))], H100),
        (dljob(), [pod(nodeSelector={LABEL: A100}), pod("bert-1", nodeSelector={LABEL: H100})], H100),
        (dljob(gpuProduct=A100), [pod(nodeSelector={LABEL: H100})], H100),
        (dljob(podTemplate={"spec": {"nodeSelector": {LABEL: "x" * 64}}}), [], None),
        (dljob(podTemplate={"spec": {"nodeSelector": {LABEL: 'H"100'}}}), [], None),
        (dljob(gpuResource="amd.com/gpu"), [pod(nodeSelector={"amd.com/gpu.product-name": "MI300X"})], "MI300X"),
        (dljob(gpuResource="example.com/gpu"), [pod(nodeSelector={LABEL: H100})], None),
    ],
)
def test_the_gpus_model_is_what_the_pods_are_bound_to_and_before_that_what_the_job_asks_for(
    made: DLJob, pods: list[dict[str, Any]], product: str | None
) -> None:
    """A queue may choose it when it admits the job. Diagnosis and the classes of a policy have one answer."""
    assert job_traits(made, pods).gpu_product == product
    assert job_facts(made, pods, ProgramFacts(), child=None, now=NOW).gpu_product == product
    reclaim = EffectiveReclaim(classes=(ReclaimClass(name="h100", gpuProducts=[H100]),))
    assert (reclaim.class_of(job_traits(made, pods)) is not None) is (product == H100)
