"""The status of a workload with GPUs: a DLJob's, and that of a workload that Stoker did not create (GPUWorkload)."""

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from stoker.api.meta import Conditions, Integer, Time
from stoker.api.schema import ApiModel
from stoker.findings.finding import MAX_ADVICE
from stoker.findings.vocabulary import (
    Category,
    Confidence,
    NotificationEvent,
    NotificationResult,
    Phase,
    ReclaimEvent,
    ReclaimState,
    Severity,
    Source,
    Stage,
)

MAX_FINDINGS = 32
"""Findings in a status, the most idle GPU-hours first."""
MAX_NODES = 32
"""Pods in status.utilization.nodes, the worst first: a status stays within what etcd stores."""
MAX_STAGES = 32
"""Stages in status.utilization.stages; a job with more alternates between two of them."""
GPUS_A_ROW, MAX_GPU_ROWS = 8, 8
"""`kubectl describe` prints each inner list on a line of its own. A pod has at most 64 GPUs."""
MAX_PODS = 1024
"""Runs of pods in a status: with the other lists they stay within what etcd stores beside the spec."""
MAX_HISTORY = 10
"""Events of reclaim in a status, the latest last."""
MAX_NOTIFIED = 4
"""Notifications in a status, the latest last: what is due follows from the history."""
MAX_POLICIES = 2
"""The base and the one override that counts."""


def _amount(text: str) -> str:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not math.isfinite(hours):
        # Whoever may write the status can write anything here: it must not end what adds such numbers up.
        raise PydanticCustomError("hours", 'must be a number of GPU-hours such as "64.0"')
    return text


Hours = Annotated[str, AfterValidator(_amount)]
Percent = Integer
GpuPercents = Annotated[
    tuple[Annotated[Percent | None, Field(json_schema_extra={"format": "int32", "nullable": True})], ...],
    Field(max_length=GPUS_A_ROW),
]
"""The utilization of up to eight GPUs; None is unknown."""


class LocationStatus(ApiModel):
    """A place in the manifest."""

    field_path: str
    """The field, such as spec.script."""
    line: int | None = Field(default=None, json_schema_extra={"format": "int32"})
    """The line of the field's text, from 1."""


class FindingStatus(ApiModel):
    """A named root cause of low utilization, with its evidence and the change that removes it."""

    category: Category
    """Root cause, one of the catalogue's."""
    rule: str
    """The rule that reported it."""
    severity: Severity
    """Error: the job contradicts itself or must fail. Warning: it costs GPU time. Advice: a change may help."""
    confidence: Confidence
    """Certain, Likely or Possible."""
    location: LocationStatus | None = None
    """Position of the cause in the manifest."""
    detail: str
    """What is wrong, with the numbers."""
    evidence: str | None = None
    """Where and when it was seen."""
    fix: str | None = None
    """The change that removes the cause."""
    docs: str | None = None
    """The rule's page."""
    sources: tuple[Source, ...] = ()
    """What the evidence comes from: Manifest, Script, Program, Metrics, Logs."""
    gpu_hours_idle: Hours | None = None
    """GPU-hours that were idle over the cause's interval, such as "38.1": a fact, not what the fix promises."""
    since: Time | None = None
    """When it began."""
    until: Time | None = None
    """When it ceased to hold; absent while it holds."""
    absent_since: Time | None = None
    """Since when examinations have not shown it; it closes after some time."""
    alternatives: tuple[Category, ...] = ()
    """Other causes that the same evidence fits."""


class AdviceStatus(ApiModel):
    """A possible improvement although nothing is wrong; never counted, and without any consequence."""

    rule: str
    """What reported it."""
    detail: str
    """What was seen, with the numbers."""
    fix: str | None = None
    """What to try."""
    docs: str | None = None
    """Its page."""


class PolicyRevisionStatus(ApiModel):
    """A UtilizationPolicy and the generation of its spec."""

    name: str
    """Name of the policy; built-in without one."""
    generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of its spec."""


class ReclaimHistoryEntry(ApiModel):
    """An event in the job's reclaim history."""

    time: Time
    """When it happened."""
    event: ReclaimEvent
    """ReclaimWarning, ReclaimCancelled, Reclaimed, Resumed, Snoozed, SnoozeWithdrawn or PolicyChanged."""
    reason: str | None = None
    """The grounds, in one sentence."""
    policy: str | None = None
    """The policy that decided."""
    generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of that policy's spec."""


class NotificationStatus(ApiModel):
    """What became of a notification."""

    event: NotificationEvent
    """What it was about: Warned or Reclaimed."""
    event_time: Time
    """When that happened."""
    result: NotificationResult
    """Sent, Failed, Digest (it is part of the next digest) or Nobody (no address is configured for this job)."""
    time: Time
    """When that was known."""


class ReclaimStatus(ApiModel):
    """The reclaim state of the job, and why."""

    state: ReclaimState | None = None
    """Active, Idle, Warned, Reclaiming, Reclaimed, Snoozed, Exempt, or Unknown when the state of its GPUs can't be
    determined.
    """
    reason: str | None = None
    """Why it is in this state, in one sentence."""
    rule: str | None = None
    """The rule of the finding that makes it reclaimable."""
    handled_resume: str | None = None
    """The last value of the annotation stoker.dev/resume that was acted upon."""
    handled_snooze: str | None = None
    """The last value of the annotation stoker.dev/snooze-until that was taken into snoozedUntil."""
    idle_since: Time | None = None
    """When all its GPUs became idle."""
    warned_at: Time | None = None
    """When the warning was recorded."""
    deadline: Time | None = None
    """When it may be reclaimed at the earliest."""
    action: Literal["Observe", "Suspend", "Delete"] | None = None
    """What is done at the deadline, as the policy says: Observe only reports."""
    job_uid: Annotated[str | None, Field(alias="jobUID")] = None
    """The Job that the warning is about."""
    pod_uids: Annotated[tuple[str, ...], Field(alias="podUIDs", max_length=1024)] = ()
    """The pods that the warning is about; any other pod cancels it."""
    reclaimed_at: Time | None = None
    """When it was reclaimed last."""
    resumed_at: Time | None = None
    """When it was resumed last."""
    snoozed_until: Time | None = None
    """Until when its owner has snoozed it, within the policy's maxSnooze."""
    snoozes: Annotated[int | None, Field(json_schema_extra={"format": "int32"})] = None
    """How often its owner has snoozed it."""
    policies: Annotated[tuple[PolicyRevisionStatus, ...], Field(max_length=MAX_POLICIES)] = ()
    """The policies that the state was decided under, the base first; the last one applies."""
    notified: Annotated[tuple[NotificationStatus, ...], Field(max_length=MAX_NOTIFIED)] = ()
    """The last four notifications, the latest last."""
    history: Annotated[tuple[ReclaimHistoryEntry, ...], Field(max_length=MAX_HISTORY)] = ()
    """The last ten events, the latest last."""


class StageStatus(ApiModel):
    """A stage of the job's life."""

    stage: Stage
    """Initialization, Preprocessing, Active (where training and evaluation can't be told apart), Training, Evaluation
    or Tail.
    """
    start: Time
    """When it began."""
    end: Time | None = None
    """When it ended; absent while the job is in it."""
    average_percent: Percent | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Mean utilization of the stage, in percent; absent where it is not known."""


class NodeStatus(ApiModel):
    """The GPUs of one pod on its node."""

    pod: str
    """Name of the pod: job and rank."""
    node: str | None = None
    """The node that it runs on."""
    gpu_percents: Annotated[tuple[GpuPercents, ...], Field(max_length=MAX_GPU_ROWS)] = ()
    """Mean utilization of each GPU over its pod's life, in percent: rows of eight GPUs, null where it is not known."""


class PodRunStatus(ApiModel):
    """The interval in which one of the job's pods held its GPUs."""

    name: str
    """Name of the pod."""
    rank: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """Its rank: its index among the job's pods."""
    node: str | None = None
    """The node that it ran on."""
    gpus: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """GPUs that it has held."""
    since: Time
    """When its container started first."""
    until: Time | None = None
    """When it ended; absent while it runs."""


class UtilizationStatus(ApiModel):
    """How busy the job's GPUs are: the time-weighted mean over the job's whole life and all GPUs requested. Unknown is
    absent, never 0.
    """

    average_percent: Percent | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Mean utilization over the job's life and all its GPUs, in percent."""
    average_percent_range: Annotated[tuple[Percent, ...], Field(max_length=2)] | None = None
    """The interval that the mean lies in, lowest and highest, where samples are missing and it can't be known better.
    """
    recent_percent: Percent | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Mean utilization over the last ten minutes, in percent."""
    peak_memory_percent: Percent | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Highest share of a GPU's memory in use, in percent."""
    coverage_percent: Percent | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Share of the expected samples that there are, in percent."""
    gpu_hours: Hours | None = None
    """GPU-hours that the job has held, such as "64.0"."""
    gpu_hours_idle: Hours | None = None
    """The part of them that was idle, such as "44.2"."""
    as_of: Time | None = None
    """When this was computed."""
    stages: Annotated[tuple[StageStatus, ...], Field(max_length=MAX_STAGES)] = ()
    """The last 32 stages of the job's life, each with its time and mean utilization."""
    nodes: Annotated[tuple[NodeStatus, ...], Field(max_length=MAX_NODES)] = ()
    """Each pod with its node and its GPUs' utilization, the worst first, at most 32."""


class WorkloadStatus(ApiModel):
    """What Stoker says of a workload with GPUs, whoever created it. Written by the operator only."""

    phase: Phase | None = None
    """Pending, Queued, Starting, Running, Suspended, Reclaimed, Succeeded or Failed; the last two are final."""
    observed_generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of the spec that this status was computed from."""
    ready: str | None = None
    """Ready pods of all pods, such as 2/2, for kubectl's columns."""
    ready_pods: int | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Pods that are ready."""
    gpus: int | None = Field(default=None, json_schema_extra={"format": "int32"})
    """GPUs of the whole job."""
    restarts: int | None = Field(default=None, json_schema_extra={"format": "int32"})
    """Restarts of all pods together."""
    start_time: Time | None = None
    """When its first container started."""
    completion_time: Time | None = None
    """When it succeeded or failed."""
    conditions: Conditions = ()
    """PodsReady (or why not), Suspended, LowUtilization, Idle, ReclaimPending, NameConflict, CreatedWithWarnings
    (warnings of the API server about the Job), Complete, Failed.
    """
    findings_summary: str | None = None
    """Number of open findings and the most costly one, such as "2: ImproperBatchSize +1"."""
    findings: Annotated[tuple[FindingStatus, ...], Field(max_length=MAX_FINDINGS)] = ()
    """Causes of low utilization, the most idle GPU-hours first, at most 32; closed ones have an end."""
    advice: Annotated[tuple[AdviceStatus, ...], Field(max_length=MAX_ADVICE)] = ()
    """Possible improvements although nothing is wrong, at most 4."""
    reclaim: ReclaimStatus | None = None
    """The reclaim state of the job, and why."""
    looked_at: Time | None = None
    """When the controller last scanned the job, as of the last write. For a job with GPUs it is at most 15 minutes old
    while the controller runs; if it is older, this status may be out of date.
    """
    idle_since: Time | None = None
    """When all its GPUs became idle, while it holds them: the same as reclaim.idleSince."""
    last_session: Time | None = None
    """When somebody last opened a session in one of its pods: exec, attach or port-forward. Known only where the
    chart's sessionWebhook is on.
    """
    utilization: UtilizationStatus | None = None
    """Utilization of the job's GPUs."""
    pods: Annotated[tuple[PodRunStatus, ...], Field(max_length=MAX_PODS)] = ()
    """The runs of the job's pods, the oldest first, at most the last 1024: which node's GPUs each has held, from when
    to when. What an earlier run used belongs to the job's utilization, also when its pod is deleted.
    """

    _left_out: tuple[str, ...] = PrivateAttr(default=())

    @property
    def left_out(self) -> tuple[str, ...]:
        """Field paths of what was written in a way that this version can't read; they are not in the model."""
        return self._left_out
