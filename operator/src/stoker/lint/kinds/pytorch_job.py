"""Kubeflow's PyTorchJob (kubeflow.org/v1 of the training operator 1.9): schema, pods, and what its controller adds."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api.structural import Schema
from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.container import Variable
from stoker.lint.kinds.gpu_resource import GpuRequest, gpu_request
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.kubeflow_jobs import NAME_LABEL, NUMBER_LABEL, ROLE_LABELS, replica_schema
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, TEXT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

_RANK = re.compile(r"--(?:node|machine)[_-]rank[=\s]\d+")
PYTORCH = "pytorch"
PYTORCH_PORT, PYTORCH_PORT_NAME = 23456, "pytorchjob-port"
"""The training operator's defaults (kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1)."""


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The Master and the Workers of a PyTorchJob.

    Where they run the same, they are the nodes of one group; else each is judged for itself, and nothing is said about
    their number: nodes may have different roles.
    """
    spec = mapping(document.get("spec"))
    specs = {str(name).capitalize(): (str(name), mapping(one)) for name, one in spec["pytorchReplicaSpecs"].items()}
    replicas = {
        role: (name, mapping(mapping(one.get("template")).get("spec")), max(1, whole_number(one, "replicas", 1)))
        for role, (name, one) in specs.items()
        if role in {"Master", "Worker"}
    }
    total = sum(count for _, _, count in replicas.values())
    programs = [_program(pods) for _, pods, _ in replicas.values()]
    alike = all(program == programs[0] for program in programs)
    variables = tuple(_injected(document, {role: (pods, count) for role, (_, pods, count) in replicas.items()}))
    for name, pods, count in replicas.values():
        counted = replicas["Worker"][0] if alike and "Worker" in replicas else name
        yield PodSet(
            spec=pods,
            at=f"spec.pytorchReplicaSpecs.{name}.template.spec",
            nodes_field=f"spec.pytorchReplicaSpecs.{counted}.replicas",
            nodes=total if alike else 1,
            nodes_known=alike,
            copies=1 if alike else count,
            leaders=1 if alike and len(replicas) > 1 else 0,
            rank="RANK" if "Master" in replicas else "",
            variables=variables,
            framework=Framework.PYTORCH,
        )


def _program(pods: Mapping[str, Any]) -> list[tuple[str, GpuRequest | None]]:
    """What the containers of a pod run, for comparison; a rank that is written out differs from role to role."""
    containers = [mapping(one) for one in listed(pods.get("containers"))]
    words = ["\n".join(map(str, (*listed(one.get("command")), *listed(one.get("args"))))) for one in containers]
    return [(_RANK.sub("", text), gpu_request(one, "")) for text, one in zip(words, containers, strict=True)]


def _injected(document: Mapping[str, Any], replicas: Mapping[str, tuple[Mapping[str, Any], int]]) -> Iterator[Variable]:
    """What the training operator appends to a container's variables (pkg/controller.v1/pytorch, 1.9); ranks and what
    differs between its versions are unknown.
    """
    spec = mapping(document.get("spec"))
    elastic = spec.get("elasticPolicy")
    total = sum(count for _, count in replicas.values())
    old_count = mapping(elastic).get("nProcPerNode")
    given = spec.get("nprocPerNode")
    processes = given or ("auto" if old_count is None else str(old_count))
    processes_field = "spec.nprocPerNode" if given or old_count is None else "spec.elasticPolicy.nProcPerNode"
    yield "PYTHONUNBUFFERED", "", "1"
    if "Master" in replicas:
        name = mapping(document.get("metadata")).get("name")
        address = f"{name}-master-0" if name else None
        port = str(_port(replicas["Master"][0]))
        rank = "0" if total == 1 else None
        yield "MASTER_PORT", "", port
        yield "PET_MASTER_PORT", "", port
        yield "MASTER_ADDR", "", address
        yield "PET_MASTER_ADDR", "", address
        # Since 1.7 it is the number of processes, where that is given; before it was that of nodes.
        yield "WORLD_SIZE", "", None if processes.isdigit() and processes != "1" else str(total)
        yield "RANK", "", rank
        yield "PET_NODE_RANK", "", rank
    yield "PET_NPROC_PER_NODE", processes_field, processes
    if elastic is None:
        yield "PET_NNODES", "", str(total)
        return
    workers = replicas["Worker"][1] if "Worker" in replicas else total
    least, most = mapping(elastic).get("minReplicas"), mapping(elastic).get("maxReplicas")
    low = next(number for number in (least, most, workers) if number is not None)
    high = next(number for number in (most, least, workers) if number is not None)
    yield "PET_NNODES", "spec.elasticPolicy", f"{low}:{high}"
    yield "PET_RDZV_BACKEND", "spec.elasticPolicy", mapping(elastic).get("rdzvBackend") or "c10d"
    yield "PET_RDZV_ENDPOINT", "spec.elasticPolicy", None


def _port(pods: Mapping[str, Any]) -> int:
    trainer = next((one for one in map(mapping, listed(pods.get("containers"))) if one.get("name") == PYTORCH), {})
    ports = map(mapping, listed(mapping(trainer).get("ports")))
    named = (port.get("containerPort") for port in ports if port.get("name") == PYTORCH_PORT_NAME)
    return next((port for port in named if isinstance(port, int)), PYTORCH_PORT)


@lru_cache(maxsize=1)
def _schema() -> Schema:
    """As far as it is read."""
    replicas = replica_schema()
    elastic = {
        **dict.fromkeys(("minReplicas", "maxReplicas", "nProcPerNode", "maxRestarts"), COUNT),
        "rdzvBackend": TEXT,
    }
    spec = {
        "nprocPerNode": TEXT,
        "elasticPolicy": part_of_object(elastic),
        "pytorchReplicaSpecs": part_of_object({"Master": replicas, "Worker": replicas}),
    }
    return whole_object(part_of_object(spec, "pytorchReplicaSpecs"))


PYTORCH_JOB = WorkloadKind(
    name="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    plural="pytorchjobs",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=(NAME_LABEL,),
    shares_labels=True,
    role_labels=ROLE_LABELS,
    number_labels=((NUMBER_LABEL,),),
)

__all__ = ["PYTORCH_JOB"]
