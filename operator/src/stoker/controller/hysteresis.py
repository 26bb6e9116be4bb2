"""Hysteresis of a status: figures follow when they have moved by enough, and a finding closes when it stays away.

Used by next_status, which leaves the status as it is while nothing has moved, and by reconcile for the findings.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stoker.api.dljob import MAX_NODES
from stoker.findings.finding import Finding, parse_time
from stoker.findings.vocabulary import Confidence, Source

POINTS = 2
"""Percent; percentages follow when they have moved by more than this from what is written. Chosen above the noise of
a steady job's mean.
"""
RECENT_POINTS = 10
"""Percent; the same of the last ten minutes, which rise and fall with every epoch."""
HOURS_SHARE = 0.1
"""Growth of GPU-hours, as a share of what is written, from which they are written again."""
LEAST_HOURS = 0.5
"""GPU-hours follow when they have grown by a tenth, and by half an hour at least: of a job that lives on, the next
write comes ever later.
"""
REFRESH = timedelta(minutes=30)
"""What has moved by less is written after this, with everything else."""
ABSENT_EXAMINATIONS = 3
"""Examinations in a row without a finding, after which it closes; see ABSENT_TIME."""
ABSENT_TIME = timedelta(minutes=5)
"""A finding closes, or loses confidence, when so many examinations over so long a time have not shown it."""
NOTED_EXAMINATIONS = ABSENT_EXAMINATIONS - 1
"""Examinations in a row without a finding, after which the status says so; see NOTED_TIME."""
NOTED_TIME = timedelta(minutes=4)
"""After so many over so long a time the status says that it is away, so that after a restart one more is enough. Not
after the first: one at its threshold comes and goes with the noise, and each coming and going would be a write.
"""

LOOKED_AT_EVERY, LOOKED_AT_SPREAD = timedelta(minutes=15), timedelta(minutes=5)
"""A job that holds GPUs is written after this at the latest, to keep lookedAt recent; up to the
spread earlier, by its uid, so that not all of a cluster come at once: 13 writes a second of 10,000 such jobs.
"""

CONFIDENCES = (Confidence.POSSIBLE, Confidence.LIKELY, Confidence.CERTAIN)
Shown = tuple[str, Confidence]
"""A rule, with a confidence that it had at least."""


# ------------------------------------------------------------------------------------------------------- figures


def says_the_same(before: Mapping[str, Any], after: Mapping[str, Any], now: datetime) -> bool:
    """Whether the status `before` still says what `after` would of the job's GPUs: of utilization, findings, advice."""
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
    """The same stages with nearly the same use. Their boundaries' minutes are not compared: they come with the rest."""
    return len(old) == len(new) and all(
        one["stage"] == other["stage"] and _near(one.get("averagePercent"), other.get("averagePercent"), POINTS)
        for one, other in zip(old, new, strict=True)
    )


def _same_nodes(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """The same pods on the same nodes with nearly the same use. Of a job with more pods than entries a pod may replace
    another without a write while both are about equally bad.
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
    """Nearly the same figures; unknown is another one than any number."""
    return len(old) == len(new) and all(_near(*pair, POINTS) for pair in zip(old, new, strict=True))


def _mean(uses: Sequence[int | None]) -> float:
    """The pod's mean; a pod that can't be judged stands before all."""
    known = [use for use in uses if use is not None]
    return sum(known) / len(known) if known and len(known) == len(uses) else -1.0


def _same_findings(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """The same findings, open and closed, of the same weight. Their words and their order come with the rest."""
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
    """Whether lookedAt is to be written anew; `written` is its value."""
    early = LOOKED_AT_SPREAD * (zlib.crc32(uid.encode()) % 1000 / 1000)
    return looked_at - written >= LOOKED_AT_EVERY - early


def steady_record(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """status.reclaim as it is written, where only the beginning of the idle time has moved, and by little: how far back
    it lies is found out bit by bit. With a warning every move counts. No reason of a job without one names that time.
    """
    old, new = before.get("idleSince"), after.get("idleSince")
    if old is None or new is None or "deadline" in after:
        return after
    moved = abs(datetime.fromisoformat(new) - datetime.fromisoformat(old))
    return before if {**after, "idleSince": old} == before and moved < REFRESH else after


# ------------------------------------------------------------------------------------------------------ absences


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationHistory:
    """When examinations have shown what, as far as this process has seen them. What it has never seen shown counts as
    shown just before its first examination, unless the finding says since when it is away: a restart neither closes
    anything sooner nor keeps it open for ever.
    """

    examinations: int = 0
    first: datetime | None = None
    latest: datetime | None = None
    last_shown: Mapping[Shown, tuple[int, datetime]] = field(default_factory=dict)

    def after(self, findings: Iterable[Finding], at: datetime) -> "ExaminationHistory":
        """With another examination, which has shown these."""
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
        """Whether it has stayed away for so long that it no longer holds with the confidence that it had."""
        missed, since = self._absence(finding)
        if since is None or self.latest is None:
            return False
        return missed >= ABSENT_EXAMINATIONS and self.latest - since >= ABSENT_TIME

    def absent_since(self, finding: Finding) -> datetime | None:
        """Since when it has stayed away, once that is more than noise."""
        missed, since = self._absence(finding)
        if since is None or self.latest is None:
            return None
        return since if missed >= NOTED_EXAMINATIONS and self.latest - since >= NOTED_TIME else None

    def _absence(self, finding: Finding) -> tuple[int, datetime | None]:
        """How many examinations in a row have not shown it, and when it was shown last."""
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
    """The measured findings, and in their place or beside them those of before that have not been away for long."""
    found = {finding.rule: finding for finding in measured}
    for finding in known:
        if not finding.is_open or Source.METRICS not in finding.sources or examination_history.is_gone(finding):
            continue
        shown = found.get(finding.rule)
        if shown is None or CONFIDENCES.index(shown.confidence) < CONFIDENCES.index(finding.confidence):
            found[finding.rule] = replace(finding, absent_since=examination_history.absent_since(finding))
    return tuple(found.values())
