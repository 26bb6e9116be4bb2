"""What a job's pods and GPUs carry in and out, with what they merely exchange among one another taken apart.

Ranks that exchange gradients receive as much as they send. What a pod receives beyond what it sends comes from
elsewhere; so it is with a GPU that shares its host link with its peers.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from stoker.diagnosis.series.examination import Device, Examination
from stoker.diagnosis.series.percentiles import percentile
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, PodSignal

USUAL_PERCENTILE = 95.0
"""Of a GPU's own traffic: what exceeds it stands out."""
QUIET_PERCENTILE = 5.0
"""Of the same: what flows all the time, whatever the program does."""
ASYMMETRY = 1.25
"""So many times what it receives a pod may send in an exchange: headers, resends and the ends of trees and rings. What
it sends beyond that is no exchange.
"""
Flow = tuple[str, FloatArray]
"""A pod's name and its bytes a second."""


def flows(exam: Examination, signal: PodSignal) -> Iterator[Flow]:
    """A signal of each pod that has samples; the network of a pod on its host's network is the host's."""
    hosted = {pod.name for pod in exam.pods if pod.host_network}
    network = signal in (PodSignal.NET_RX, PodSignal.NET_TX)
    for pod in exam.series.pods:
        values = pod.signals.get(signal)
        if values is not None and not (network and pod.pod in hosted):
            yield pod.pod, values


def sent(exam: Examination) -> Iterator[Flow]:
    """What each pod sends, beyond what it receives meanwhile where the job has several."""
    yield from _beyond(exam, PodSignal.NET_TX, PodSignal.NET_RX)


def received(exam: Examination) -> Iterator[Flow]:
    """What each pod receives, beyond what it sends meanwhile where the job has several."""
    yield from _beyond(exam, PodSignal.NET_RX, PodSignal.NET_TX)


def exchanged(exam: Examination) -> Iterator[Flow]:
    """What each pod of several sends and receives alike."""
    back = dict(flows(exam, PodSignal.NET_RX))
    for pod, values in flows(exam, PodSignal.NET_TX):
        if exam.facts.nodes > 1 and pod in back:
            yield pod, np.minimum(values, back[pod])


def copied(device: Device) -> FloatArray | None:
    """Bytes a second from the host to a GPU, beyond what goes back; None without samples."""
    there, back = device.signal(GpuSignal.PCIE_RX), device.signal(GpuSignal.PCIE_TX)
    return there if there is None or back is None else np.maximum(there - back, 0.0)


def returned(
    exam: Examination, mask: BoolArray, pod: str | None = None, *, usual_in: BoolArray | None = None
) -> float | None:
    """Mean bytes a second within the mask that the GPUs of a pod (of all by default) send to the host, together; None
    where any of them has no samples. `usual_in`: steps that show what a GPU usually sends; only what exceeds that
    counts.

    Of several GPUs only what they do not exchange with one another counts, seen in two ways: what one sends more than
    its peers do, or what each sends more than it receives.
    """
    devices = [device for device in exam.devices if pod in (None, device.pod.name)]
    rows = np.array([values for device in devices if (values := device.signal(GpuSignal.PCIE_TX)) is not None])
    if not len(rows) or len(rows) < len(devices):
        return None
    if len(exam.devices) == 1:
        return _over(devices, rows, mask, usual_in)
    copied_in = [device.signal(GpuSignal.PCIE_RX) for device in devices]
    back = np.array([np.zeros(len(mask)) if values is None else values for values in copied_in])
    alone = np.maximum(rows - np.median(rows, axis=0), 0.0) if len(rows) > 2 else np.zeros(rows.shape)
    ways = (alone, np.maximum(rows - back, 0.0))
    return max(_over(devices, one, mask, usual_in) for one in ways)


def usually_sent(exam: Examination, mask: BoolArray, pod: str, usual_in: BoolArray) -> float:
    """Mean bytes a second within the mask that the GPUs of a pod usually send to the host, whatever for, as they do in
    the steps of `usual_in`; 0 without samples.
    """
    return sum(
        float(_usual(device, row, usual_in)[mask].mean())
        for device in exam.devices
        if device.pod.name == pod and (row := device.signal(GpuSignal.PCIE_TX)) is not None
    )


def _over(devices: Sequence[Device], rows: FloatArray, mask: BoolArray, usual_in: BoolArray | None) -> float:
    """The sum of the devices' means within the mask, over what is usual to them."""
    total = 0.0
    for device, row in zip(devices, rows, strict=True):
        known = mask & np.isfinite(row)
        if known.any():
            usual = 0.0 if usual_in is None else _usual(device, row, usual_in)[known]
            total += float(np.maximum(row[known] - usual, 0.0).mean())
    return total


def _usual(device: Device, row: FloatArray, usual_in: BoolArray) -> FloatArray:
    """What a GPU's program sends by itself in each step: nearly all of what it sends in the steps of `usual_in`, and
    as much less as it works less, but no less than its quietest steps there.
    """
    known = row[usual_in & np.isfinite(row)]
    work = device.use[usual_in & np.isfinite(device.use)]
    if not len(known):
        return np.zeros(len(row))
    level = float(np.median(work)) if len(work) else 0.0
    pace = np.clip(np.nan_to_num(device.use / level, nan=1.0), 0.0, 1.0) if level > 0 else np.ones(len(row))
    return np.maximum(pace * percentile(known, USUAL_PERCENTILE), percentile(known, QUIET_PERCENTILE))


def both_ways(exam: Examination) -> list[FloatArray]:
    """Of each GPU that has samples, what goes over its host link in both directions alike, bytes a second in each."""
    pairs = ((device.signal(GpuSignal.PCIE_RX), device.signal(GpuSignal.PCIE_TX)) for device in exam.devices)
    return [np.minimum(there, back) for there, back in pairs if there is not None and back is not None]


def links(exam: Examination) -> list[FloatArray]:
    """Of each GPU that has samples, what goes over NVLink, bytes a second of both directions together."""
    return [values for device in exam.devices if (values := device.signal(GpuSignal.NVLINK)) is not None]


def means(exam: Examination, found: Iterator[Flow], mask: BoolArray) -> dict[str, float]:
    """The pods' means within the mask, of those that have samples for half of their life there."""
    found_means: dict[str, float] = {}
    for pod, values in found:
        alive = mask & exam.lives.get(pod, mask)
        known = values[alive & np.isfinite(values)]
        if len(known) and len(known) >= alive.sum() / 2:
            found_means[pod] = float(known.mean())
    return found_means


def peak(exam: Examination, found: Iterator[Flow], mask: BoolArray) -> float | None:
    """The largest of the pods' means within the mask; None where none has samples for half of its life there."""
    return max(means(exam, found, mask).values(), default=None)


def _beyond(exam: Examination, signal: PodSignal, other: PodSignal) -> Iterator[Flow]:
    back = dict(flows(exam, other)) if exam.facts.nodes > 1 else {}
    for pod, values in flows(exam, signal):
        yield pod, np.maximum(values - ASYMMETRY * back[pod], 0.0) if pod in back else values
