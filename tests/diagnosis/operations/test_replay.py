"""A replay without changes takes as long as the trace, and one with changes as long as the changed job."""

from itertools import compress

import numpy as np
import pytest

from simulator.operation_trace import TraceShape, simulate_trace
from stoker.diagnosis.operations.replay import Replayer
from stoker.telemetry.operations import COMPUTE, TraceError, read_operations


@pytest.mark.parametrize(
    "shape",
    [
        TraceShape(),
        TraceShape(replicas=1, stages=1),
        TraceShape(replicas=1),
        TraceShape(stages=1),
        TraceShape(stages=6, micro_batches=3),
        TraceShape(sequences=0.4, noise=0.1, slow={(0, 1): 2.0}, stage_work=(1, 2, 1, 3)),
    ],
)
def test_the_recorded_steps_are_replayed(shape: TraceShape) -> None:
    trace = read_operations(simulate_trace(shape))
    assert Replayer(trace).step_seconds() == pytest.approx(trace.step_seconds, rel=0.001)


def test_an_unrecorded_barrier_does_not_lengthen_the_replay() -> None:
    trace = read_operations(simulate_trace(TraceShape(barrier=True, slow={(0, 0): 2.0})))
    assert Replayer(trace).step_seconds() == pytest.approx(trace.step_seconds, rel=0.02)


def test_faster_compute_makes_the_step_shorter_by_what_all_wait_for() -> None:
    trace = read_operations(simulate_trace(TraceShape(noise=0)))
    halved = {place: np.array(0.5) for place, one in enumerate(trace.operations) if one.type in COMPUTE}
    expected = read_operations(simulate_trace(TraceShape(noise=0, stage_work=(0.5,) * 4))).step_seconds
    assert Replayer(trace).step_seconds(halved) == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize(
    "missing, message",
    [
        ("forward-recv", "forward-send 0 of stage 0 has no forward-recv 0 of stage 1"),
        ("backward-send", "backward-recv 0 of stage 0 has no send"),
    ],
)
def test_a_message_needs_both_ends(missing: str, message: str) -> None:
    columns = simulate_trace(TraceShape(stages=2))
    kept = [kind != missing for kind in columns["optype"]]
    with pytest.raises(TraceError, match=message):
        Replayer(read_operations({name: list(compress(values, kept)) for name, values in columns.items()}))


def test_operations_that_wait_for_one_another_are_refused() -> None:
    """With its numbers reversed, the first send meets the last receive."""
    columns = simulate_trace(TraceShape(stages=2, micro_batches=8))
    for row, kind in enumerate(columns["optype"]):
        if kind in {"forward-send", "backward-recv"}:
            columns["seq_id"][row] = 7 - int(str(columns["seq_id"][row]))
    with pytest.raises(TraceError, match="wait for one another in a circle"):
        Replayer(read_operations(columns))
