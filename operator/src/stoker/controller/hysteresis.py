"""Hysteresis of a DLJob's status: when a figure has changed by enough to be written, and when a finding closes.

Used by next_status, which leaves the status unchanged while the differences are small, and by reconcile for the
findings. Without it, noise in the metrics would cause a write for each job at each scan.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stoker.api.status import MAX_NODES
from stoker.findings.finding import Finding, parse_time
from stoker.findings.vocabulary import Confidence, Source

POINTS = 2
"""Percentage points by which a percentage must differ from the written one to be written again. Chosen above the noise
of a steady job's mean.
"""
RECENT_POINTS = 10
"""Percentage points; the same for the mean of the last ten minutes. Chosen larger because that mean rises and falls
with every epoch.
"""
HOURS_SHARE = 0.1
"""Growth of GPU-hours, as a share of the written figure, from which they are written again; see LEAST_HOURS."""
LEAST_HOURS = 0.5
"""GPU-hours by which the figure must grow at least to be written again. Together with HOURS_SHARE this makes the writes
of a long job rarer as it grows.
"""
REFRESH = timedelta(minutes=30)
"""Age of the written figures from which all are written again, however little they have changed."""
ABSENT_EXAMINATIONS = 3
"""Examinations in a row without a finding after which the finding closes, if ABSENT_TIME has passed, too."""
ABSENT_TIME = timedelta(minutes=5)
"""Time without a finding after which it closes or loses confidence, if ABSENT_EXAMINATIONS have not shown it."""
NOTED_EXAMINATIONS = ABSENT_EXAMINATIONS - 1
"""Examinations in a row without a finding after which the status has `absentSince`, if NOTED_TIME has passed, too."""
NOTED_TIME = timedelta(minutes=4)
"""Time without a finding after which the status has `absentSince`, if NOTED_EXAMINATIONS have not shown it. With that
field in the status, one more examination closes the finding after a restart. The first absence is not written, because
a finding near its threshold appears and disappears with the noise and each change would be a write.
"""

LOOKED_AT_EVERY, LOOKED_AT_SPREAD = timedelta(minutes=15), timedelta(minutes=5)
"""The longest time between two writes of a job that holds GPUs, which keep `lookedAt` recent. Each job is written up to
the spread earlier, by a hash of its uid, so that the jobs of a cluster are not written at once: 10,000 such jobs cause
13 writes a second.
"""

CONFIDENCES = (Confidence.POSSIBLE, Confidence.LIKELY, Confidence.CERTAIN)
Shown = tuple[str, Confidence]
"""A rule's name and a confidence that its finding reached or exceeded."""


# ------------------------------------------------------------------------------------------------------- figures


def says_the_same(before: Mapping[str, Any], after: Mapping[str, Any], now: datetime) -> bool:
    """Whether the statuses differ too little in utilization, findings and advice for a write at `now`."""
    old, new = before.get("utilization", {}), after.get("utilization", {})
    written_at = parse_time(old.get("asOf"))
    if written_at is None or now - written_at >= REFRESH:
        return False
    return (
        all(_near(old.get(name), new.get(name), points) for name, points in _PERCENTS.items())
        and all(_near(*pair, POINTS) for pair in _pairs(old.get("averagePercentRange"), new.get("averagePercentRange")))
        and all(_near_hours(old.get(name), new.get(name)) for name in ("gpuHours", "gpuHoursIdle"))
        and _same_stages(old.get("stages", ()), new.get("stages", ()))
        and _same_nodes(old.get("nodes", ()), new.get("nodes", ()))
        and _same_findings(before.get("findings", ()), after.get("findings", ()))
        and {one["rule"] for one in before.get("advice", ())} == {one["rule"] for one in after.get("advice", ())}
    )


_PERCENTS = {
    "averagePercent": POINTS,
    "recentPercent": RECENT_POINTS,
    "peakMemoryPercent": POINTS,
    "coveragePercent": POINTS,
}


def _near(old: float | None, new: float | None, points: float) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) <= points


def _near_hours(old: str | None, new: str | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(float(new) - float(old)) <= max(HOURS_SHARE * float(old), LEAST_HOURS)


def _pairs(old: Sequence[Any] | None, new: Sequence[Any] | None) -> Iterable[tuple[Any, Any]]:
    return zip(old or (None, None), new or (None, None), strict=True)


def _same_stages(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the stages are the same with nearly the same use. Changes of their boundaries alone cause no write."""
    return len(old) == len(new) and all(
        one["stage"] == other["stage"] and _near(one.get("averagePercent"), other.get("averagePercent"), POINTS)
        for one, other in zip(old, new, strict=True)
    )


def _same_nodes(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the pods and nodes are the same with nearly the same use. The status lists at most MAX_NODES pods, those
    with the lowest use. In a larger job one pod may replace another in the list without a write if their use is nearly
    the same.
    """
    if len(old) != len(new):
        return False
    before, after = ({(one["pod"], one.get("node")): _uses(one) for one in entries} for entries in (old, new))
    if any(not _same_uses(uses, after[name]) for name, uses in before.items() if name in after):
        return False
    entered = [_mean(uses) for name, uses in after.items() if name not in before]
    left = [_mean(uses) for name, uses in before.items() if name not in after]
    if not entered or len(old) < MAX_NODES:
        return not entered
    last_before, last_after = (max(map(_mean, entries.values())) for entries in (before, after))
    return min(entered) >= last_before - POINTS and min(left) >= last_after - POINTS


def _uses(entry: Mapping[str, Any]) -> list[int | None]:
    """The utilization of each GPU of an entry of `status.utilization.nodes`."""
    return [percent for row in entry.get("gpuPercents", ()) for percent in row]


def _same_uses(old: Sequence[int | None], new: Sequence[int | None]) -> bool:
    """Whether the figures are nearly the same. An unknown figure (None) differs from every number."""
    return len(old) == len(new) and all(_near(*pair, POINTS) for pair in zip(old, new, strict=True))


def _mean(uses: Sequence[int | None]) -> float:
    """The mean over a pod's GPUs. A pod with an unknown GPU has -1, so that it is listed before all others."""
    known = [use for use in uses if use is not None]
    return sum(known) / len(known) if known and len(known) == len(uses) else -1.0


def _same_findings(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the findings, open and closed, are the same with nearly the same GPU-hours. Changes of their text and
    order alone cause no write.
    """
    before, after = ({_identity(entry): entry for entry in entries} for entries in (old, new))
    return before.keys() == after.keys() and all(
        _near_hours(entry.get("gpuHoursIdle"), after[key].get("gpuHoursIdle")) for key, entry in before.items()
    )


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    measured = Source.METRICS in entry.get("sources", ())
    said = () if measured else (str(entry.get("location")), entry["detail"])
    ends = ("until" in entry, "absentSince" in entry)
    return entry["rule"], entry["category"], entry["severity"], entry["confidence"], *ends, *said


def is_look_due(uid: str, written: datetime, looked_at: datetime) -> bool:
    """Whether `lookedAt` must be written again. `written` is its value in the status, `looked_at` the last scan."""
    early = LOOKED_AT_SPREAD * (zlib.crc32(uid.encode()) % 1000 / 1000)
    return looked_at - written >= LOOKED_AT_EVERY - early


def steady_record(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The status.reclaim to write: `before` if only `idleSince` differs and by less than REFRESH, otherwise `after`.

    Scans find the start of the idle time step by step, and each step would be a write. In a record with a warning every
    difference is written, because the owner reads that time; without a warning no text names it.
    """
    old, new = before.get("idleSince"), after.get("idleSince")
    if old is None or new is None or "deadline" in after:
        return after
    moved = abs(datetime.fromisoformat(new) - datetime.fromisoformat(old))
    return before if {**after, "idleSince": old} == before and moved < REFRESH else after


# ------------------------------------------------------------------------------------------------------ absences


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationHistory:
    """The examinations of one job that this process has made: their number, the times of the first and the latest, and
    for each finding the number and time of the last examination that showed it.

    A finding that this process has never seen counts as shown just before the first examination, unless the status has
    its `absentSince`. So a restart neither closes a finding early nor keeps it open for ever.
    """

    examinations: int = 0
    first: datetime | None = None
    latest: datetime | None = None
    last_shown: Mapping[Shown, tuple[int, datetime]] = field(default_factory=dict)

    def after(self, findings: Iterable[Finding], at: datetime) -> "ExaminationHistory":
        """The history with one more examination, made `at` a time, that showed these findings."""
        number = self.examinations + 1
        shown = {
            (finding.rule, confidence): (number, at)
            for finding in findings
            for confidence in CONFIDENCES[: CONFIDENCES.index(finding.confidence) + 1]
        }
        return replace(
            self,
            examinations=number,
            first=self.first or at,
            latest=at,
            last_shown={**self.last_shown, **shown},
        )

    def is_gone(self, finding: Finding) -> bool:
        """Whether the finding was absent for long enough to close it, or to lower its confidence."""
        missed, since = self._absence(finding)
        if since is None or self.latest is None:
            return False
        return missed >= ABSENT_EXAMINATIONS and self.latest - since >= ABSENT_TIME

    def absent_since(self, finding: Finding) -> datetime | None:
        """When the finding was last shown, if it was absent for NOTED_EXAMINATIONS and NOTED_TIME; otherwise None."""
        missed, since = self._absence(finding)
        if since is None or self.latest is None:
            return None
        return since if missed >= NOTED_EXAMINATIONS and self.latest - since >= NOTED_TIME else None

    def _absence(self, finding: Finding) -> tuple[int, datetime | None]:
        """The number of examinations in a row that did not show the finding, and when it was last shown."""
        if self.first is None:
            return 0, None
        key = (finding.rule, finding.confidence)
        if finding.absent_since is not None and key not in self.last_shown:
            return self.examinations + NOTED_EXAMINATIONS, finding.absent_since
        number, at = self.last_shown.get(key, (0, self.first))
        return self.examinations - number, at


def lasting(
    known: Iterable[Finding], measured: Sequence[Finding], examination_history: ExaminationHistory
) -> tuple[Finding, ...]:
    """The findings to publish: those of this examination, and the `known` open ones that are not absent for long enough
    to close. A known finding replaces a measured one of the same rule that has a lower confidence.
    """
    found = {finding.rule: finding for finding in measured}
    for finding in known:
        if not finding.is_open or Source.METRICS not in finding.sources or examination_history.is_gone(finding):
            continue
        shown = found.get(finding.rule)
        if shown is None or CONFIDENCES.index(shown.confidence) < CONFIDENCES.index(finding.confidence):
            found[finding.rule] = replace(finding, absent_since=examination_history.absent_since(finding))
    return tuple(found.values())
