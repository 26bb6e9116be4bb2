"""The compute time of a trace, divided into what comes from the rank, from the pipeline stage and from the micro-batch.

Used by causes.py: each of the three gives factors by which the replay takes that inequality out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stoker.telemetry.grid import BoolArray
from stoker.telemetry.operations import COMPUTE, OperationTrace, OperationType, TracedOperation, TraceError
from stoker.telemetry.series import FloatArray

SLOWER = 1.05
"""A rank's compute time against its peers' from which it is slow. Chosen because boards of one model differ by some
percent at the same work.
"""
STANDARD_ERRORS = 4.0
"""Standard errors, from step to step, by which a slow rank must exceed its peers. Chosen because a job of a thousand
ranks has one beyond 3.3 by chance.
"""
UNEVEN = 0.1
"""Spread of the micro-batches' times on a rank, as a share of their mean, from which a replica whose stages are all
slow has the longer sequences. Chosen because equal micro-batches spread by 1 to 2 % in the published traces, unequal
ones by 20 to 28 %.
"""

Factors = dict[int, FloatArray]
"""What the duration of each compute operation is multiplied by; the key is its place in the trace's operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The compute time of a trace, and its division.

    compute: the compute operations, by their place in the trace. by_type: seconds of each type, of the shape (stage,
    micro-batch, step, replica). slowness: how many times as long as its peers each rank (stage, replica) needs;
    exactly 1 for those that are not slow. stage_seconds: of each type, the mean seconds of a micro-batch on each
    stage, on ranks that are not slow. sizes: each micro-batch against the mean of its step, of the shape (micro-batch,
    step, replica).
    """

    compute: Mapping[int, TracedOperation]
    micro_batches: Mapping[int, int]
    by_type: Mapping[OperationType, FloatArray]
    slowness: FloatArray
    stage_seconds: Mapping[OperationType, FloatArray]
    sizes: FloatArray

    @property
    def slow(self) -> BoolArray:
        """Which ranks (stage, replica) are slow."""
        return np.asarray(self.slowness > 1.0, dtype=np.bool_)

    @property
    def stage_shares(self) -> FloatArray:
        """The compute time of each stage against the mean of all stages."""
        total = np.sum(list(self.stage_seconds.values()), axis=0)
        return np.asarray(total / total.mean(), dtype=np.float64)

    def without_slow_ranks(self) -> Factors:
        """Slow ranks compute as fast as their peers."""
        return {place: 1.0 / self.slowness[one.stage][np.newaxis] for place, one in self.compute.items()}

    def without_unequal_stages(self) -> Factors:
        """All stages have the same work, all together as much as before."""
        balanced = {kind: seconds.mean() / seconds for kind, seconds in self.stage_seconds.items()}
        return {place: np.full((1, 1), balanced[one.type][one.stage]) for place, one in self.compute.items()}

    def without_unequal_sequences(self) -> Factors:
        """All micro-batches of a step have the same work, all together as much as before."""
        return {place: 1.0 / self.sizes[self.micro_batches[place]] for place in self.compute}

    def alike(self) -> tuple[float, float | None]:
        """Whether it is the micro-batch that makes compute longer or shorter: the correlation of its forward with its
        backward time on the same rank, and of its time on different stages (None with one stage); medians over ranks.
        """
        forward, backward = (self.by_type[kind] for kind in COMPUTE)
        both = forward + backward
        on_stages = None if len(both) == 1 else float(np.median(_correlation(both[:-1], both[1:])))
        return float(np.median(_correlation(forward, backward))), on_stages


def divide(trace: OperationTrace) -> Work:
    """Divide the trace's compute time. Raises TraceError where it has no compute that can be compared."""
    compute = {place: one for place, one in enumerate(trace.operations) if one.type in COMPUTE}
    numbers = {number: place for place, number in enumerate(sorted({one.micro_batch for one in compute.values()}))}
    micro_batches = {place: numbers[one.micro_batch] for place, one in compute.items()}
    shape = (trace.stages, len(numbers), trace.steps, trace.replicas)
    by_type = {kind: np.zeros(shape) for kind in COMPUTE}
    for place, one in compute.items():
        by_type[one.type][one.stage, micro_batches[place]] += one.seconds
    for kind, seconds in by_type.items():
        if not (seconds > 0).all():
            raise TraceError(f"every stage must have a {kind} of every micro-batch, longer than 0 s")
    both = np.sum(list(by_type.values()), axis=0)
    slowness = _slowness(both)
    return Work(
        compute=compute,
        micro_batches=micro_batches,
        by_type=by_type,
        slowness=slowness,
        stage_seconds={kind: _of_healthy(seconds.mean(axis=(1, 2)), slowness > 1) for kind, seconds in by_type.items()},
        sizes=_sizes(both / slowness[:, np.newaxis, np.newaxis]),
    )


def _slowness(seconds: FloatArray) -> FloatArray:
    """How many times as long as its peers, the same stage of the other replicas, each rank (stage, replica) needs; 1
    where that is not more than chance. From compute times of the shape (stage, micro-batch, step, replica).
    """
    of_steps = seconds.sum(axis=1)
    mean = of_steps.mean(axis=1)
    replicas = mean.shape[1]
    if replicas == 1:
        return np.ones(mean.shape)
    others = [np.median(np.delete(of_steps, replica, axis=2), axis=2) for replica in range(replicas)]
    in_steps = of_steps / np.stack(others, axis=2)
    # Of all ranks of a stage together: a few steps of one rank tell little of its spread.
    spread = (in_steps / in_steps.mean(axis=1, keepdims=True)).var(axis=1, ddof=1).mean(axis=1, keepdims=True)
    error = np.sqrt(spread / of_steps.shape[1])
    peers = np.stack([np.median(np.delete(mean, one, axis=1), axis=1) for one in range(replicas)], axis=1)
    slow = mean / peers >= 1 + np.maximum(SLOWER - 1, STANDARD_ERRORS * error)
    uneven = (seconds.std(axis=1) / seconds.mean(axis=1)).mean(axis=(0, 1))
    if len(mean) > 1:
        slow &= ~(slow.all(axis=0) & (uneven >= UNEVEN))
    healthy = _of_healthy(mean, slow)[:, np.newaxis]
    return np.asarray(np.where(slow, np.maximum(mean / healthy, SLOWER), 1.0), dtype=np.float64)


def _of_healthy(seconds: FloatArray, slow: BoolArray) -> FloatArray:
    """The median of each stage's ranks that are not slow, from the shape (stage, replica)."""
    return np.asarray(np.nanmedian(np.where(slow, np.nan, seconds), axis=1), dtype=np.float64)


def _sizes(seconds: FloatArray) -> FloatArray:
    """What all stages together say of a micro-batch, slow ranks left aside. Against the mean of its step, as sequences
    can be exchanged among the micro-batches of one step only.
    """
    on_stages = seconds / seconds.mean(axis=(1, 2, 3), keepdims=True)
    sizes = on_stages.mean(axis=0)
    return np.asarray(sizes / sizes.mean(axis=(0, 2), keepdims=True), dtype=np.float64)


def _correlation(first: FloatArray, second: FloatArray) -> FloatArray:
    """Pearson's, over the micro-batches of a rank within each step, for each (stage, replica)."""
    one = first - first.mean(axis=1, keepdims=True)
    other = second - second.mean(axis=1, keepdims=True)
    spread = np.sqrt((one**2).sum(axis=(1, 2)) * (other**2).sum(axis=(1, 2)))
    return np.asarray((one * other).sum(axis=(1, 2)) / np.maximum(spread, 1e-12), dtype=np.float64)


__all__ = ["Factors", "Work", "divide"]
