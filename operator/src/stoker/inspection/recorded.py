"""`--jobs FILE`: jobs whose series are in Prometheus while their cluster is gone, or was never Kubernetes."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from stoker.api.dljob import DEFAULT_GPU_RESOURCE, MAX_SCRIPT_BYTES, RESOURCE_PATTERN, DLJob
from stoker.api.meta import Boolean, Integer, Time
from stoker.api.schema import ApiModel, Violation, explain
from stoker.catalogue import admission_rules
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Framework, JobType
from stoker.inspection.candidates import without_dljob
from stoker.inspection.workload import Workload
from stoker.lint.files.manifests import File, InputError, ManifestText, read
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.series import JobFacts, PodFacts
from stoker.workload import program_facts

MAX_PODS = 1024
"""Pods of one recorded job, as in a DLJob."""
NO_IMAGE = " "
"""Stands for the image of a job that names none: it is no reference, and the rules about images are left out."""
IMAGE_RULES = "image-"
_RANK = re.compile(r".*?-(\d{1,4})(?:-[a-z0-9]{5})?")
"""The pods of an indexed Job are called `bert-0-x7k2p`, those of a StatefulSet `bert-0`."""


class RecordedJob(ApiModel):
    """One job of the file."""

    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    """The namespace in its series' labels."""
    name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """What to call it. Default: its first pod's name."""
    pods: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(min_length=1, max_length=MAX_PODS)
    ]
    """Names of its pods, as its series have them, in the order of their ranks."""
    nodes: Annotated[Integer, Field(ge=1, le=MAX_PODS)] | None = None
    """Pods that worked together. Default: as many as there are pods."""
    gpus_per_node: Annotated[Integer, Field(ge=1, le=64)]
    """GPUs of each pod."""
    gpu_resource: Annotated[str, Field(pattern=RESOURCE_PATTERN, max_length=317)] = DEFAULT_GPU_RESOURCE
    """The resource that they were asked for by."""
    gpu_product: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Their model."""
    framework: Framework | None = None
    """The framework. Default: what the image and the script tell."""
    job_type: JobType | None = None
    """What it was for. Default: Training."""
    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Its container image."""
    script: Annotated[str, Field(min_length=1, max_length=MAX_SCRIPT_BYTES)] | None = None
    """The text of its startup script, as in a DLJob's spec.script."""
    cpu_limit: Annotated[float, Field(gt=0)] | None = None
    """CPU cores that each pod may use at most. Default: what kube-state-metrics has recorded."""
    persistent_volume: Boolean = False
    """Whether it wrote to a volume that outlives its pods. Default: false."""
    start: Time | None = None
    """When its containers started. Default: sought in the samples."""
    end: Time | None = None
    """When they ended; null: they still run. Default: sought in the samples."""

    @field_validator("script")
    @classmethod
    def _script_fits(cls, script: str | None) -> str | None:
        if script is not None and len(script.encode(errors="replace")) > MAX_SCRIPT_BYTES:
            raise PydanticCustomError("script", "at most {limit} bytes are allowed", {"limit": MAX_SCRIPT_BYTES})
        return script

    @field_validator("start", "end")
    @classmethod
    def _in_utc(cls, time: datetime | None) -> datetime | None:
        try:
            return None if time is None else time.astimezone(UTC)
        except OverflowError:
            raise PydanticCustomError("year", "must be in the years 1 to 9999 of UTC") from None

    @model_validator(mode="after")
    def _makes_sense(self) -> "RecordedJob":
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise PydanticCustomError("order", "end: must be later than start")
        if len(set(self.pods)) < len(self.pods):
            raise PydanticCustomError("twice", "pods: the same pod is listed twice")
        return self


def read_jobs(path: str, now: datetime) -> tuple[list[Workload], list[InputError]]:
    """The file's jobs, and everything that is wrong in it."""
    try:
        (file,) = read([path])
    except ValueError:
        return [], [InputError(path, "is a directory: give one file")]
    if isinstance(file, InputError):
        return [], [file]
    if isinstance(file, ManifestText) or not file.manifests:
        return [], [InputError(path, "contains no list of jobs")]
    return _jobs(file, now)


def _jobs(file: File, now: datetime) -> tuple[list[Workload], list[InputError]]:
    workloads: list[Workload] = []
    errors: list[InputError] = []
    for document in file.manifests:
        entries = document.value
        if not isinstance(entries, list):
            line = document.line
            errors.append(InputError(file.path, "must be a list of jobs: - {namespace: ..., pods: [...]}", line=line))
            continue
        for number, entry in enumerate(entries):
            errors += [
                InputError(file.path, str(wrong), line=document.locate(wrong.field_path).line)
                for wrong in _violations(entry, number)
            ]
            if not errors:
                workloads.append(workload(RecordedJob.model_validate(entry), now))
    return workloads, errors


def _violations(entry: Any, number: int) -> Iterator[Violation]:
    if not isinstance(entry, Mapping):
        yield Violation(field_path=f"[{number}]", message="must be an object")
        return
    try:
        RecordedJob.model_validate(entry, extra="forbid")
    except ValidationError as error:
        for wrong in explain(error):
            dot = "." if wrong.field_path and not wrong.field_path.startswith("[") else ""
            yield replace(wrong, field_path=f"[{number}]{dot}{wrong.field_path}")


def workload(job: RecordedJob, now: datetime) -> Workload:
    """The job with what its script says. Of several pods of one rank the latest in the list counts as the present."""
    nodes = job.nodes if job.nodes is not None else len(job.pods)
    name = job.name or job.pods[0]
    known = {**job.model_dump(include={"framework", "job_type", "script"}, exclude_none=True, by_alias=True)}
    submitted = DLJob.model_validate(
        {
            "metadata": {"namespace": job.namespace, "name": name},
            "spec": {
                **known,
                "nodes": nodes,
                "gpusPerNode": job.gpus_per_node,
                "gpuResource": job.gpu_resource,
                "image": job.image or NO_IMAGE,
            },
        }
    )
    program = program_facts(submitted)
    pods, former = _pods(job, nodes)
    # Pods that follow one another did not all start with the job.
    one_each = not former
    facts = JobFacts(
        namespace=job.namespace,
        name=name,
        uid=f"{job.namespace}/{name}",
        nodes=nodes,
        gpus_per_node=job.gpus_per_node,
        gpu_resource=job.gpu_resource,
        gpu_product=job.gpu_product,
        has_persistent_volume=job.persistent_volume,
        job_type=job.job_type or JobType.TRAINING,
        framework=program.framework,
        pods=pods,
        former_pods=former,
        interactive_entry=program.interactive_entry,
        starts_server=program.serves,
        processes_per_node=program.processes_per_node,
        batch_size=program.batch_size,
    )
    return Workload(
        facts=facts,
        owner="",
        candidate=without_dljob(facts, program),
        static_findings=_static_findings(submitted, job, now),
        start_known=job.start is not None and one_each,
        end_known="end" in job.model_fields_set and one_each,
    )


def _pods(job: RecordedJob, nodes: int) -> tuple[tuple[PodFacts, ...], tuple[PodFacts, ...]]:
    """The present pods by rank, and those that they have replaced, where there are more pods than nodes."""
    ranks = [_rank(name) for name in job.pods]
    if len(job.pods) <= nodes or not all(rank is not None and rank < nodes for rank in ranks):
        ranks = [place % nodes for place in range(len(job.pods))]
    by_rank: dict[int, list[PodFacts]] = defaultdict(list)
    for name, rank in zip(job.pods, ranks, strict=True):
        assert rank is not None
        by_rank[rank].append(
            PodFacts(
                name=name,
                uid=name,
                rank=rank,
                gpus=job.gpus_per_node,
                cpu_limit=job.cpu_limit,
                started_at=job.start,
                finished_at=job.end,
                ready=job.end is None,
            )
        )
    ordered = [pods for _, pods in sorted(by_rank.items())]
    return tuple(pods[-1] for pods in ordered), tuple(pod for pods in ordered for pod in pods[:-1])


def _rank(pod: str) -> int | None:
    match = _RANK.fullmatch(pod)
    return None if match is None else int(match[1])


def _static_findings(submitted: DLJob, job: RecordedJob, now: datetime) -> tuple[Finding, ...]:
    """What admission would have said of the script and the image, as far as they are given."""
    if job.script is None and job.image is None:
        return ()
    rules: Sequence[Any] = admission_rules()
    if job.image is None:
        rules = [rule for rule in rules if not rule.name.startswith(IMAGE_RULES)]
    return review(submitted, BUILT_IN, now=now, rules=rules).findings


__all__ = ["RecordedJob", "read_jobs", "workload"]
