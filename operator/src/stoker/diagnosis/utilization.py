"""A job's utilization by the study's definition, from its examination."""

from operator import itemgetter

import numpy as np

from stoker.diagnosis.series.examination import Device, Examination
from stoker.findings.diagnosis import GpuUse, NodeUse, StageSpan, Utilization
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray


def utilization(exam: Examination) -> Utilization | None:
    """The job's utilization; None for a job that has not run yet."""
    if not exam.life.any():
        return None
    known = bool(np.isfinite(exam.use).any())
    everything = exam.explains(exam.life)
    memory = _memory_peak(exam)
    return Utilization(
        average_percent=exam.average,
        average_percent_range=exam.bounds if exam.average is None else None,
        recent_percent=_recent(exam),
        peak_memory_percent=memory,
        coverage_percent=exam.coverage_percent,
        gpu_hours=exam.expected_steps * exam.step / 3600,
        gpu_hours_idle=exam.idle_hours(everything) if known else None,
        as_of=exam.now,
        stages=tuple(
            StageSpan(
                stage=span.stage,
                start=exam.time(span.first),
                end=exam.until(span.last),
                average_percent=_mean(exam, exam.steps(span.first, span.last)),
            )
            for span in (exam.stages if known or memory is not None else ())
        ),
        nodes=_nodes(exam),
        gpus=tuple(_gpu(device) for device in sorted(exam.devices, key=lambda device: device.place)),
    )


def _gpu(device: Device) -> GpuUse:
    alive = int(device.life.sum())
    return GpuUse(
        pod=device.pod.name,
        rank=device.pod.rank,
        node=device.pod.node,
        gpu=device.label,
        average_percent=_device_mean(device.use),
        peak_memory_percent=float(np.nanmax(device.memory)) if np.isfinite(device.memory).any() else None,
        coverage_percent=100.0 * float(np.isfinite(device.use).sum()) / alive if alive else 0.0,
    )


def _mean(exam: Examination, mask: BoolArray) -> float | None:
    """Mean use over the steps of the mask; None below the policy's coverage."""
    values = exam.use[:, mask]
    expected = exam.expected(mask)
    known = int(np.isfinite(values).sum())
    if not expected or 100 * known < exam.thresholds.min_coverage_percent * expected:
        return None
    return float(np.nanmean(values))


def _recent(exam: Examination) -> float | None:
    return _mean(exam, exam.lately) if exam.lately.any() else None


def _memory_peak(exam: Examination) -> float | None:
    peaks = [float(np.nanmax(device.memory)) for device in exam.devices if np.isfinite(device.memory).any()]
    return max(peaks) if peaks else None


def _nodes(exam: Examination) -> tuple[NodeUse, ...]:
    """Each pod on its node, the worst first; a pod that can't be judged stands before all."""
    by_pod: dict[str, list[Device]] = {pod.name: [] for pod in exam.facts.pods}
    for device in exam.devices:
        if device.pod.name in by_pod:  # a former pod's time is the job's, its node no longer is
            by_pod[device.pod.name].append(device)
    found: list[tuple[float, int, NodeUse]] = []
    for pod in exam.facts.pods:
        if not exam.lives[pod.name].any():
            continue
        uses: list[float | None] = [_device_mean(device.use) for device in by_pod[pod.name]]
        uses += [None] * (pod.gpus - len(uses))
        use = NodeUse(pod=exam.facts.host_of(pod), node=pod.node, gpu_percents=tuple(uses))
        mean = use.average_percent
        found.append((-1.0 if mean is None else mean, pod.rank, use))
    return tuple(use for _, _, use in sorted(found, key=itemgetter(0, 1)))


def _device_mean(use: FloatArray) -> float | None:
    return float(np.nanmean(use)) if np.isfinite(use).any() else None
