"""Reads a DLJob into what admission rules look at."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stoker.api.dljob import TRAINER, DLJob
from stoker.api.environment import injected
from stoker.findings.quantity import quantity
from stoker.lint.kinds import pod_group
from stoker.lint.kinds.container import (
    Place,
    Variable,
    entrypoint_of,
    framework_of,
    read_image,
    read_variables,
    run_command,
    run_script,
)
from stoker.lint.kinds.gpu_resource import WHOLE_GPU_RESOURCES, GpuRequest
from stoker.lint.kinds.image_reference import Families
from stoker.lint.kinds.pod import SHARED_MEMORY, Pod, config_files, listed, mapping, read_pod
from stoker.lint.submission import Paths, Submission
from stoker.shell.model import Allowance

WORKSPACE = "/workspace"
"""Where the sources are mounted; the container starts there."""

PROVIDED_VOLUMES: Mapping[str, Mapping[str, Any]] = {"shm": {"emptyDir": {"medium": "Memory"}}}
PROVIDED_MOUNTS: Mapping[str, str] = {SHARED_MEMORY: "shm"}
"""What the operator's own pod template mounts, as `workload.manifest` writes it."""

TEMPLATE = "spec.podTemplate.spec"


def read_dljob(
    job: DLJob,
    *,
    job_type_trusted: bool = True,
    families: Families = (),
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    allowance: Allowance | None = None,
) -> Submission:
    """Read a DLJob. Never raises for one that its model accepted.

    families: an administrator's image families. config_maps: the data of those that are in sight, by name: the job's
    sources, and volumes of its pod template. allowance: what reading may cost.
    """
    spec = job.spec
    trainer = _trainer(spec.pod_template)
    pod = _pod(job, trainer)
    environment, fields = read_variables((*_variables(job), *_template_variables(trainer)), _provided(job))
    directory = trainer.get("workingDir") or (WORKSPACE if spec.sources is not None else None)
    place = Place(
        nodes=spec.nodes,
        gpus_per_node=spec.gpus_per_node,
        countable=spec.gpu_resource in WHOLE_GPU_RESOURCES,
        environment=environment,
        files=config_files(pod.mounts, config_maps, directory if isinstance(directory, str) else None),
        allowance=allowance or Allowance(),
    )
    image = read_image(spec.image, families)
    if spec.script is not None:
        run = run_script(spec.script, Paths().script, place)
    else:
        run = run_command(
            [(f"spec.command[{index}]", text) for index, text in enumerate(spec.command or ())],
            [(f"spec.args[{index}]", text) for index, text in enumerate(spec.args or ())],
            place,
            entrypoint=entrypoint_of(image, Paths().image),
        )
    return Submission(
        kind=job.kind,
        name=job.name,
        namespace=job.namespace,
        labels=job.metadata.labels,
        annotations=job.metadata.annotations,
        nodes=spec.nodes,
        rank="STOKER_NODE_RANK",
        gpus_per_node=spec.gpus_per_node,
        gpu_resource=spec.gpu_resource,
        job_type=job.job_type,
        job_type_trusted=job_type_trusted,
        framework=spec.framework or framework_of(image),
        image=image,
        environment=environment,
        environment_fields=fields,
        environment_known=not trainer.get("envFrom"),
        script=run.script,
        script_field=run.script_field,
        argv=run.argv,
        entry_known=run.entry_known,
        plan=run.plan,
        max_restarts=spec.effective_max_restarts,
        pod=pod,
    )


def read_init_containers(
    job: DLJob,
    *,
    families: Families = (),
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    allowance: Allowance | None = None,
) -> list[Submission]:
    """The init containers of a DLJob's pod template; see `read_dljob`."""
    spec = job.spec
    owner = pod_group.Owner(
        kind=job.kind,
        name=job.name,
        namespace=job.namespace,
        labels=job.metadata.labels,
        annotations=job.metadata.annotations,
    )
    group = pod_group.Group(
        spec=mapping((spec.pod_template or {}).get("spec")),
        at=TEMPLATE,
        nodes_field=Paths().nodes,
        nodes=spec.nodes,
        nodes_known=True,
    )
    request = GpuRequest(resource=spec.gpu_resource, count=spec.gpus_per_node, field=Paths().gpus_per_node)
    setting = pod_group.Setting(families=families, config_maps=config_maps, allowance=allowance or Allowance())
    return list(pod_group.read_init_containers(owner, group, setting, request))


def _provided(job: DLJob) -> dict[str, str | None]:
    """What the pod gets without the manifest asking: ours, the Job controller's index and the host name."""
    variables = injected(job.spec.nodes, job.spec.gpus_per_node, job.name, job.namespace)
    return {**variables, "JOB_COMPLETION_INDEX": variables["STOKER_NODE_RANK"], "HOSTNAME": None}


def _variables(job: DLJob) -> Iterator[Variable]:
    for index, variable in enumerate(job.spec.env):
        if variable.value_from is None:
            yield variable.name, f"spec.env[{index}].value", variable.value or ""
        else:
            yield variable.name, f"spec.env[{index}].valueFrom", None


def _template_variables(trainer: Mapping[str, Any]) -> Iterator[Variable]:
    for index, variable in enumerate(map(mapping, listed(trainer.get("env")))):
        path = f"{TEMPLATE}.containers[{TRAINER}].env[{index}]"
        value = variable.get("value", "")
        known = "valueFrom" not in variable and isinstance(value, str)
        yield str(variable.get("name", "")), path, value if known else None


def _trainer(template: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The pod template's container of the trainer's name; empty where there is none."""
    containers = map(mapping, listed(mapping((template or {}).get("spec")).get("containers")))
    return next((container for container in containers if container.get("name") == TRAINER), {})


def _pod(job: DLJob, trainer: Mapping[str, Any]) -> Pod:
    volumes, mounts = dict(PROVIDED_VOLUMES), dict(PROVIDED_MOUNTS)
    if job.spec.sources is not None:
        volumes["sources"] = {"configMap": {"name": job.spec.sources.config_map}}
        mounts[WORKSPACE] = "sources"
    pod = read_pod(
        mapping((job.spec.pod_template or {}).get("spec")),
        {"name": TRAINER, **trainer},
        at=TEMPLATE,
        container_at=f"{TEMPLATE}.containers[{TRAINER}]",
        volumes=volumes,
        mounts=mounts,
    )
    limits = job.spec.resources.limits if job.spec.resources is not None else {}
    if pod.cpu_limit_field or "cpu" not in limits:
        return pod
    return replace(pod, cpu_limit=quantity(limits["cpu"]), cpu_limit_field="spec.resources.limits.cpu")


__all__ = ["read_dljob", "read_init_containers"]
