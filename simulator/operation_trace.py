"""Operation traces of pipeline-parallel trainings, as physics: ranks that compute, and wait for one another.

Each rank runs the usual schedule, one forward and one backward in turn, with sends and receives that block
(Megatron-LM's 1F1B), then exchanges gradients with the other replicas. What makes the job slow is known. The columns
are those of the traces that ByteDance published (docs/traces.md):

python -m simulator.operation_trace trace.csv --slow-rank 5=1.4 python -m simulator.operation_trace trace.csv
--stage-work 1,1,1,1.6 --sequences 0.4
"""

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")
FORWARD_SECONDS = 0.05
BACKWARD_SECONDS = 0.1
"""Compute of one micro-batch on one stage."""
TRANSFER_SECONDS = 0.001
"""A message between stages, once both ends are there."""
COLLECTIVES: Mapping[str, float] = {
    "layernorm-grads-all-reduce": 0.0005,
    "embedding-grads-all-reduce": 0.01,
    "grads-reduce-scatter": 0.05,
    "optimizer-clip-main-grad": 0.005,
}
"""What follows the last backward, in this order, with its seconds once all are there."""
GATHER_SECONDS = 0.03
OPTIMIZER_SECONDS = 0.02
CLOCK_SECONDS = 2e-5
"""The profiler's error in the start of an operation, either way."""

Columns = dict[str, list[object]]
"""A table by its columns, of equal lengths."""
Member = tuple[int, int]
"""A rank by its (replica, stage)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """A job and what makes it slow.

    slow: factors of the compute time of single ranks (replica, stage). stage_work: of each stage. sequences: standard
    deviation of the logarithm of a micro-batch's size. noise: that of each operation's own. loading: seconds that the
    first stage waits for the data of a micro-batch before its forward, of which no operation tells. barrier: whether
    all ranks wait for one another after the last backward, of which no operation tells either, as in two of the
    published traces.
    """

    replicas: int = 4
    stages: int = 4
    micro_batches: int = 8
    steps: int = 10
    ranks_each: int = 1
    slow: Mapping[Member, float] = field(default_factory=dict)
    stage_work: Sequence[float] = ()
    sequences: float = 0.0
    noise: float = 0.02
    loading: float = 0.0
    barrier: bool = False


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation of a program: what it is, its number, and with whom it meets: a key that the others have, too."""

    kind: str
    number: int
    meets: tuple[object, ...] = ()
    seconds: float = 0.0


def simulate_trace(shape: TraceShape, seed: int = 0) -> Columns:
    """The trace's columns, with one entry an operation."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[object, ...]] = []
    for step in range(shape.steps):
        sizes = np.exp(rng.normal(0.0, shape.sequences, (shape.replicas, shape.micro_batches))).tolist()
        programs = {
            (replica, stage): _program(shape, replica, stage, sizes[replica], rng)
            for replica in range(shape.replicas)
            for stage in range(shape.stages)
        }
        done = list(_run(programs, _members(programs)))
        errors = rng.uniform(-CLOCK_SECONDS, CLOCK_SECONDS, len(done)).tolist()
        for ((replica, stage), operation, start, end), error in zip(done, errors, strict=True):
            seen = max(0.0, start + error)
            compute = operation.kind.endswith("-compute")
            chunk = (0, operation.number, stage) if compute else (-1, -1, -1)
            place = (stage * shape.replicas + replica) * shape.ranks_each
            known = (replica, stage, place, step, operation.kind, seen, max(0.0, end - seen), operation.number)
            rows.append(known + chunk)
    return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


def _program(
    shape: TraceShape, replica: int, stage: int, sizes: Sequence[float], rng: np.random.Generator
) -> list[list[_Operation]]:
    """What a rank does in a step: groups of operations that start together, one group after the other."""
    factor = shape.slow.get((replica, stage), 1.0) * (shape.stage_work[stage] if shape.stage_work else 1.0)

    def compute(kind: str, number: int, seconds: float) -> list[_Operation]:
        own = seconds * factor * sizes[number] * float(np.exp(rng.normal(0.0, shape.noise)))
        return [_Operation(kind, number, seconds=own)]

    def message(kind: str, number: int, sender: int) -> list[_Operation]:
        direction = kind.partition("-")[0]
        receiver = sender + (1 if direction == "forward" else -1)
        if not (0 <= sender < shape.stages and 0 <= receiver < shape.stages) or number >= shape.micro_batches:
            return []
        return [_Operation(kind, number, (direction, number, replica, sender), TRANSFER_SECONDS)]

    def forward(number: int) -> list[list[_Operation]]:
        loading = [_Operation("", number, seconds=shape.loading)] if stage == 0 else []
        return [loading, compute("forward-compute", number, FORWARD_SECONDS)]

    warm = min(shape.stages - stage - 1, shape.micro_batches)
    program = [[_Operation("params-all-gather", 0, ("params-all-gather", stage), GATHER_SECONDS)]]
    for number in range(warm):
        program += [
            message("forward-recv", number, stage - 1),
            *forward(number),
            message("forward-send", number, stage),
        ]
    program.append(message("forward-recv", warm, stage - 1))
    for number in range(shape.micro_batches):
        ahead = number + warm
        if ahead < shape.micro_batches:
            program += forward(ahead)
        sent = message("forward-send", ahead, stage)
        program += [sent + message("backward-recv", number, stage + 1)]
        program += [compute("backward-compute", number, BACKWARD_SECONDS)]
        program += [message("backward-send", number, stage) + message("forward-recv", ahead + 1, stage - 1)]
    if shape.barrier:
        program.append([_Operation("", 0, ("barrier",))])
    for kind, seconds in COLLECTIVES.items():
        if kind != "embedding-grads-all-reduce" or (stage in {0, shape.stages - 1} and shape.stages > 1):
            program.append([_Operation(kind, 0, _group(kind, replica, stage), seconds)])
    program.append([_Operation("optimizer", 0, seconds=OPTIMIZER_SECONDS)])
    return [group for group in program if group]


def _group(kind: str, replica: int, stage: int) -> tuple[object, ...]:
    """With whom a rank meets in a collective."""
    scope = {
        "layernorm-grads-all-reduce": (replica, stage),
        "embedding-grads-all-reduce": (replica,),
        "grads-reduce-scatter": ("stage", stage),
        "optimizer-clip-main-grad": (),
    }
    return (kind, *scope[kind])


def _members(programs: Mapping[Member, list[list[_Operation]]]) -> Mapping[tuple[object, ...], int]:
    """How many ranks each meeting needs."""
    needed: dict[tuple[object, ...], int] = {}
    for program in programs.values():
        for group in program:
            for operation in group:
                needed[operation.meets] = needed.get(operation.meets, 0) + 1
    return needed


def _run(
    programs: Mapping[Member, list[list[_Operation]]], needed: Mapping[tuple[object, ...], int]
) -> Iterator[tuple[Member, _Operation, float, float]]:
    """Each operation with its start and end, in seconds."""
    clock, place = dict.fromkeys(programs, 0.0), dict.fromkeys(programs, 0)
    arrived: dict[tuple[object, ...], dict[Member, float]] = {}
    waiting = set(programs)
    while waiting:
        moved = False
        for member in sorted(waiting):
            group = programs[member][place[member]]
            ends = []
            for operation in group:
                if operation.meets:
                    come = arrived.setdefault(operation.meets, {})
                    moved |= member not in come
                    come[member] = clock[member]
                    ends.append(
                        max(come.values()) + operation.seconds if len(come) == needed[operation.meets] else None
                    )
                else:
                    ends.append(clock[member] + operation.seconds)
            known = [end for end in ends if end is not None]
            if len(known) < len(ends):
                continue
            end, moved = max(known), True
            yield from ((member, one, clock[member], end) for one in group if one.kind)
            clock[member] = end
            place[member] += 1
            if place[member] == len(programs[member]):
                waiting.discard(member)
        assert moved, "the programs wait for one another"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a trace as CSV."""
    parser = argparse.ArgumentParser(description="Write the operation trace of a simulated training.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--slow-rank", metavar="RANK=FACTOR", help="the rank, and how many times as long it needs")
    parser.add_argument("--stage-work", metavar="F,F,...", help="the work of each stage")
    parser.add_argument("--sequences", type=float, default=0.0, help="spread of the micro-batches' sizes, such as 0.4")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    slow = {}
    if given.slow_rank:
        rank, _, factor = given.slow_rank.partition("=")
        slow[int(rank) % given.replicas, int(rank) // given.replicas] = float(factor)
    shape = TraceShape(
        replicas=given.replicas,
        stages=given.stages,
        steps=given.steps,
        slow=slow,
        stage_work=[float(one) for one in given.stage_work.split(",")] if given.stage_work else (),
        sequences=given.sequences,
    )
    write(given.file, simulate_trace(shape, given.seed))


def write(path: Path, columns: Columns) -> None:
    """Write the table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    main()
