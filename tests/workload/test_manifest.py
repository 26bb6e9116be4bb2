"""What a DLJob's Job and Service look like. What the API server makes of them is tried end to end."""

from typing import Any

import pytest

from stoker.workload import job_manifest, service_manifest
from stoker.workload.manifest import INIT, propagated, verbatim
from tests.workload.building import UID, dljob


def trainer(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_manifest(dljob(**spec))["spec"]["template"]["spec"]["containers"][0]
    return found


def pod(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_manifest(dljob(**spec))["spec"]["template"]["spec"]
    return found


def test_suspend_is_left_to_whoever_manages_the_job() -> None:
    assert "suspend" not in job_manifest(dljob(suspend=False))["spec"]


def test_the_job_is_owned_by_its_dljob() -> None:
    (owner,) = job_manifest(dljob())["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "name": "bert",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }


@pytest.mark.parametrize("nodes, max_restarts, limit", [(1, None, 3), (2, None, 0), (2, 4, 4), (1, 0, 0)])
def test_restarts_are_limited_for_each_pod(nodes: int, max_restarts: int | None, limit: int) -> None:
    spec = job_manifest(dljob(nodes=nodes, maxRestarts=max_restarts))["spec"]
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (limit, 0)


def test_a_disruption_is_no_failure_and_a_missing_program_is_a_final_one() -> None:
    rules = job_manifest(dljob())["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob", "FailJob"]
    assert rules[2]["onExitCodes"] == {"containerName": "trainer", "operator": "In", "values": [126, 127]}


def test_success_of_the_leader_counts_only_where_asked_for() -> None:
    assert "successPolicy" not in job_manifest(dljob())["spec"]
    assert job_manifest(dljob(successPolicy="Leader"))["spec"]["successPolicy"] == {
        "rules": [{"succeededIndexes": "0"}]
    }


def test_the_time_to_live_is_the_dljobs_not_the_jobs() -> None:
    assert "ttlSecondsAfterFinished" not in job_manifest(dljob(ttlSecondsAfterFinished=60))["spec"]


def test_defaults_of_the_pods() -> None:
    spec = pod(nodes=2)
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 120
    assert spec["enableServiceLinks"] is False
    assert spec["subdomain"] == "dlj-bert"
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in spec["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]


def test_gpus_are_requests_and_limits_beside_what_the_user_asks_for() -> None:
    resources = trainer(resources={"limits": {"memory": "512Gi"}, "requests": {"cpu": 8}})["resources"]
    assert resources == {
        "limits": {"memory": "512Gi", "nvidia.com/gpu": "8"},
        "requests": {"cpu": 8, "nvidia.com/gpu": "8"},
    }


def test_a_job_without_gpus_asks_for_none() -> None:
    assert trainer(gpusPerNode=0)["resources"] == {}
    assert "tolerations" not in pod(gpusPerNode=0)


@pytest.mark.parametrize(
    "resource, label", [("nvidia.com/gpu", "nvidia.com/gpu.product"), ("amd.com/gpu", "amd.com/gpu.product-name")]
)
def test_a_product_is_a_node_selector(resource: str, label: str) -> None:
    assert pod(gpuResource=resource, gpuProduct="X")["nodeSelector"] == {label: "X"}


def test_a_script_runs_under_the_init_with_every_dollar_doubled() -> None:
    command = trainer(script="echo $HOME $(date) $$")["command"]
    assert command[:2] == ["/bin/sh", "-c"]
    assert command[2] == verbatim(INIT)
    assert command[3:] == ["stoker", "echo $$HOME $$(date) $$$$"]


def test_the_longest_script_fits_into_one_argument() -> None:
    longest = trainer(script="$" * 65_536)["command"][-1]
    assert len(longest.replace("$$", "$").encode()) < 131_072
    assert len(verbatim(INIT)) < 131_072


def test_command_and_args_are_passed_on_as_they_are() -> None:
    found = trainer(script=None, command=["python", "$(X)"], args=["train.py"])
    assert (found["command"], found["args"]) == (["python", "$(X)"], ["train.py"])


def test_without_script_and_command_the_images_entry_point_runs() -> None:
    found = trainer(script=None)
    assert "command" not in found
    assert "args" not in found


def test_sources_are_the_working_directory() -> None:
    found = trainer(sources={"configMap": "bert-src"})
    assert found["workingDir"] == "/workspace"
    assert {"name": "sources", "mountPath": "/workspace"} in found["volumeMounts"]
    assert "workingDir" not in trainer()


def test_the_users_variables_follow_the_injected_ones() -> None:
    names = [variable["name"] for variable in trainer(env=[{"name": "X", "value": "$(STOKER_NODES)"}])["env"]]
    assert names[-1] == "X"
    assert "PET_NPROC_PER_NODE" in names
    assert not {"WORLD_SIZE", "RANK", "LOCAL_RANK"} & set(names)


def test_the_rank_comes_from_the_completion_index() -> None:
    environment = {variable["name"]: variable for variable in trainer(nodes=2)["env"]}
    field = environment["STOKER_NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert trainer()["env"][0]["name"] == "STOKER_NODES"


def test_labels_are_passed_on_but_not_those_with_a_meaning() -> None:
    labels = {
        "team": "nlp",
        "example.com/x": "y",
        "kueue.x-k8s.io/queue-name": "q",
        "app.kubernetes.io/name": "no",
        "kubernetes.io/metadata.name": "no",
        "stoker.dev/owner": "no",
    }
    assert set(propagated(labels)) == {"team", "example.com/x", "kueue.x-k8s.io/queue-name"}
    manifest = job_manifest(dljob(labels=labels))
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    pod_labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert pod_labels == {"team": "nlp", "example.com/x": "y", "stoker.dev/dljob": "bert"}


def test_the_pod_template_is_laid_over_ours() -> None:
    template = {
        "metadata": {"annotations": {"a": "b"}, "labels": {"stoker.dev/dljob": "other"}},
        "spec": {
            "terminationGracePeriodSeconds": 600,
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "shm", "emptyDir": {"sizeLimit": "64Gi"}},
            ],
            "containers": [
                {"name": "trainer", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "logger", "image": "registry.corp/logger:1"},
            ],
        },
    }
    manifest = job_manifest(dljob(podTemplate=template))["spec"]["template"]
    spec = manifest["spec"]
    assert manifest["metadata"]["annotations"] == {"a": "b"}
    assert manifest["metadata"]["labels"]["stoker.dev/dljob"] == "bert"
    assert spec["terminationGracePeriodSeconds"] == 600
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["nvidia.com/gpu", "spot"]
    assert [volume["name"] for volume in spec["volumes"]] == ["shm", "data"]
    assert spec["volumes"][0] == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}
    assert [container["name"] for container in spec["containers"]] == ["trainer", "logger"]
    mounts = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert mounts == ["/dev/shm", "/data"]


def test_a_service_only_where_pods_must_find_one_another() -> None:
    assert service_manifest(dljob()) is None
    service = service_manifest(dljob(nodes=2))
    assert service is not None
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"stoker.dev/dljob": "bert"},
    }
