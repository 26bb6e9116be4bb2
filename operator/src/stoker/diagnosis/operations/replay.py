"""Replays a trace's operations with other durations: how long would a step take if some of them were faster?

The method is that of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025): an
operation starts when those before it on its rank have ended; sends, receives and collectives end together, when the
last participant has come and the data is moved. What a participant waits for the others is no duration of its own, and
so it changes with them.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stoker.telemetry.operations import OperationTrace, OperationType, TracedOperation, TraceError
from stoker.telemetry.series import FloatArray

IN_ORDER = 0.99
"""Share of the recorded pairs in which one operation has ended before the other starts. Chosen because a profiler's
clock is wrong now and then.
"""
CLOCK_SECONDS = 1e-4
"""Seconds by which an operation may seem to start before the one that it waits for has ended. Chosen as twice the
differences that the published traces show between two streams of one GPU.
"""
CLOCK_SHARE = 0.1
"""The same as a share of the shorter of the two. Chosen because those that overlap by more run at the same time."""
LOOK_BACK = 16
"""Operations before one on its rank that it may wait for directly. Chosen because a rank has a few streams, and waits
for what is further back through these.
"""
PEERS: Mapping[OperationType, tuple[OperationType, int]] = {
    OperationType.FORWARD_SEND: (OperationType.FORWARD_RECV, 1),
    OperationType.BACKWARD_SEND: (OperationType.BACKWARD_RECV, -1),
}
"""What receives a sent message, and how many stages further; the last stage sends to the first where stages hold
several parts of the model.
"""
ACROSS_REPLICAS = frozenset(
    {
        OperationType.PARAMS_ALL_GATHER,
        OperationType.GRADS_REDUCE_SCATTER,
        OperationType.SEPARATE_GRADS_ALL_REDUCE,
        OperationType.OPTIMIZER_CLIP_MAIN_GRAD,
    }
)
"""Collectives in which the same stage of all replicas takes part."""
ACROSS_STAGES = frozenset({OperationType.EMBEDDING_GRADS_ALL_REDUCE, OperationType.OPTIMIZER_CLIP_MAIN_GRAD})
"""Collectives in which all stages that have the operation take part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meeting:
    """Operations that end together; a single one, where nothing is exchanged.

    together: whether they start together, too, in all replicas.
    """

    members: tuple[int, ...]
    together: bool

    @property
    def alone(self) -> bool:
        """Whether nobody else takes part: the operation takes its own time."""
        return len(self.members) == 1 and not self.together


class Replayer:
    """Replays one trace. Operations are named by their place in `trace.operations`.

    Raises TraceError where the operations wait for one another in a circle, or where a send has no receive.
    """

    def __init__(self, trace: OperationTrace) -> None:
        self._operations = trace.operations
        self._before = _waited_for(trace.operations)
        self._meetings = _in_order(list(_meetings(trace)), self._before)
        self._own = np.empty((len(trace.operations), *trace.operations[0].start.shape))
        for meeting in self._meetings:
            self._own[list(meeting.members)] = _own_seconds([trace.operations[one] for one in meeting.members], meeting)
        self._gaps = _gaps(trace.operations, self._before)

    def step_seconds(self, factors: Mapping[int, FloatArray] | None = None) -> FloatArray:
        """The length of each step, where the operations take these multiples of their recorded durations."""
        seconds = self._own
        if factors:
            seconds = self._own.copy()
            for one, factor in factors.items():
                seconds[one] *= factor
        ends = np.zeros_like(seconds)
        for meeting in self._meetings:
            started = [self._ready(one, ends) for one in meeting.members]
            begin = np.max(started, axis=0)
            if meeting.together:
                begin = np.broadcast_to(begin.max(axis=1, keepdims=True), begin.shape)
            for one in meeting.members:
                ends[one] = begin + seconds[one]
        return np.asarray(ends.max(axis=(0, 2)), dtype=np.float64)

    def _ready(self, one: int, ends: FloatArray) -> FloatArray:
        before = self._before[one]
        waited = ends[before].max(axis=0) if before else np.zeros(ends.shape[1:])
        return np.asarray(waited + self._gaps[one], dtype=np.float64)


def _waited_for(operations: Sequence[TracedOperation]) -> list[list[int]]:
    """For each operation those on its rank that it waits for: whatever has ended, in each recorded step of each
    replica, before it starts. Two streams of one GPU show by operations that overlap.
    """
    found: list[list[int]] = [[] for _ in operations]
    on_stage: dict[int, list[int]] = defaultdict(list)
    for place in sorted(range(len(operations)), key=lambda place: float(np.median(operations[place].start))):
        later = operations[place]
        earlier = on_stage[later.stage]
        found[place] = [one for one in earlier[-LOOK_BACK:] if _ended_before(operations[one], later)]
        earlier.append(place)
    return found


def _ended_before(first: TracedOperation, second: TracedOperation) -> bool:
    slack = CLOCK_SECONDS + CLOCK_SHARE * np.minimum(first.seconds, second.seconds)
    in_order = (first.end <= second.start + slack) & (first.start < second.start)
    return bool(in_order.mean() >= IN_ORDER)


def _meetings(trace: OperationTrace) -> Iterator[_Meeting]:
    places = {(one.type, one.stage, one.number): place for place, one in enumerate(trace.operations)}
    across: dict[tuple[OperationType, int], list[int]] = defaultdict(list)
    received = set()
    for (kind, stage, number), place in places.items():
        if kind in PEERS:
            receive, distance = PEERS[kind]
            peer = (receive, (stage + distance) % trace.stages, number)
            if peer not in places:
                raise TraceError(f"{kind} {number} of stage {stage} has no {receive} {number} of stage {peer[1]}")
            received.add(places[peer])
            yield _Meeting(members=(place, places[peer]), together=False)
        elif kind in ACROSS_STAGES:
            across[kind, number].append(place)
        elif kind in ACROSS_REPLICAS:
            yield _Meeting(members=(place,), together=True)
        elif kind not in _RECEIVES:
            yield _Meeting(members=(place,), together=False)
    for (kind, _), members in across.items():
        yield _Meeting(members=tuple(members), together=kind in ACROSS_REPLICAS)
    for (kind, stage, number), place in places.items():
        if kind in _RECEIVES and place not in received:
            raise TraceError(f"{kind} {number} of stage {stage} has no send")


_RECEIVES = frozenset(receive for receive, _ in PEERS.values())


def _own_seconds(members: Sequence[TracedOperation], meeting: _Meeting) -> FloatArray:
    """How long each of them takes once all have come."""
    ends = np.array([one.end for one in members])
    begins = np.array([one.start for one in members])
    if meeting.alone:
        return np.asarray(ends - begins, dtype=np.float64)
    last = begins.max(axis=(0, 2) if meeting.together else 0, keepdims=True)
    return np.asarray(np.maximum(ends - last, 0.0), dtype=np.float64)


def _gaps(operations: Sequence[TracedOperation], before: Sequence[Sequence[int]]) -> list[FloatArray]:
    """Seconds between an operation and the last that it waits for, of each step: the shortest of all ranks.

    That much each of them needs. A rank that waits longer waits for another at a barrier that is not recorded, and
    would not, if the other were faster.
    """
    shortest: dict[tuple[OperationType, int], FloatArray] = {}
    for place, one in enumerate(operations):
        waited = np.max([operations[earlier].end for earlier in before[place]], axis=0) if before[place] else 0.0
        gap = np.maximum(one.start - waited, 0.0).min(axis=1, keepdims=True)
        key = (one.type, one.number)
        shortest[key] = np.minimum(shortest[key], gap) if key in shortest else gap
    return [shortest[one.type, one.number] for one in operations]


def _in_order(meetings: Sequence[_Meeting], before: Sequence[Sequence[int]]) -> list[_Meeting]:
    """The meetings in an order in which each comes after all that it waits for."""
    of = {member: place for place, meeting in enumerate(meetings) for member in meeting.members}
    waits = [{of[one] for member in meeting.members for one in before[member]} for meeting in meetings]
    after: dict[int, list[int]] = defaultdict(list)
    for place, needed in enumerate(waits):
        for one in needed:
            after[one].append(place)
    left = [len(needed) for needed in waits]
    ready = deque(place for place, number in enumerate(left) if number == 0)
    ordered = []
    while ready:
        place = ready.popleft()
        ordered.append(meetings[place])
        for one in after[place]:
            left[one] -= 1
            if left[one] == 0:
                ready.append(one)
    if len(ordered) < len(meetings):
        raise TraceError(
            "sends, receives and collectives wait for one another in a circle: the start_ts of different ranks must be "
            "of one clock, and a send must have the seq_id of its receive"
        )
    return ordered


__all__ = ["Replayer"]
