"""Utilization in the words and units of a DLJob's status."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from stoker.api.status import GPUS_A_ROW, MAX_NODES, MAX_STAGES
from stoker.findings.diagnosis import NodeUse, StageSpan, Utilization
from stoker.findings.finding import optional_time, rfc3339
from stoker.findings.vocabulary import UnknownReason
from stoker.findings.wording import minutes

UNKNOWN = {
    UnknownReason.NO_SAMPLES: "samples are missing for some or all of its GPUs",
    UnknownReason.STALE: "its last samples are too old",
    UnknownReason.PARTIAL: "the samples of the last minutes, or Prometheus' answer, are incomplete",
    UnknownReason.PROMETHEUS_UNAVAILABLE: "the metrics can't be read",
    UnknownReason.INTERNAL_ERROR: "Stoker fails to read this job's objects; see the controller's log",
    UnknownReason.SCAN_FAILED: "Stoker fails to scan the metrics; see the controller's log",
    UnknownReason.UNCOUNTED_GPUS: "its pods may hold GPUs for which no samples are queried",
}
"""Why nothing can be said of now."""


def to_status(utilization: Utilization) -> dict[str, Any]:
    """`status.utilization`: whole percents within 0..100, GPU-hours as strings, absent values omitted."""
    entry: dict[str, Any] = {
        "averagePercent": whole_percent(utilization.average_percent),
        "averagePercentRange": None,
        "recentPercent": whole_percent(utilization.recent_percent),
        "peakMemoryPercent": whole_percent(utilization.peak_memory_percent),
        "coveragePercent": _floor_percent(utilization.coverage_percent),
        "gpuHours": f"{utilization.gpu_hours:.1f}",
        "gpuHoursIdle": None if utilization.gpu_hours_idle is None else f"{utilization.gpu_hours_idle:.1f}",
        "asOf": rfc3339(utilization.as_of),
        "stages": [_known(stage(one, whole_percent)) for one in utilization.stages[-MAX_STAGES:]] or None,
        "nodes": [_node(one) for one in utilization.nodes[:MAX_NODES]] or None,
    }
    if utilization.average_percent is None and utilization.average_percent_range is not None:
        low, high = utilization.average_percent_range
        entry["averagePercentRange"] = [_floor_percent(low), _ceil_percent(high)]
    return _known(entry)


def stage(span: StageSpan, percent: Callable[[float | None], float | None]) -> dict[str, Any]:
    """A stage with every field, None where it lasts or its mean is unknown; `percent` writes the mean."""
    return {
        "stage": span.stage.value,
        "start": rfc3339(span.start),
        "end": optional_time(span.end),
        "averagePercent": percent(span.average_percent),
    }


def _known(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the status, which has no field for what is unknown."""
    return {key: value for key, value in entry.items() if value is not None}


def _node(use: NodeUse) -> dict[str, Any]:
    """An entry of `status.utilization.nodes`; an unknown GPU keeps its place in its row."""
    percents = [whole_percent(one) for one in use.gpu_percents]
    entry = {
        "pod": use.pod,
        "node": use.node,
        "gpuPercents": [percents[start : start + GPUS_A_ROW] for start in range(0, len(percents), GPUS_A_ROW)],
    }
    return _known(entry)


def whole_percent(value: float | None) -> int | None:
    """The nearest whole percent within 0..100; None stays None, and what is no number becomes None."""
    if value is None or not math.isfinite(value):
        return None
    return min(max(math.floor(value + 0.5), 0), 100)


def stage_lines(stages: Sequence[StageSpan]) -> tuple[str, ...]:
    """`Initialization  2026-11-21T05:40:00Z  12 min   0 %`, one line a stage, in columns: its start, its length once it
    has ended, and its mean utilization.
    """
    stages = stages[-MAX_STAGES:]
    if not stages:
        return ()
    lengths = ["" if one.end is None else minutes((one.end - one.start).total_seconds()) for one in stages]
    name_width = max(len(stage.stage.value) for stage in stages)
    length_width = max(map(len, lengths))
    return tuple(
        f"{stage.stage.value:<{name_width}}  {rfc3339(stage.start)}  {length:>{length_width}} "
        f"{_figure(stage.average_percent):>3} %"
        for stage, length in zip(stages, lengths, strict=True)
    )


def _figure(value: float | None) -> str:
    rounded = whole_percent(value)
    return "?" if rounded is None else str(rounded)


def _floor_percent(value: float) -> int:
    return min(max(math.floor(value), 0), 100)


def _ceil_percent(value: float) -> int:
    return min(max(math.ceil(value), 0), 100)
