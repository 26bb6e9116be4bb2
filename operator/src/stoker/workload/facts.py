"""What diagnosis must know of a job beside its series, from the DLJob and its pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.models.dljob import TRAINER, DLJob
from stoker.models.series import JobFacts, PodFacts
from stoker.models.vocabulary import Framework
from stoker.subjects.dljob_submission import read_dljob
from stoker.subjects.launch_plan import Launch, Role
from stoker.subjects.submission import Submission
from stoker.workload import pods as pod_status

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
    batch_size: str | None = None
    has_persistent_volume: bool = False


def program_facts(job: DLJob) -> ProgramFacts:
    """Read the job's script or command."""
    return submission_facts(read_dljob(job), has_persistent_volume=has_persistent_volume(job))


def submission_facts(submission: Submission, *, has_persistent_volume: bool = False) -> ProgramFacts:
    """What a submission, of whatever kind, says of its program."""
    plan = submission.plan
    launches = plan.launches if plan is not None else ()
    final = plan.commands[-1] if plan is not None and plan.commands else None
    return ProgramFacts(
        framework=submission.framework,
        interactive_entry=final is not None and final.role is Role.INTERACTIVE,
        processes_per_node=launches[0].processes_per_node.value if len(launches) == 1 else None,
        batch_size=next((found for launch in launches if (found := _batch_size(submission, launch))), None),
        has_persistent_volume=has_persistent_volume,
    )


def job_facts(job: DLJob, pods: Sequence[Mapping[str, Any]], program: ProgramFacts) -> JobFacts:
    """The facts of a job with these pods, of each rank the latest."""
    spec = job.spec
    latest: dict[int, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
        latest[pod_status.rank(pod)] = pod
    return JobFacts(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        nodes=spec.nodes,
        gpus_per_node=spec.gpus_per_node,
        gpu_resource=spec.gpu_resource,
        job_type=job.job_type,
        framework=program.framework,
        pods=tuple(_pod_facts(pod, spec.gpu_resource) for _, pod in sorted(latest.items())),
        interactive_entry=program.interactive_entry,
        processes_per_node=program.processes_per_node,
        batch_size=program.batch_size,
        has_persistent_volume=program.has_persistent_volume,
    )


def has_persistent_volume(job: DLJob) -> bool:
    """Whether the pod template brings a persistent volume claim."""
    volumes = ((job.spec.pod_template or {}).get("spec") or {}).get("volumes") or ()
    return any("persistentVolumeClaim" in volume for volume in volumes if isinstance(volume, Mapping))


def _pod_facts(pod: Mapping[str, Any], gpu_resource: str) -> PodFacts:
    trainer: Mapping[str, Any] = next((one for one in pod["spec"]["containers"] if one["name"] == TRAINER), {})
    limits = trainer.get("resources", {}).get("limits", {})
    return PodFacts(
        name=pod_status.name(pod),
        uid=pod_status.uid(pod),
        rank=pod_status.rank(pod),
        node=pod["spec"].get("nodeName"),
        gpus=int(limits.get(gpu_resource, 0)),
        started_at=pod_status.started_at(pod),
        finished_at=pod_status.finished_at(pod),
        ready=pod_status.is_ready(pod),
        restarts=int(pod_status.trainer_status(pod).get("restartCount", 0)),
        terminating=pod_status.is_terminating(pod),
        cpu_limit=_cores(limits.get("cpu")),
        host_network=bool(pod["spec"].get("hostNetwork")),
    )


def _batch_size(submission: Submission, launch: Launch) -> str | None:
    """The batch size as written, and where: `--batch-size 32 at spec.script:2`."""
    words = launch.arguments
    for index, word in enumerate(words):
        option, equals, value = (word.text or "").partition("=")
        if option not in BATCH_OPTIONS:
            continue
        if equals:
            return f"{option}={value} at {submission.locate(launch.invocation, [word])}"
        following = words[index + 1].text if index + 1 < len(words) else None
        return f"{option} {following} at {submission.locate(launch.invocation, [word])}" if following else None
    return None


def _cores(quantity: object) -> float | None:
    """CPU cores of a quantity such as `4`, `4.5` or `500m`; None for one that is absent or in another notation."""
    text = str(quantity)
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return None
