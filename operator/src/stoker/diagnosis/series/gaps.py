"""Where samples are missing for so long that nobody can say what happened meanwhile."""

import numpy as np

from stoker.diagnosis.series.examination import Examination
from stoker.diagnosis.series.stages import runs

LONGEST_GAP_SECONDS = 180.0
"""So long may samples be missing without a doubt: three scrapes of a minute each."""


def long_gaps(exam: Examination, first: int, last: int) -> list[tuple[int, int]]:
    """The stretches between two steps in which some GPU's samples are missing for long, as half-open ranges."""
    unknown = np.asarray((exam.alive & ~exam.busy & ~exam.idle).any(axis=0), dtype=np.bool_)[first:last]
    found = [(first + start, first + stop) for start, stop in runs(unknown)]
    return [(start, stop) for start, stop in found if (stop - start) * exam.step > LONGEST_GAP_SECONDS]
