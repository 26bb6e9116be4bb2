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
from stoker.api.schema import FIELD_OF_RULE, PRESERVE_UNKNOWN, ApiModel, Like, Validation, validations
from stoker.findings.vocabulary import Action, Framework, JobType, NotificationEvent, ReclaimMode

KIND = "UtilizationPolicy"
PLURAL = "utilizationpolicies"
BASE = "default"
"""Name of the policy that all others are laid over."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace carries its own name in."""

MAX_OVERLAPS = 64
MAX_RECENT_RECLAIMS = 1000
MAX_RECENT_IDLE = 1000

SELECTOR = ("spec", "namespaceSelector")

Int32 = Field(json_schema_extra={"format": "int32"})
Percent = Annotated[Integer, Field(ge=0, le=100), Int32]

ALL_RULES = "*"
"""Stands for every rule where a policy lists rules."""
RuleName = Annotated[str, Field(min_length=1, max_length=63)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


def _no_yaml_boolean(value: object) -> object:
    if value is False:
        raise PydanticCustomError("off", 'write "Off" in quotes: YAML reads a bare Off as false')
    return value


WrittenAction = Annotated[Action, BeforeValidator(_no_yaml_boolean)]


class RuleSetting(ApiModel):
    """What a policy says about one rule."""

    action: WrittenAction | None = None
    """What is done with the rule's findings at admission: Deny, Warn, Audit (recorded in status and metrics only) or
    "Off", in quotes, since YAML takes a bare Off for false. Deny set here takes effect for findings that are Certain or
    Likely, a rule's own Deny only for those that are Certain; what is only Possible is warned of. Default: the rule's
    own action.
    """
    parameters: Annotated[dict[str, Any], Field(json_schema_extra={PRESERVE_UNKNOWN: True})] | None = None
    """The rule's parameters, as its page lists them. Default: none."""


class Exemption(ApiModel):
    """Lets some jobs pass some rules."""

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
    """Why, for those who read the policy later."""

    @model_validator(mode="after")
    def _selects(self) -> "Exemption":
        if self.namespace_selector is None and self.job_selector is None:
            raise PydanticCustomError("selector", "an exemption needs a namespaceSelector, a jobSelector or both")
        return self


class TrustedJobTypes(ApiModel):
    """Where a job's own word about its type is taken."""

    namespace_selector: LabelSelector | None = None
    """Labels of the namespaces in which jobType Interactive or Serving is honoured; elsewhere it draws a warning and
    counts as Training. Default: {}, all namespaces.
    """


class Thresholds(ApiModel):
    """When utilization counts as low or idle, and how much must be known to say so."""

    low_percent: Percent | None = None
    """At most this mean utilization over the job's life is low, from 0 to 100. Default: 50."""
    idle_percent: Annotated[Integer, Field(ge=0, le=10), Int32] | None = None
    """A GPU whose utilization never exceeds this is idle, from 0 to 10. Default: 0."""
    min_coverage_percent: Annotated[Integer, Field(ge=50, le=100), Int32] | None = None
    """Share of the expected samples that there must be to call a job idle, from 50 to 100. Default: 90."""


class MassIdleBrake(ApiModel):
    """When so much turns idle at once that the metrics are more likely wrong than the jobs."""

    min_jobs: Annotated[Integer, Field(ge=2, le=10_000), Int32] | None = None
    """At least so many jobs, from 2 to 10000. Default: 5."""
    gpu_percent: Annotated[Integer, Field(ge=1, le=100), Int32] | None = None
    """With more than this share of the GPUs that were active before, from 1 to 100. Default: 50."""


Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
WEEKDAYS: tuple[Weekday, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
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
    """A daily time in which jobs may be reclaimed, as the clocks of its time zone show it: where these are changed, a
    time that is shown twice counts twice, and one that is left out does not come.
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
    """Other settings for jobs of a class: those that are all of what is given here."""

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
    """What the class is called in messages."""
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
    """Observe only reports; Suspend takes the pods of an idle job away and can be undone; Delete deletes its Job and
    keeps the DLJob as the record. Default: Observe.
    """
    idle_after: Annotated[str, Between("10m", "168h")] | None = None
    """How long all GPUs of a job must be idle, from 10m to 168h; a job may ask for another time within 10m to 24h.
    Default: 60m.
    """
    startup_grace: Annotated[str, Between("0s", "24h")] | None = None
    """How long after its last container started a job is left alone, from 0s to 24h. Default: 30m."""
    warning_grace: Annotated[str, Between("1m", "24h")] | None = None
    """How long after the recorded warning a job is reclaimed at the earliest, from 1m to 24h; the controller's own
    --minimum-warning-grace (5m) is the floor. Default: 15m."""
    window: Annotated[str, Between("10m", "24h")] | None = None
    """The time over which the bounds and the brake count, from 10m to 24h. Default: 1h."""
    max_jobs_per_window: Annotated[Integer, Field(ge=1, le=500), Int32] | None = None
    """The most jobs reclaimed within the window, from 1 to 500. Default: 5."""
    max_gpu_percent_per_window: Annotated[Integer, Field(ge=1, le=100), Int32] | None = Field(
        default=None, alias="maxGPUPercentPerWindow"
    )
    """The largest share of the cluster's GPUs reclaimed within the window, from 1 to 100; one job always may be.
    Default: 10.
    """
    mass_idle_brake: MassIdleBrake | None = None
    """When reclaim stops because so much turns idle at once within the window. It goes on when the GPUs work again, or
    when the annotation stoker.dev/release-brake of this policy gets a new value.
    """
    cooldown_after_resume: Annotated[str, Between("0s", "168h")] | None = None
    """How long after a resume a job is left alone, from 0s to 168h. Default: 1h."""
    max_snooze: Annotated[str, Between("0s", "720h")] | None = None
    """How far the annotation stoker.dev/snooze-until may put reclaim off, from 0s to 720h. Default: 24h."""
    on_pressure_only: Boolean | None = None
    """Whether a job is reclaimed only while a pending pod asks for the same GPUs and would then fit. Default: false."""
    min_termination_grace: Annotated[str, Between("0s", "1h")] | None = None
    """A job whose pods get less time than this between SIGTERM and SIGKILL is only observed: it could not save a
    checkpoint. From 0s to 1h. Default: 30s.
    """
    interactive_without_volume: Boolean | None = None
    """Whether an interactive job without a persistent volume is reclaimed, though what was made in it is then lost.
    Default: false, it is only observed.
    """
    training_without_volume: Boolean | None = None
    """Whether any other job is reclaimed whose trainer writes to no volume that outlives its pods, though results that
    are only in its containers are then lost. Set it where results go to an object store while the job trains. Default:
    false, it is only observed.
    """
    schedule: Annotated[tuple[ScheduleWindow, ...], Field(max_length=32)] | None = None
    """Windows outside which the job types they name are not reclaimed. Default: none, so that reclaim may happen at any
    time.
    """
    classes: Annotated[tuple[ReclaimClass, ...], Field(max_length=32)] | None = None
    """Other settings for some jobs; the first class that a job belongs to counts. Default: none."""


class DigestTime(ApiModel):
    """When the digest is sent."""

    days: Annotated[tuple[Weekday, ...], Field(max_length=7)] = ()
    """On which days: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Default: all."""
    at: TimeOfDay
    """At what time, such as 08:00."""
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
    """Who is told of reclaims, beside the events and conditions in the cluster, which are always written."""

    secret_key: SecretKey | None = None
    """The key of the operator's notification Secret (the chart's notification.secretName) that holds the channels'
    addresses, one a line, in Apprise's form (https://github.com/caronc/apprise/wiki); {owner}, {team} and {namespace}
    stand for the job's. A namespace's annotation stoker.dev/notification-channel names another key for its jobs.
    Default: nobody is told.
    """
    namespace_keys: Annotated[tuple[Pattern, ...], Field(max_length=64)] | None = None
    """Patterns of the keys, beside its own name and those that begin with its name and a dot, that a namespace's
    annotation may name: whoever may annotate a namespace sends to these. Default: none.
    """
    events: Annotated[tuple[NotificationEvent, ...], Field(max_length=3)] | None = None
    """What is told: Warned, Reclaimed, Digest. Default: all."""
    max_per_hour: Annotated[Integer, Field(ge=1, le=1000), Int32] | None = None
    """The most messages an hour under the policy, from 1 to 1000; what exceeds it is in the next digest. The first
    warnings of each namespace within the hour, a tenth of this number, are sent beyond it. Default: 30.
    """
    digest: DigestTime | None = None
    """When the digest is sent. Default: 08:00 UTC every day on which there is something to tell."""
    templates: NotificationTemplates | None = None
    """Other words than the default ones."""


class Analysis(ApiModel):
    """How much time a review may take, and what may be read beside the metrics."""

    review_budget: Annotated[str, Between("1s", "2s")] | None = None
    """How much processor time a review may take for one job, reading its scripts included, from 1s to 2s. Default: 1s.
    """
    on_not_analysed: WrittenAction | None = None
    """What is done with a job that could not be analysed, or not to its end: Deny, Warn, Audit or "Off". A fault of
    Stoker's own never denies. Default: Warn.
    """
    on_over_budget: WrittenAction | None = None
    """The same of a job that exceeds what a review may take, as a script does that is padded with loops: the
    reviewBudget, the memory, the number of steps, the length of all scripts together. With Deny here and Warn in
    onNotAnalysed nobody gets round the rules by padding, and nobody is refused because Stoker was busy. Default: as
    onNotAnalysed.
    """
    read_logs: Boolean | None = None
    """Whether the controller may read the logs of the jobs' trainers, for lines that tell what a program does: that it
    installs, downloads, trains, evaluates, saves, uploads, or waits for a collective that timed out. It needs the
    chart's controller.readLogs as well. Default: false.
    """


class ImageFamily(ApiModel):
    """What is known of some container images."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """What the images are called in messages."""
    kind: ImageKind
    """What they hold: framework (a GPU build of a deep-learning framework), cuda (no framework), cpu-only (a CPU build
    of a framework), generic (anything may be installed on top), non-dl, serving, or unknown (nothing is said of them).
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
    """The command that the images give a container's arguments to. Default: it is not known."""


class UtilizationPolicySpec(ApiModel):
    """What the policy says; what it leaves out the policy "default" says, and then the built-in defaults."""

    priority: Annotated[Integer, Field(ge=-1_000_000, le=1_000_000), Int32] | None = None
    """Among the policies that select a namespace the one with the highest priority counts, alone; of equals the one
    whose name comes first. Default: 0.
    """
    namespace_selector: LabelSelector | None = None
    """Labels of the namespaces that the policy is for; {} stands for all. Absent in the policy "default", required in
    all others.
    """
    rules: Annotated[dict[str, RuleSetting], Field(max_length=128)] | None = None
    """What is done about each rule, by the rule's name. Default: each rule's own action."""
    exemptions: Annotated[tuple[Exemption, ...], Field(max_length=64)] | None = None
    """Jobs that some rules let pass. Default: none."""
    suppressible: Annotated[tuple[RuleName, ...], Field(max_length=128)] | None = None
    """Names of the rules that a job's author may suppress by a comment in the script or an annotation; "*" stands for
    all, those that deny too, and [] for none. Default: everything that is not denied.
    """
    trusted_job_types: TrustedJobTypes | None = None
    """Where a job's own word about its type is taken. Default: everywhere."""
    images: Annotated[tuple[ImageFamily, ...], Field(max_length=128)] | None = None
    """Families of container images, tried in this order before the built-in ones. Default: none."""
    thresholds: Thresholds | None = None
    """When utilization counts as low or idle, and how much must be known to say so."""
    reclaim: Reclaim | None = None
    """Whether, when and how much idle jobs are reclaimed."""
    notification: Notification | None = None
    """Who is told of reclaims."""
    analysis: Analysis | None = None
    """How much time a review may take, and what may be read beside the metrics."""


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
    """What its GPUs are called, such as nvidia.com/gpu."""


class RecentIdle(ApiModel):
    """One job whose GPUs turned idle."""

    job_uid: str = Field(alias="jobUID")
    """uid of the DLJob."""
    job: str
    """Namespace and name of the DLJob."""
    time: Time
    """When it was first seen to rest."""
    gpus: Annotated[Integer, Int32]
    """GPUs that it holds."""
    released: bool | None = None
    """Whether the brake was released since: it counts as idle then, and no longer as a sign of an outage."""


class BrakeStatus(ApiModel):
    """Why reclaiming is stopped under the policy."""

    since: Time
    """When it was stopped."""
    message: str
    """How many jobs and GPUs turned idle at once, of how many."""


class UtilizationPolicyStatus(ApiModel):
    """What the operator has found out about the policy and done under it. Written by the operator only."""

    observed_generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Ready: whether the policy is in force anywhere, and if not, why; NeedsAttention: what in it does not do what it
    looks like; ReclaimStopped: whether the brake is on, and why.
    """
    reclaim_mode: ReclaimMode | None = None
    """What is done with idle jobs under the policy: its own mode, that of the policy "default", or the built-in one. A
    class may have another.
    """
    overlaps: Annotated[tuple[str, ...], Field(max_length=MAX_OVERLAPS)] = ()
    """Namespaces that other policies select as well, and which policy counts there."""
    recent_reclaims: Annotated[tuple[RecentReclaim, ...], Field(max_length=MAX_RECENT_RECLAIMS)] = ()
    """What was reclaimed within the window; the bounds are counted from here, so that no restart resets them."""
    recent_idle: Annotated[tuple[RecentIdle, ...], Field(max_length=MAX_RECENT_IDLE)] = ()
    """What was seen to turn idle, until it works again or is gone; the brake counts what turned idle within the window,
    and while it is on what made it stop.
    """
    brake: BrakeStatus | None = None
    """Why nothing is reclaimed under the policy; absent while reclaim may go on."""
    metrics_doubted_until: Time | None = None
    """When the brake let go last because the GPUs worked again: what metrics showed before proves no rest."""
    handled_release: str | None = None
    """The last value of the annotation stoker.dev/release-brake that was acted upon."""
    last_digest: Time | None = None
    """When the last digest was sent."""


class UtilizationPolicy(ApiModel):
    """What is denied, warned of and reclaimed, for whom. The policy "default" is the base; others select namespaces."""

    api_version: Literal["stoker.dev/v1alpha1"] = "stoker.dev/v1alpha1"
    kind: Literal["UtilizationPolicy"] = "UtilizationPolicy"
    metadata: ObjectMeta
    spec: UtilizationPolicySpec = Field(default_factory=UtilizationPolicySpec)
    """What the policy says; what it leaves out the policy "default" says, and then the built-in defaults."""
    status: UtilizationPolicyStatus | None = None
    """What the operator has found out about the policy and done under it."""

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
