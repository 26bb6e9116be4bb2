"""The samples of a job's GPUs as its exporter wrote them, and what they are in the signals' own units."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from stoker.adapters.prometheus.metric_profile import PLAUSIBLE, Aggregation, Identity, Metric, MetricProfile, Unit
from stoker.adapters.prometheus.promql import ORIGIN
from stoker.adapters.prometheus.transport import Rows
from stoker.telemetry.grid import Trace
from stoker.telemetry.readings import (
    added,
    highest,
    link_rates,
    mean_rates,
    parsed,
    proven,
    reading,
    scaled,
    steadiest,
)
from stoker.telemetry.series import FloatArray, GpuSignal

TAKEN = "/taken"
"""After a metric's name: when the sample was taken that was its latest."""
Device = tuple[str, str]
"""Pod and device."""


@dataclass(frozen=True, slots=True)
class _LabelledSamples:
    identity: Identity
    samples: FloatArray
    labels: frozenset[tuple[str, str]]

    @property
    def device(self) -> Device:
        return self.identity.pod, self.identity.gpu


class DeviceReadings:
    """Gathers the answers of one look at one job's GPUs."""

    def __init__(self, profile: MetricProfile, namespace: str) -> None:
        self._profile = profile
        self._namespace = namespace
        self._rows: dict[str, list[_LabelledSamples]] = defaultdict(list)
        self._taken: dict[tuple[str, frozenset[tuple[str, str]]], FloatArray] = {}

    def add(self, rows: Rows) -> None:
        """An answer whose rows name their metrics."""
        metrics = {metric.name: metric for metric in self._profile.metrics}
        for row in rows:
            identity = self._profile.identity(row["metric"])
            if identity is None or identity.namespace != self._namespace:
                continue
            labels = dict(row["metric"])
            name = labels.pop(ORIGIN)
            told = frozenset(labels.items())
            if name.endswith(TAKEN):
                self._taken[name.removesuffix(TAKEN), told] = reading(row["values"])
                continue
            metric = metrics[name]
            samples = reading(row["values"], PLAUSIBLE[metric.unit])
            if len(samples):
                self._rows[metric.name].append(_LabelledSamples(identity, samples, told))

    def highest(self, metric: Metric) -> float:
        """The metric's largest value, 0 without any."""
        return highest(row.samples for row in self._rows[metric.name])

    def contradict(self, metric: Metric) -> bool:
        """Whether some of the devices' largest values are ratios and others can only be percentages. Means of whole
        percents are fractions as well: of those it can't be said.
        """
        return metric.unit is Unit.RATIO and metric.contradicts(
            highest([row.samples]) for row in self._rows[metric.name]
        )

    def traces(self, factors: Mapping[str, float], *, step: float, gap: float, shared: bool) -> Iterator[Trace]:
        """All that is known of each device, what is preferred first: the profile's order.

        A metric without a factor is left out, and what is not the pod's own doing. `gap` is how many seconds without a
        sample are a gap; `shared` says that the job's GPUs are shared, whether or not the exporter does.
        """
        found = {
            metric.name: self._readings(metric, factors[metric.name], step, gap)
            for metric in self._profile.metrics
            if metric.name in factors
        }
        identities = {row.device: row.identity for rows in self._rows.values() for row in rows}
        memory = {
            device: exporters[0]
            for metric in reversed(self._profile.of(GpuSignal.MEMORY_USED))
            for device, exporters in found.get(metric.name, {}).items()
        }
        for signal, sources in self._sources():
            for source in sources:
                for device, samples in _combined([found.get(metric.name, {}) for metric in source]):
                    identity = identities[device]
                    sharing = shared or identity.shared
                    if not self._profile.attributable(signal, partition=identity.partition, shared=sharing):
                        continue
                    if sharing and signal is GpuSignal.UTIL:
                        # The exporter writes 0 for a pod whose processes it does not find, of its memory as well.
                        samples = proven(samples, memory.get(device))
                    yield Trace(
                        signal=signal,
                        pod=identity.pod,
                        gpu=identity.gpu,
                        index=identity.index,
                        context_idle_watts=None if identity.partition else self._profile.resting_watts(identity.model),
                        shared=sharing,
                        points=samples,
                    )

    def _readings(self, metric: Metric, factor: float, step: float, gap: float) -> dict[Device, list[FloatArray]]:
        """Each device's readings in the signal's unit, the best exporter's first."""
        rows = self._rows[metric.name]
        values = [scaled(row.samples, factor) for row in rows]
        if metric.kind is Aggregation.TOTAL:
            nothing = parsed(b"")
            taken = [self._taken.get((metric.name, row.labels), nothing) for row in rows]
            most = PLAUSIBLE[Unit.WATTS]
            values = [mean_rates(one, at, step, gap, most) for one, at in zip(values, taken, strict=True)]
        elif metric.signal is GpuSignal.NVLINK and not metric.adds_to:
            values = link_rates(values, gap)
        devices: dict[Device, list[FloatArray]] = defaultdict(list)
        for row, one in zip(rows, values, strict=True):
            devices[row.device].append(one)
        return {device: steadiest(exporters) for device, exporters in devices.items()}

    def _sources(self) -> Iterator[tuple[GpuSignal, list[list[Metric]]]]:
        """For each signal what it can be read from, in order: one metric, or several that are added."""
        for signal in GpuSignal:
            own = [metric for metric in self._profile.metrics if metric.signal is signal]
            yield signal, [list(group) for _, group in groupby(own, key=lambda metric: metric.adds_to or metric.name)]


def _combined(parts: Sequence[Mapping[Device, list[FloatArray]]]) -> Iterable[tuple[Device, FloatArray]]:
    """Each device's readings: all exporters' of one metric, or the sum of several metrics where all are known."""
    if len(parts) == 1:
        return [(device, samples) for device, exporters in parts[0].items() for samples in exporters]
    complete = [device for device in parts[0] if all(device in part for part in parts)]
    return [(device, added([part[device][0] for part in parts])) for device in complete]
