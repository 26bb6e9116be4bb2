"""What diagnosis must know of a job beside its series, from the DLJob and its pods."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stoker.api.dljob import DEFAULT_GPU_RESOURCE, GPU_PRODUCT_LABELS, TRAINER, DLJob
from stoker.findings.quantity import quantity, whole_quantity
from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.kinds.gpu_resource import uncounted_gpus
from stoker.lint.kinds.kind import ReadContext
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.launch.model import Launch, Role
from stoker.lint.submission import Submission
from stoker.policy.effective import JobTraits
from stoker.shell.model import Allowance
from stoker.telemetry.series import Attempt, BatchSize, JobFacts, PodFacts
from stoker.workload import pods as pod_status
from stoker.workload.notebooks import Notebook, notebooks
from stoker.workload.runs import remembered
from stoker.workload.serving import offers, serves
from stoker.workload.volumes import keeps_results, mounts_storage

logger = logging.getLogger(__name__)

READING_TIME = 2.0
"""Seconds of processor time."""

BATCH_OPTIONS = (
    "--batch-size",
    "--batch_size",
    "--train-batch-size",
    "--train_batch_size",
    "--per-device-train-batch-size",
    "--per_device_train_batch_size",
    "--micro-batch-size",
    "--micro_batch_size",
)
"""How training programs commonly call their batch size (Hugging Face's Trainer, Megatron, timm, examples)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """What the manifest says of the program; the same for the job's whole life."""

    framework: Framework | None = None
    interactive_entry: bool = False
    processes_per_node: int | None = None
    batch_size: BatchSize | None = None
    has_persistent_volume: bool = False
    """The container that computes writes to a volume that outlives the pod."""
    mounts_storage: bool = False
    """Some container mounts storage whose traffic the pod's own metrics need not show."""
    serves: bool = False
    """It is a server of models."""
    offers: str | None = None
    """What its container declares that only a server needs: a port, or a readiness probe."""
    notebooks: tuple[Notebook, ...] = ()
    """The Jupyter servers that it starts."""
    is_unread: bool = False
    """It was not read to its end, for want of time or by a fault of ours: whether it serves, or starts Jupyter, is not
    known.
    """


def program_facts(job: DLJob) -> ProgramFacts:
    """Read the job's script or command, for a command that reads one job: it takes READING_TIME at most. A fault of
    ours is logged: it costs the job's diagnosis some detail, and it no GPU, since what can't be read may be a service.
    """
    spec = mapping(job.spec.pod_template).get("spec")
    try:
        submission = read_dljob(job, ReadContext(allowance=Allowance(time.thread_time() + READING_TIME)))
        return submission_facts(submission, spec)
    except Exception:
        logger.exception("%s/%s: the program can't be read", job.namespace, job.name)
        return unread_program(job)


def unread_program(job: DLJob) -> ProgramFacts:
    """What is known of a program that was not read: its pods may be a service, which is never reclaimed."""
    return replace(_pod_facts(mapping(job.spec.pod_template).get("spec")), is_unread=True)


def submission_facts(submission: Submission, spec: object = None) -> ProgramFacts:
    """What a submission, of whatever kind, says of its program; `spec` is its pods', as far as that is known."""
    plan = submission.plan
    launches = plan.launches if plan is not None else ()
    final = plan.commands[-1] if plan is not None and plan.commands else None
    known, is_interactive = _pod_facts(spec), final is not None and final.role is Role.INTERACTIVE
    return replace(
        known,
        framework=submission.framework,
        interactive_entry=is_interactive,
        processes_per_node=launches[0].processes_per_node.value if len(launches) == 1 else None,
        batch_size=next((found for launch in launches if (found := _batch_size(submission, launch))), None),
        serves=serves(submission),
        # A notebook's port is for its owner, who leaves traces in it.
        offers=None if is_interactive else known.offers,
        notebooks=notebooks(plan),
        is_unread=submission.script is not None and submission.script.shortfall is not None,
    )


def _pod_facts(spec: object) -> ProgramFacts:
    """What the pods' spec says, whatever the program."""
    return ProgramFacts(
        has_persistent_volume=keeps_results(spec), mounts_storage=mounts_storage(spec), offers=offers(spec)
    )


def job_facts(
    job: DLJob,
    pods: Sequence[Mapping[str, Any]],
    program: ProgramFacts,
    *,
    child: Mapping[str, Any] | None,
    now: datetime,
) -> JobFacts:
    """The facts of a job with these pods of its Job `child`. Of each rank the latest counts; those before it, and those
    that only the status remembers, are its former pods.
    """
    spec = job.spec
    ordered = sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", "")))
    present = facts_of(ordered, spec.gpu_resource)
    names = {pod.name for pod in present}
    gone = [_alike(run, present) for run in remembered(job.status, present, child, now) if run.name not in names]
    latest = {pod.rank: pod for pod in (*gone, *present)}
    current = {pod.name for pod in latest.values()}
    former = [pod for pod in (*gone, *present) if pod.name not in current and pod.started_at is not None]
    return JobFacts(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        nodes=spec.nodes,
        gpus_per_node=spec.gpus_per_node,
        gpu_resource=spec.gpu_resource,
        job_type=job.job_type,
        framework=program.framework,
        gpu_product=job_product(job, ordered),
        pods=tuple(pod for _, pod in sorted(latest.items())),
        former_pods=tuple(former),
        interactive_entry=program.interactive_entry,
        starts_server=program.serves,
        offers=program.offers,
        processes_per_node=program.processes_per_node,
        batch_size=program.batch_size,
        has_persistent_volume=program.has_persistent_volume,
        mounts_storage=program.mounts_storage,
    )


def facts_of(pods: Sequence[Mapping[str, Any]], gpu_resource: str) -> list[PodFacts]:
    """The facts of a job's pods, from the API server's objects. Raises ValueError for one that is not understood."""
    ranks = pod_status.ranks(pods)
    return [pod_facts(pod, gpu_resource, rank=rank) for pod, rank in zip(pods, ranks, strict=True)]


def pod_facts(pod: Mapping[str, Any], gpu_resource: str, *, rank: int = 0) -> PodFacts:
    """The facts of one pod of that rank."""
    trainer: Mapping[str, Any] = next((one for one in pod["spec"]["containers"] if one["name"] == TRAINER), {})
    resources = trainer.get("resources", {})
    limits = resources.get("limits", {})
    started = pod_status.started_at(pod)
    scheduled, attempts = pod_status.scheduled_at(pod), _attempts(pod)
    return PodFacts(
        name=pod_status.name(pod),
        uid=pod_status.uid(pod),
        rank=rank,
        node=pod["spec"].get("nodeName"),
        gpus=_gpus(pod, gpu_resource),
        started_at=started,
        finished_at=pod_status.finished_at(pod),
        ready=pod_status.is_ready(pod),
        restarts=int(pod_status.trainer_status(pod).get("restartCount", 0)),
        terminating=pod_status.is_terminating(pod),
        attempts=attempts,
        # Two clocks write these: what has started was scheduled before.
        scheduled_at=min(scheduled, started) if scheduled is not None and started is not None else scheduled,
        waiting_for=pod_status.waiting_for(pod) if started is None and not attempts else None,
        cpu_limit=quantity(limits.get("cpu")),
        # The API server sets a request to the limit where only a limit is given.
        cpu_request=quantity(resources.get("requests", {}).get("cpu")),
        host_network=bool(pod["spec"].get("hostNetwork")),
        uncounted_gpus=uncounted_gpus(pod["spec"], gpu_resource),
    )


def _gpus(pod: Mapping[str, Any], resource: str) -> int:
    """What all its containers hold for as long as it runs, those beside the trainer as well."""
    spec = pod["spec"]
    sidecars = (one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always")
    held = (one.get("resources", {}).get("limits", {}) for one in (*spec["containers"], *sidecars))
    counts = [whole_quantity((limits or {}).get(resource, 0)) for limits in held]
    if None in counts:
        message = f"pod {pod_status.name(pod)}: its limit of {resource} is not a number of GPUs"
        raise ValueError(message)
    return sum(count for count in counts if count is not None)


def _attempts(pod: Mapping[str, Any]) -> tuple[Attempt, ...]:
    """The run before the container's present one: the kubelet remembers no more."""
    last = pod_status.last_run(pod)
    return () if last is None else (Attempt(started_at=last[0], finished_at=last[1]),)


def _alike(run: PodFacts, present: Sequence[PodFacts]) -> PodFacts:
    """A run that only the status remembers, with what all pods of one template share."""
    if not present:
        return run
    pod = present[-1]
    return replace(run, cpu_limit=pod.cpu_limit, cpu_request=pod.cpu_request, host_network=pod.host_network)


def job_traits(job: DLJob, pods: Sequence[Mapping[str, Any]]) -> JobTraits:
    """What decides about the job's class of reclaim settings; `pods` are those of its Job."""
    template = mapping(mapping(job.spec.pod_template).get("spec"))
    return JobTraits(
        job_type=job.job_type,
        priority_class=template.get("priorityClassName"),
        gpu_product=job_product(job, pods),
        labels=job.metadata.labels,
    )


def job_product(job: DLJob, pods: Sequence[Mapping[str, Any]]) -> str | None:
    """The GPUs' model. What the pods are bound to counts, which a queue may have chosen; before there are any, what the
    job asks for.
    """
    spec = job.spec
    raw = {"gpuProduct": spec.gpu_product, "gpuResource": spec.gpu_resource, "podTemplate": spec.pod_template}
    return product_of(raw, pods)


def product_of(spec: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str | None:
    """The same of a DLJob's spec as the API server has it."""
    resource = spec.get("gpuResource") or DEFAULT_GPU_RESOURCE
    template = {"spec": mapping(mapping(spec.get("podTemplate")).get("spec"))}
    asked = spec.get("gpuProduct")
    return selected_product(pods, resource) or selected_product([template], resource) or asked


def selected_product(pods: Sequence[Mapping[str, Any]], resource: str) -> str | None:
    """The GPUs' model that the node selector of the latest such pod names, or its required node affinity."""
    label = GPU_PRODUCT_LABELS.get(resource.partition("/")[0])
    if label is None:
        return None
    return next(
        (found for pod in reversed(pods) if (found := _selected(mapping(pod["spec"]), label)) is not None), None
    )


def _selected(spec: Mapping[str, Any], label: str) -> str | None:
    """The only value of a node's label with which a pod may run there; None where it may have others."""
    if (chosen := mapping(spec.get("nodeSelector")).get(label)) is not None:
        return _label_value(chosen)
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    terms = listed(mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms"))
    # One of several terms is enough for a node.
    return _only_value(mapping(terms[0]), label) if len(terms) == 1 else None


def _only_value(term: Mapping[str, Any], label: str) -> str | None:
    for one in map(mapping, listed(term.get("matchExpressions"))):
        values = listed(one.get("values"))
        if (one.get("key"), one.get("operator"), len(values)) == (label, "In", 1):
            return _label_value(values[0])
    return None


def _label_value(value: object) -> str | None:
    """A value that a node's label can have; a template's may be anything."""
    fits = isinstance(value, str) and 0 < len(value) <= 63 and value.isascii()
    return str(value) if fits and all(one.isalnum() or one in "-_." for one in str(value)) else None


def _batch_size(submission: Submission, launch: Launch) -> BatchSize | None:
    """The batch size that a launched program is given, where it is one of the usual options."""
    words = launch.arguments
    for index, word in enumerate(words):
        option, equals, value = (word.text or "").partition("=")
        if option not in BATCH_OPTIONS:
            continue
        following = words[index + 1].text if index + 1 < len(words) else None
        written = value if equals else following
        location = str(submission.locate(launch.invocation, [word]))
        return BatchSize(option=option, value=_short(written), location=location) if written else None
    return None


def _short(value: str) -> str:
    """At most 64 characters: a status and an event quote it."""
    return value if len(value) <= 64 else f"{value[:63]}…"
