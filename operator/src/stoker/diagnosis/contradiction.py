"""What ran refutes what was read: static findings that the series of the running job contradict.

`merge` leaves them out, however certain the rule was. A launcher's or a server's defaults are not always known.
"""

from stoker.diagnosis.series.examination import Examination
from stoker.diagnosis.series.idle_devices import LEAST_WORK_SECONDS, all_work
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category

LEAVE_GPUS_UNUSED = frozenset(
    {
        "accelerate-config-no",
        "accelerate-per-node-count",
        "cpu-wheel",
        "devices-hidden",
        "devices-subset",
        "image-cpu-only",
        "launcher-too-few",
        "lightning-devices",
        "serving-parallelism",
        "torchrun-nproc-omitted",
    }
)
"""Admission rules by which some or all GPUs of the job would never work."""
LONG_START_SECONDS = 600.0
"""Seconds from which an installation is a long one (ICSE 2024, section 4.4)."""


def is_refuted(exam: Examination, static: Finding) -> bool:
    """Whether the series show that the static finding does not hold: GPUs that would not be used, or that no program
    needs, do work; or an installation that would take long has not.
    """
    if static.rule in LEAVE_GPUS_UNUSED:
        return all_work(exam)
    match static.category:
        case Category.NON_DL_JOB:
            return bool(exam.any_busy.sum() * exam.step >= LEAST_WORK_SECONDS)
        case Category.LONG_LIBRARY_INSTALLATION:
            return _started_fast(exam)
    return False


def _started_fast(exam: Examination) -> bool:
    """Whether each attempt is seen to have used its GPUs before a long installation could have ended."""
    if exam.began_before or not exam.attempts:
        return False
    for attempt in exam.attempts:
        worked = (attempt & exam.any_busy).argmax()
        if not (attempt & exam.any_busy).any() or (worked - attempt.argmax()) * exam.step >= LONG_START_SECONDS:
            return False
    return True


__all__ = ["LEAVE_GPUS_UNUSED", "is_refuted"]
