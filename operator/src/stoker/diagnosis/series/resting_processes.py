"""Whether a job's processes rest: by their CPUs, against what they took at work.

A sleeping shell takes next to nothing. The processes of a framework poll on while they idle: 0.1 to 0.2 cores each, and
always the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stoker.diagnosis.series.examination import Examination, once
from stoker.diagnosis.series.startup import CONTEXT_MIB
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import PodSignal

QUIET_CORES = 0.1
"""CPU cores of a pod. Chosen because a sleeping shell with exporters and log shippers takes less, and a process that
computes takes one.
"""
IDLE_PROCESS_CORES = 0.2
"""CPU cores that a framework's process takes at rest at most, for its polling threads; one process for each GPU."""
WORK_SHARE = 0.25
"""Share of the CPU at work. Chosen because a process that feeds a GPU keeps a core busy, and one that rests takes a
fifth of one.
"""
FLAT_VARIATION = 0.25
"""Deviation of the CPU over its mean. Chosen because timers take always the same, and what computes, reads and writes
by turns does not.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How the busiest pod's CPUs rest. cores: the highest of the pods' means. polls: some pod takes more than a
    sleeping shell, as idle processes of a framework do. ended: the GPUs' memory was given back, so that the processes
    that used it have ended.
    """

    cores: float
    polls: bool
    ended: bool


@once
def idle_cores(exam: Examination) -> Mapping[str, float]:
    """The most that each pod's processes take at rest, in cores: more than a sleeping shell only as a small part of
    what they took while the GPUs worked.
    """
    at_work = exam.pod_means(PodSignal.CPU, exam.any_busy) or {}
    return {
        pod.name: max(
            QUIET_CORES,
            min(QUIET_CORES + IDLE_PROCESS_CORES * pod.gpus, WORK_SHARE * at_work.get(pod.name, 0.0)),
        )
        for pod in exam.pods
    }


def processes_rest(exam: Examination, quiet: BoolArray) -> Rest | None:
    """How the CPUs rest in the steps of the mask; None where some pod's do not, or has too few samples."""
    means = exam.pod_means(PodSignal.CPU, quiet)
    if means is None:
        return None
    recorded = {pod.pod: pod.signals[PodSignal.CPU] for pod in exam.series.pods if PodSignal.CPU in pod.signals}
    polls = False
    for pod in exam.pods:
        level = means.get(pod.name)
        if level is None or level < QUIET_CORES:
            continue
        values = recorded[pod.name][quiet & exam.lives[pod.name]]
        if level >= idle_cores(exam)[pod.name] or float(np.nanstd(values)) > FLAT_VARIATION * level:
            return None
        polls = True
    return Rest(cores=max(means.values()), polls=polls, ended=memory_given_back(exam, quiet))


def memory_given_back(exam: Examination, quiet: BoolArray) -> bool:
    """Whether each GPU that held a model holds none in any step of the mask; unknown is no."""
    held = False
    for device in exam.present:
        memory = device.memory_mib
        now = memory[quiet & np.isfinite(memory)]
        if not len(now):
            return False
        if float(np.nanmax(memory)) > CONTEXT_MIB:
            held = True
            if float(now.max()) > CONTEXT_MIB:
                return False
    return held


__all__ = ["QUIET_CORES", "Rest", "idle_cores", "processes_rest"]
