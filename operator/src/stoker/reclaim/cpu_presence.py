"""What the CPUs of a job that waits for a person say of one: the same for a controller and for a replay."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from stoker.diagnosis.series.person import cpus_unseen, cpus_worked_at
from stoker.reclaim.candidate import NOBODY, Presence
from stoker.telemetry.series import JobSeries

GRID = timedelta(minutes=5)
"""Times of activity are rounded down to five minutes: a status with seconds would be written at every scan."""


def by_cpus(series: JobSeries, pods: Iterable[str], *, window: timedelta, now: datetime) -> Presence:
    """Whether the CPUs of these pods did more than wait within the window that the series is of. That there are no
    series of them is no trace either way: that the GPUs are idle is shown by their own, and a cluster without
    cAdvisor's metrics would else never get a GPU back.
    """
    seconds = cpus_worked_at(series)
    if seconds is not None:
        last = min(datetime.fromtimestamp(seconds, tz=UTC), now)
        return Presence(last_seen=as_told(last, window), how="its CPUs were busy")
    if not series.complete:
        return Presence(unknown="Prometheus gave a partial answer for its CPUs")
    if cpus_unseen(series, pods):
        return Presence(unknown="its CPUs have no samples for part of the time")
    return NOBODY


def as_told(last: datetime, window: timedelta) -> datetime:
    """A time on the grid that holds the job back for half of its window at least; work goes on or is seen again."""
    grid = min(GRID, window / 2).total_seconds()
    return datetime.fromtimestamp(last.timestamp() // grid * grid, tz=UTC)
