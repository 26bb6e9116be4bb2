"""The stages of a job's life: few, and only those that the series prove."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from stoker.findings.vocabulary import Stage
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

TAIL_MINIMUM_SECONDS = 300.0
"""A shorter pause at the end may be a checkpoint, a validation or the next epoch's shuffle."""
PREPROCESSING_MINIMUM_SECONDS = 300.0
"""Importing libraries, building an extension and building the model keep the CPUs busy, too, for some minutes."""
SEGMENT_MINIMUM_SECONDS = 300.0
"""A shorter stretch at another level may be a warm-up, one long batch or a neighbour's burst."""
LEVEL_SEPARATION_POINTS = 20.0
"""Percentage points between the levels of training and evaluation at least."""
LEVEL_DEVIATIONS = 3.0
"""Training and evaluation lie at two levels only if these differ by 20 points, and by three times what each varies."""
LEAST_LEVEL_PERCENT = 5.0
"""A stretch under it is a pause, whatever it is for: an evaluation on the GPUs uses them."""
LEAST_ALTERNATIONS = 3
"""As often must evaluation come back between two stretches of training for its level to be believed."""
EVALUATION_SHARE = 0.5
"""Evaluation takes less than half of the time that training does: else it can't be told which one is which."""


@dataclass(frozen=True, slots=True)
class StageSteps:
    """Steps `first` up to, not including, `last` of the grid."""

    stage: Stage
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


def stages(
    life: BoolArray, allocated: BoolArray, busy: BoolArray, preparing: BoolArray, step: float
) -> list[StageSteps]:
    """Split one attempt of a job into Initialization, Preprocessing, Active and Tail.

    Arrays of one element a step over the whole grid: `life` the attempt's containers ran, `allocated` any GPU's memory
    stood over its baseline, `busy` any GPU worked, `preparing` the pods' CPUs worked as those of preprocessing do.
    Preprocessing is what the CPUs do without a pause until a GPU first works. Initialization lasts until then, or,
    without it, until GPU memory first rises or a GPU first works; without any work it lasts on. The tail follows the
    last work.
    """
    alive = np.flatnonzero(life)
    if not len(alive):
        return []
    first, last = int(alive[0]), int(alive[-1]) + 1
    working = np.flatnonzero(busy & life)
    if not len(working):
        return [StageSteps(Stage.INITIALIZATION, first, last)]
    work = int(working[0])
    resting = np.flatnonzero(~preparing[first:work])
    prepared = first + int(resting[-1]) + 1 if len(resting) else first
    if (work - prepared) * step < PREPROCESSING_MINIMUM_SECONDS:
        prepared = work = int(np.flatnonzero((busy | allocated) & life)[0])
    end = int(working[-1]) + 1
    if (last - end) * step < TAIL_MINIMUM_SECONDS:
        end = last
    spans = (
        StageSteps(Stage.INITIALIZATION, first, prepared),
        StageSteps(Stage.PREPROCESSING, prepared, work),
        StageSteps(Stage.ACTIVE, work, end),
        StageSteps(Stage.TAIL, end, last),
    )
    return [span for span in spans if len(span)]


def without_start(spans: Sequence[StageSteps]) -> list[StageSteps]:
    """The stages of an attempt that began before the grid: what lies before the first work in sight is no start."""
    begun = [
        replace(span, stage=Stage.ACTIVE) if span.stage in {Stage.INITIALIZATION, Stage.PREPROCESSING} else span
        for span in spans
    ]
    joined: list[StageSteps] = []
    for span in begun:
        if joined and joined[-1].stage is span.stage is Stage.ACTIVE:
            joined[-1] = replace(joined[-1], last=span.last)
        else:
            joined.append(span)
    return joined


def evaluations(use: FloatArray, active: BoolArray, step: float) -> BoolArray:
    """The steps of an active stage that are evaluation rather than training; none where that can't be told.

    `use` is the job's mean in percent. Evaluation is the level that takes less of the time: one stretch at the end, or
    at least three between stretches of training, each at another level that is not nothing. One level that only rises
    after the start is a warm-up.
    """
    found = np.zeros(len(use), dtype=np.bool_)
    places = np.flatnonzero(active & np.isfinite(use))
    smooth = _smoothed(use[places], max(int(SEGMENT_MINIMUM_SECONDS / step) // 2 * 2 + 1, 3))
    split = _two_levels(smooth)
    if split is None:
        return found
    for rare in (split, ~split):
        if rare.mean() >= EVALUATION_SHARE / (1 + EVALUATION_SHARE):
            continue
        stretches = [pair for pair in runs(rare) if (pair[1] - pair[0]) * step >= SEGMENT_MINIMUM_SECONDS]
        if sum(last - first for first, last in stretches) < rare.sum():
            return found
        inner = [pair for pair in stretches if pair[0] > 0]
        final = len(stretches) == 1 and stretches[0][1] == len(rare) and stretches[0][0] > 0
        if final or (len(inner) >= LEAST_ALTERNATIONS and len(inner) == len(stretches)):
            found[places[rare]] = True
        return found
    return found


def runs(mask: BoolArray) -> list[tuple[int, int]]:
    """The maximal stretches in which the mask holds, as half-open ranges of steps."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def split(span: StageSteps, evaluating: BoolArray) -> Sequence[StageSteps]:
    """An active span cut into training and evaluation; as it is where nothing of it is evaluation."""
    if span.stage is not Stage.ACTIVE or not evaluating[span.first : span.last].any():
        return (span,)
    edges = np.flatnonzero(np.diff(evaluating[span.first : span.last].astype(np.int8))) + 1 + span.first
    return tuple(
        StageSteps(Stage.EVALUATION if evaluating[first] else Stage.TRAINING, first, last)
        for first, last in pairwise((span.first, *map(int, edges), span.last))
    )


def _smoothed(values: FloatArray, width: int) -> FloatArray:
    """The running median over `width` (odd) values: single drops and spikes vanish, edges stay where they are."""
    if len(values) < width:
        return values[:0]
    padded = np.pad(values, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=-1)


def _two_levels(values: FloatArray) -> BoolArray | None:
    """Where values stand at the lower of two levels that both vary little and are far apart; None for any others."""
    if len(values) < 2:
        return None
    ordered = np.sort(values)
    gap = int(np.argmax(np.diff(ordered)))
    lower = values <= ordered[gap]
    low, high = values[lower], values[~lower]
    if not len(high) or low.mean() < LEAST_LEVEL_PERCENT:
        return None
    apart = high.mean() - low.mean()
    if apart < max(LEVEL_SEPARATION_POINTS, LEVEL_DEVIATIONS * max(low.std(), high.std())):
        return None
    return np.asarray(lower, dtype=np.bool_)
