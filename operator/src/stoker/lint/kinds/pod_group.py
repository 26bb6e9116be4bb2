"""Reads the containers of one pod template: those that hold GPUs, and the init containers that run meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.findings.vocabulary import Framework, JobType
from stoker.lint.kinds.container import (
    Argument,
    Place,
    Variable,
    entrypoint_of,
    framework_of,
    read_image,
    read_variables,
    run_command,
)
from stoker.lint.kinds.gpu_resource import WHOLE_GPU_RESOURCES, GpuRequest, gpu_request
from stoker.lint.kinds.image_reference import Families
from stoker.lint.kinds.pod import config_files, listed, mapping, read_pod
from stoker.lint.submission import Paths, Submission
from stoker.shell.model import Allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that the pods belong to."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pods of one template.

    at: the field path of the template's spec. nodes, nodes_known, copies, leaders, rank: see `Submission`.
    variables: what the pods' controller adds to the containers' own, which it wins over.
    """

    spec: Mapping[str, Any]
    at: str
    nodes_field: str = ""
    nodes: int = 1
    nodes_known: bool = False
    copies: int = 1
    leaders: int = 0
    rank: str = ""
    variables: Sequence[Variable] = ()
    framework: Framework | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known besides the manifest: an administrator's image families, and config maps by name; and what reading
    may cost.
    """

    families: Families = ()
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    allowance: Allowance = field(default_factory=Allowance)


def read_containers(owner: Owner, group: Group, setting: Setting) -> Iterator[Submission]:
    """The containers of a group's pods that ask for GPUs, and the init containers beside them."""
    asked: list[GpuRequest] = []
    for index, container in enumerate(map(mapping, listed(group.spec.get("containers")))):
        name = f"containers[{index}]"
        request = gpu_request(container, f"{group.at}.{name}")
        if request is not None:
            asked.append(request)
            yield _read(owner, group, setting, name, container, request)
    if asked:
        yield from read_init_containers(owner, group, setting, max(asked, key=lambda request: request.count))


def read_init_containers(owner: Owner, group: Group, setting: Setting, request: GpuRequest) -> Iterator[Submission]:
    """The init containers of pods whose containers ask for GPUs: the pods hold them from their start on.

    A sidecar (restartPolicy Always) is none.
    """
    own = replace(group, variables=())  # controllers add theirs to the containers only
    for index, container in enumerate(map(mapping, listed(group.spec.get("initContainers")))):
        if container.get("restartPolicy") != "Always":
            yield _read(owner, own, setting, f"initContainers[{index}]", container, request, initial=True)


def _read(
    owner: Owner,
    group: Group,
    setting: Setting,
    name: str,
    container: Mapping[str, Any],
    request: GpuRequest,
    *,
    initial: bool = False,
) -> Submission:
    """One container; `name` is its place in the pod's spec, `request` what the pod holds while it runs."""
    at = f"{group.at}.{name}"
    pod = read_pod(group.spec, container, at=group.at, container_at=at)
    environment, fields = read_variables((*_variables(container, at), *group.variables), {"HOSTNAME": None})
    directory = container.get("workingDir")
    place = Place(
        nodes=group.nodes,
        gpus_per_node=request.count,
        countable=request.resource in WHOLE_GPU_RESOURCES,
        environment=environment,
        files=config_files(pod.mounts, setting.config_maps, directory),
        allowance=setting.allowance,
    )
    image = read_image(container.get("image") or "", setting.families)
    run = run_command(
        _words(container, at, "command"),
        _words(container, at, "args"),
        place,
        entrypoint=entrypoint_of(image, f"{at}.image"),
    )
    return Submission(
        kind=owner.kind,
        name=owner.name,
        namespace=owner.namespace,
        labels=owner.labels,
        annotations=owner.annotations,
        nodes=group.nodes,
        nodes_known=group.nodes_known,
        copies=group.copies,
        leaders=group.leaders,
        rank=group.rank,
        initial=initial,
        gpus_per_node=request.count,
        gpu_resource=request.resource,
        job_type=JobType.TRAINING,
        framework=framework_of(image) or group.framework,
        image=image,
        environment=environment,
        environment_fields=fields,
        environment_known=not container.get("envFrom"),
        script=run.script,
        script_field=run.script_field,
        argv=run.argv,
        entry_known=run.entry_known,
        plan=run.plan,
        pod=pod,
        paths=Paths(
            image=f"{at}.image",
            script="",
            command=f"{at}.command",
            args=f"{at}.args",
            env=f"{at}.env",
            nodes=group.nodes_field,
            gpus_per_node=request.field,
            job_type="",
            max_restarts="",
            volumes=f"{group.at}.volumes",
            volume_mounts=f"{at}.volumeMounts",
            limits=f"{at}.resources.limits",
        ),
    )


def _words(container: Mapping[str, Any], at: str, name: str) -> list[Argument]:
    return [(f"{at}.{name}[{index}]", text or "") for index, text in enumerate(container.get(name) or ())]


def _variables(container: Mapping[str, Any], at: str) -> Iterator[Variable]:
    for index, variable in enumerate(map(mapping, listed(container.get("env")))):
        known = variable.get("valueFrom") is None
        path = f"{at}.env[{index}].{'value' if known else 'valueFrom'}"
        yield variable["name"], path, (variable.get("value") or "") if known else None


__all__ = ["Group", "Owner", "Setting", "read_containers", "read_init_containers"]
