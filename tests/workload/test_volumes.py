"""What of a pod's volumes keeps results when the pod is gone, and which of them hide traffic."""

from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.workload import program_facts
from stoker.workload.volumes import keeps_results, mounts_storage
from tests.workload.building import dljob_object

CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}


def spec(source: dict[str, Any], mount: dict[str, Any] | None = None, container: str = "trainer") -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data", **(mount or {})}]
    others = [] if container == "trainer" else [{"name": "trainer"}]
    return {
        "volumes": [{"name": "data", **source}],
        "containers": [*others, {"name": container, "volumeMounts": mounts}],
    }


@pytest.mark.parametrize(
    "source",
    [
        CLAIM,
        {"nfs": {"server": "nas", "path": "/home"}},
        {"hostPath": {"path": "/data/results"}},
        {"hostPath": {"path": "/data/results", "type": "DirectoryOrCreate"}},
        {"csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "models"}}},
        {"cephfs": {"monitors": ["a:6789"]}},
    ],
)
def test_what_outlives_the_pod_keeps_its_results(source: dict[str, Any]) -> None:
    assert keeps_results(spec(source))
    assert mounts_storage(spec(source))


@pytest.mark.parametrize(
    "source",
    [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"ephemeral": {"volumeClaimTemplate": {}}},
        {"configMap": {"name": "sources"}},
        {"secret": {"secretName": "token"}},
        {"projected": {"sources": []}},
        {"image": {"reference": "models:1"}},
        {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"nfs": {"server": "nas", "path": "/sets", "readOnly": True}},
        {"hostPath": {"path": "/dev/shm"}},
        {"hostPath": {"path": "/var/run/docker.sock", "type": "Socket"}},
        {"hostPath": {"path": "/etc/localtime", "type": "File"}},
        {"hostPath": {"path": "/"}},
        {"csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}},
        {"csi": {"driver": "inline.storage.kubernetes.io"}},
        {"csi": {"driver": "blob.csi.azure.com", "readOnly": True}},
        {},
    ],
)
def test_what_goes_with_the_pod_or_is_only_read_keeps_nothing(source: dict[str, Any]) -> None:
    assert not keeps_results(spec(source))


@pytest.mark.parametrize(
    "changed",
    [
        spec(CLAIM, {"readOnly": True}),
        spec(CLAIM, {"name": "shm"}),
        spec(CLAIM, container="log-shipper"),
        {"volumes": [{"name": "data", **CLAIM}]},
    ],
)
def test_a_claim_that_the_trainer_does_not_write_to_keeps_nothing(changed: dict[str, Any]) -> None:
    """A data set that is only read is a persistent volume, too; and a sidecar's is not the training's."""
    assert not keeps_results(changed)


def test_storage_that_is_only_read_hides_traffic_all_the_same() -> None:
    assert mounts_storage(spec(CLAIM, {"readOnly": True}))
    assert mounts_storage(spec(CLAIM, container="log-shipper"))
    assert not mounts_storage(spec({"emptyDir": {}}))
    assert not mounts_storage({"volumes": [{"name": "data", **CLAIM}]})


@pytest.mark.parametrize("broken", [None, [], {"volumes": "none"}, {"volumes": [None], "containers": [1]}])
def test_what_is_no_spec_keeps_nothing(broken: object) -> None:
    assert not keeps_results(broken)
    assert not mounts_storage(broken)


def test_of_other_pods_the_container_with_the_gpus_counts() -> None:
    pod = spec(CLAIM, container="main")
    pod["containers"][0] = {"name": "proxy"}
    assert not keeps_results(pod)
    pod["containers"][1]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    assert keeps_results(pod)


def test_a_job_s_own_template_says_it() -> None:
    kept = program_facts(DLJob.model_validate(dljob_object(podTemplate={"spec": spec(CLAIM)})))
    assert kept.has_persistent_volume
    assert kept.mounts_storage
    sources = program_facts(DLJob.model_validate(dljob_object(sources={"configMap": "code"})))
    assert not sources.has_persistent_volume
