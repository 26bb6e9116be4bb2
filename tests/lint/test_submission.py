"""How a DLJob becomes what the rules look at."""

from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.findings.finding import Location
from stoker.findings.vocabulary import Confidence, Framework, JobType
from stoker.lint.kinds.dljob import read_dljob, read_init_containers
from stoker.lint.kinds.kind import ReadContext
from stoker.lint.kinds.pod import SharedMemory, VolumeKind, read_pod
from stoker.lint.launch.plan import Launcher
from stoker.lint.submission import Submission
from stoker.workload import job_manifest


def submission(**spec: Any) -> Submission:
    return read_dljob(
        DLJob.model_validate(
            {
                "metadata": {"name": "bert", "namespace": "nlp", "labels": {"team": "a"}},
                "spec": {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:1", **spec},
            }
        )
    )


def trainer(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "trainer", **container}, {"name": "logs", "image": "x"}]}}


def test_what_the_manifest_says_is_taken_over() -> None:
    seen = submission(nodes=2, script="torchrun train.py", jobType="Evaluation", framework="JAX")
    assert (seen.kind, seen.namespace, seen.name, seen.labels) == ("DLJob", "nlp", "bert", {"team": "a"})
    assert (seen.nodes, seen.gpus_per_node, seen.gpus) == (2, 8, 16)
    assert (seen.job_type, seen.framework) == (JobType.EVALUATION, Framework.JAX)


def test_the_job_type_is_training_when_none_is_declared() -> None:
    assert submission(script="python train.py").job_type is JobType.TRAINING


@pytest.mark.parametrize(
    "resource,devices",
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/mig-1g.10gb", False),
        ("nvidia.com/gpu.shared", False),
    ],
)
def test_only_whole_gpus_can_be_counted_as_devices(resource: str, devices: bool) -> None:
    assert submission(gpuResource=resource, script="python train.py").counts_devices is devices


def test_the_injected_variables_are_in_force_unless_the_manifest_sets_them() -> None:
    seen = submission(
        nodes=2,
        script="torchrun train.py",
        env=[{"name": "PET_NPROC_PER_NODE", "value": "4"}, {"name": "DATA", "value": "/data/$(STOKER_NODES)"}],
    )
    assert seen.environment["PET_NNODES"] == "2"
    assert seen.environment["PET_NPROC_PER_NODE"] == "4"
    assert seen.environment["DATA"] == "/data/2"


def test_values_that_are_read_in_the_pod_or_differ_between_pods_are_unknown() -> None:
    seen = submission(
        nodes=2,
        script="torchrun train.py",
        env=[
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
            {"name": "OUT", "value": "/out/$(STOKER_NODE_RANK)"},
        ],
    )
    assert [seen.environment[name] for name in ("TOKEN", "OUT", "STOKER_NODE_RANK", "JOB_COMPLETION_INDEX")] == [
        None
    ] * 4


def test_on_one_node_the_rank_is_known() -> None:
    assert submission(script="x").environment["JOB_COMPLETION_INDEX"] == "0"


def test_the_pod_templates_variables_count_too_and_are_located() -> None:
    seen = submission(script="python train.py", podTemplate=trainer(env=[{"name": "A", "value": "1"}]))
    assert seen.environment["A"] == "1"
    assert seen.locate_variable("A") == Location(field_path="spec.podTemplate.spec.containers[trainer].env[0]")


def test_with_variables_from_elsewhere_nothing_is_certain_any_more() -> None:
    known = submission(script="python train.py")
    unknown = submission(
        script="python train.py", podTemplate=trainer(envFrom=[{"configMapRef": {"name": "settings"}}])
    )
    assert (known.surely, unknown.surely) == (Confidence.CERTAIN, Confidence.LIKELY)


def test_without_script_command_and_args_nothing_is_known_of_what_runs() -> None:
    seen = submission()
    assert (seen.script, seen.plan) == (None, None)


@pytest.mark.parametrize("args", [["--epochs", "3"], []], ids=["options", "none"])
def test_arguments_of_an_unknown_entry_point_say_nothing(args: list[str]) -> None:
    assert submission(args=args).plan is None


def test_arguments_alone_are_what_most_entry_points_run_but_not_for_certain() -> None:
    seen = submission(args=["torchrun", "train.py"])
    assert seen.plan is not None
    assert seen.surely is Confidence.LIKELY


def test_arguments_of_a_known_image_go_to_its_entry_point() -> None:
    seen = submission(image="vllm/vllm-openai:v0.9.0", args=["--model", "m", "--tensor-parallel-size", "2"])
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    assert launch.launcher is Launcher.VLLM
    assert seen.locate(launch.invocation).field_path == "spec.image"
    assert seen.locate_count(launch, launch.parallelism["tensor"]).field_path == "spec.args[2]"
    assert seen.surely is Confidence.LIKELY


def test_words_of_a_script_are_located_by_line_with_an_excerpt() -> None:
    seen = submission(script="cd /app\ntorchrun --nproc_per_node=4 train.py\n")
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    assert seen.locate_count(launch, launch.processes_per_node) == Location(
        field_path="spec.script",
        line=2,
        column=10,
        end_column=28,
        excerpt="torchrun --nproc_per_node=4 train.py\n         ^^^^^^^^^^^^^^^^^^",
    )


def test_a_script_in_the_arguments_is_located_in_its_own_field() -> None:
    seen = submission(command=["bash", "-c"], args=["set -e\ntorchrun --nproc_per_node=4 train.py"])
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    place = seen.locate_count(launch, launch.processes_per_node)
    assert (place.field_path, place.line) == ("spec.args[0]", 2)


def test_words_of_an_argument_vector_are_located_by_their_index() -> None:
    seen = submission(command=["torchrun"], args=["--nproc_per_node", "4", "train.py"])
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    assert seen.locate_count(launch, launch.processes_per_node).field_path == "spec.args[0]"


MOUNTS = {
    "data": {"persistentVolumeClaim": {"claimName": "data"}},
    "share": {"nfs": {"server": "nas", "path": "/"}},
    "local": {"hostPath": {"path": "/nvme"}},
    "scratch": {"emptyDir": {}},
    "ram": {"emptyDir": {"medium": "Memory"}},
    "settings": {"projected": {"sources": []}},
    "models": {"image": {"reference": "registry.example.com/models:1"}},
}


def with_volumes(volumes: dict[str, Any], **mounts: str) -> dict[str, Any]:
    """A pod template whose trainer mounts each volume, at /NAME unless `mounts` says where."""
    template = trainer(volumeMounts=[{"name": name, "mountPath": mounts.get(name, f"/{name}")} for name in volumes])
    template["spec"]["volumes"] = [{"name": name, **volume} for name, volume in volumes.items()]
    return template


def test_the_mounts_are_told_apart_by_the_kind_of_their_volumes() -> None:
    pod = submission(script="python train.py", podTemplate=with_volumes(MOUNTS)).pod
    assert {mount.path: mount.kind for mount in pod.mounts} == {
        "/dev/shm": VolumeKind.MEMORY,
        "/data": VolumeKind.CLAIM,
        "/share": VolumeKind.NETWORK,
        "/local": VolumeKind.NODE,
        "/scratch": VolumeKind.SCRATCH,
        "/ram": VolumeKind.MEMORY,
        "/settings": VolumeKind.CONFIG,
        "/models": VolumeKind.OTHER,
    }
    assert pod.mounts[1].field_path == "spec.podTemplate.spec.containers[trainer].volumeMounts[0]"
    assert pod.kept == ("/data", "/share", "/local")
    assert pod.sidecars == ("logs",)


def test_a_path_lies_in_the_innermost_mount() -> None:
    volumes = {"data": MOUNTS["data"], "scratch": MOUNTS["scratch"]}
    pod = submission(script="x", podTemplate=with_volumes(volumes, scratch="/data/tmp/")).pod
    kinds = [mount.kind if (mount := pod.mount_of(path)) else None for path in ("/data/a", "/data/tmp/b", "/database")]
    assert kinds == [VolumeKind.CLAIM, VolumeKind.SCRATCH, None]


def test_a_dljobs_shared_memory_is_unlimited_unless_the_template_says_otherwise() -> None:
    assert submission(script="x").pod.shared_memory == SharedMemory(kind=VolumeKind.MEMORY, size=None)


@pytest.mark.parametrize(
    "volumes,expected",
    [
        ({"shm": {"emptyDir": {"sizeLimit": "1Gi"}}}, (VolumeKind.MEMORY, 2**30)),
        ({"mine": {"emptyDir": {"medium": "Memory", "sizeLimit": "128M"}}}, (VolumeKind.MEMORY, 128e6)),
        ({"mine": {"emptyDir": {}}}, (VolumeKind.SCRATCH, None)),
    ],
    ids=["merged with ours", "its own", "on a disk"],
)
def test_what_the_template_mounts_at_dev_shm_counts(volumes: Any, expected: Any) -> None:
    shared = submission(
        script="x", podTemplate=with_volumes(volumes, **dict.fromkeys(volumes, "/dev/shm"))
    ).pod.shared_memory
    assert (shared.kind, shared.size) == expected
    assert shared.field_path == "spec.podTemplate.spec.volumes[0]"


@pytest.mark.parametrize(
    "quantity,cores",
    [("64", 64.0), ("500m", 0.5), (4, 4.0), ("4k", 4000.0), ("1.5", 1.5), ("2e1", 20.0)],
)
def test_the_cpu_limit_is_read_in_cores(quantity: Any, cores: float | None) -> None:
    pod = submission(script="x", resources={"limits": {"cpu": quantity}}).pod
    assert (pod.cpu_limit, pod.cpu_limit_field) == (cores, "spec.resources.limits.cpu")


def test_the_templates_own_cpu_limit_counts_before_the_jobs() -> None:
    pod = submission(
        script="x", resources={"limits": {"cpu": 8}}, podTemplate=trainer(resources={"limits": {"cpu": 2}})
    ).pod
    assert pod.cpu_limit == 2
    assert pod.cpu_limit_field == "spec.podTemplate.spec.containers[trainer].resources.limits.cpu"


@pytest.mark.parametrize(
    "template",
    [{}, {"spec": None}, {"metadata": {}, "spec": {"containers": None}}, {"spec": {"containers": [], "volumes": []}}],
)
def test_a_pod_template_that_says_nothing_changes_nothing(template: dict[str, Any]) -> None:
    said, unsaid = submission(script="python train.py", podTemplate=template), submission(script="python train.py")
    assert (said.pod, said.image) == (unsaid.pod, unsaid.image)


CONFIG = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 3\n"


@pytest.mark.parametrize(
    "script,total",
    [
        ("accelerate launch --config_file acc.yaml train.py", 3),
        ("accelerate launch --config_file /workspace/acc.yaml train.py", 3),
        ("accelerate launch --config_file other.yaml train.py", None),
        ("cd /app && accelerate launch --config_file acc.yaml train.py", None),
        ("cd /app && accelerate launch --config_file /workspace/acc.yaml train.py", 3),
        ("echo 'num_processes: 5' > acc.yaml; accelerate launch --config_file acc.yaml train.py", 5),
    ],
    ids=["beside it", "by its path", "another", "elsewhere", "elsewhere by its path", "written anew"],
)
def test_sources_in_sight_are_read_where_a_path_surely_means_them(script: str, total: int | None) -> None:
    document = {
        "metadata": {"name": "bert"},
        "spec": {"gpusPerNode": 8, "image": "x", "script": script, "sources": {"configMap": "bert"}},
    }
    seen = read_dljob(DLJob.model_validate(document), ReadContext(config_maps={"bert": {"acc.yaml": CONFIG}}))
    assert seen.plan is not None
    assert seen.plan.launches[0].total.value == total


def test_scripts_among_the_sources_are_followed() -> None:
    document = {
        "metadata": {"name": "bert"},
        "spec": {"gpusPerNode": 8, "image": "x", "script": "bash run.sh", "sources": {"configMap": "bert"}},
    }
    seen = read_dljob(
        DLJob.model_validate(document), ReadContext(config_maps={"bert": {"run.sh": "torchrun train.py"}})
    )
    assert seen.plan is not None
    assert [str(launch.launcher) for launch in seen.plan.launches] == ["torchrun"]


def test_init_containers_of_the_template_are_read_as_they_stand() -> None:
    template = {"spec": {"initContainers": [{"name": "fetch", "image": "alpine:3", "command": ["wget", "x"]}]}}
    document = {
        "metadata": {"name": "bert"},
        "spec": {"nodes": 2, "gpusPerNode": 8, "image": "x", "script": "true", "podTemplate": template},
    }
    (initial,) = read_init_containers(DLJob.model_validate(document))
    assert (initial.initial, initial.gpus, initial.nodes) == (True, 16, 2)
    assert initial.locate_image().field_path == "spec.podTemplate.spec.initContainers[0].image"
    assert (initial.paths.gpus_per_node, initial.paths.nodes) == ("spec.gpusPerNode", "spec.nodes")
    assert "STOKER_NODES" not in initial.environment


@pytest.mark.parametrize(
    "script,marker",
    [
        ("N=4\ntorchrun --nproc_per_node $N train.py", "         ^^^^^^^^^^^^^^^^^^^"),
        ("N=4\ntorchrun --nproc_per_node \\\n  $N train.py", "         ^^^^^^^^^^^^^^^^^^^"),
        ("A=(--nproc_per_node 4)\ntorchrun ${A[@]} train.py", "   ^^^^^^^^^^^^^^^^^^"),
    ],
    ids=["a variable", "continued", "an array"],
)
def test_only_neighbouring_words_are_underlined(script: str, marker: str) -> None:
    seen = submission(script=script)
    assert seen.plan is not None
    (launch,) = seen.plan.launches
    excerpt = seen.locate_count(launch, launch.processes_per_node).excerpt
    assert excerpt is not None
    assert excerpt.split("\n")[1] == marker


VOLUME = {"name": "scratch", "emptyDir": {}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"sources": {"configMap": "bert"}, "resources": {"limits": {"cpu": 8}}},
        {"podTemplate": with_volumes(MOUNTS), "resources": {"limits": {"cpu": "1500m"}}},
        {"podTemplate": with_volumes({"shm": {"emptyDir": {"sizeLimit": "1Gi"}}}, shm="/cache")},
        {"podTemplate": with_volumes({"mine": {"emptyDir": {}}}, mine="/dev/shm")},
        {"podTemplate": {"spec": {"hostIPC": True, "volumes": [VOLUME]}}},
        {"podTemplate": trainer(resources={"limits": {"cpu": 2}}), "resources": {"limits": {"cpu": 4}}},
    ],
    ids=["nothing", "sources", "volumes", "ours elsewhere", "in place of ours", "the node's IPC", "limits twice"],
)
def test_the_pod_is_read_as_the_operator_will_make_it(spec: dict[str, Any]) -> None:
    document = {"metadata": {"name": "bert"}, "spec": {"gpusPerNode": 8, "image": "x", "script": "true", **spec}}
    job = DLJob.model_validate(document)
    made = job_manifest(job)["spec"]["template"]["spec"]
    container = next(one for one in made["containers"] if one["name"] == "trainer")
    expected, seen = read_pod(made, container, at="", container_at=""), read_dljob(job).pod
    assert {(mount.path, mount.kind) for mount in seen.mounts} == {(one.path, one.kind) for one in expected.mounts}
    assert (seen.shared_memory.kind, seen.shared_memory.size) == (
        expected.shared_memory.kind,
        expected.shared_memory.size,
    )
    assert (seen.cpu_limit, seen.host_ipc, seen.sidecars) == (
        expected.cpu_limit,
        expected.host_ipc,
        expected.sidecars,
    )
