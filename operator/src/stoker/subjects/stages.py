"""The stages of a job's life: few, and only those that the series prove."""

from dataclasses import dataclass

import numpy as np

from stoker.models.vocabulary import Stage
from stoker.subjects.grid import BoolArray

TAIL_MINIMUM_SECONDS = 300.0
"""A shorter pause at the end may be a checkpoint, a validation or the next epoch's shuffle."""


@dataclass(frozen=True, slots=True)
class Span:
    """Steps `first` up to, not including, `last` of the grid."""

    stage: Stage
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


def stages(life: BoolArray, allocated: BoolArray, busy: BoolArray, step: float) -> tuple[Span, ...]:
    """Split a job's life into Initialization, Active and Tail.

    Arrays of one element a step over the whole job: `life` its containers ran, `allocated` any GPU's memory stood over
    its baseline, `busy` any GPU worked. Initialization lasts until GPU memory first rises or a GPU first works;
    without any work it lasts on. The tail follows the last work.
    """
    alive = np.flatnonzero(life)
    if not len(alive):
        return ()
    first, last = int(alive[0]), int(alive[-1]) + 1
    working = np.flatnonzero(busy & life)
    if not len(working):
        return (Span(Stage.INITIALIZATION, first, last),)
    begin = int(np.flatnonzero((busy | allocated) & life)[0])
    end = int(working[-1]) + 1
    if (last - end) * step < TAIL_MINIMUM_SECONDS:
        end = last
    spans = (Span(Stage.INITIALIZATION, first, begin), Span(Stage.ACTIVE, begin, end), Span(Stage.TAIL, end, last))
    return tuple(span for span in spans if len(span))


def runs(mask: BoolArray) -> list[tuple[int, int]]:
    """The maximal stretches in which the mask holds, as half-open ranges of steps."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(edges[i]), int(edges[i + 1])) for i in range(0, len(edges), 2)]
