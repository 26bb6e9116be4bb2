"""What an exporter calls its metrics and labels: the profiles beside this module, read into types."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files

from stoker.adapters.prometheus.promql import any_of
from stoker.telemetry.series import GpuSignal

RATIO_LIMIT = 1.5
"""A ratio is at most 1, rounding and a burst over the interval aside; a larger value is a percentage."""
LOOKS_TO_CHANGE = 20
"""Ten minutes of looks: an exporter that was replaced writes in its new unit in all of them."""


class Unit(StrEnum):
    """Units of exporters."""

    PERCENT = "percent"
    RATIO = "ratio"
    MEBIBYTES = "MiB"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    MEGABYTES_PER_SECOND = "MB/s"
    WATTS = "W"
    MILLIJOULES = "mJ"
    MICROJOULES = "uJ"
    MEGAHERTZ = "MHz"
    COUNT = "count"


class Aggregation(StrEnum):
    """How a step's value comes from its samples."""

    MEAN = "mean"
    PEAK = "peak"
    """The largest: codes and totals have no mean."""
    TOTAL = "total"
    """A running total whose rate is the signal, such as energy for power."""


FACTORS = {
    Unit.PERCENT: 1.0,
    Unit.RATIO: 100.0,
    Unit.MEBIBYTES: 1.0,
    Unit.BYTES: 1 / (1024 * 1024),
    Unit.BYTES_PER_SECOND: 1.0,
    Unit.MEGABYTES_PER_SECOND: 1e6,
    Unit.WATTS: 1.0,
    Unit.MILLIJOULES: 1e-3,
    Unit.MICROJOULES: 1e-6,
    Unit.MEGAHERTZ: 1.0,
    Unit.COUNT: 1.0,
}
"""To the unit of GpuSignal."""

PLAUSIBLE = {
    Unit.PERCENT: 110.0,
    Unit.RATIO: 110.0,
    Unit.MEBIBYTES: 16 * 1024 * 1024.0,
    Unit.BYTES: 16 * 1024.0**4,
    Unit.BYTES_PER_SECOND: 1e14,
    Unit.MEGABYTES_PER_SECOND: 1e12,
    Unit.WATTS: 1e4,
    Unit.MILLIJOULES: 1e16,
    Unit.MICROJOULES: 1e19,
    Unit.MEGAHERTZ: 1e5,
    Unit.COUNT: 1e12,
}
"""The largest value that can be one. DCGM writes its blanks as numbers near 2^63 or 2^47, and exporters have passed
them on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric on the wire."""

    name: str
    signal: GpuSignal
    unit: Unit
    kind: Aggregation = Aggregation.MEAN
    adds_to: str = ""
    """The signal is the sum of all metrics that share this, such as the two directions of a link."""

    @property
    def largest_factor(self) -> float:
        """The largest that `factor` may answer."""
        return max(FACTORS[Unit.PERCENT], FACTORS[Unit.RATIO]) if self.is_ambiguous else FACTORS[self.unit]

    def plausible(self, value: float) -> bool:
        """Whether the value is one, and not an exporter's way of saying that it has none."""
        return math.isfinite(value) and 0 <= value <= PLAUSIBLE[self.unit]

    def factor(self, values: Iterable[float], *, averaged: bool = False) -> float:
        """What turns the metric into its signal's unit. Ratios and percentages are told apart by their values.

        `values` are as many as can be had, of all GPUs: a percentage that never exceeds 1 and has fractions is a ratio.
        Of `averaged` values that can't be said: exporters write whole percents, but the mean of 0 and 1 is a fraction.
        """
        if not self.is_ambiguous:
            return FACTORS[self.unit]
        known = [value for value in values if self.plausible(value)]
        highest = max(known, default=0.0)
        if highest > RATIO_LIMIT:
            return FACTORS[Unit.PERCENT]
        if self.unit is Unit.PERCENT and (averaged or not any(0 < value < 1 for value in known)):
            return FACTORS[Unit.PERCENT]
        return FACTORS[Unit.RATIO]

    @property
    def is_ambiguous(self) -> bool:
        """Its unit has to be told from its values."""
        return self.unit in (Unit.PERCENT, Unit.RATIO)

    def contradicts(self, values: Iterable[float]) -> bool:
        """Whether single samples are on both sides of the border between the units: a fraction that is a ratio's, and a
        value that only a percentage can have. Then two exporters write in two units, or one writes what it should not.
        """
        known = [value for value in values if self.plausible(value)]
        fractions = any(value <= RATIO_LIMIT and value % 1 for value in known)
        return self.is_ambiguous and fractions and any(value > RATIO_LIMIT for value in known)

    def shows_unit(self, values: Iterable[float]) -> bool:
        """Whether single samples, as exporters write them, show if the metric is a ratio or a percentage."""
        if not self.is_ambiguous:
            return True
        known = [value for value in values if self.plausible(value)]
        return any(value > RATIO_LIMIT or value % 1 for value in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose sample it is: the pod, and the device that it holds."""

    namespace: str
    pod: str
    gpu: str
    index: str | None
    model: str | None
    shared: bool
    partition: bool = False
    """A part of a device (MIG, a compute partition)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricProfile:
    """An exporter's metrics and labels; `labels` maps a role to the names that may have it, the first non-empty one
    counts.
    """

    name: str
    metrics: tuple[Metric, ...]
    labels: Mapping[str, tuple[str, ...]]
    context_idle_watts: Mapping[str, float]
    whole: frozenset[str]
    """Values of the label `partitioning` that mean a whole device, in lower case."""
    of_partition: frozenset[GpuSignal]
    """What of a partition's signals is the partition's own; the others are the whole device's."""
    of_sharer: frozenset[GpuSignal]
    """Likewise of a pod that shares a device with others."""

    @property
    def grouping(self) -> tuple[str, ...]:
        """Every label that tells one pod's device from another's."""
        return tuple(sorted({name for names in self.labels.values() for name in names}))

    def of(self, *signals: GpuSignal) -> tuple[Metric, ...]:
        """The metrics whose samples are values of these signals: totals are not."""
        return tuple(
            metric for metric in self.metrics if metric.signal in signals and metric.kind is not Aggregation.TOTAL
        )

    def totals(self, signal: GpuSignal) -> tuple[Metric, ...]:
        """The metrics whose rate is the signal."""
        return tuple(metric for metric in self.metrics if metric.signal is signal and metric.kind is Aggregation.TOTAL)

    def attributable(self, signal: GpuSignal, *, partition: bool, shared: bool) -> bool:
        """Whether a signal of a device tells of one pod's doing."""
        if partition and signal not in self.of_partition:
            return False
        return not shared or signal in self.of_sharer

    def identity(self, labels: Mapping[str, str]) -> Identity | None:
        """Whose sample it is; None for a device that no pod holds or that has no identity."""
        pod, namespace = self._label(labels, "pod"), self._label(labels, "namespace")
        device = self.device(labels)
        if not pod or not namespace or not device:
            return None
        return Identity(
            namespace=namespace,
            pod=pod,
            gpu=device,
            index=self._label(labels, "index") or None,
            model=self._label(labels, "model") or None,
            shared=bool(self._label(labels, "shared")),
            partition=self._label(labels, "partitioning").lower() not in self.whole,
        )

    def device(self, labels: Mapping[str, str]) -> str:
        """The device, or the part of one, that it is a sample of, whoever holds it; empty without an identity."""
        device, instance = self._label(labels, "device"), self._label(labels, "instance")
        return f"{device}/{instance}" if device and instance else device

    def pod(self, labels: Mapping[str, str]) -> tuple[str, str] | None:
        """Namespace and name of the pod whose sample it is."""
        pod, namespace = self._label(labels, "pod"), self._label(labels, "namespace")
        return (namespace, pod) if pod and namespace else None

    def selecting(self, pods: Sequence[str], namespace: str | None = None) -> list[dict[str, str]]:
        """Matchers that together select what these pods hold, by whichever label has the name."""
        # A pod's name stands in the first label that isn't empty, and the exporter's own in the next.
        labels = self.labels["pod"]
        found: list[dict[str, str]] = []
        for place, label in enumerate(labels):
            matcher = {**dict.fromkeys(labels[:place], ""), label: any_of(pods)}
            if namespace is not None:
                matcher[self.labels["namespace"][place]] = namespace
            found.append(matcher)
        return found

    def resting_watts(self, model: str | None) -> float | None:
        """What a model draws with a context and no work; None for one that isn't known."""
        words = frozenset(re.split(r"[ _/-]", model)) if model is not None else frozenset()
        return next((watts for name, watts in self.context_idle_watts.items() if name in words), None)

    def _label(self, labels: Mapping[str, str], role: str) -> str:
        # A loop, because a screen asks for tens of thousands: a generator takes twice as long.
        for name in self.labels[role]:
            if value := labels.get(name):
                return value
        return ""


class Factors:
    """What turns each metric into its signal's unit, as its values in the whole cluster have shown."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._doubted: set[str] = set()
        self._against: Counter[str] = Counter()
        """By the metric's name, how many looks in a row have shown another unit than the known one."""

    def learn(self, metric: Metric, values: Iterable[float]) -> None:
        """Take the unit from as many values as can be had; from values that fit two units, nothing is learned.

        Values of two units in one look, or of another than the known one, are a doubt, not a unit: what one exporter
        writes must not change what all others' values mean. The unit changes once LOOKS_TO_CHANGE in a row agree.
        """
        seen = list(values)
        if not metric.shows_unit(seen):
            return
        name, factor = metric.name, metric.factor(seen)
        if metric.contradicts(seen):
            self._against.pop(name, None)
            self._doubted.add(name)
            return
        if factor != self._known.setdefault(name, factor):
            self._against[name] += 1
            if self._against[name] < LOOKS_TO_CHANGE:
                self._doubted.add(name)
                return
        self._known[name] = factor
        self._doubted.discard(name)
        self._against.pop(name, None)

    def is_doubted(self, metric: Metric) -> bool:
        """Whether values that a ratio can have may be in either unit: work in one, and rest in the other."""
        return metric.name in self._doubted

    def of(self, metric: Metric) -> float:
        """The metric's factor, its nominal one while nothing was learned."""
        return self._known.get(metric.name, metric.factor(()))

    def learned(self, metric: Metric) -> float | None:
        """The metric's factor, if its values have shown it."""
        return self._known.get(metric.name)


def profile_of(name: str, prefix: str = "") -> MetricProfile:
    """A profile whose metrics' names begin with what the exporter was told to put before them.

    Raises KeyError for an unknown name.
    """
    profile = profiles()[name]
    return replace(profile, metrics=tuple(replace(metric, name=prefix + metric.name) for metric in profile.metrics))


@cache
def profiles() -> Mapping[str, MetricProfile]:
    """The profiles by name."""
    raw = tomllib.loads(files(__package__).joinpath("metric_profiles.toml").read_text(encoding="utf-8"))
    return {
        name: MetricProfile(
            name=name,
            metrics=tuple(
                Metric(
                    name=entry["metric"],
                    signal=GpuSignal(entry["signal"]),
                    unit=Unit(entry["unit"]),
                    kind=Aggregation(entry.get("kind", Aggregation.MEAN)),
                    adds_to=entry.get("adds_to", ""),
                )
                for entry in profile["metrics"]
            ),
            labels={role: tuple(names) for role, names in profile["labels"].items()},
            context_idle_watts=profile["context_idle_watts"],
            whole=frozenset(profile["attribution"]["whole"]),
            of_partition=frozenset(map(GpuSignal, profile["attribution"]["of_partition"])),
            of_sharer=frozenset(map(GpuSignal, profile["attribution"]["of_sharer"])),
        )
        for name, profile in raw.items()
    }
