from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from stoker.api.dljob import DLJob, DLJobStatus
from stoker.api.schema import violations
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source


def document(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"gpusPerNode": 8, "image": "a/b:1", **spec}}


def job(**spec: Any) -> DLJob:
    return DLJob.model_validate(document(**spec))


def test_absent_fields_have_their_documented_meaning() -> None:
    one = job()
    assert (one.spec.nodes, one.spec.gpu_resource, one.spec.success_policy) == (1, "nvidia.com/gpu", "All")
    assert one.job_type is JobType.TRAINING
    assert one.spec.job_type is None
    assert one.spec.suspend is None
    assert one.idle_after is None


@pytest.mark.parametrize(
    "spec, restarts", [({}, 3), ({"nodes": 2}, 0), ({"nodes": 2, "maxRestarts": 5}, 5), ({"maxRestarts": 0}, 0)]
)
def test_effective_restarts_are_three_at_one_node_and_none_on_several(spec: dict[str, Any], restarts: int) -> None:
    assert job(**spec).effective_max_restarts == restarts


def test_gpus_are_those_of_all_nodes() -> None:
    assert job(nodes=3).gpus == 24


@pytest.mark.parametrize(
    "resource, label",
    [("nvidia.com/gpu", "nvidia.com/gpu.product"), ("amd.com/gpu", "amd.com/gpu.product-name")],
)
def test_a_product_becomes_the_vendors_node_selector(resource: str, label: str) -> None:
    assert job(gpuResource=resource, gpuProduct="X").spec.node_selector == {label: "X"}


def test_a_product_of_an_unknown_vendor_is_refused_with_the_way_out() -> None:
    [violation] = violations(DLJob, document(gpuResource="habana.ai/gaudi", gpuProduct="Gaudi3"))
    assert violation.field_path == "spec.gpuProduct"
    assert "habana.ai/gaudi" in violation.message
    assert "spec.podTemplate.spec.nodeSelector" in violation.message


@pytest.mark.parametrize("field", ["command", "args"])
def test_a_script_excludes_command_and_args(field: str) -> None:
    [violation] = violations(DLJob, document(script="x", **{field: ["y"]}))
    assert violation.field_path == f"spec.{field}"


def test_a_scripts_limit_counts_bytes() -> None:
    assert violations(DLJob, document(script="ä" * 32_768)) == []
    [violation] = violations(DLJob, document(script="ä" * 32_769))
    assert str(violation).startswith("spec.script: 65538 bytes")


@pytest.mark.parametrize(
    "template, path",
    [
        ({"metadata": {"labels": {"job-name": "x"}}}, "spec.podTemplate.metadata.labels[job-name]"),
        ({"spec": {"restartPolicy": "Never"}}, "spec.podTemplate.spec.restartPolicy"),
        ({"spec": {"hostname": "x"}}, "spec.podTemplate.spec.hostname"),
        ({"spec": {"subdomain": "x"}}, "spec.podTemplate.spec.subdomain"),
        (
            {"spec": {"containers": [{"name": "trainer", "image": "x"}]}},
            "spec.podTemplate.spec.containers[trainer].image",
        ),
        (
            {"spec": {"containers": [{"name": "trainer", "command": []}]}},
            "spec.podTemplate.spec.containers[trainer].command",
        ),
        (
            {"spec": {"containers": [{"name": "trainer", "args": []}]}},
            "spec.podTemplate.spec.containers[trainer].args",
        ),
        (
            {"spec": {"containers": [{"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}},
            "spec.podTemplate.spec.containers[trainer].resources.limits[nvidia.com/gpu]",
        ),
        (
            {"spec": {"containers": [{"name": "side", "env": [{"name": "PET_NNODES", "value": "1"}]}]}},
            "spec.podTemplate.spec.containers[side].env[PET_NNODES]",
        ),
        (
            {"spec": {"initContainers": [{"name": "init", "env": [{"name": "MASTER_ADDR", "value": "1"}]}]}},
            "spec.podTemplate.spec.initContainers[init].env[MASTER_ADDR]",
        ),
    ],
)
def test_what_is_the_operators_is_refused_in_a_pod_template_by_its_path(template: dict[str, Any], path: str) -> None:
    [violation] = violations(DLJob, document(podTemplate=template))
    assert violation.field_path == "spec.podTemplate"
    assert violation.message.startswith(path)


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": {"labels": {"team": "nlp"}}, "spec": {"tolerations": [{"operator": "Exists"}]}},
        {"spec": {"containers": [{"name": "side", "image": "x", "command": ["y"]}]}},
        {"spec": {"containers": [{"name": "trainer", "resources": {"limits": {"rdma/hca": 1}}}]}},
        {"spec": {"containers": [{"name": "trainer", "env": [{"name": "PETS", "value": "1"}]}]}},
        {"spec": {"containers": [{"name": "trainer", "volumeMounts": [{"mountPath": "/dev/shm", "readOnly": True}]}]}},
    ],
)
def test_everything_else_in_a_pod_template_is_kept_as_it_is(template: dict[str, Any]) -> None:
    assert job(podTemplate=template).spec.pod_template == template


@pytest.mark.parametrize("idle_after", ["10m", "24h", "1h30m", "600s"])
def test_a_job_may_ask_for_an_idle_time_within_bounds(idle_after: str) -> None:
    assert isinstance(job(reclaim={"idleAfter": idle_after}).idle_after, timedelta)


@pytest.mark.parametrize("idle_after", ["9m", "24h1s", "", "10", "1d", "10 m", "-10m"])
def test_an_idle_time_out_of_bounds_is_refused(idle_after: str) -> None:
    [violation] = violations(DLJob, document(reclaim={"idleAfter": idle_after}))
    assert violation.field_path == "spec.reclaim.idleAfter"
    assert "from 10m to 24h" in violation.message


def test_an_older_operator_reads_a_newer_job() -> None:
    assert job(fieldOfTheFuture=1).gpus == 8


def test_numbers_are_not_guessed_from_texts() -> None:
    with pytest.raises(ValidationError):
        job(nodes="2")
    with pytest.raises(ValidationError):
        job(suspend="yes")


def test_a_job_is_written_as_it_was_read() -> None:
    spec = {
        "nodes": 2,
        "gpusPerNode": 8,
        "gpuResource": "nvidia.com/gpu",
        "image": "a/b:1",
        "script": "torchrun train.py\n",
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "resources": {"limits": {"cpu": 8, "memory": "64Gi"}, "requests": {"cpu": "500m"}},
        "successPolicy": "Leader",
        "podTemplate": {"spec": {"hostIPC": True}},
        "reclaim": {"idleAfter": "30m"},
    }
    assert job(**spec).spec.model_dump(mode="json", exclude_unset=True) == spec


def test_a_finding_fits_the_status() -> None:
    """Whatever Finding writes is modelled, or the API server would prune it."""
    finding = Finding(
        rule="small-batch",
        category=Category.IMPROPER_BATCH_SIZE,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        detail="d",
        evidence="e",
        fix="f",
        docs="stoker rules show small-batch",
        sources=(Source.METRICS, Source.SCRIPT),
        since=datetime(2026, 11, 21, 5, 52, tzinfo=UTC),
        until=datetime(2026, 11, 21, 9, 40, tzinfo=UTC),
        gpu_hours_idle=38.1,
        alternatives=(Category.DATA_EXCHANGE,),
    )
    status = DLJobStatus.model_validate({"findings": [finding.to_status()]}, extra="forbid")
    assert status.model_dump(mode="json", exclude_unset=True) == {"findings": [finding.to_status()]}
