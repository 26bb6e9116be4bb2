"""What the policies of a cluster come to in one namespace: every setting with its value, and what follows for a job.

stoker.policy.resolution makes it of what users wrote; admission, diagnosis, reclaim and the report judge by it. The
models of what users write are imported for their types alone: `stoker lint` without a policy builds none of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from stoker.api.duration import parse_duration
from stoker.api.image import ImagePattern
from stoker.api.meta import matches
from stoker.api.names import ALL_RULES
from stoker.api.weekday import Weekday
from stoker.findings.vocabulary import Action, JobType, NotificationEvent, ReclaimMode
from stoker.policy.schedule import applies_to, contains, next_opening
from stoker.shell.model import Shortfall

if TYPE_CHECKING:
    from stoker.api.policy import Exemption, ReclaimClass, RuleSetting, ScheduleWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """What of a job decides about its class."""

    job_type: JobType
    priority_class: str | None = None
    gpu_product: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


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
    schedule: "tuple[ScheduleWindow, ...]" = ()
    classes: "tuple[ReclaimClass, ...]" = ()

    def class_of(self, job: JobTraits) -> "ReclaimClass | None":
        """The first class that a job belongs to."""
        return next((one for one in self.classes if _has(one, job)), None)

    def of(self, job: JobTraits) -> "EffectiveReclaim":
        """What holds for a job: its class's settings over the policy's."""
        found = self.class_of(job)
        if found is None:
            return self
        fields = {name: getattr(found, name) for name in CLASS_SETTINGS}
        return replace(self, **{name: concrete(name, value) for name, value in fields.items() if value is not None})

    def open_at(self, now: datetime, job_type: JobType) -> bool:
        """Whether the schedule lets a job of this type be reclaimed now: no window is for its type, or one that is
        contains `now`.
        """
        windows = [window for window in self.schedule if applies_to(window, job_type)]
        return not windows or any(contains(window, now) for window in windows)

    def opens_after(self, now: datetime, job_type: JobType) -> datetime | None:
        """When the schedule opens next for jobs of this type, where it is closed at `now`."""
        windows = [window for window in self.schedule if applies_to(window, job_type)]
        return min((at for window in windows if (at := next_opening(window, now)) is not None), default=None)


CLASS_SETTINGS = ("mode", "idle_after", "startup_grace", "warning_grace", "on_pressure_only")
"""The fields of EffectiveReclaim that a class may set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveDigest:
    """When the digest is sent: at a time of day in a time zone (None: UTC), on some days (empty: on all)."""

    at: str = "08:00"
    days: tuple[Weekday, ...] = ()
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveTemplates:
    """What messages say; None: the built-in text."""

    warned: str | None = None
    reclaimed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveNotification:
    """Who is told of reclaims; `secret_key` None: nobody."""

    secret_key: str | None = None
    namespace_keys: tuple[str, ...] = ()
    events: tuple[NotificationEvent, ...] = tuple(NotificationEvent)
    max_per_hour: int = 30
    digest: EffectiveDigest = field(default_factory=EffectiveDigest)
    templates: EffectiveTemplates = field(default_factory=EffectiveTemplates)

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
class EffectiveWorkloads:
    """The kinds of workload that are watched besides DLJobs, as patterns."""

    kinds: tuple[str, ...] = ()

    def include(self, kind: str) -> bool:
        """Whether a kind is watched."""
        return any(fnmatchcase(kind, pattern) for pattern in self.kinds)


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

    rules: "Mapping[str, RuleSetting]" = field(default_factory=dict)
    exemptions: "tuple[Exemption, ...]" = ()
    suppressible: tuple[str, ...] | None = None
    trusted_job_types: bool = True
    images: tuple[ImagePattern, ...] = ()
    thresholds: EffectiveThresholds = field(default_factory=EffectiveThresholds)
    reclaim: EffectiveReclaim = field(default_factory=EffectiveReclaim)
    notification: EffectiveNotification = field(default_factory=EffectiveNotification)
    analysis: EffectiveAnalysis = field(default_factory=EffectiveAnalysis)
    workloads: EffectiveWorkloads = field(default_factory=EffectiveWorkloads)
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

    def class_of(self, job: JobTraits) -> "ReclaimClass | None":
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

    def exemption(self, rule: str, job_labels: Mapping[str, str], now: datetime) -> "Exemption | None":
        """The exemption that lets a job with these labels pass a rule at `now`; the rule "*" asks for one from
        everything.
        """
        return next((one for one in self.exemptions if _covers(one, rule, job_labels, now)), None)

    def next_expiry(self, now: datetime) -> datetime | None:
        """When the next of the exemptions ends after `now`."""
        return min((one.until for one in self.exemptions if one.until is not None and one.until > now), default=None)


BUILT_IN = EffectivePolicy()
"""What holds where no policy says anything."""


def _covers(exemption: "Exemption", rule: str, job_labels: Mapping[str, str], now: datetime) -> bool:
    """Whether a job with these labels, in a namespace that the exemption selects, is exempt from a rule at `now`.

    The rule "*" asks for an exemption from everything, reclaim included.
    """
    names = exemption.rules or (ALL_RULES,)
    return (
        (exemption.until is None or now < exemption.until)
        and (ALL_RULES in names or rule in names)
        and (exemption.job_selector is None or matches(exemption.job_selector, job_labels))
    )


def _has(reclaim_class: "ReclaimClass", job: JobTraits) -> bool:
    """Whether a job belongs to the class."""
    return (
        (not reclaim_class.job_types or job.job_type in reclaim_class.job_types)
        and (not reclaim_class.priority_classes or job.priority_class in reclaim_class.priority_classes)
        and (reclaim_class.job_selector is None or matches(reclaim_class.job_selector, job.labels))
        and (not reclaim_class.gpu_products or job.gpu_product in reclaim_class.gpu_products)
    )


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


def concrete(name: str, value: Any) -> Any:
    """The value of a field of a policy in the type of the effective policy."""
    return parse_duration(value) if name in DURATION_FIELDS else value


__all__ = [
    "BUILT_IN",
    "BUILT_IN_REVISION",
    "CLASS_SETTINGS",
    "EffectiveAnalysis",
    "EffectiveBrake",
    "EffectiveDigest",
    "EffectiveNotification",
    "EffectivePolicy",
    "EffectiveReclaim",
    "EffectiveTemplates",
    "EffectiveThresholds",
    "JobTraits",
    "PolicyRevision",
    "concrete",
]
