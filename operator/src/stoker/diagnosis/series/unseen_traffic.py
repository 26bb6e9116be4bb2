"""What a job's pods may send or write while no metric shows it."""

import numpy as np

from stoker.diagnosis.series.examination import Examination
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import PodSignal

RESTING_CORES = 0.02
"""Cores of a pod over one step. A sleeping shell takes 0, an idle Jupyter server with three kernels 0.001.
One Python thread takes as much as this for sending 90 MB/s from memory without encryption, or for writing 10 MB/s to a
file (measured on Linux 6): what is slower than that stays unseen, unless it waits for its disks or mounts.
"""
IO_PRESSURE_PERCENT = 1.0
"""Percent of time, over a stretch, in which some task of a container waited for its disks or mounts (PSI): one that
sleeps does not.
"""


def is_hidden(exam: Examination, quiet: BoolArray) -> bool:
    """Whether the pods may send or write what no series shows: the network of one of them is not seen (it has no
    samples, or is the node's), or they mount storage whose traffic is the node's.
    """
    return exam.facts.mounts_storage or exam.pod_means(PodSignal.NET_TX, quiet) is None


def waits_for_io(exam: Examination, quiet: BoolArray) -> bool:
    """Whether some pod's tasks wait for its disks or mounts; pods without such samples say nothing."""
    for pod in exam.series.pods:
        values = pod.signals.get(PodSignal.IO_PRESSURE)
        known = np.empty(0) if values is None else values[quiet & np.isfinite(values)]
        if len(known) and known.mean() >= IO_PRESSURE_PERCENT:
            return True
    return False


def cpus_rest(exam: Examination, quiet: BoolArray) -> bool:
    """Whether the CPUs of all pods rest in every step, as far as it is sampled, and the policy's share of steps is."""
    recorded = {pod.pod: pod.signals.get(PodSignal.CPU) for pod in exam.series.pods}
    for pod in exam.pods:
        steps, values = quiet & exam.lives[pod.name], recorded.get(pod.name)
        if not steps.any():
            continue
        known = np.empty(0) if values is None else values[steps & np.isfinite(values)]
        if 100 * len(known) < exam.thresholds.min_coverage_percent * steps.sum() or (known > RESTING_CORES).any():
            return False
    return bool(quiet.any())


__all__ = ["IO_PRESSURE_PERCENT", "RESTING_CORES", "cpus_rest", "is_hidden", "waits_for_io"]
