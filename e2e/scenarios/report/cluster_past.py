"""Two days of a small cluster whose truth is known, as Prometheus has it: GPUs, and what the operator told of jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from e2e.scenarios.metrics.recorded import History, Track, Value

HOUR = 3600.0
DAYS = 2
STEP = 60.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a finding says of idle GPU-hours, as a function of the age in hours."""

    category: str
    rule: str
    hours: Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """A one-node job that held its GPUs from `start` until `end` hours before the history's end.

    utilization: percent as a function of the age in hours; None: not sampled. held: the GPUs of its pods that had a
    node; None: all.
    """

    name: str
    namespace: str
    gpus: int
    start: float
    end: float
    utilization: Callable[[float], float | None]
    team: str = ""
    owner: str = ""
    claims: tuple[Claim, ...] = ()
    stages: Mapping[str, Callable[[float], float]] | None = None
    held: int | None = None

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


def holding(gpus: int, end: float) -> Callable[[float], float | None]:
    """So many GPUs until an age in hours, then none."""
    return lambda age: gpus if age > end else 0


def alive(job: PastJob, value: Callable[[float], float | None]) -> Value:
    """A value while the job lives, given by the age in hours."""
    return lambda age: value(age / HOUR) if job.end * HOUR < age <= job.start * HOUR else None


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What Prometheus calls the pod and its namespace; and what its scrape's target adds to each series."""

    namespace: str = "namespace"
    pod: str = "pod"
    target: Mapping[str, str]


HONOURED = Labels(target={})
RENAMED = Labels(
    namespace="exported_namespace",
    pod="exported_pod",
    target={"namespace": "gpu-operator", "pod": "dcgm-exporter-7xk2p"},
)
"""Without `honor_labels` the exporter's own pod stands under the plain names."""


def record(
    end: datetime,
    jobs: tuple[PastJob, ...],
    labels: Labels,
    *,
    operator_away: Callable[[float], bool] | None = None,
    length: float = DAYS * 24 * HOUR,
    step: float = STEP,
) -> History:
    """The history of these jobs, of a GPU that nobody holds, and of a pod that no DLJob owns.

    operator_away: whether the operator was down at an age in hours; never, where it is absent. length: of the history,
    step: between two scrapes, both in seconds.
    """
    story = History(end=end, seconds=length, step=step)

    def gpu(namespace: str, pod: str, index: int, value: Value) -> None:
        own = {labels.namespace: namespace, labels.pod: pod} if pod else {}
        identity = {**labels.target, **own, "UUID": f"GPU-{pod}-{index}", "gpu": str(index), "modelName": "H100"}
        story.tracks.append(Track(metric="DCGM_FI_DEV_GPU_UTIL", labels=identity, value=value))

    def add_operator_metric(
        job: PastJob, metric: str, more: Mapping[str, str], value: Callable[[float], float | None]
    ) -> None:
        known = alive(job, value)
        away = operator_away or (lambda _: False)
        target = {"namespace": "stoker-system", "exported_namespace": job.namespace} if labels.target else {}
        own = {"uid": job.uid, "name": job.name, "namespace": job.namespace, **target, **more}
        story.tracks.append(
            Track(metric=metric, labels=own, value=lambda age: None if away(age / HOUR) else known(age))
        )

    for job in jobs:
        for index in range(job.gpus if job.held is None else job.held):
            gpu(job.namespace, f"{job.name}-0-x7k2p", index, alive(job, job.utilization))
        who = {"job_type": "Training", "owner": job.owner, "team": job.team, "gpus": str(job.gpus)}
        add_operator_metric(job, "stoker_dljob_info", {**who, "product": "H100", "priority": ""}, lambda _: 1)
        held = job.gpus if job.held is None else job.held
        # The DLJob outlives its pods a little.
        lasting = replace(job, end=job.end - 0.2)
        add_operator_metric(lasting, "stoker_dljob_gpus_held", {}, holding(held, job.end))
        for claim in job.claims:
            finding = {"category": claim.category, "rule": claim.rule}
            add_operator_metric(job, "stoker_dljob_finding_idle_gpu_hours", finding, claim.hours)
        for stage, hours in (job.stages or {}).items():
            add_operator_metric(job, "stoker_dljob_stage_idle_gpu_hours", {"stage": stage}, hours)
    gpu("", "", 9, lambda _: 0)
    gpu("legacy", "jupyter", 0, lambda age: 50 if 4 * HOUR < age <= 6 * HOUR else None)
    story.tracks.append(
        Track(
            metric="stoker_controller_leading",
            labels={"job": "stoker"},
            value=lambda age: None if operator_away is not None and operator_away(age / HOUR) else 1,
        )
    )
    return story
