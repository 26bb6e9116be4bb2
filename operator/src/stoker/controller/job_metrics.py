"""What Prometheus is told of each DLJob, so that its past is known when it is gone.

Thousands of jobs make a page of megabytes, and few of them change between two scrapes: the lines of each are kept until
it changes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import Object
from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.cluster.cache import ClusterCache, key_of
from stoker.cluster.faults import Faults
from stoker.controller.gpu_time import GpuState, gpus_of, read_hours, split_hours, written_hours
from stoker.controller.scan_results import ScanResults
from stoker.findings.diagnosis import Diagnosis, Utilization
from stoker.findings.vocabulary import ConditionType, JobType, Stage
from stoker.lint.kinds.pod import mapping
from stoker.workload import pods as pod_status
from stoker.workload import product_of
from stoker.workload.pods import read_time

SHOWN_AFTER_END = timedelta(days=1)
"""A job that is over stays visible for so long, though its object may stay for ever."""
EXPORTED_CONDITIONS = frozenset(
    {ConditionType.IDLE.value, ConditionType.LOW_UTILIZATION.value, ConditionType.ANALYSED.value}
)
IDENTITY = ("uid", "namespace", "name")
"""The labels of each of a job's series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetric:
    """A metric that each DLJob has."""

    help: str
    labels: tuple[str, ...] = ()
    """Those beside IDENTITY."""


JOB_METRICS: Mapping[str, JobMetric] = {
    "info": JobMetric(
        help="1 for each DLJob; the labels identify it. Owner and team are its labels stoker.dev/owner and "
        "stoker.dev/team.",
        labels=("job_type", "owner", "team", "gpus", "product", "priority"),
    ),
    "phase": JobMetric(help="1 for the current phase of each DLJob.", labels=("phase",)),
    "ready": JobMetric(help="Ready pods of each DLJob."),
    "gpus_held": JobMetric(
        help="GPUs held by the pods of each DLJob that are scheduled and have not ended: what others can't have."
    ),
    "gpu_hours": JobMetric(
        help="GPU-hours that each DLJob has held so far, by use: used, idle, or unknown (no samples).",
        labels=("state",),
    ),
    "stage_idle_gpu_hours": JobMetric(
        help="Idle GPU-hours of each stage of a DLJob's life so far, where its samples cover it.", labels=("stage",)
    ),
    "finding_idle_gpu_hours": JobMetric(
        help="Idle GPU-hours that each finding of a DLJob claims so far, closed findings included.",
        labels=("category", "rule"),
    ),
    "condition": JobMetric(
        help="1 for the current status of each DLJob's conditions Idle, LowUtilization, Analysed: True, False, "
        "Unknown.",
        labels=("condition", "status", "reason"),
    ),
}
"""The metrics by what follows `stoker_dljob_` in their names."""
MAX_NAME = 253
"""Characters of a name in a metric's label: the longest that Kubernetes allows."""
_SUBDOMAIN = re.compile(r"[a-z0-9.-]+")
MAX_LABEL = 253
"""Characters of a label's value: the longest name that Kubernetes has."""
Sample = tuple[str, Mapping[str, str], float]
"""A key of JOB_METRICS, labels beside the job's identity, and the value."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A job's lines by metric, and what they were made from."""

    raw: Object
    diagnosis: Diagnosis | None
    pods: Sequence[Object]
    ended: datetime | None
    lines: Mapping[str, str]

    def is_of(self, raw: Object, diagnosis: Diagnosis | None, pods: Sequence[Object]) -> bool:
        """Whether they were made from these very objects."""
        same = self.raw is raw and self.diagnosis is diagnosis and len(self.pods) == len(pods)
        return same and all(one is other for one, other in zip(self.pods, pods, strict=True))


class JobMetrics:
    """All DLJobs as text in Prometheus' format."""

    def __init__(self, cache: ClusterCache, scan_results: ScanResults, clock: Clock, faults: Faults) -> None:
        self._faults = faults
        self._cache = cache
        self._scan_results = scan_results
        self._clock = clock
        self._written: dict[str, _Written] = {}

    def text(self) -> str:
        """The page's part about jobs. May run beside the event loop, but not beside itself."""
        now = self._clock.now()
        before, self._written = self._written, {}
        for key, raw in list(self._cache.dljobs.objects.items()):
            uid = raw["metadata"]["uid"]
            scan_result, known = self._scan_results.get(uid), before.get(uid)
            diagnosis = scan_result.diagnosis if scan_result is not None else None
            try:
                pods = self._pods(raw)
                # The store replaces an object that has changed, and an examination makes another diagnosis.
                if known is None or not known.is_of(raw, diagnosis, pods):
                    known = _write(raw, diagnosis, pods)
            except Exception as error:
                # Its lines are missing, not the page.
                self._faults.caught("metrics", str(key), error)
            else:
                self._written[uid] = known
        shown = [one for one in self._written.values() if one.ended is None or now - one.ended < SHOWN_AFTER_END]
        parts: list[str] = []
        for metric, described in JOB_METRICS.items():
            parts.append(f"# HELP stoker_dljob_{metric} {described.help}\n# TYPE stoker_dljob_{metric} gauge\n")
            parts += [one.lines[metric] for one in shown if metric in one.lines]
        return "".join(parts)

    def _pods(self, raw: Object) -> list[Object]:
        job_uid = raw.get("status", {}).get("jobUID")
        return self._cache.pods_of(key_of(raw), job_uid) if job_uid else []


def _write(raw: Object, diagnosis: Diagnosis | None, pods: Sequence[Object]) -> _Written:
    metadata, lines = raw["metadata"], dict[str, str]()
    identity = {name: metadata[name] for name in IDENTITY}
    for metric, labels, value in _samples(raw, pods, diagnosis.utilization if diagnosis is not None else None):
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in {**identity, **labels}.items())
        lines[metric] = f"{lines.get(metric, '')}stoker_dljob_{metric}{{{named}}} {float(value)!r}\n"
    ended = read_time(raw.get("status", {}).get("completionTime"))
    return _Written(raw, diagnosis, pods, ended, lines)


def _samples(raw: Object, pods: Sequence[Object], used: Utilization | None) -> Iterator[Sample]:
    """`used` is what the last examination knows; the status follows it in steps."""
    status = raw.get("status", {})
    yield "info", _info(raw, pods), 1
    yield "phase", {"phase": status.get("phase", "")}, 1
    yield "ready", {}, status.get("readyPods", 0)
    yield "gpus_held", {}, raw["spec"]["gpusPerNode"] * sum(map(pod_status.holds_gpus, pods))
    for state, hours in _hours(raw, used).items():
        yield "gpu_hours", {"state": state.value}, hours
    for stage, hours in _stages(used, gpus_of(raw)).items():
        yield "stage_idle_gpu_hours", {"stage": stage.value}, hours
    for (category, rule), hours in _claims(status.get("findings", ()), gpus_of(raw)).items():
        yield "finding_idle_gpu_hours", {"category": category, "rule": rule}, hours
    for one in status.get("conditions", ()):
        if one["type"] in EXPORTED_CONDITIONS:
            yield "condition", {"condition": one["type"], "status": one["status"], "reason": one["reason"]}, 1


def _info(raw: Object, pods: Sequence[Object]) -> Mapping[str, str]:
    spec, labels = raw["spec"], raw["metadata"].get("labels") or {}
    template = mapping(mapping(spec.get("podTemplate")).get("spec"))
    return {
        "job_type": spec.get("jobType") or JobType.TRAINING.value,
        "owner": labels.get(OWNER_LABEL, ""),
        "team": labels.get(TEAM_LABEL, ""),
        "gpus": str(gpus_of(raw)),
        "product": product_of(spec, pods) or "",
        "priority": _name_of_object(template.get("priorityClassName")),
    }


def _name_of_object(text: object) -> str:
    """A name that Kubernetes takes for an object, or empty: a label's value must not grow with what users write."""
    return text if isinstance(text, str) and len(text) <= MAX_NAME and _SUBDOMAIN.fullmatch(text) else ""


def _hours(raw: Object, used: Utilization | None) -> Mapping[GpuState, float]:
    if used is not None:
        return split_hours(used.gpu_hours, used.gpu_hours_idle, used.coverage_percent)
    hours: dict[GpuState, float] = {}
    for (state, _), amount in written_hours(raw).items():
        hours[state] = hours.get(state, 0.0) + amount
    return hours


def _stages(used: Utilization | None, gpus: int) -> Mapping[Stage, float]:
    hours: dict[Stage, float] = {}
    if used is None:
        return hours
    for span in used.stages:
        if span.average_percent is not None:
            held = gpus * ((span.end or used.as_of) - span.start) / timedelta(hours=1)
            hours[span.stage] = hours.get(span.stage, 0.0) + held * (1 - span.average_percent / 100)
    return hours


def _claims(findings: Sequence[Mapping[str, Any]], gpus: int) -> Mapping[tuple[str, str], float]:
    """Of each rule that measures GPU-hours; what the manifest alone says measures none."""
    claims: dict[tuple[str, str], float] = {}
    for finding in findings:
        if "gpuHoursIdle" in finding:
            key = finding["category"], finding["rule"]
            claims[key] = claims.get(key, 0.0) + read_hours(finding["gpuHoursIdle"], gpus)
    return claims


def _escaped(text: object) -> str:
    """A label's value: bounded, since one that is too long makes Prometheus drop the whole page."""
    short = str(text)[:MAX_LABEL].encode(errors="replace").decode()
    return short.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
