import pytest

from stoker.api.gpu_workload import MAX_NAME, GPUWorkload, manifest, workload_name

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}


def test_the_manifest_is_one_that_can_be_read_and_goes_with_its_owner() -> None:
    made = manifest("team", "job-train", OWNER)
    workload = GPUWorkload.model_validate(made | {"metadata": {**made["metadata"], "uid": "w"}})
    assert (workload.namespace, workload.name, workload.spec.owner.uid) == ("team", "job-train", "u")
    assert made["metadata"]["ownerReferences"] == [{**OWNER, "controller": False, "blockOwnerDeletion": False}]


@pytest.mark.parametrize("length", [1, 248, 249, 250, 253])
def test_a_name_is_never_too_long_and_never_that_of_another(length: int) -> None:
    name, other = "a" * length, "a" * (length - 1) + "b"
    assert len(workload_name("Job", name)) <= MAX_NAME
    assert workload_name("Job", name) != workload_name("Job", other)
    assert workload_name("Job", name) == workload_name("Job", name)


def test_a_name_that_is_cut_ends_as_a_name_may() -> None:
    cut = workload_name("Job", "a" * 237 + "." + "b" * 15)
    head, _, digest = cut.rpartition("-")
    assert not head.endswith((".", "-"))
    assert len(digest) == 10


def test_a_status_of_another_version_keeps_no_object_from_being_read() -> None:
    made = manifest("team", "job-train", OWNER)
    status = {"phase": "Hibernating", "gpus": 4}
    workload = GPUWorkload.model_validate(made | {"metadata": {**made["metadata"], "uid": "w"}, "status": status})
    assert workload.status is not None
    assert workload.status.gpus == 4
