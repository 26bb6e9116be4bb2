"""What a plan is made from beside the metrics, the policy and the record: the job, the cluster and the process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoker.findings.finding import Finding
from stoker.findings.vocabulary import JobType
from stoker.policy.effective import JobTraits

MINIMUM_WARNING_GRACE = timedelta(minutes=5)
"""The shortest time between a warning and a reclaim whatever a policy says: an owner must be able to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether a person is at work in the job's pods, as far as that leaves traces outside the GPUs.

    `last_seen` is the latest trace (a session opened, a notebook's kernel or connection active) and `how` what it was.
    `unknown` says why one that should be there could not be read: not knowing counts as being there.
    """

    last_seen: datetime | None = None
    how: str = ""
    unknown: str | None = None


NOBODY = Presence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What must be known of a running job. controller/candidates.py makes it of a DLJob's objects, for the controller,
    for `stoker diagnose` and for `stoker explain`; replay/simulation.py makes it of what was recorded, and
    eligibility.of_facts of pods that no DLJob owns.

    `job_uid` and `pod_uids` are its Job and all its pods, `last_start` the latest start of a trainer. `snooze` is the
    annotation's text. `termination_grace` is the shortest time that its pods get between SIGTERM and SIGKILL.
    `unsuspendable` says why its Job can't be suspended and resumed. `untouchable` says why nothing may be done to it
    now whatever its metrics are (it is being deleted, has ended, or is suspended).
    """

    job_type: JobType
    gpus: int
    job_uid: str
    pod_uids: frozenset[str]
    last_start: datetime | None
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str | None = None
    gpu_product: str | None = None
    findings: tuple[Finding, ...] = ()
    idle_after: timedelta | None = None
    resume: str | None = None
    """The annotation stoker.dev/resume."""
    unsuspended: bool = False
    """spec.suspend was set from true to false, and the status does not say so yet."""
    snooze: str | None = None
    snooze_reason: str | None = None
    has_persistent_volume: bool = False
    """The container that computes writes to a volume that outlives its pods."""
    serves: bool = False
    """Its program is a model server, whatever its spec.jobType."""
    offers: str | None = None
    """What its container declares that only a server needs, such as a port."""
    termination_grace: timedelta | None = None
    presence: Presence = NOBODY
    unsuspendable: str | None = None
    untouchable: str | None = None

    @property
    def traits(self) -> JobTraits:
        """What decides about its class."""
        return JobTraits(
            job_type=self.job_type,
            priority_class=self.priority_class,
            gpu_product=self.gpu_product,
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What only the process knows that carries a reclaim out: how old its own observations are, and how far it is. The
    defaults are those of a process that has observed and done nothing yet: they hold every reclaim back.

    `warning_age`: time since the warning was on the API server, by the monotonic clock; None where another process has
    recorded it. `examination_age`: time since the last examination that could say something; None where there is none.
    `check_age`: time since all objects were read afresh, by the monotonic clock; None before that.
    `slot_taken`: whether the policy's bounds left room for it; None where that was not asked yet.
    """

    is_sampled: bool = True
    """A scan has sampled the job's GPUs since the process started."""
    warning_age: timedelta | None = None
    examination_age: timedelta | None = None
    is_examination_incomplete: bool = False
    """The last examination could say nothing, for want of samples."""
    examination_gap: tuple[datetime, datetime] | None = None
    """The time without samples that it met."""
    check_age: timedelta | None = None
    slot_taken: bool | None = None
    intent_recorded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstruction:
    """Why a job that is due must wait for others: in words, until when if that is known, and what would change it."""

    reason: str
    until: datetime | None = None
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What the rest of the cluster holds against a reclaim; each is None where there is nothing.

    `brake`: too much turned idle at once. `pressure`: nobody waits for these GPUs, asked only where the policy reclaims
    on pressure. `bounds`: enough was reclaimed lately, or others come first. `doubted_until`: idleness
    counts from then on only.
    """

    minimum_warning_grace: timedelta = MINIMUM_WARNING_GRACE
    brake: Obstruction | None = None
    pressure: Obstruction | None = None
    bounds: Obstruction | None = None
    doubted_until: datetime | None = None


UNCONSTRAINED = Constraints()
