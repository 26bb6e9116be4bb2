"""UtilizationPolicy as users write it: what is denied, warned of and reclaimed, for whom.

How the policies of a cluster add up is in stoker.policy.resolution, what holds then in stoker.policy.effective.
"""

from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from stoker.api.duration_range import Between
from stoker.api.image import ImageKind
from stoker.api.meta import Boolean, Conditions, Integer, LabelSelector, ObjectMeta, Time
from stoker.api.names import POLICY_KIND
from stoker.api.schema import FIELD_OF_RULE, ApiModel, Like, Validation, validations
from stoker.api.structural import PRESERVE_UNKNOWN
from stoker.api.weekday import Weekday
from stoker.findings.vocabulary import Action, Framework, JobType, NotificationEvent, ReclaimMode

KIND = POLICY_KIND
PLURAL = "utilizationpolicies"
BASE = "default"
"""Name of the policy that all others are laid over."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace carries its own name in."""

MAX_OVERLAPS = 64
"""Other policies that a status names as overlapping."""
MAX_RECENT_RECLAIMS = 1000
"""Reclaims that a status remembers to count them against the bounds."""
MAX_RECENT_IDLE = 1000
"""Jobs turned idle that a status remembers for the brake."""

SELECTOR = ("spec", "namespaceSelector")

Int32 = Field(json_schema_extra={"format": "int32"})
Percent = Annotated[Integer, Field(ge=0, le=100), Int32]

RuleName = Annotated[str, Field(min_length=1, max_length=63)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


def _no_yaml_boolean(value: object) -> object:
    if value is False:
        raise PydanticCustomError("off", 'write "Off" in quotes: YAML reads a bare Off as false')
    return value


WrittenAction = Annotated[Action, BeforeValidator(_no_yaml_boolean)]


class RuleSetting(ApiModel):
    """Settings of one rule."""

    action: WrittenAction | None = None
    """What is done with the rule's findings at admission: Deny, Warn, Audit (recorded in status and metrics only) or
    "Off", in quotes, because YAML reads a bare Off as false. Deny set here takes effect for findings that are Certain
    or Likely, a rule's own Deny only for those that are Certain; what is only Possible is warned about. Default: the
    rule's own action.
    """
    parameters: Annotated[dict[str, Any], Field(json_schema_extra={PRESERVE_UNKNOWN: True})] | None = None
    """The rule's parameters, as its page lists them. Default: none."""


class Exemption(ApiModel):
    """Exempts some jobs from some rules."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            Validation(
                rule="has(self.namespaceSelector) || has(self.jobSelector)",
                message="an exemption needs a namespaceSelector, a jobSelector or both",
            )
        )
    )

    namespace_selector: LabelSelector | None = None
    """Labels of the namespaces whose jobs are exempt. Default: all namespaces, where a jobSelector is given."""
    job_selector: LabelSelector | None = None
    """Labels of the DLJobs that are exempt. Default: all jobs, where a namespaceSelector is given."""
    rules: Annotated[tuple[RuleName, ...], Field(max_length=128)] = ()
    """Names of the rules that they are exempt from; "*" stands for all, and for reclaim as well. Default: ["*"]."""
    until: Time | None = None
    """When the exemption ends. Default: never."""
    reason: Annotated[str, Field(min_length=1, max_length=256)]
    """The reason, for later readers of the policy."""

    @model_validator(mode="after")
    def _selects(self) -> "Exemption":
        if self.namespace_selector is None and self.job_selector is None:
            raise PydanticCustomError("selector", "an exemption needs a namespaceSelector, a jobSelector or both")
        return self


class TrustedJobTypes(ApiModel):
    """Where a job's own word about its type is taken."""

    namespace_selector: LabelSelector | None = None
    """Labels of the namespaces in which jobType Interactive or Serving is honoured; elsewhere it causes a warning and
    is treated as Training. Default: {}, all namespaces.
    """


class Thresholds(ApiModel):
    """When utilization counts as low or idle, and which coverage by samples that requires."""

    low_percent: Percent | None = None
    """A mean utilization over the job's life of at most this percentage is low, from 0 to 100. Default: 50."""
    idle_percent: Annotated[Integer, Field(ge=0, le=10), Int32] | None = None
    """A GPU whose utilization never exceeds this percentage is idle, from 0 to 10. Default: 0."""
    min_coverage_percent: Annotated[Integer, Field(ge=50, le=100), Int32] | None = None
    """Minimum share of the expected samples, in percent, for a job to count as idle, from 50 to 100. Default: 90."""


class MassIdleBrake(ApiModel):
    """When so much turns idle at once that the metrics are more likely wrong than the jobs."""

    min_jobs: Annotated[Integer, Field(ge=2, le=10_000), Int32] | None = None
    """Minimum number of jobs, from 2 to 10000. Default: 5."""
    gpu_percent: Annotated[Integer, Field(ge=1, le=100), Int32] | None = None
    """Minimum share of the GPUs that were active before, in percent, exclusive, from 1 to 100. Default: 50."""


TimeOfDay = Annotated[
    str,
    Like("^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time of day such as 08:30, from 00:00 to 23:59"),
    Field(max_length=5),
]


def _existing_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PydanticCustomError(
            "time_zone", "{name} is not a time zone: write UTC or a name such as Europe/Berlin", {"name": repr(name)}
        ) from None
    return name


TimeZone = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_existing_zone)]


class ScheduleWindow(ApiModel):
    """A daily window in which jobs may be reclaimed, in local time of its time zone. When clocks change, a time that
    occurs twice opens the window twice, and a skipped time does not occur.
    """

    job_types: Annotated[tuple[JobType, ...], Field(max_length=4)] = ()
    """The job types that the window is for; they are reclaimed only inside their windows. Default: all."""
    days: Annotated[tuple[Weekday, ...], Field(max_length=7)] = ()
    """The days on which the window begins: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Default: all."""
    start: TimeOfDay
    """When the window begins, such as 18:00."""
    end: TimeOfDay
    """When it ends, such as 08:00; at or before start, it ends on the next day."""
    time_zone: TimeZone | None = None
    """Time zone of start and end, such as Europe/Berlin. Default: UTC."""


class ReclaimClass(ApiModel):
    """Other settings for the jobs of a class: those that match everything given here."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            Validation(
                rule="has(self.jobTypes) || has(self.priorityClasses)"
                " || has(self.jobSelector) || has(self.gpuProducts)",
                message="a class needs jobTypes, priorityClasses, a jobSelector or gpuProducts",
            )
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the class in messages."""
    job_types: Annotated[tuple[JobType, ...], Field(max_length=4)] = ()
    """The job types in it. Default: all."""
    priority_classes: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    """Names of priority classes, as in spec.podTemplate.spec.priorityClassName. Default: all, and none."""
    job_selector: LabelSelector | None = None
    """Labels of the DLJobs in it. Default: all."""
    gpu_products: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    """The GPU models in it, such as NVIDIA-H100-80GB-HBM3: the value of the node label by which the pods choose their
    nodes, be it by spec.gpuProduct, podTemplate or a queue's choice (nvidia.com/gpu.product, amd.com/gpu.product-name).
    Default: all, and none.
    """
    mode: ReclaimMode | None = None
    """Instead of the policy's mode. Default: as there."""
    idle_after: Annotated[str, Between("10m", "168h")] | None = None
    """Instead of the policy's idleAfter. Default: as there."""
    startup_grace: Annotated[str, Between("0s", "24h")] | None = None
    """Instead of the policy's startupGrace. Default: as there."""
    warning_grace: Annotated[str, Between("1m", "24h")] | None = None
    """Instead of the policy's warningGrace. Default: as there."""
    on_pressure_only: Boolean | None = None
    """Instead of the policy's onPressureOnly. Default: as there."""

    @model_validator(mode="after")
    def _selects(self) -> "ReclaimClass":
        if not (self.job_types or self.priority_classes or self.job_selector is not None or self.gpu_products):
            raise PydanticCustomError("class", "a class needs jobTypes, priorityClasses, a jobSelector or gpuProducts")
        return self


class Reclaim(ApiModel):
    """Whether, when and how much idle jobs are reclaimed."""

    mode: ReclaimMode | None = None
    """Observe only reports. Suspend suspends an idle job and can be undone. Delete deletes its Job and keeps the DLJob
    as the record. Default: Observe.
    """
    idle_after: Annotated[str, Between("10m", "168h")] | None = None
    """How long all GPUs of a job must be idle, from 10m to 168h; a job may set its own time from 10m to 24h. Default:
    60m.
    """
    startup_grace: Annotated[str, Between("0s", "24h")] | None = None
    """How long after the start of its last container a job cannot count as idle, from 0s to 24h. Default: 30m."""
    warning_grace: Annotated[str, Between("1m", "24h")] | None = None
    """Time between the recorded warning and the reclaim, from 1m to 24h, at least the controller's
    --minimum-warning-grace (5m). Default: 15m.
    """
    window: Annotated[str, Between("10m", "24h")] | None = None
    """The period over which the limits and the brake count, from 10m to 24h. Default: 1h."""
    max_jobs_per_window: Annotated[Integer, Field(ge=1, le=500), Int32] | None = None
    """The most jobs reclaimed within the window, from 1 to 500. Default: 5."""
    max_gpu_percent_per_window: Annotated[Integer, Field(ge=1, le=100), Int32] | None = Field(
        default=None, alias="maxGPUPercentPerWindow"
    )
    """The largest share of the cluster's GPUs reclaimed within the window, in percent, from 1 to 100; one job may
    always be reclaimed. Default: 10.
    """
    mass_idle_brake: MassIdleBrake | None = None
    """When the mass-idle brake stops reclaims: so many jobs and GPUs turn idle within the window. Reclaims resume when
    the GPUs work again, or when the annotation stoker.dev/release-brake of this policy gets a new value.
    """
    cooldown_after_resume: Annotated[str, Between("0s", "168h")] | None = None
    """How long after a resume a job is not warned, from 0s to 168h. Default: 1h."""
    max_snooze: Annotated[str, Between("0s", "720h")] | None = None
    """How long a job may be snoozed at a time by the annotation stoker.dev/snooze-until, from 0s to 720h. Default: 24h.
    """
    on_pressure_only: Boolean | None = None
    """Whether a job is reclaimed only while a pending pod requests the same GPUs and would fit on the freed ones.
    Default: false.
    """
    min_termination_grace: Annotated[str, Between("0s", "1h")] | None = None
    """Minimum termination grace period of a job's pods: a job with less is only observed, because it could not save a
    checkpoint. From 0s to 1h. Default: 30s.
    """
    interactive_without_volume: Boolean | None = None
    """Whether interactive jobs without a persistent volume are reclaimed; their unsaved work is then lost. Default:
    false, they are only observed.
    """
    training_without_volume: Boolean | None = None
    """Whether other jobs are reclaimed if their trainer writes to no volume that outlives its pods; results that are
    only in its containers are then lost. Set it where results go to an object store while the job trains. Default:
    false, they are only observed.
    """
    schedule: Annotated[tuple[ScheduleWindow, ...], Field(max_length=32)] | None = None
    """Windows outside which the job types they name are not reclaimed. Default: none, so that reclaim may happen at any
    time.
    """
    classes: Annotated[tuple[ReclaimClass, ...], Field(max_length=32)] | None = None
    """Other settings for some jobs; the first class that a job belongs to applies. Default: none."""


class DigestTime(ApiModel):
    """When the digest is sent."""

    days: Annotated[tuple[Weekday, ...], Field(max_length=7)] = ()
    """Days: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Default: all."""
    at: TimeOfDay
    """Time of day, such as 08:00."""
    time_zone: TimeZone | None = None
    """Time zone of `at`, such as Europe/Berlin. Default: UTC."""


class NotificationTemplates(ApiModel):
    """What messages say, with {job}, {namespace}, {owner}, {team}, {gpus}, {idleSince}, {deadline}, {cause}, {policy}
    and {command} for what they are about.
    """

    warned: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Of a job that is going to be reclaimed. Default: when, why, and how to prevent it."""
    reclaimed: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Of a job that was reclaimed. Default: why, and how to bring it back."""


SecretKey = Annotated[
    str,
    Like("^[-._a-zA-Z0-9]{1,253}$", "must be the key of a Secret: letters, digits, -, _ and ."),
    Field(max_length=253),
]
Pattern = Annotated[str, Field(min_length=1, max_length=256)]
"""A pattern as the shell's: `*`, `?`, `[a-z]`."""


class Notification(ApiModel):
    """Notifications about reclaims, in addition to events and conditions, which are always written."""

    secret_key: SecretKey | None = None
    """The key of the operator's notification Secret (the chart's notification.secretName) that holds the channels'
    addresses, one a line, in Apprise's form (https://github.com/caronc/apprise/wiki); {owner}, {team} and {namespace}
    stand for the job's. A namespace's annotation stoker.dev/notification-channel names another key for its jobs.
    Default: no notifications.
    """
    namespace_keys: Annotated[tuple[Pattern, ...], Field(max_length=64)] | None = None
    """Patterns of the keys, beside its own name and those that begin with its name and a dot, that a namespace's
    annotation may name: whoever may annotate a namespace sends to these. Default: none.
    """
    events: Annotated[tuple[NotificationEvent, ...], Field(max_length=3)] | None = None
    """Events that are notified: Warned, Reclaimed, Digest. Default: all."""
    max_per_hour: Annotated[Integer, Field(ge=1, le=1000), Int32] | None = None
    """The most messages an hour under the policy, from 1 to 1000; what exceeds it is in the next digest. The first
    warnings of each namespace within the hour, a tenth of this number, are sent beyond it. Default: 30.
    """
    digest: DigestTime | None = None
    """When the digest is sent. Default: 08:00 UTC on each day with something to report."""
    templates: NotificationTemplates | None = None
    """Templates in place of the default texts."""


class Analysis(ApiModel):
    """Limits of a review, and what may be read in addition to metrics."""

    review_budget: Annotated[str, Between("1s", "2s")] | None = None
    """How much processor time a review may take for one job, reading its scripts included, from 1s to 2s. Default: 1s.
    """
    on_not_analysed: WrittenAction | None = None
    """Action for a job that could not be analysed completely: Deny, Warn, Audit or "Off". An internal error in Stoker
    never denies. Default: Warn.
    """
    on_over_budget: WrittenAction | None = None
    """Action for a job that exceeds the limits of a review: reviewBudget, memory, number of steps, or length of all
    scripts together, for example with a script that is padded with loops. With Deny here and Warn in onNotAnalysed,
    padding cannot bypass the rules, and no job is refused because Stoker was busy. Default: as onNotAnalysed.
    """
    read_logs: Boolean | None = None
    """Whether the controller may read the logs of the jobs' trainers, for lines that show what a program does: install,
    download, train, evaluate, save, upload, or wait for a collective that timed out. It also needs the chart's
    controller.readLogs. Default: false.
    """


class Workloads(ApiModel):
    """Workloads that Stoker did not create and is to watch, besides DLJobs."""

    kinds: Annotated[tuple[Pattern, ...], Field(max_length=64)] | None = None
    """Patterns of the kinds, such as Job, JobSet or "*" for all; the kind is that of the topmost owner of the pods, Pod
    for a pod without an owner. Each gets a GPUWorkload in its namespace. It also needs the chart's
    workloads.kinds. Default: none.
    """


class ImageFamily(ApiModel):
    """Facts about some container images."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the images in messages."""
    kind: ImageKind
    """What they hold: framework (a GPU build of a deep-learning framework), cuda (no framework), cpu-only (a CPU build
    of a framework), generic (anything may be installed on top), non-dl, serving, or unknown (rules about images ignore
    them).
    """
    repositories: Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=64)]
    """Patterns of registry/repository, such as registry.example.com/ml/*; without a registry, Docker Hub's."""
    tags: Annotated[tuple[Pattern, ...], Field(max_length=64)] = ()
    """Patterns of which the tag must match one. Default: any tag."""
    without_tags: Annotated[tuple[Pattern, ...], Field(max_length=64)] = ()
    """Patterns of which the tag must match none. Default: none."""
    framework: Framework | None = None
    """The framework that they hold: PyTorch, TensorFlow, JAX or Other. Default: none is known."""
    gpu_variant: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """What to use instead of a cpu-only image; {tag} stands for its tag. Default: nothing is recommended."""
    entrypoint: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=32)] = ()
    """The images' entry point. Default: unknown."""


class UtilizationPolicySpec(ApiModel):
    """The settings of the policy; absent ones are taken from the policy "default", then from the built-in defaults."""

    priority: Annotated[Integer, Field(ge=-1_000_000, le=1_000_000), Int32] | None = None
    """Of the policies that select a namespace only the one with the highest priority applies; with equal priorities,
    the one whose name is first in the alphabet. Default: 0.
    """
    namespace_selector: LabelSelector | None = None
    """Labels of the namespaces that the policy is for; {} stands for all. Absent in the policy "default", required in
    all others.
    """
    rules: Annotated[dict[str, RuleSetting], Field(max_length=128)] | None = None
    """Action and parameters of rules, by the rule's name. Default: each rule's own action."""
    exemptions: Annotated[tuple[Exemption, ...], Field(max_length=64)] | None = None
    """Jobs that are exempt from some rules. Default: none."""
    suppressible: Annotated[tuple[RuleName, ...], Field(max_length=128)] | None = None
    """Names of the rules that a job's author may suppress by a comment in the script or an annotation; "*" stands for
    all, those that deny too, and [] for none. Default: everything that is not denied.
    """
    trusted_job_types: TrustedJobTypes | None = None
    """Namespaces in which a declared job type is trusted. Default: everywhere."""
    images: Annotated[tuple[ImageFamily, ...], Field(max_length=128)] | None = None
    """Families of container images, tried in this order before the built-in ones. Default: none."""
    thresholds: Thresholds | None = None
    """When utilization counts as low or idle, and which coverage by samples that requires."""
    reclaim: Reclaim | None = None
    """Whether, when and how much idle jobs are reclaimed."""
    notification: Notification | None = None
    """Notifications about reclaims."""
    analysis: Analysis | None = None
    """Limits of a review, and what may be read in addition to metrics."""
    workloads: Workloads | None = None
    """Workloads that are watched besides DLJobs."""


class RecentReclaim(ApiModel):
    """One job that was reclaimed."""

    job_uid: str = Field(alias="jobUID")
    """uid of the DLJob."""
    job: str | None = None
    """Namespace and name of the DLJob."""
    time: Time
    """When the action was decided."""
    gpus: Annotated[Integer, Int32]
    """GPUs that it held."""
    resource: str | None = None
    """The resource name of its GPUs, such as nvidia.com/gpu."""


class RecentIdle(ApiModel):
    """One job whose GPUs turned idle."""

    job_uid: str = Field(alias="jobUID")
    """uid of the DLJob."""
    job: str
    """Namespace and name of the DLJob."""
    time: Time
    """When it was first seen idle."""
    gpus: Annotated[Integer, Int32]
    """GPUs that it holds."""
    released: bool | None = None
    """Whether the brake was released since then: the job then counts as idle and not as a sign of an outage."""


class BrakeStatus(ApiModel):
    """Why reclaiming is stopped under the policy."""

    since: Time
    """When it was stopped."""
    message: str
    """How many jobs and GPUs turned idle at once, of how many."""


class UtilizationPolicyStatus(ApiModel):
    """The observed state, written by the operator. Written by the operator only."""

    observed_generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Ready: whether the policy is in force anywhere, and if not, why. NeedsAttention: settings without the effect that
    they seem to have. ReclaimStopped: whether the brake is on, and why.
    """
    reclaim_mode: ReclaimMode | None = None
    """What is done with idle jobs under the policy: its own mode, that of the policy "default", or the built-in one. A
    class may have another.
    """
    overlaps: Annotated[tuple[str, ...], Field(max_length=MAX_OVERLAPS)] = ()
    """Namespaces that other policies also select, and which policy applies there."""
    recent_reclaims: Annotated[tuple[RecentReclaim, ...], Field(max_length=MAX_RECENT_RECLAIMS)] = ()
    """Reclaims within the window; the limits are counted from here, so that no restart resets them."""
    recent_idle: Annotated[tuple[RecentIdle, ...], Field(max_length=MAX_RECENT_IDLE)] = ()
    """Jobs that turned idle, until they work again or are gone. The brake counts those that turned idle within the
    window and, while it is on, those that triggered it.
    """
    brake: BrakeStatus | None = None
    """The state of the mass-idle brake; absent while it is off."""
    metrics_doubted_until: Time | None = None
    """When the brake was last released because the GPUs worked again: earlier metrics do not prove idleness."""
    handled_release: str | None = None
    """The last value of the annotation stoker.dev/release-brake that was acted upon."""
    last_digest: Time | None = None
    """When the last digest was sent."""


class UtilizationPolicy(ApiModel):
    """What is denied, warned about and reclaimed, and for which namespaces. The policy "default" is the base; others
    select namespaces.
    """

    api_version: Literal["stoker.dev/v1alpha1"] = "stoker.dev/v1alpha1"
    kind: Literal["UtilizationPolicy"] = "UtilizationPolicy"
    metadata: ObjectMeta
    spec: UtilizationPolicySpec = Field(default_factory=UtilizationPolicySpec)
    """The settings of the policy; absent ones are taken from the policy "default", then from the built-in defaults."""
    status: UtilizationPolicyStatus | None = None
    """The observed state, written by the operator."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @model_validator(mode="after")
    def _base_or_override(self) -> "UtilizationPolicy":
        if self.name == BASE and self.spec.namespace_selector is not None:
            raise PydanticCustomError(
                "base", "remove it: the policy default applies to all namespaces", {FIELD_OF_RULE: SELECTOR}
            )
        if self.name not in {BASE, ""} and self.spec.namespace_selector is None:
            raise PydanticCustomError(
                "override",
                "required in every policy but default; {all} selects all namespaces",
                {"all": "{}", FIELD_OF_RULE: SELECTOR},
            )
        return self


__all__ = ["BASE", "UtilizationPolicy"]
