"""The mass-idle brake: when much of what worked turns idle at once, the metrics are more likely wrong than the jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.api.duration import format_duration
from stoker.api.policy import MAX_RECENT_IDLE, RecentIdle, UtilizationPolicyStatus
from stoker.findings.finding import rfc3339
from stoker.policy.effective import EffectiveBrake

RELEASE_DIVISOR = 2
"""Hysteresis: the brake is released when the share of idle GPUs has fallen to the share that applied it, divided by
this. Chosen because just below that share the outage may be over for some jobs only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobActivity:
    """A job under the policy as the last minutes of its metrics show it. `works` None: not known.

    Of a job that is seen for the first time, as after a restart, `idle_since` is since when it is idle if that is
    known, and `worked` whether it has worked before that.
    """

    job_uid: str
    job: str
    gpus: int
    works: bool | None
    idle_since: datetime | None = None
    worked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedIdle:
    """A job that worked and then turned idle, seen at `time`. `released`: that was found to be right."""

    job_uid: str
    job: str
    time: datetime
    gpus: int
    released: bool = False

    @classmethod
    def from_status(cls, entry: RecentIdle) -> "TurnedIdle":
        """Read an entry of the policy's status.recentIdle."""
        return cls(
            job_uid=entry.job_uid, job=entry.job, time=entry.time, gpus=entry.gpus, released=bool(entry.released)
        )

    def to_status(self) -> dict[str, object]:
        """The entry."""
        entry = {"jobUID": self.job_uid, "job": self.job, "time": rfc3339(self.time), "gpus": self.gpus}
        return entry | ({"released": True} if self.released else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """What was known of a job last: whether it `works`, and when it was last seen to. `ended`: it went away at work."""

    works: bool
    worked_at: datetime | None
    gpus: int
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """The brake of one policy. `known`, by the jobs' uids, does not outlive the process; all else does, in the policy's
    status.
    """

    turned_idle: tuple[TurnedIdle, ...] = ()
    since: datetime | None = None
    message: str = ""
    handled_release: str | None = None
    doubted_until: datetime | None = None
    """When it was last released by itself, without an administrator. Zeros of an outage stay in the window after its
    end: a job that worked in the outage and is idle since seems to have been idle since it began.
    """
    known: Mapping[str, LastKnown] = field(default_factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether nothing is reclaimed."""
        return self.since is not None

    @classmethod
    def from_status(cls, status: UtilizationPolicyStatus | None) -> "Brake":
        """The brake as it was left."""
        if status is None:
            return cls()
        return cls(
            turned_idle=tuple(map(TurnedIdle.from_status, status.recent_idle)),
            since=status.brake.since if status.brake is not None else None,
            message=status.brake.message if status.brake is not None else "",
            handled_release=status.handled_release,
            doubted_until=status.metrics_doubted_until,
        )

    def to_status(self) -> dict[str, object]:
        """The fields of the policy's status, absent ones empty. Of too many jobs the latest are remembered."""
        brake = {"since": rfc3339(self.since), "message": self.message} if self.since is not None else None
        return {
            "recentIdle": [one.to_status() for one in self.turned_idle[-MAX_RECENT_IDLE:]],
            "brake": brake,
            "handledRelease": self.handled_release,
            "metricsDoubtedUntil": rfc3339(self.doubted_until) if self.doubted_until is not None else None,
        }


def after(
    brake: Brake,
    activities: Iterable[JobActivity],
    settings: EffectiveBrake,
    window: timedelta,
    release: str | None,
    now: datetime,
) -> Brake:
    """The brake after one scan of all jobs of the policy that hold GPUs; one that is missing is gone, whether it was
    suspended, reclaimed or has ended. `release` is the policy's annotation.

    A job of which nothing is known changes nothing: one that worked before that and is idle after it has turned idle.
    """
    seen = {one.job_uid: one for one in activities}
    turned_idle = _turned_idle(brake, seen, now)
    known = _known(brake.known, seen, window, now)
    since = brake.since
    handled = brake.handled_release if release is None else release
    if since is not None and handled != brake.handled_release:
        turned_idle, since = tuple(replace(one, released=True) for one in turned_idle), None
    # While it is on, nothing that made it stop ages out.
    start = (now if since is None else since) - window
    counted = [one for one in turned_idle if not one.released and one.time > start]
    quiet = sum(one.gpus for one in counted)
    active = sum(last.gpus for uid, last in known.items() if _was_active(last, seen.get(uid)))
    bound = settings.gpu_percent * (active + quiet)
    if since is None:
        stops = len(counted) >= settings.min_jobs and quiet * 100 > bound
    else:
        # Their number counts no more: that some are gone does not make the metrics of the others right.
        stops = quiet * 100 > bound / RELEASE_DIVISOR
    message = brake.message
    if stops and since is None:
        since = now
        message = (
            f"{len(counted)} jobs with {quiet} of {active + quiet} active GPUs turned idle within"
            f" {format_duration(window)}: it looks like an outage of the metrics"
        )
    doubted_until = brake.doubted_until
    if not stops:
        doubted_until = now if since is not None else doubted_until
        since, message = None, ""
    return Brake(
        turned_idle=turned_idle,
        since=since,
        message=message,
        handled_release=handled,
        doubted_until=doubted_until,
        known=known,
    )


def _turned_idle(brake: Brake, seen: Mapping[str, JobActivity], now: datetime) -> tuple[TurnedIdle, ...]:
    """Those that are still idle or of which nothing is known, and those that have turned idle, the oldest first."""
    kept = [one for one in brake.turned_idle if one.job_uid in seen and not seen[one.job_uid].works]
    at_rest = {one.job_uid for one in kept}
    for uid, one in seen.items():
        if one.works is not False or uid in at_rest:
            continue
        last = brake.known.get(uid)
        if last is None and one.worked:
            kept.append(TurnedIdle(job_uid=uid, job=one.job, time=one.idle_since or now, gpus=one.gpus))
        elif last is not None and last.works:
            kept.append(TurnedIdle(job_uid=uid, job=one.job, time=now, gpus=one.gpus))
    return tuple(sorted(kept, key=lambda one: one.time))


def _known(
    before: Mapping[str, LastKnown], seen: Mapping[str, JobActivity], window: timedelta, now: datetime
) -> dict[str, LastKnown]:
    known: dict[str, LastKnown] = {}
    for uid, one in seen.items():
        last = before.get(uid)
        if one.works:
            known[uid] = LastKnown(works=True, worked_at=now, gpus=one.gpus)
        elif one.works is False:
            known[uid] = LastKnown(works=False, worked_at=last.worked_at if last is not None else None, gpus=one.gpus)
        elif last is not None:
            known[uid] = last
    for uid, last in before.items():
        ended = last.works or last.ended
        if uid not in seen and ended and last.worked_at is not None and now - last.worked_at < window:
            known[uid] = replace(last, works=False, ended=True)
    return known


def _was_active(last: LastKnown, seen: JobActivity | None) -> bool:
    """Whether a job was active before the others turned idle: it works, or has ended since. One of which nothing is
    known now is neither active nor idle.
    """
    return last.ended if seen is None else bool(seen.works)
