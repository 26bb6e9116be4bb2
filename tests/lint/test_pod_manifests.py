"""How Pods, Jobs and PyTorchJobs become what the rules look at."""

import copy
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stoker.findings.finding import Location
from stoker.findings.vocabulary import Confidence, Framework
from stoker.lint.kinds.kind import ManifestError, ReadContext
from stoker.lint.kinds.pod import SharedMemory, VolumeKind
from stoker.lint.kinds.registry import submissions
from stoker.lint.submission import Submission

GPUS = {"nvidia.com/gpu": 8}


def container(command: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "name": "pytorch",
        "image": "registry.example.com/train:1",
        "command": command or ["torchrun", "train.py"],
        "resources": {"limits": GPUS},
        **fields,
    }


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bert"}, "spec": {"containers": containers, **spec}}


def job(template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bert"},
        "spec": {"template": {"spec": template}, **spec},
    }


def pytorch_job(*, master: Any = None, worker: Any = None, workers: int = 3, **spec: Any) -> dict[str, Any]:
    roles = {}
    if master is not None:
        roles["Master"] = {"replicas": 1, "template": {"spec": {"containers": [master]}}}
    if worker is not None:
        roles["Worker"] = {"replicas": workers, "template": {"spec": {"containers": [worker]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert", "namespace": "nlp"},
        "spec": {"pytorchReplicaSpecs": roles, **spec},
    }


def read(document: dict[str, Any], **known: Any) -> list[Submission]:
    """Through YAML, as it comes."""
    return submissions(yaml.safe_load(yaml.safe_dump(copy.deepcopy(_lists(document)))), ReadContext(**known))


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(inner) for key, inner in value.items()}
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value


def one(document: dict[str, Any], **known: Any) -> Submission:
    (submission,) = read(document, **known)
    return submission


# ---------------------------------------------------------------------------------------------------------------- pods


def test_a_pod_is_read_with_its_own_field_paths() -> None:
    seen = one(pod(container(["bash", "-c"], args=["set -e\ntorchrun --nproc_per_node=4 train.py"])))
    assert (seen.kind, seen.name, seen.nodes, seen.gpus_per_node, seen.gpus) == ("Pod", "bert", 1, 8, 8)
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    assert seen.locate_count(launch, launch.processes_per_node) == Location(
        field_path="spec.containers[0].args[0]",
        line=2,
        column=10,
        end_column=28,
        excerpt="torchrun --nproc_per_node=4 train.py\n         ^^^^^^^^^^^^^^^^^^",
    )
    assert seen.locate_image() == Location(field_path="spec.containers[0].image")
    assert seen.paths.gpus_per_node == "spec.containers[0].resources.limits[nvidia.com/gpu]"


def test_nothing_is_assumed_in_a_pods_environment() -> None:
    seen = one(pod(container(env=[{"name": "N", "value": "4"}, {"name": "ALL", "value": "$(N)x"}])))
    assert seen.environment == {"HOSTNAME": None, "N": "4", "ALL": "4x"}
    assert seen.locate_variable("N") == Location(field_path="spec.containers[0].env[0].value")
    assert seen.surely is Confidence.CERTAIN


def test_a_pod_by_itself_may_be_one_node_of_several() -> None:
    seen = one(pod(container()))
    assert not seen.nodes_known
    assert seen.may_have_peers


def test_containers_without_gpus_are_no_submissions() -> None:
    seen = one(pod(container(name="log", resources={}), container()))
    assert seen.paths.image == "spec.containers[1].image"
    assert seen.pod.sidecars == ("log",)
    assert read(pod(container(resources={"limits": {"cpu": 4, "nvidia.com/gpu": 0}}))) == []


def test_each_container_with_gpus_is_one() -> None:
    assert [
        seen.gpus for seen in read(pod(container(), container(name="b", resources={"limits": {"amd.com/gpu": 2}})))
    ] == [
        8,
        2,
    ]


@pytest.mark.parametrize(
    "limits,count,devices",
    [
        ({"nvidia.com/gpu": "4"}, 4, True),
        ({"amd.com/gpu": 2}, 2, True),
        ({"nvidia.com/mig-1g.10gb": 2}, 2, False),
        ({"nvidia.com/gpu.shared": 1}, 1, False),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, 1, False),
        ({"aliyun.com/gpu-mem": 8}, 1, False),
        ({"metax-tech.com/sgpu": 1, "cpu": None}, 1, False),
        ({"gpu.intel.com/i915": 1}, 1, False),
    ],
)
def test_gpus_are_counted_as_devices_only_where_they_are(limits: dict[str, Any], count: int, devices: bool) -> None:
    seen = one(pod(container(resources={"limits": limits})))
    assert (seen.gpus_per_node, seen.counts_devices) == (count, devices)


def test_init_containers_count_as_long_as_the_pod_holds_gpus() -> None:
    fetch = container(["sh", "-c", "wget https://example.com/x"], name="fetch", resources={})
    sidecar = {**fetch, "name": "proxy", "restartPolicy": "Always"}
    main, initial = read(pod(container(), initContainers=[fetch, sidecar]))
    assert (main.initial, initial.initial) == (False, True)
    assert initial.paths.image == "spec.initContainers[0].image"
    assert (initial.gpus, initial.paths.gpus_per_node) == (8, main.paths.gpus_per_node)
    assert read(pod(container(resources={}), initContainers=[fetch])) == []


def test_mounts_shared_memory_and_limits_are_those_of_the_pod() -> None:
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "data", "mountPath": "/data"}]
    seen = one(
        pod(
            container(resources={"limits": {**GPUS, "cpu": "7500m"}}, volumeMounts=mounts),
            volumes=[
                {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
            ],
        )
    ).pod
    assert seen.shared_memory == SharedMemory(kind=VolumeKind.MEMORY, size=2 * 2**30, field_path="spec.volumes[1]")
    assert (seen.cpu_limit, seen.cpu_limit_field) == (7.5, "spec.containers[0].resources.limits.cpu")
    assert seen.kept == ("/data",)


@pytest.mark.parametrize("host_ipc,expected", [(False, (None, 64 * 2**20)), (True, (VolumeKind.NODE, None))])
def test_without_a_mount_shared_memory_is_the_runtimes_or_the_nodes(host_ipc: bool, expected: Any) -> None:
    seen = one(pod(container(), hostIPC=host_ipc)).pod
    assert (seen.shared_memory.kind, seen.shared_memory.size) == expected


def test_config_maps_in_sight_are_files() -> None:
    launch = container(
        ["accelerate", "launch", "--config_file", "/etc/acc/config.yaml", "train.py"],
        volumeMounts=[{"name": "acc", "mountPath": "/etc/acc"}],
    )
    document = pod(launch, volumes=[{"name": "acc", "configMap": {"name": "acc"}}])
    known = one(document, config_maps={"acc": {"config.yaml": "num_processes: 3\ndistributed_type: MULTI_GPU\n"}})
    unknown = one(document)
    assert known.plan is not None
    assert unknown.plan is not None
    assert known.plan.launches[0].total.value == 3
    assert unknown.plan.launches[0].total.value is None


# ---------------------------------------------------------------------------------------------------------------- jobs


@pytest.mark.parametrize(
    "spec,subdomain,expected",
    [
        ({}, None, (1, False, 1)),
        ({"parallelism": 4}, None, (1, False, 4)),
        ({"parallelism": 4, "completions": 2}, None, (1, False, 2)),
        ({"parallelism": 4, "completions": 4, "completionMode": "Indexed"}, None, (1, False, 4)),
        ({"parallelism": 4, "completions": 4, "completionMode": "Indexed"}, "bert", (4, True, 1)),
        ({"parallelism": 2, "completions": 4, "completionMode": "Indexed"}, "bert", (1, False, 2)),
        ({"parallelism": 4, "completions": 4}, "bert", (1, False, 4)),
    ],
    ids=["one", "plain", "fewer left", "array", "group", "array in turns", "no ranks"],
)
def test_a_jobs_pods_are_a_group_only_where_they_have_ranks_and_find_one_another(
    spec: dict[str, Any], subdomain: str | None, expected: tuple[int, bool, int]
) -> None:
    template: dict[str, Any] = {"containers": [container()]} | ({"subdomain": subdomain} if subdomain else {})
    seen = one(job(template, **spec))
    assert (seen.nodes, seen.nodes_known, seen.copies) == expected
    assert seen.gpus == 8 * expected[0] * expected[2]
    assert seen.paths.image == "spec.template.spec.containers[0].image"


def test_an_index_differs_from_pod_to_pod() -> None:
    command = ["torchrun", "--node_rank=$(JOB_COMPLETION_INDEX)", "train.py"]
    seen = one(job({"containers": [container(command)]}, completionMode="Indexed", completions=2, parallelism=2))
    assert seen.plan is not None
    rank = seen.plan.commands[0].invocation.argv[1]
    assert rank.text is None
    assert (rank.prefix, sorted(rank.names)) == ("--node_rank=", ["JOB_COMPLETION_INDEX"])


# --------------------------------------------------------------------------------------------------------- PyTorchJobs


def test_a_pytorch_jobs_master_and_workers_are_one_group() -> None:
    master, worker = read(pytorch_job(master=container(), worker=container()))
    assert (master.nodes, worker.nodes, master.gpus) == (4, 4, 32)
    assert master.paths.image == "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].image"
    assert master.nodes_origin == "spec.pytorchReplicaSpecs.Worker.replicas is 3, beside 1 Master"
    assert master.set_nodes(2) == "set spec.pytorchReplicaSpecs.Worker.replicas: 1"
    assert master.set_nodes(1) == "remove spec.pytorchReplicaSpecs.Worker"
    assert master.framework is Framework.PYTORCH


def test_the_training_operator_sets_what_torchrun_reads() -> None:
    master, worker = read(pytorch_job(master=container(), worker=container()))
    for seen in (master, worker):
        assert {name: value for name, value in seen.environment.items() if value is not None} == {
            "PYTHONUNBUFFERED": "1",
            "MASTER_ADDR": "bert-master-0",
            "MASTER_PORT": "23456",
            "PET_MASTER_ADDR": "bert-master-0",
            "PET_MASTER_PORT": "23456",
            "PET_NNODES": "4",
            "PET_NPROC_PER_NODE": "auto",
            "WORLD_SIZE": "4",
        }
        assert seen.environment["RANK"] is None
        assert seen.plan is not None
        (launch,) = seen.plan.launches
        assert (launch.nodes.value, launch.processes_per_node.value) == (4, 8)


def test_the_training_operators_variables_win_over_the_manifests_own() -> None:
    seen = one(pytorch_job(master=container(env=[{"name": "PET_NNODES", "value": "9"}])))
    assert (seen.environment["PET_NNODES"], seen.environment["RANK"]) == ("1", "0")


def test_processes_are_said_where_the_pytorch_job_says_them() -> None:
    seen = one(pytorch_job(master=container(), nprocPerNode="4"))
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    assert launch.processes_per_node.value == 4
    assert seen.locate_count(launch, launch.processes_per_node) == Location(field_path="spec.nprocPerNode")
    assert seen.environment["WORLD_SIZE"] is None  # nodes before 1.7 of the operator, processes since


def test_an_elastic_group_has_a_range_of_nodes() -> None:
    seen = one(pytorch_job(worker=container(), workers=2, elasticPolicy={"minReplicas": 1, "maxReplicas": 4}))
    assert seen.plan is not None
    assert seen.plan.launches[0].nodes.possible == frozenset({1, 2, 3, 4})
    assert seen.environment["PET_RDZV_BACKEND"] == "c10d"
    assert "MASTER_ADDR" not in seen.environment


def test_roles_that_run_different_things_are_judged_each_for_itself() -> None:
    master, worker = read(pytorch_job(master=container(["python", "serve.py"]), worker=container()))
    assert (master.nodes, master.nodes_known, worker.copies, worker.gpus) == (1, False, 3, 24)


@pytest.mark.parametrize("rank", [["--node_rank=1"], ["--node-rank", "1"]])
def test_a_rank_that_is_written_out_makes_no_other_role(rank: list[str]) -> None:
    master = container(["torchrun", "--nnodes=2", "--node_rank=0", "train.py"])
    worker = container(["torchrun", "--nnodes=2", *rank, "train.py"])
    _, seen = read(pytorch_job(master=master, worker=worker, workers=2))
    assert (seen.nodes, seen.nodes_known) == (3, True)


def test_the_training_operator_reads_roles_in_any_case() -> None:
    document = pytorch_job(worker=container())
    document["spec"]["pytorchReplicaSpecs"] = {"worker": document["spec"]["pytorchReplicaSpecs"]["Worker"]}
    assert one(document).paths.image == "spec.pytorchReplicaSpecs.worker.template.spec.containers[0].image"


# ------------------------------------------------------------------------------------------------------ malformed ones


@pytest.mark.parametrize(
    "change,path,message",
    [
        ({"containers": []}, "spec.containers", "must not be empty"),
        ({"containers": None}, "spec.containers", "required"),
        ({"containers": "trainer"}, "spec.containers", "'trainer': must be a list"),
        ({"containers": [container(args=[1])]}, "spec.containers[0].args[0]", "1: must be a text, in quotes"),
        ({"containers": [container(env=[{"name": "N", "value": 8}])]}, "spec.containers[0].env[0].value", "8: must be"),
        ({"containers": [container(env={"N": "8"})]}, "spec.containers[0].env", "must be a list"),
        (
            {"containers": [container(resources={"limits": {"nvidia.com/gpu": "{{ gpus }}"}})]},
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            "'{{ gpus }}': must be a quantity such as 8, 500m or 64Gi",
        ),
        ({"containers": [container(), 3]}, "spec.containers[1]", "3: must be an object"),
        ({"hostIPC": "yes", "containers": [container()]}, "spec.hostIPC", "'yes': must be true or false"),
    ],
)
def test_a_malformed_pod_is_told_by_field_value_and_what_is_allowed(
    change: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(ManifestError) as raised:
        submissions({"apiVersion": "v1", "kind": "Pod", "spec": change})
    assert any(one.field_path == path and one.message.startswith(message) for one in raised.value.violations)


@pytest.mark.parametrize("kind", [("v1", "Pod"), ("batch/v1", "Job"), ("kubeflow.org/v1", "PyTorchJob")])
def test_a_manifest_without_anything_in_it_is_refused(kind: tuple[str, str]) -> None:
    with pytest.raises(ManifestError, match="spec: required"):
        submissions({"apiVersion": kind[0], "kind": kind[1]})


WHOLE = (
    pod(container(["bash", "-c"], args=["torchrun train.py"], env=[{"name": "A", "value": "1"}]), volumes=[]),
    job({"containers": [container()], "initContainers": [container()]}, completions=2),
    pytorch_job(master=container(), worker=container(), elasticPolicy={"minReplicas": 1}, nprocPerNode="2"),
)
JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just([]), st.just({}), st.just([{}]))


@given(document=st.sampled_from(WHOLE), steps=st.lists(st.integers(0, 7), max_size=9), junk=JUNK)
def test_any_value_in_any_place_is_read_or_refused(document: dict[str, Any], steps: list[int], junk: Any) -> None:
    damaged = _lists(copy.deepcopy(document))
    place: Any = damaged
    for step in steps:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = keys[step % len(keys)]
        if not isinstance(place[key], dict | list) or step == steps[-1]:
            place[key] = junk
            break
        place = place[key]
    with suppress(ManifestError):
        assert all(submission.gpus > 0 for submission in submissions(damaged))
