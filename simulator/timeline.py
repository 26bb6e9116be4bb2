"""Resource use over time as constants in short stretches, with exact integrals over any interval.

A job takes some hundred thousand steps; they are not stored. A `Pattern` is a few dozen steps worth of stretches, a
`Timeline` a list of patterns, each played for a while. Both evaluate whole arrays of times at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What one GPU does: activities 0..1, bytes/s, watts, MiB, MHz; `xid` and `replays` are the driver's."""

    engine: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    rx: float = 0.0
    tx: float = 0.0
    nvlink: float = 0.0
    power: float = 0.0
    memory: float = 0.0
    clock: float = 0.0
    xid: float = 0.0
    replays: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What one pod does: cores, bytes (`memory`), bytes/s; throttling and pressures as shares of time, 0..1."""

    cpu: float = 0.0
    memory: float = 0.0
    net_rx: float = 0.0
    net_tx: float = 0.0
    disk_read: float = 0.0
    disk_write: float = 0.0
    throttled: float = 0.0
    cpu_pressure: float = 0.0
    io_pressure: float = 0.0
    memory_pressure: float = 0.0


Use = GpuUse | PodUse
GPU_FIELDS = tuple(field.name for field in fields(GpuUse))
POD_FIELDS = tuple(field.name for field in fields(PodUse))


def vector(use: Use) -> FloatArray:
    """The fields in their order."""
    names = GPU_FIELDS if isinstance(use, GpuUse) else POD_FIELDS
    return np.array([getattr(use, name) for name in names], dtype=np.float64)


def gpu_use(values: FloatArray) -> GpuUse:
    """The use whose fields these are, in their order."""
    return GpuUse(**dict(zip(GPU_FIELDS, values.tolist(), strict=True)))


def pod_use(values: FloatArray) -> PodUse:
    """The use whose fields these are, in their order."""
    return PodUse(**dict(zip(POD_FIELDS, values.tolist(), strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some seconds in which nothing changes. `uses` by role; `activity` says what the job does, in words of cause."""

    seconds: float
    activity: str
    uses: Mapping[str, Use]


class Pattern:
    """Stretches that follow one another, played from the beginning again after the last."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        """Raises ValueError for stretches that don't all speak of the same roles."""
        kept = [stretch for stretch in stretches if stretch.seconds > 0]
        if not kept:
            raise ValueError("a pattern needs a stretch of some length")
        self.roles = frozenset(kept[0].uses)
        if any(frozenset(stretch.uses) != self.roles for stretch in kept):
            raise ValueError("every stretch of a pattern needs every role")
        seconds = np.array([stretch.seconds for stretch in kept])
        self.starts = np.concatenate([[0.0], np.cumsum(seconds)[:-1]])
        self.period = float(seconds.sum())
        vectors = {id(use): vector(use) for stretch in kept for use in stretch.uses.values()}
        self.rates = {role: np.array([vectors[id(stretch.uses[role])] for stretch in kept]) for role in self.roles}
        self.before = {
            role: np.concatenate([np.zeros((1, rates.shape[1])), np.cumsum(rates * seconds[:, None], axis=0)])
            for role, rates in self.rates.items()
        }
        self.activities: dict[str, float] = {}
        for stretch in kept:
            share = stretch.seconds / self.period
            self.activities[stretch.activity] = self.activities.get(stretch.activity, 0.0) + share

    def total(self, role: str, seconds: float) -> FloatArray:
        """What a role used in the first seconds (at most a period)."""
        index = max(int(np.searchsorted(self.starts, seconds, side="right")) - 1, 0)
        found: FloatArray = self.before[role][index] + (seconds - self.starts[index]) * self.rates[role][index]
        return found

    def over(self, extra: Mapping[str, Use]) -> "Pattern":
        """The same with something else going on beside it: rates of these roles are raised."""
        other = object.__new__(Pattern)
        other.roles, other.starts, other.period, other.activities = (
            self.roles,
            self.starts,
            self.period,
            self.activities,
        )
        other.rates, other.before = dict(self.rates), dict(self.before)
        ends = np.append(self.starts, self.period)[:, None]
        for role, use in extra.items():
            added = vector(use)
            other.rates[role] = self.rates[role] + added
            other.before[role] = self.before[role] + ends * added
        return other


class Timeline:
    """Patterns one after the other, each for some seconds. What the last one shows at its end stays after it."""

    def __init__(self, parts: Sequence[tuple[Pattern, float]]) -> None:
        """Raises ValueError without a part, or for parts with different roles."""
        parts = [part for part in parts if part[1] > 0]
        if not parts:
            raise ValueError("a timeline needs a part of some length")
        self.roles = parts[0][0].roles
        if any(pattern.roles != self.roles for pattern, _ in parts):
            raise ValueError("every part of a timeline needs every role")
        patterns = list({id(pattern): pattern for pattern, _ in parts}.values())
        number = {id(pattern): index for index, pattern in enumerate(patterns)}
        self._patterns = patterns
        self._which = np.array([number[id(pattern)] for pattern, _ in parts])
        self._seconds = np.array([seconds for _, seconds in parts], dtype=np.float64)
        self._starts = np.concatenate([[0.0], np.cumsum(self._seconds)[:-1]])
        self.duration = float(self._seconds.sum())
        self._period = np.array([pattern.period for pattern in patterns])
        self._first = np.concatenate([[0], np.cumsum([len(pattern.starts) for pattern in patterns])[:-1]])
        # One sorted array for all patterns: pattern number x a span that no pattern exceeds, plus the time inside it.
        self._span = float(self._period.max()) * 2
        self._began = np.concatenate([pattern.starts for pattern in patterns])
        self._keys = np.concatenate([index * self._span + pattern.starts for index, pattern in enumerate(patterns)])
        self._tracks: dict[str, _Track] = {}

    @cached_property
    def activities(self) -> dict[str, float]:
        """Seconds by what the job did."""
        found: dict[str, float] = {}
        for which, seconds in zip(self._which, self._seconds, strict=True):
            for activity, share in self._patterns[which].activities.items():
                found[activity] = found.get(activity, 0.0) + share * float(seconds)
        return found

    def _place(self, times: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
        """Of each time: the part, the whole periods before it in that part, and the seconds in the running one."""
        part = np.clip(np.searchsorted(self._starts, times, side="right") - 1, 0, len(self._starts) - 1)
        offset = times - self._starts[part]
        period = self._period[self._which[part]]
        rounds = np.floor(offset / period + 1e-12)
        return part, rounds, np.maximum(offset - rounds * period, 0.0)

    def _stretch(self, part: npt.NDArray[np.int64], inside: FloatArray) -> npt.NDArray[np.int64]:
        which = self._which[part]
        found = np.searchsorted(self._keys, which * self._span + inside, side="right") - 1
        bounded: npt.NDArray[np.int64] = np.maximum(found, self._first[which])
        return bounded

    def value(self, role: str, times: FloatArray) -> FloatArray:
        """The rates at these times (seconds from the start, at least 0): one row a time, one column a field."""
        part, _, inside = self._place(np.minimum(times, self.duration - 1e-9))
        rates: FloatArray = self._track(role).rates[self._stretch(part, inside)]
        return rates

    def integral(self, role: str, times: FloatArray) -> FloatArray:
        """The totals from the start to these times (at least 0), in the fields' units times seconds."""
        inner = np.minimum(times, self.duration)
        part, rounds, inside = self._place(inner)
        stretch = self._stretch(part, inside)
        track = self._track(role)
        totals: FloatArray = (
            track.before_part[part]
            + rounds[:, None] * track.whole[self._which[part]]
            + track.before_stretch[stretch]
            + (inside - self._began[stretch])[:, None] * track.rates[stretch]
        )
        after = times - inner
        if after.any():
            totals = totals + after[:, None] * self.value(role, np.array([self.duration]))
        return totals

    def _track(self, role: str) -> "_Track":
        if role not in self._tracks:
            self._tracks[role] = _Track(self._patterns, self._which, self._seconds, self._period, role)
        return self._tracks[role]


class _Track:
    """One role's rates and running totals, over all patterns of a timeline."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        which: npt.NDArray[np.int64],
        seconds: FloatArray,
        period: FloatArray,
        role: str,
    ) -> None:
        self.rates = np.concatenate([pattern.rates[role] for pattern in patterns])
        self.before_stretch = np.concatenate([pattern.before[role][:-1] for pattern in patterns])
        self.whole = np.array([pattern.before[role][-1] for pattern in patterns])
        rounds = np.floor(seconds / period[which] + 1e-12)
        rest = seconds - rounds * period[which]
        last = np.array([patterns[w].total(role, float(r)) for w, r in zip(which, rest, strict=True)])
        totals = rounds[:, None] * self.whole[which] + last
        self.before_part = np.concatenate([np.zeros((1, totals.shape[1])), np.cumsum(totals, axis=0)[:-1]])
