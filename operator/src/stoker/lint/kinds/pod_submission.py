"""Reads pods, Jobs and PyTorchJobs into what admission rules look at; they are read as they stand, nothing is injected
that their own controllers do not inject.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from stoker.api.schema import Violation
from stoker.api.structural import Schema
from stoker.findings.vocabulary import Framework
from stoker.lint.kinds import pod_schema
from stoker.lint.kinds.container import Variable
from stoker.lint.kinds.gpu_resource import GpuRequest, gpu_request
from stoker.lint.kinds.image_reference import Families
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.pod_group import Group, Owner, Setting, read_containers
from stoker.lint.submission import Submission
from stoker.shell.model import Allowance


class ManifestError(ValueError):
    """A manifest that can't be read; `violations` say where and why."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)


def is_readable(document: Any) -> bool:
    """Whether a document is of a kind that `submissions` reads."""
    return isinstance(document, Mapping) and _schema(document) is not None


def _schema(document: Mapping[str, Any]) -> Schema | None:
    return pod_schema.schema_of(str(document.get("apiVersion")), str(document.get("kind")))


def submissions(
    document: Mapping[str, Any],
    *,
    families: Families = (),
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    allowance: Allowance | None = None,
) -> list[Submission]:
    """The containers of a Pod, Job or PyTorchJob that ask for GPUs, and the init containers beside them.

    Empty for a document of another kind, and for one without GPUs. Raises ManifestError for one that breaks its
    schema where it is read.
    """
    schema = _schema(document)
    if schema is None:
        return []
    if wrong := pod_schema.violations(schema, document):
        raise ManifestError(wrong)
    setting = Setting(families=families, config_maps=config_maps, allowance=allowance or Allowance())
    metadata = mapping(document.get("metadata"))
    owner = Owner(
        kind=document["kind"],
        name=metadata.get("name") or metadata.get("generateName") or "",
        namespace=metadata.get("namespace") or "",
        labels={name: text or "" for name, text in mapping(metadata.get("labels")).items()},
        annotations={name: text or "" for name, text in mapping(metadata.get("annotations")).items()},
    )
    groups = {"Pod": _pod, "Job": _job, "PyTorchJob": _pytorch_job}[owner.kind]
    return [submission for group in groups(document) for submission in read_containers(owner, group, setting)]


def _pod(document: Mapping[str, Any]) -> Iterator[Group]:
    """A pod by itself; it may still be one node of several."""
    yield Group(spec=mapping(document.get("spec")), at="spec")


def _job(document: Mapping[str, Any]) -> Iterator[Group]:
    """The pods of a Job: nodes of one group where they can find one another, else independent copies.

    They can with a completion index, as many at a time as there are in all, and a subdomain under which their host
    names resolve (Kubernetes documentation, "Job with Pod-to-Pod Communication").
    """
    spec = mapping(document.get("spec"))
    template = mapping(mapping(spec.get("template")).get("spec"))
    indexed = spec.get("completionMode") == "Indexed"
    parallel = _number(spec, "parallelism", 1)
    pods = max(1, min(parallel, _number(spec, "completions", parallel)))
    group = indexed and bool(template.get("subdomain")) and pods == spec.get("completions")
    index = "0" if pods == 1 and spec.get("completions") == 1 else None
    yield Group(
        spec=template,
        at="spec.template.spec",
        nodes_field="spec.completions" if group else "spec.parallelism",
        nodes=pods if group else 1,
        nodes_known=group,
        copies=1 if group else pods,
        rank="JOB_COMPLETION_INDEX" if indexed else "",
        variables=(("JOB_COMPLETION_INDEX", "", index),) if indexed else (),
    )


_RANK = re.compile(r"--(?:node|machine)[_-]rank[=\s]\d+")
PYTORCH = "pytorch"
PYTORCH_PORT, PYTORCH_PORT_NAME = 23456, "pytorchjob-port"
"""The training operator's defaults (kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1)."""


def _pytorch_job(document: Mapping[str, Any]) -> Iterator[Group]:
    """The Master and the Workers of a PyTorchJob.

    Where they run the same, they are the nodes of one group; else each is judged for itself, and nothing is said about
    their number: nodes may have different roles.
    """
    spec = mapping(document.get("spec"))
    specs = {str(name).capitalize(): (str(name), mapping(one)) for name, one in spec["pytorchReplicaSpecs"].items()}
    replicas = {
        role: (name, mapping(mapping(one.get("template")).get("spec")), max(1, _number(one, "replicas", 1)))
        for role, (name, one) in specs.items()
        if role in {"Master", "Worker"}
    }
    total = sum(count for _, _, count in replicas.values())
    programs = [_program(pods) for _, pods, _ in replicas.values()]
    alike = all(program == programs[0] for program in programs)
    variables = tuple(_injected(document, {role: (pods, count) for role, (_, pods, count) in replicas.items()}))
    for name, pods, count in replicas.values():
        counted = replicas["Worker"][0] if alike and "Worker" in replicas else name
        yield Group(
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


def _number(spec: Mapping[str, Any], name: str, default: int) -> int:
    value = spec.get(name)
    return value if isinstance(value, int) else default


__all__ = ["ManifestError", "is_readable", "submissions"]
