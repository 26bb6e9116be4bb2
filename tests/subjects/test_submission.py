"""How a DLJob becomes what the rules look at."""

from typing import Any

import pytest

from stoker.models.dljob import DLJob
from stoker.models.finding import Location
from stoker.models.vocabulary import Confidence, Framework, JobType
from stoker.subjects.submission import Submission


def submission(**spec: Any) -> Submission:
    return Submission.from_dljob(
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


def test_volumes_that_outlive_the_pod_are_told_from_those_that_do_not() -> None:
    template = trainer(
        volumeMounts=[
            {"name": "data", "mountPath": "/data"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ]
    )
    template["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "shm", "emptyDir": {}},
    ]
    pod = submission(script="python train.py", podTemplate=template).pod
    assert pod.kept == ("/data",)
    assert pod.sidecars == ("logs",)
    assert not pod.shared_memory


@pytest.mark.parametrize("quantity,cores", [("64", 64.0), ("500m", 0.5), (4, 4.0), ("4k", None)])
def test_the_cpu_limit_is_read_in_cores(quantity: Any, cores: float | None) -> None:
    assert submission(script="x", resources={"limits": {"cpu": quantity}}).pod.cpu_limit == cores


@pytest.mark.parametrize(
    "template",
    [{"spec": {"containers": "none"}}, {"spec": None}, {"spec": {"containers": [None, {"name": 1}], "volumes": {}}}],
)
def test_a_pod_template_of_any_shape_is_no_reason_to_fail(template: dict[str, Any]) -> None:
    assert submission(script="python train.py", podTemplate=template).pod.sidecars in {(), ("1",)}
