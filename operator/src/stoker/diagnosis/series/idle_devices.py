"""Which GPUs of a job work, and which never did."""

from dataclasses import dataclass

import numpy as np

from stoker.diagnosis.series.examination import Device, Examination
from stoker.diagnosis.series.requests import acts_as_service

LEAST_WORK_SECONDS = 900.0
"""Fifteen minutes of work on the others: ranks that load or compile one after the other are at work long before."""
LEAST_USE_PERCENT = 5.0
"""A GPU below has hardly worked, and says nothing of what the others should do."""
TOUCHED_SECONDS = 60.0
"""Seconds of work on a GPU up to which it was only touched, as by a check of the devices."""
TOUCHED_SHARE = 0.01
"""Busy for a minute, or for a hundredth of the life where that is more: a check of the devices, no work."""
HELD_MEMORY_PERCENT = 10.0
"""From here on part of a model may live on an idle GPU (pipeline stages, offloaded layers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A job's GPUs apart: none of `idle` has done any work since step `first`, the job's start, up to `last`."""

    working: tuple[Device, ...]
    idle: tuple[Device, ...]
    working_percent: float
    first: int
    last: int


def idle_devices(exam: Examination) -> Split | None:
    """Tell the GPUs that work from those that never did; None where that can't be said of every GPU, or all work, or
    none.
    """
    facts = exam.facts
    if acts_as_service(exam) or "mig-" in facts.gpu_resource or facts.gpus < 2 or not exam.covered:
        return None
    idle = tuple(device for device in exam.present if not _works(exam, device))
    working = tuple(device for device in exam.present if _works(exam, device))
    if not idle or not working:
        return None
    if any(float(np.nanmax(device.memory, initial=0.0)) > HELD_MEMORY_PERCENT for device in idle):
        return None
    for device in working:
        if device.busy.sum() * exam.step < LEAST_WORK_SECONDS:
            return None
        if float(np.nanmean(device.use)) < LEAST_USE_PERCENT:
            return None
    alive = np.flatnonzero(exam.life)
    return Split(
        working=working,
        idle=idle,
        working_percent=float(np.mean([np.nanmean(device.use) for device in working])),
        first=int(alive[0]),
        last=int(alive[-1]) + 1,
    )


def all_work(exam: Examination) -> bool:
    """Whether every GPU that the job requested has worked, for so long that it was no check of the devices."""
    if not exam.every_gpu_seen or not exam.whole_gpus:
        return False
    return all(_works(exam, device) and device.busy.sum() * exam.step >= LEAST_WORK_SECONDS for device in exam.present)


def _works(exam: Examination, device: Device) -> bool:
    return bool(device.busy.sum() * exam.step > max(TOUCHED_SECONDS, TOUCHED_SHARE * exam.life_seconds))
