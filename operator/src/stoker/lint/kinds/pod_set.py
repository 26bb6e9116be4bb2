"""Reads the containers of one pod template: those that ask for GPUs, and the init containers that run beside them.

Each becomes a submission. Used by lint.kinds.pod_manifest for every kind that has Kubernetes' own pod templates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.findings.vocabulary import Framework, JobType
from stoker.lint.kinds.container import (
    UNKNOWN_IMAGE,
    Argument,
    Run,
    RuntimeContext,
    Variable,
    entrypoint_of,
    framework_of,
    read_image,
    read_variables,
    run_command,
)
from stoker.lint.kinds.gpu_resource import WHOLE_GPU_RESOURCES, GpuRequest, gpu_request
from stoker.lint.kinds.kind import ReadContext
from stoker.lint.kinds.pod import config_files, listed, mapping, read_pod
from stoker.lint.submission import Image, Paths, Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that the pods belong to."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a manifest has the fields of a container that does not stand in a pod's spec.

    at: the field path of its image, command, args and env. resources: the name of its resources there. mounts: whether
    volumes can be mounted there.
    """

    at: str
    resources: str = "resources"
    mounts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """The pods of one template, as Kueue calls them.

    at: the field path of the template's spec. nodes, nodes_known, copies, leaders, rank: see `Submission`.
    variables: what the pods' controller adds to the containers' own, which it wins over. job_type: what they do, as far
    as the kind says it. driven: a launcher in another pod starts programs in them; what they run by themselves is not
    judged. drives: the GPUs of one such pod, for pods without GPUs whose first container is the launcher; `nodes` then
    counts the pods that it drives. command: what the controller has the first container run, where that is not
    what the manifest says. places: of containers, by index, that stand elsewhere. complete: False where an object
    that is not in sight adds to the containers: what they lack is unknown.
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
    job_type: JobType = JobType.TRAINING
    driven: bool = False
    drives: GpuRequest | None = None
    command: tuple[Argument, ...] | None = None
    places: Mapping[int, Place] = field(default_factory=dict)
    complete: bool = True


def read_containers(owner: Owner, pods: PodSet, context: ReadContext) -> Iterator[Submission]:
    """The containers of a set's pods that ask for GPUs, and the init containers beside them."""
    asked: list[GpuRequest] = []
    for index, container in enumerate(map(mapping, listed(pods.spec.get("containers")))):
        name = f"containers[{index}]"
        place = _place(pods, name)
        request = gpu_request(container, place.at, place.resources)
        if request is not None:
            asked.append(request)
            yield _read(owner, replace(pods, drives=None), context, name, container, request)
        elif pods.drives is not None and index == 0:
            yield _read(owner, pods, context, name, container, pods.drives)
    if asked:
        yield from read_init_containers(owner, pods, context, max(asked, key=lambda request: request.count))


def read_init_containers(owner: Owner, pods: PodSet, context: ReadContext, request: GpuRequest) -> Iterator[Submission]:
    """The init containers of pods whose containers ask for GPUs: the pods hold them from their start on.

    A sidecar (restartPolicy Always) is none.
    """
    # Controllers add theirs to the containers only.
    own = replace(pods, variables=(), places={}, command=None)
    for index, container in enumerate(map(mapping, listed(pods.spec.get("initContainers")))):
        if container.get("restartPolicy") != "Always":
            yield _read(owner, own, context, f"initContainers[{index}]", container, request, initial=True)


def _read(
    owner: Owner,
    pods: PodSet,
    context: ReadContext,
    name: str,
    container: Mapping[str, Any],
    request: GpuRequest,
    *,
    initial: bool = False,
) -> Submission:
    """One container; `name` is its index in the pod's spec, `request` what the pod holds while it runs."""
    place = _place(pods, name)
    at = place.at
    pod = read_pod(pods.spec, container, at=pods.at, container_at=at)
    environment, fields = read_variables((*_variables(container, at), *pods.variables), {"HOSTNAME": None})
    directory = container.get("workingDir")
    runtime = RuntimeContext(
        nodes=pods.nodes,
        gpus_per_node=request.count,
        countable=request.resource in WHOLE_GPU_RESOURCES,
        environment=environment,
        files=config_files(pod.mounts, context.config_maps, directory),
        allowance=context.allowance,
    )
    given = pods.command if name == "containers[0]" else None
    image = read_image(container.get("image") or "", context.families)
    if not pods.complete and container.get("image") is None:
        image = UNKNOWN_IMAGE
    run = Run() if pods.driven and not initial else _run(container, at, runtime, image, given)
    return Submission(
        kind=owner.kind,
        name=owner.name,
        namespace=owner.namespace,
        labels=owner.labels,
        annotations=owner.annotations,
        nodes=pods.nodes,
        nodes_known=pods.nodes_known,
        copies=pods.copies,
        leaders=pods.leaders,
        rank=pods.rank,
        initial=initial,
        drives=pods.drives is not None,
        gpus_per_node=request.count,
        gpu_resource=request.resource,
        job_type=pods.job_type,
        framework=framework_of(image) or pods.framework,
        image=image,
        environment=environment,
        environment_fields=fields,
        environment_known=pods.complete and not container.get("envFrom"),
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
            nodes=pods.nodes_field,
            gpus_per_node=request.field,
            job_type="",
            max_restarts="",
            volumes=f"{pods.at}.volumes" if place.mounts else "",
            volume_mounts=f"{at}.volumeMounts" if place.mounts else at,
            limits=f"{at}.{place.resources}.limits",
        ),
    )


def _place(pods: PodSet, name: str) -> Place:
    """Where the container of this name in the pod's spec stands."""
    places = {f"containers[{index}]": place for index, place in pods.places.items()}
    return places.get(name, Place(at=f"{pods.at}.{name}"))


def _run(
    container: Mapping[str, Any],
    at: str,
    runtime: RuntimeContext,
    image: Image,
    given: tuple[Argument, ...] | None,
) -> Run:
    """What a container runs; `given` is what its controller replaces its command by."""
    if given is not None:
        return run_command(given, (), runtime)
    return run_command(
        _words(container, at, "command"),
        _words(container, at, "args"),
        runtime,
        entrypoint=entrypoint_of(image, f"{at}.image"),
    )


def _words(container: Mapping[str, Any], at: str, name: str) -> list[Argument]:
    return [(f"{at}.{name}[{index}]", text or "") for index, text in enumerate(container.get(name) or ())]


def _variables(container: Mapping[str, Any], at: str) -> Iterator[Variable]:
    for index, variable in enumerate(map(mapping, listed(container.get("env")))):
        known = variable.get("valueFrom") is None
        path = f"{at}.env[{index}].{'value' if known else 'valueFrom'}"
        yield variable["name"], path, (variable.get("value") or "") if known else None


def whole_number(spec: Mapping[str, Any], name: str, default: int) -> int:
    """A field that counts something; the default where it is absent."""
    value = spec.get(name)
    return value if isinstance(value, int) else default


__all__ = ["Owner", "Place", "PodSet", "read_containers", "read_init_containers", "whole_number"]
