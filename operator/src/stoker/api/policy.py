"""UtilizationPolicy: what is denied, warned of and reclaimed, for whom; and how the policies of a cluster add up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import reduce
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from stoker.api.duration import format_duration, parse_duration
from stoker.api.duration_range import Between
from stoker.api.image import ImageKind, ImagePattern
from stoker.api.meta import EVERYTHING, Boolean, Conditions, Integer, LabelSelector, ObjectMeta, Time, matches
from stoker.api.schema import PRESERVE_UNKNOWN, ApiModel, Like, Validation, validations
from stoker.findings.vocabulary import Action, Framework, JobType, NotificationEvent, ReclaimMode
from stoker.shell.model import Shortfall

KIND = "UtilizationPolicy"
PLURAL = "utilizationpolicies"
BASE = "default"
"""Name of the policy that all others are laid over."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace carries its own name in."""

MAX_OVERLAPS = 64
MAX_RECENT_RECLAIMS = 1000
MAX_RECENT_IDLE = 1000

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

    def covers(self, rule: str, job_labels: Mapping[str, str], now: datetime) -> bool:
        """Whether a job with these labels, in a namespace that the exemption selects, is exempt from a rule at `now`.

        The rule "*" asks for an exemption from everything, reclaim included.
        """
        names = self.rules or (ALL_RULES,)
        return (
            (self.until is None or now < self.until)
            and (ALL_RULES in names or rule in names)
            and (self.job_selector is None or matches(self.job_selector, job_labels))
        )


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

    def applies_to(self, job_type: JobType) -> bool:
        """Whether the window is for jobs of this type."""
        return not self.job_types or job_type in self.job_types

    def contains(self, now: datetime) -> bool:
        """Whether `now`, an aware time, lies in the window; the end is exclusive."""
        local = now.astimezone(ZoneInfo(self.time_zone or "UTC"))
        start, end, at = time.fromisoformat(self.start), time.fromisoformat(self.end), local.time()
        today, yesterday = self._begins_on(local), self._begins_on(local - timedelta(days=1))
        if start < end:
            return today and start <= at < end
        return (today and at >= start) or (yesterday and at < end)

    def next_opening(self, now: datetime) -> datetime | None:
        """The first moment after `now` from which on the window contains the time; None if there is none for weeks.

        A window opens at its start, which a day may have twice or not at all, or where the clocks are changed.
        """
        zone = ZoneInfo(self.time_zone or "UTC")
        start, today = time.fromisoformat(self.start), now.astimezone(zone).date()
        days = [today + timedelta(days=ahead) for ahead in range(-1, OPENING_SOUGHT.days)]
        starts = [datetime.combine(day, start, zone).replace(fold=fold) for day in days for fold in (0, 1)]
        moments = sorted(one.astimezone(UTC) for one in (*starts, *_switches(zone, now, now + OPENING_SOUGHT)))
        return next((one for one in moments if one > now and self._opens(one)), None)

    def _opens(self, moment: datetime) -> bool:
        return self.contains(moment) and not self.contains(moment - timedelta(minutes=1))

    def _begins_on(self, local: datetime) -> bool:
        return not self.days or WEEKDAYS[local.weekday()] in self.days


OPENING_SOUGHT = timedelta(days=16)
"""A week holds every day; the one day that a window has may lack its time, so that the next week's counts."""


def _switches(zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[datetime]:
    """The minutes between two times in which the zone's clocks are changed, at most one change a day."""
    day = timedelta(days=1)
    while since < until:
        before, after = since.astimezone(UTC).replace(second=0, microsecond=0), since.astimezone(UTC) + day
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            first, last = 0, 24 * 60 + 1
            while last - first > 1:
                middle = (first + last) // 2
                moment = before + timedelta(minutes=middle)
                same = moment.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset()
                first, last = (middle, last) if same else (first, middle)
            yield before + timedelta(minutes=last)
        since += day


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

    def has(self, job: "JobTraits") -> bool:
        """Whether a job belongs to the class."""
        return (
            (not self.job_types or job.job_type in self.job_types)
            and (not self.priority_classes or job.priority_class in self.priority_classes)
            and (self.job_selector is None or matches(self.job_selector, job.labels))
            and (not self.gpu_products or job.gpu_product in self.gpu_products)
        )

    def includes(self, other: "ReclaimClass") -> bool:
        """Whether every job of another class certainly belongs to this one, too."""
        lists = (
            (self.job_types, other.job_types),
            (self.priority_classes, other.priority_classes),
            (self.gpu_products, other.gpu_products),
        )
        return self.job_selector in (None, EVERYTHING, other.job_selector) and all(
            not mine or (theirs and set(theirs) <= set(mine)) for mine, theirs in lists
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """What of a job decides about its class."""

    job_type: JobType
    priority_class: str | None = None
    gpu_product: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


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

    @property
    def pattern(self) -> ImagePattern:
        """The family as images are compared with it."""
        return ImagePattern(
            name=self.name,
            kind=self.kind,
            repositories=self.repositories,
            tags=self.tags,
            without_tags=self.without_tags,
            framework=self.framework,
            gpu_variant=self.gpu_variant,
            entrypoint=self.entrypoint,
        )


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
                "base", "spec.namespaceSelector: remove it: the policy default applies to all namespaces"
            )
        if self.name not in {BASE, ""} and self.spec.namespace_selector is None:
            raise PydanticCustomError(
                "override", "spec.namespaceSelector: required in every policy but default; {} selects all namespaces"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveThresholds:
    """When utilization counts as low or idle; percents 0..100."""

    low_percent: int = 50
    idle_percent: int = 0
    min_coverage_percent: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveBrake:
    """When reclaim stops: `min_jobs` or more, with over `gpu_percent` percent of the active GPUs, turned idle."""

    min_jobs: int = 5
    gpu_percent: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveReclaim:
    """Whether, when and how much idle jobs are reclaimed."""

    mode: ReclaimMode = ReclaimMode.OBSERVE
    idle_after: timedelta = timedelta(minutes=60)
    startup_grace: timedelta = timedelta(minutes=30)
    warning_grace: timedelta = timedelta(minutes=15)
    window: timedelta = timedelta(hours=1)
    max_jobs_per_window: int = 5
    max_gpu_percent_per_window: int = 10
    mass_idle_brake: EffectiveBrake = field(default_factory=EffectiveBrake)
    cooldown_after_resume: timedelta = timedelta(hours=1)
    max_snooze: timedelta = timedelta(hours=24)
    on_pressure_only: bool = False
    min_termination_grace: timedelta = timedelta(seconds=30)
    interactive_without_volume: bool = False
    training_without_volume: bool = False
    schedule: tuple[ScheduleWindow, ...] = ()
    classes: tuple[ReclaimClass, ...] = ()

    def class_of(self, job: JobTraits) -> ReclaimClass | None:
        """The first class that a job belongs to."""
        return next((one for one in self.classes if one.has(job)), None)

    def of(self, job: JobTraits) -> "EffectiveReclaim":
        """What holds for a job: its class's settings over the policy's."""
        found = self.class_of(job)
        if found is None:
            return self
        fields = {name: getattr(found, name) for name in CLASS_SETTINGS}
        return replace(self, **{name: _concrete(name, value) for name, value in fields.items() if value is not None})

    def open_at(self, now: datetime, job_type: JobType) -> bool:
        """Whether the schedule lets a job of this type be reclaimed now: no window is for its type, or one that is
        contains `now`.
        """
        windows = [window for window in self.schedule if window.applies_to(job_type)]
        return not windows or any(window.contains(now) for window in windows)

    def opens_after(self, now: datetime, job_type: JobType) -> datetime | None:
        """When the schedule opens next for jobs of this type, where it is closed at `now`."""
        windows = [window for window in self.schedule if window.applies_to(job_type)]
        return min((at for window in windows if (at := window.next_opening(now)) is not None), default=None)


CLASS_SETTINGS = ("mode", "idle_after", "startup_grace", "warning_grace", "on_pressure_only")
"""The fields of EffectiveReclaim that a class may set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveNotification:
    """Who is told of reclaims; `secret_key` None: nobody."""

    secret_key: str | None = None
    namespace_keys: tuple[str, ...] = ()
    events: tuple[NotificationEvent, ...] = tuple(NotificationEvent)
    max_per_hour: int = 30
    # Not validated, so that the built-in policy needs no schema of the models: `stoker lint` starts with it.
    digest: DigestTime = field(default_factory=lambda: DigestTime.model_construct(at="08:00"))
    templates: NotificationTemplates = field(default_factory=NotificationTemplates.model_construct)

    def may_name(self, namespace: str, key: str) -> bool:
        """Whether a namespace's annotation may name this key: no namespace's name has a dot."""
        own = key == namespace or key.startswith(f"{namespace}.")
        return own or any(fnmatchcase(key, pattern) for pattern in self.namespace_keys)

    def key_for(self, namespace: str, annotation: str | None) -> str | None:
        """The key of the channel for a namespace's jobs; None: nobody is told of them."""
        return annotation if annotation and self.may_name(namespace, annotation) else self.secret_key


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveAnalysis:
    """How much time a review may take, and whether the trainers' logs may be read."""

    review_budget: timedelta = timedelta(seconds=1)
    on_not_analysed: Action = Action.WARN
    on_over_budget: Action | None = None
    read_logs: bool = False

    def action(self, shortfall: Shortfall) -> Action:
        """What is done with a job that was not analysed to its end, by why it was not."""
        match shortfall:
            case Shortfall.FAULT:
                return Action.WARN
            case Shortfall.OVER_BUDGET | Shortfall.TOO_LARGE:
                return self.on_not_analysed if self.on_over_budget is None else self.on_over_budget
            case _:
                return self.on_not_analysed

    def field(self, shortfall: Shortfall) -> str:
        """The policy's field that says so, for messages."""
        over = shortfall in {Shortfall.OVER_BUDGET, Shortfall.TOO_LARGE} and self.on_over_budget is not None
        return "onOverBudget" if over else "onNotAnalysed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRevision:
    """A policy and the generation of its spec; the built-in defaults have no generation."""

    name: str
    generation: int | None = None

    def __str__(self) -> str:
        return self.name if self.generation is None else f"{self.name}@{self.generation}"


BUILT_IN_REVISION = PolicyRevision(name="built-in")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What holds in one namespace, every field concrete; the field defaults are the built-in ones.

    `rules` holds the settings that differ from the rules' own; `exemptions` are those whose namespaceSelector selects
    the namespace. `suppressible` names the rules that a job's author may suppress, None all that they don't deny.
    `trusted_job_types`: whether a self-declared Interactive or Serving is honoured in the namespace.
    `sources` names the policies that it was made of, the base first; `revisions` are the same with the generations of
    their specs, or the built-in defaults alone.
    """

    rules: Mapping[str, RuleSetting] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    suppressible: tuple[str, ...] | None = None
    trusted_job_types: bool = True
    images: tuple[ImagePattern, ...] = ()
    thresholds: EffectiveThresholds = field(default_factory=EffectiveThresholds)
    reclaim: EffectiveReclaim = field(default_factory=EffectiveReclaim)
    notification: EffectiveNotification = field(default_factory=EffectiveNotification)
    analysis: EffectiveAnalysis = field(default_factory=EffectiveAnalysis)
    sources: tuple[str, ...] = ()
    revisions: tuple[PolicyRevision, ...] = (BUILT_IN_REVISION,)

    @property
    def revision(self) -> str:
        """The revisions as messages name them, such as `default@3, research@7`."""
        return ", ".join(map(str, self.revisions))

    @property
    def counts_in(self) -> str | None:
        """The policy in whose status reclaims are counted: the winning override, else `default`; None without any."""
        return self.sources[-1] if self.sources else None

    def action(self, rule: str, own: Action) -> Action:
        """What is done with a rule's findings; `own` is the rule's own action."""
        setting = self.rules.get(rule)
        return own if setting is None or setting.action is None else setting.action

    def trusted(self, job_type: JobType) -> JobType:
        """What a job says it is, where its word is taken."""
        own_word = job_type in {JobType.SERVING, JobType.INTERACTIVE}
        return JobType.TRAINING if own_word and not self.trusted_job_types else job_type

    def reclaim_of(self, job: JobTraits) -> EffectiveReclaim:
        """How a job is reclaimed: as its class is, by the type that it is taken for."""
        return self.reclaim.of(self._as_trusted(job))

    def class_of(self, job: JobTraits) -> ReclaimClass | None:
        """The class that a job is reclaimed as, by the type that it is taken for."""
        return self.reclaim.class_of(self._as_trusted(job))

    def _as_trusted(self, job: JobTraits) -> JobTraits:
        return replace(job, job_type=self.trusted(job.job_type))

    def parameters(self, rule: str) -> Mapping[str, Any]:
        """The parameters set for a rule."""
        setting = self.rules.get(rule)
        return {} if setting is None or setting.parameters is None else setting.parameters

    def may_suppress(self, rule: str, action: Action) -> bool:
        """Whether a job's author may suppress a finding that a rule would do `action` with."""
        if self.suppressible is None:
            return action is not Action.DENY
        return ALL_RULES in self.suppressible or rule in self.suppressible

    def exemption(self, rule: str, job_labels: Mapping[str, str], now: datetime) -> Exemption | None:
        """The exemption that lets a job with these labels pass a rule at `now`; the rule "*" asks for one from
        everything.
        """
        return next((one for one in self.exemptions if one.covers(rule, job_labels, now)), None)

    def next_expiry(self, now: datetime) -> datetime | None:
        """When the next of the exemptions ends after `now`."""
        return min((one.until for one in self.exemptions if one.until is not None and one.until > now), default=None)


BUILT_IN = EffectivePolicy()
"""What holds where no policy says anything."""


def rank(policy: UtilizationPolicy) -> tuple[int, str]:
    """Sorts overrides: of those that select a namespace the first counts, by priority, of equals by name."""
    return -(policy.spec.priority or 0), policy.name


def winner(policies: Iterable[UtilizationPolicy], labels: Mapping[str, str]) -> UtilizationPolicy | None:
    """The one override that counts in a namespace with these labels."""
    selected = [one for one in policies if one.name != BASE and matches(one.spec.namespace_selector, labels)]
    return min(selected, key=rank, default=None)


def resolve(
    policies: Iterable[UtilizationPolicy], namespace: str, namespace_labels: Mapping[str, str]
) -> EffectivePolicy:
    """What holds in a namespace: the winning override, laid over the policy `default`, laid over the built-in defaults.

    The layering goes field by field, into nested objects and into the entries of `rules`; lists and selectors are
    replaced whole.
    """
    labels = {NAMESPACE_LABEL: namespace, **namespace_labels}
    policies = tuple(policies)
    override = winner(policies, labels)
    return combined([one for one in policies if one.name == BASE] + ([override] if override else []), labels)


def combined(layers: Sequence[UtilizationPolicy], labels: Mapping[str, str]) -> EffectivePolicy:
    """The policies laid one over the other, the base first, over the built-in defaults, for a namespace with these
    labels.
    """
    spec = reduce(_laid_over, (one.spec for one in layers), UtilizationPolicySpec())
    trusted = spec.trusted_job_types.namespace_selector if spec.trusted_job_types is not None else None
    return EffectivePolicy(
        rules=spec.rules or {},
        exemptions=tuple(
            one
            for one in spec.exemptions or ()
            if one.namespace_selector is None or matches(one.namespace_selector, labels)
        ),
        suppressible=spec.suppressible,
        trusted_job_types=trusted is None or matches(trusted, labels),
        images=tuple(one.pattern for one in spec.images or ()),
        thresholds=EffectiveThresholds(**_set_fields(spec.thresholds)),
        reclaim=EffectiveReclaim(**_set_fields(spec.reclaim)),
        notification=EffectiveNotification(**_set_fields(spec.notification)),
        analysis=EffectiveAnalysis(**_set_fields(spec.analysis)),
        sources=tuple(one.name for one in layers),
        revisions=tuple(PolicyRevision(name=one.name, generation=one.metadata.generation) for one in layers)
        or (BUILT_IN_REVISION,),
    )


Model = TypeVar("Model", bound=BaseModel)


def _laid_over(base: Model, over: Model) -> Model:
    """`over` on `base`, field by field; what `over` leaves out or sets to null is taken from `base`."""
    update: dict[str, Any] = {}
    for name in over.model_fields_set:
        upper, lower = getattr(over, name), getattr(base, name)
        if upper is not None:
            update[name] = _merged(lower, upper)
    return base.model_copy(update=update)


def _merged(lower: Any, upper: Any) -> Any:
    if isinstance(upper, LabelSelector) or lower is None:
        return upper
    if isinstance(upper, BaseModel):
        return _laid_over(lower, upper)
    if isinstance(upper, dict):
        return {**lower, **{key: _merged(lower.get(key), value) for key, value in upper.items()}}
    return upper


DURATION_FIELDS = frozenset(
    {
        "cooldown_after_resume",
        "idle_after",
        "max_snooze",
        "min_termination_grace",
        "review_budget",
        "startup_grace",
        "warning_grace",
        "window",
    }
)


def _set_fields(model: BaseModel | None) -> dict[str, Any]:
    """The fields that are set, in the types of the effective policy."""
    fields = {} if model is None else {name: getattr(model, name) for name in type(model).model_fields}
    return {name: _concrete(name, value) for name, value in fields.items() if value is not None}


def _concrete(name: str, value: Any) -> Any:
    if isinstance(value, MassIdleBrake):
        return EffectiveBrake(**_set_fields(value))
    return parse_duration(value) if name in DURATION_FIELDS else value


__all__ = [
    "BASE",
    "BUILT_IN",
    "EffectivePolicy",
    "UtilizationPolicy",
    "combined",
    "format_duration",
    "matches",
    "parse_duration",
    "rank",
    "resolve",
    "winner",
]
