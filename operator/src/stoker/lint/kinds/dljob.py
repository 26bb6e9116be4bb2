"""The DLJob: its record, and how it is read into what admission rules look at.

The webhook and the controller read a job that its model has accepted (`read_job`); `stoker lint` reads a document by
the record's reader, which says what is wrong with it first.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from stoker.api.dljob import KIND, MAX_NAME_LENGTH, NAME_PATTERN, PLURAL, TRAINER, DLJob
from stoker.api.environment import injected
from stoker.api.names import GROUP, VERSION
from stoker.api.schema import MAX_VALUE, Violation, explain
from stoker.api.structural import FaultKind
from stoker.findings.quantity import quantity
from stoker.lint.kinds import pod_set
from stoker.lint.kinds.container import (
    RuntimeContext,
    Variable,
    entrypoint_of,
    framework_of,
    read_image,
    read_variables,
    run_command,
    run_script,
)
from stoker.lint.kinds.custom_resource import violations
from stoker.lint.kinds.gpu_resource import WHOLE_GPU_RESOURCES, GpuRequest
from stoker.lint.kinds.kind import ManifestError, ManifestReader, ReadContext, WorkloadKind
from stoker.lint.kinds.pod import SHARED_MEMORY, PodSettings, config_files, listed, mapping, read_pod
from stoker.lint.submission import Paths, Submission

WORKSPACE = "/workspace"
"""Where the sources are mounted; the container starts there."""

PROVIDED_VOLUMES: Mapping[str, Mapping[str, Any]] = {"shm": {"emptyDir": {"medium": "Memory"}}}
PROVIDED_MOUNTS: Mapping[str, str] = {SHARED_MEMORY: "shm"}
"""What the operator's own pod template mounts, as `workload.manifest` writes it."""

TEMPLATE = "spec.podTemplate.spec"
BLANK = " "
"""Stands for an image that is missing."""


def read_job(job: DLJob, context: ReadContext) -> list[Submission]:
    """What rules look at: the job's program first, then its init containers."""
    return [read_dljob(job, context), *read_init_containers(job, context)]


def read_dljob(job: DLJob, context: ReadContext | None = None) -> Submission:
    """Read a DLJob's program. Never raises for a job that its model accepted.

    Of `context.config_maps` the job's sources count, and volumes of its pod template.
    """
    context = context or ReadContext()
    spec = job.spec
    trainer = _trainer(spec.pod_template)
    pod = _pod(job, trainer)
    environment, fields = read_variables((*_variables(job), *_template_variables(trainer)), _provided(job))
    directory = trainer.get("workingDir") or (WORKSPACE if spec.sources is not None else None)
    runtime = RuntimeContext(
        nodes=spec.nodes,
        gpus_per_node=spec.gpus_per_node,
        countable=spec.gpu_resource in WHOLE_GPU_RESOURCES,
        environment=environment,
        files=config_files(pod.mounts, context.config_maps, directory if isinstance(directory, str) else None),
        allowance=context.allowance,
    )
    image = read_image(spec.image, context.families)
    if spec.script is not None:
        run = run_script(spec.script, Paths().script, runtime)
    else:
        run = run_command(
            [(f"spec.command[{index}]", text) for index, text in enumerate(spec.command or ())],
            [(f"spec.args[{index}]", text) for index, text in enumerate(spec.args or ())],
            runtime,
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
        job_type_trusted=context.job_types_trusted,
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


def read_init_containers(job: DLJob, context: ReadContext | None = None) -> list[Submission]:
    """The init containers of a DLJob's pod template."""
    spec = job.spec
    owner = pod_set.Owner(
        kind=job.kind,
        name=job.name,
        namespace=job.namespace,
        labels=job.metadata.labels,
        annotations=job.metadata.annotations,
    )
    pods = pod_set.PodSet(
        spec=mapping((spec.pod_template or {}).get("spec")),
        at=TEMPLATE,
        nodes_field=Paths().nodes,
        nodes=spec.nodes,
        nodes_known=True,
    )
    request = GpuRequest(resource=spec.gpu_resource, count=spec.gpus_per_node, field=Paths().gpus_per_node)
    return list(pod_set.read_init_containers(owner, pods, context or ReadContext(), request))


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


def _pod(job: DLJob, trainer: Mapping[str, Any]) -> PodSettings:
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


def _with_image(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A DLJob without an image as one whose image is blank, which the model takes: so the rules have their say."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping) or spec.get("image") not in (None, ""):
        return document
    return {**document, "spec": {**spec, "image": BLANK}}


def _violations(document: Mapping[str, Any]) -> list[Violation]:
    return violations(DLJob, document, _name_violations(document))


def _submissions(document: Mapping[str, Any], context: ReadContext) -> list[Submission]:
    """The job's program first, then its init containers. Raises ManifestError."""
    try:
        job = DLJob.model_validate(_with_image(document))
    except ValidationError as error:
        raise ManifestError(explain(error)) from error
    return read_job(job, context)


def _name_violations(document: Mapping[str, Any]) -> list[Violation]:
    """What the CRD's own rule says of a DLJob's name."""
    path, own = "metadata.name", document.get("metadata")
    if not isinstance(own, Mapping):
        return []
    name = own.get("name")
    if not name:
        return (
            [] if own.get("generateName") else [Violation(field_path=path, message="required", kind=FaultKind.REQUIRED)]
        )
    if not isinstance(name, str):
        return []
    if len(name) > MAX_NAME_LENGTH:
        message = f"has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed (its pods are named NAME-RANK)"
    elif not re.match(NAME_PATTERN, name):
        allowed = "use lower-case letters, digits and -, beginning and ending with a letter or digit"
        nearest = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        message = f"{allowed}: for example {nearest}" if nearest else allowed
    else:
        return []
    return [Violation(field_path=path, message=f'"{name[:MAX_VALUE]}" {message}')]


DLJOB = WorkloadKind(
    name=KIND,
    group=GROUP,
    version=VERSION,
    plural=PLURAL,
    reader=ManifestReader(violations=_violations, submissions=_submissions),
    admitted=True,
)

__all__ = ["DLJOB", "read_dljob", "read_init_containers", "read_job"]
