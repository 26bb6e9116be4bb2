"""An operation trace: what each rank of a distributed training did in some steps, operation by operation.

Profilers of pipeline-parallel trainings write such traces. adapters.operation_traces reads the files,
diagnosis.operations says what made the steps slow.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from stoker.telemetry.series import FloatArray

IntArray = npt.NDArray[np.int64]

LEAST_STEPS = 5
"""Complete steps. Chosen because the spread of a rank from step to step can't be told from fewer."""
MOST_OPERATIONS = 2_000_000
"""Operations of one trace. Chosen because they take about 1 GiB of memory while they are read."""


class OperationType(StrEnum):
    """What an operation does, by the names of the published traces (docs/traces.md)."""

    FORWARD_COMPUTE = "forward-compute"
    BACKWARD_COMPUTE = "backward-compute"
    FORWARD_SEND = "forward-send"
    FORWARD_RECV = "forward-recv"
    BACKWARD_SEND = "backward-send"
    BACKWARD_RECV = "backward-recv"
    PARAMS_ALL_GATHER = "params-all-gather"
    GRADS_REDUCE_SCATTER = "grads-reduce-scatter"
    SEPARATE_GRADS_ALL_REDUCE = "separate-grads-all-reduce"
    LAYERNORM_GRADS_ALL_REDUCE = "layernorm-grads-all-reduce"
    EMBEDDING_GRADS_ALL_REDUCE = "embedding-grads-all-reduce"
    OPTIMIZER_CLIP_MAIN_GRAD = "optimizer-clip-main-grad"
    OPTIMIZER = "optimizer"
    GC = "gc"


COMPUTE = (OperationType.FORWARD_COMPUTE, OperationType.BACKWARD_COMPUTE)

WHOLE_NUMBERS = ("dp_rank", "stage", "rank", "step", "seq_id")
SECONDS = ("start_ts", "duration")
TYPE = "optype"
REQUIRED = (*WHOLE_NUMBERS, TYPE, *SECONDS)
"""The columns that a trace must have."""
MICRO_BATCH = "mb_id"
"""The column with the micro-batch of a compute operation, and -1 or nothing for others; without it, seq_id counts
them.
"""
NO_MICRO_BATCH = -1


class TraceError(ValueError):
    """The operations are no trace that can be judged; the message says what is wrong, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOperation:
    """One operation of a pipeline stage, which every replica repeats in every step.

    `number` counts the operations of its type on a rank in one step. start and end are seconds since the start of the
    step, one row a step, one column a replica.
    """

    stage: int
    type: OperationType
    number: int
    micro_batch: int
    start: FloatArray
    end: FloatArray

    @property
    def seconds(self) -> FloatArray:
        """How long it takes, of the same shape."""
        return np.asarray(self.end - self.start, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTrace:
    """The complete steps of a trace.

    ranks: the rank of each pipeline stage (row) in each replica (column). ranks_each: how many ranks share one recorded
    rank's work, itself included: those of its tensor- or sequence-parallel group. left_out: steps in the file that lack
    operations which the other steps have, or have more.
    """

    operations: tuple[TracedOperation, ...]
    ranks: IntArray
    ranks_each: int
    steps: int
    left_out: int

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return int(self.ranks.shape[0])

    @property
    def replicas(self) -> int:
        """Copies of the model, each with data of its own."""
        return int(self.ranks.shape[1])

    @property
    def gpus(self) -> int:
        """GPUs of the job, one a rank."""
        return self.ranks.size * self.ranks_each

    @property
    def step_seconds(self) -> FloatArray:
        """How long each step took."""
        return np.asarray(np.max([operation.end for operation in self.operations], axis=(0, 2)), dtype=np.float64)


def read_operations(columns: Mapping[str, Sequence[object]]) -> OperationTrace:
    """Make a trace of a table's columns, of equal lengths.

    Raises TraceError, with the number of the row (from 1), for everything that a trace cannot have.
    """
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise TraceError(f"has no column {', '.join(missing)}; a trace has {', '.join(REQUIRED)}")
    rows = len(columns[TYPE])
    if not 0 < rows <= MOST_OPERATIONS:
        raise TraceError(f"has {rows} operations; allowed: 1 to {MOST_OPERATIONS}")
    numbers = {name: _whole(name, columns[name]) for name in WHOLE_NUMBERS}
    start, duration = (_seconds(name, columns[name]) for name in SECONDS)
    types = _types(columns[TYPE])
    micro_batches = _micro_batches(columns, numbers["seq_id"])
    ranks = _ranks(numbers["stage"], numbers["dp_rank"], numbers["rank"])
    kept = np.flatnonzero(types != list(OperationType).index(OperationType.GC))  # a mark without a duration
    keys = np.stack([numbers["stage"], types, numbers["seq_id"]], axis=1)[kept]
    places = np.stack([numbers["step"], numbers["dp_rank"]], axis=1)[kept]
    steps, left_out = _complete_steps(keys, places, kept)
    return OperationTrace(
        operations=_operations(keys, places, steps, start[kept], duration[kept], micro_batches[kept]),
        ranks=ranks,
        ranks_each=_ranks_each(ranks),
        steps=len(steps),
        left_out=left_out,
    )


def _micro_batches(columns: Mapping[str, Sequence[object]], numbers: IntArray) -> IntArray:
    if MICRO_BATCH not in columns:
        return numbers
    written = [NO_MICRO_BATCH if value in {None, ""} else value for value in columns[MICRO_BATCH]]
    known = _whole(MICRO_BATCH, written, least=NO_MICRO_BATCH)
    return np.where(known == NO_MICRO_BATCH, numbers, known)


def _whole(name: str, values: Sequence[object], *, least: int = 0) -> IntArray:
    return np.array([_whole_number(name, row, value, least) for row, value in enumerate(values, start=1)], np.int64)


def _whole_number(name: str, row: int, value: object, least: int) -> int:
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if not (number.is_integer() and least <= number < 2**31):
        raise TraceError(f"row {row}: {name}: {str(value)[:40]!r}: must be a whole number, {least} or more")
    return int(number)


def _seconds(name: str, values: Sequence[object]) -> FloatArray:
    return np.array([_second(name, row, value) for row, value in enumerate(values, start=1)], np.float64)


def _second(name: str, row: int, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if not 0 <= number < float("inf"):
        raise TraceError(f"row {row}: {name}: {str(value)[:40]!r}: must be a number of seconds, 0 or more")
    return number


def _types(values: Sequence[object]) -> IntArray:
    """The place of each value in OperationType."""
    places = {str(known): place for place, known in enumerate(OperationType)}
    for row, value in enumerate(values, start=1):
        if str(value) not in places:
            raise TraceError(f"row {row}: {TYPE}: {str(value)[:40]!r}: must be one of {', '.join(places)}")
    return np.array([places[str(value)] for value in values], np.int64)


def _ranks(stages: IntArray, replicas: IntArray, ranks: IntArray) -> IntArray:
    """The rank of each stage (row) in each replica (column)."""
    known = np.unique(np.stack([stages, replicas, ranks], axis=1), axis=0)
    shape = int(stages.max()) + 1, int(replicas.max()) + 1
    if shape[0] * shape[1] > len(known):
        raise TraceError(
            f"{len(known)} ranks have operations; {shape[0]} stages of {shape[1]} replicas (dp_rank) need "
            f"{shape[0] * shape[1]}: the trace must have one rank for each stage of each replica"
        )
    if len(known) > shape[0] * shape[1] or len(set(known[:, 2].tolist())) < len(known):
        raise TraceError("a rank must belong to one stage of one replica (dp_rank), and each of them to one rank")
    return known[:, 2].reshape(shape)


def _ranks_each(ranks: IntArray) -> int:
    """Only one rank of each tensor- or sequence-parallel group is recorded, and the numbers of a group are adjacent: so
    the smallest distance between recorded numbers is the size of a group.
    """
    return 1 if ranks.size == 1 else int(np.diff(np.sort(ranks, axis=None)).min())


def _complete_steps(keys: IntArray, places: IntArray, rows: IntArray) -> tuple[IntArray, int]:
    """The steps with the operations that most steps have, and the number of the others."""
    entries = np.concatenate([places, keys], axis=1)
    distinct, first = np.unique(entries, axis=0, return_index=True)
    if len(distinct) < len(entries):
        row = int(rows[np.setdiff1d(np.arange(len(entries)), first)[0]]) + 1
        raise TraceError(f"row {row}: this operation (rank, step, {TYPE}, seq_id) is listed twice")
    steps, starts = np.unique(distinct[:, 0], return_index=True)
    content = [part[:, 1:].tobytes() for part in np.split(distinct, starts[1:])]
    usual, _ = Counter(content).most_common(1)[0]
    complete = np.array([one == usual for one in content])
    if int(complete.sum()) < LEAST_STEPS:
        raise TraceError(f"{int(complete.sum())} steps have the same operations; at least {LEAST_STEPS} are needed")
    return steps[complete], int((~complete).sum())


def _operations(
    keys: IntArray,
    places: IntArray,
    steps: IntArray,
    start: FloatArray,
    duration: FloatArray,
    micro_batches: IntArray,
) -> tuple[TracedOperation, ...]:
    used = np.isin(places[:, 0], steps)
    keys, places, start, duration = keys[used], places[used], start[used], duration[used]
    order = np.lexsort((places[:, 1], places[:, 0], keys[:, 2], keys[:, 1], keys[:, 0]))
    distinct, first = np.unique(keys[order], axis=0, return_index=True)
    replicas = int(places[:, 1].max()) + 1
    if len(order) != len(distinct) * len(steps) * replicas:
        raise TraceError("the replicas (dp_rank) have different operations; a stage must have the same in all of them")
    began = start[order].reshape(len(distinct), len(steps), replicas)
    ended = began + duration[order].reshape(began.shape)
    zero = began.min(axis=(0, 2))[:, np.newaxis]
    names, numbered = list(OperationType), micro_batches[used][order][first]
    return tuple(
        TracedOperation(
            stage=int(stage),
            type=names[place],
            number=int(number),
            micro_batch=int(numbered[row]),
            start=began[row] - zero,
            end=ended[row] - zero,
        )
        for row, (stage, place, number) in enumerate(distinct.tolist())
    )
