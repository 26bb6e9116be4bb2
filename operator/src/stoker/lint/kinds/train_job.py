"""Kubeflow Trainer's TrainJob, and the runtimes that it refers to (trainer.kubeflow.org/v1alpha1, 2.3).

A TrainJob says what its trainer runs and on how many nodes. The rest stands in a TrainingRuntime or a
ClusterTrainingRuntime: the pod template, and the policy by which the trainer sets the variables of torchrun, JAX or
MPI. A runtime that is among the input is read. Of one that is not only the policy is known, where its name is that of a
runtime which Kubeflow delivers; of every other one nothing is.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import INT_OR_STRING, Schema, faults
from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.container import Variable
from stoker.lint.kinds.gpu_resource import gpu_request
from stoker.lint.kinds.job_set import job_set_spec_schema
from stoker.lint.kinds.kind import ReadContext, WorkloadKind
from stoker.lint.kinds.pod import SHARED_MEMORY, listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, TEXT, object_with, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import Place, PodSet, whole_number

RUNTIME, CLUSTER_RUNTIME = "TrainingRuntime", "ClusterTrainingRuntime"
TORCH, MPI, JAX = "torch", "mpi", "jax"
DELIVERED: Mapping[str, str] = {
    "torch-distributed": TORCH,
    "deepspeed-distributed": MPI,
    "mlx-distributed": MPI,
    "jax-distributed": JAX,
}
"""The policies of the ClusterTrainingRuntimes that Kubeflow Trainer delivers (manifests/base/runtimes of 2.3)."""

STEP, TRAINER_STEP = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer"
"""The label of the replicated job whose pods train."""
CONTAINER = "node"
"""The container that the trainer's fields are for, and the replicated job of MPI's workers."""
PORT = "29500"
"""The trainer's port of the master."""
TUNE = ["tune", "run"]
"""A command that the trainer completes by itself (torchtune)."""

_AT = "spec.trainer"
_TORCH_VARIABLES = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")


def _pod_sets(document: Mapping[str, Any], context: ReadContext) -> Iterator[PodSet]:
    """The pods that train, each with the trainer's container; nothing of initializers, which have no GPUs."""
    spec = document["spec"]
    trainer = mapping(spec.get("trainer"))
    reference = mapping(spec.get("runtimeRef"))
    name, kind = str(reference.get("name")), reference.get("kind") or CLUSTER_RUNTIME
    runtime = _usable(context.objects.get((str(kind), name)))
    policy = mapping(mapping(runtime).get("mlPolicy"))
    known = next((one for one in (TORCH, MPI, JAX) if policy.get(one) is not None), "")
    if runtime is None and kind == CLUSTER_RUNTIME:
        known = DELIVERED.get(name, "")
    counted = trainer.get("numNodes") is not None or runtime is not None
    nodes = max(1, whole_number(trainer, "numNodes", whole_number(policy, "numNodes", 1)))
    pods = _trainer_pods(runtime, trainer)
    if spec.get("runtimePatches") or spec.get("podTemplateOverrides") or runtime is None:
        pods = _with_unknown_shared_memory(pods)
    container = next(index for index, one in enumerate(pods["containers"]) if one.get("name") == CONTAINER)
    held = gpu_request(pods["containers"][container], _AT, "resourcesPerNode")
    if held is None:
        return
    launcher = known == MPI and nodes > 1
    if launcher:
        pods = {**pods, "containers": [_without_gpus(pods["containers"][container])]}
    yield PodSet(
        spec=pods,
        at="spec.runtimePatches",
        nodes_field=f"{_AT}.numNodes",
        nodes=nodes,
        nodes_known=counted and known in {TORCH, JAX},
        rank="PET_NODE_RANK" if known == TORCH else "",
        variables=tuple(_injected(document, known, nodes if counted else None, complete=runtime is not None)),
        framework={TORCH: Framework.PYTORCH, JAX: Framework.JAX}.get(known),
        places={0 if launcher else container: Place(at=_AT, resources="resourcesPerNode", mounts=False)},
        complete=runtime is not None,
        driven=trainer.get("command") == TUNE,
        drives=held if launcher else None,
    )


def _usable(runtime: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The spec of a runtime that can be read."""
    if runtime is None or any(faults(_runtime_schema(), runtime)):
        return None
    return mapping(runtime.get("spec"))


def _trainer_pods(runtime: Mapping[str, Any] | None, trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's spec of the runtime with the trainer's fields in its container."""
    job_set = mapping(mapping(mapping(runtime).get("template")).get("spec"))
    templates = [mapping(mapping(one).get("template")) for one in listed(job_set.get("replicatedJobs"))]
    marked = (one for one in templates if _step(one) == TRAINER_STEP)
    template = mapping(mapping(mapping(next(marked, {})).get("spec")).get("template"))
    spec = mapping(template.get("spec"))
    containers = [mapping(one) for one in listed(spec.get("containers"))]
    if not any(one.get("name") == CONTAINER for one in containers):
        containers.append({"name": CONTAINER})
    return {
        **spec,
        "containers": [_filled(one, trainer) if one.get("name") == CONTAINER else one for one in containers],
    }


def _step(template: Mapping[str, Any]) -> Any:
    return mapping(mapping(template.get("metadata")).get("labels")).get(STEP)


def _filled(container: Mapping[str, Any], trainer: Mapping[str, Any]) -> dict[str, Any]:
    """A container of the runtime with what the trainer says instead; its variables are laid over the container's."""
    own = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name) is not None}
    given = trainer.get("resourcesPerNode")
    resources = mapping(container.get("resources")) if given is None else given
    env = [*listed(container.get("env")), *listed(trainer.get("env"))]
    return {**container, **own, "env": env, "resourcesPerNode": resources, "resources": resources}


def _without_gpus(container: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in container.items() if name not in {"resources", "resourcesPerNode"}}


def _with_unknown_shared_memory(pods: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's spec in whose containers something unknown may be mounted at /dev/shm."""
    mount = {"name": "unknown", "mountPath": SHARED_MEMORY}
    containers = [{**one, "volumeMounts": [*listed(one.get("volumeMounts")), mount]} for one in pods["containers"]]
    return {**pods, "containers": containers}


def _injected(document: Mapping[str, Any], policy: str, nodes: int | None, *, complete: bool) -> Iterator[Variable]:
    """What the trainer adds to the container's variables (pkg/runtime/framework/plugins of 2.3)."""
    name = mapping(document.get("metadata")).get("name")
    master = f"{name}-{CONTAINER}-0-0.{name}" if name else None
    number, rank = None if nodes is None else str(nodes), "0" if nodes == 1 else None
    given = mapping(document["spec"].get("trainer")).get("numProcPerNode")
    yield "JOB_COMPLETION_INDEX", "", rank
    if policy == TORCH:
        processes = f"{_AT}.numProcPerNode"
        yield "PET_NNODES", f"{_AT}.numNodes" if nodes is not None else "", number
        yield "PET_NPROC_PER_NODE", processes if given is not None else "", "auto" if given is None else str(given)
        yield "PET_NODE_RANK", "", rank
        yield "PET_MASTER_ADDR", "", master
        yield "PET_MASTER_PORT", "", PORT
    elif policy == JAX:
        yield "JAX_NUM_PROCESSES", "", number
        yield "JAX_PROCESS_ID", "", rank
        yield "JAX_COORDINATOR_ADDRESS", "", f"{master}:{PORT}" if master else None
    elif not complete:
        yield from ((variable, "", None) for variable in _TORCH_VARIABLES)


@lru_cache(maxsize=1)
def _schema() -> Schema:
    container = kubernetes_schema.container()["properties"]
    trainer = object_with(
        {
            **{name: container[name] for name in ("image", "command", "args", "env")},
            "resourcesPerNode": container["resources"],
            "numNodes": COUNT,
            # A number since 2.1; `auto`, `cpu` and `gpu` before.
            "numProcPerNode": {"format": INT_OR_STRING},
        }
    )
    reference = object_with({"name": TEXT, "kind": TEXT, "apiGroup": TEXT}, "name")
    return whole_object(part_of_object({"runtimeRef": reference, "trainer": trainer}, "runtimeRef"))


@lru_cache(maxsize=1)
def _runtime_schema() -> Schema:
    template = part_of_object({"metadata": kubernetes_schema.object_metadata(), "spec": job_set_spec_schema()}, "spec")
    policy = part_of_object({"numNodes": COUNT})
    return whole_object(part_of_object({"mlPolicy": policy, "template": template}, "template"))


TRAIN_JOB = WorkloadKind(
    name="TrainJob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="trainjobs",
    reader=pod_manifest_reader(_schema, pod_sets_in=_pod_sets),
    tells_all=False,
)
"""Its pods are those of the JobSet that it makes."""

TRAINING_RUNTIME = WorkloadKind(
    name=RUNTIME,
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="trainingruntimes",
    reader=pod_manifest_reader(_runtime_schema),
    referred=True,
)

CLUSTER_TRAINING_RUNTIME = WorkloadKind(
    name=CLUSTER_RUNTIME,
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="clustertrainingruntimes",
    reader=pod_manifest_reader(_runtime_schema),
    referred=True,
)

__all__ = ["CLUSTER_TRAINING_RUNTIME", "TRAINING_RUNTIME", "TRAIN_JOB"]
