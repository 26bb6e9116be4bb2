"""What a trace's causes are named, on simulated trainings whose cause is known; each cause both ways."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.operation_trace import TraceShape, simulate_trace
from stoker.diagnosis.operations.causes import LEAST_COST, StragglerCause, TraceDiagnosis, judge
from stoker.findings.vocabulary import Confidence
from stoker.telemetry.operations import OperationTrace, read_operations

SEEDS = st.integers(0, 2**16)
FEW = settings(max_examples=6, deadline=None)
"""A trace takes a tenth of a second to simulate and to judge."""


def trace(seed: int = 0, **shape: Any) -> OperationTrace:
    return read_operations(simulate_trace(TraceShape(**{"steps": 5, "replicas": 3, **shape}), seed))


def diagnosed(seed: int = 0, **shape: Any) -> TraceDiagnosis:
    return judge(trace(seed, **shape))


def causes(diagnosis: TraceDiagnosis) -> set[StragglerCause]:
    return {finding.cause for finding in diagnosis.findings}


@FEW
@given(
    seed=SEEDS,
    replicas=st.integers(1, 6),
    stages=st.integers(1, 4),
    noise=st.floats(0, 0.1),
    barrier=st.booleans(),
)
def test_equal_ranks_have_no_finding(seed: int, replicas: int, stages: int, noise: float, barrier: bool) -> None:
    diagnosis = diagnosed(seed, replicas=replicas, stages=stages, noise=noise, barrier=barrier, micro_batches=6)
    assert diagnosis.findings == ()
    assert diagnosis.recoverable_hours == 0
    assert diagnosis.reliable


@FEW
@given(
    seed=SEEDS,
    factor=st.floats(1.25, 3),
    replica=st.integers(0, 2),
    stage=st.integers(0, 2),
    ranks_each=st.sampled_from([1, 4, 8]),
    barrier=st.booleans(),
)
def test_a_slow_worker_is_named_with_its_rank(
    seed: int, factor: float, replica: int, stage: int, ranks_each: int, barrier: bool
) -> None:
    diagnosis = diagnosed(
        seed, stages=3, slow={(replica, stage): factor}, ranks_each=ranks_each, barrier=barrier, micro_batches=6
    )
    (finding,) = diagnosis.findings
    assert finding.cause is StragglerCause.SLOW_WORKER
    assert finding.ranks == ((stage * 3 + replica) * ranks_each,)
    assert finding.stages == (stage,)
    assert finding.confidence is Confidence.LIKELY
    assert diagnosis.trace.gpus == 9 * ranks_each


@pytest.mark.parametrize("factor", [1.0, 1.03])
def test_a_rank_that_is_hardly_slower_is_not_named(factor: float) -> None:
    assert diagnosed(slow={(1, 2): factor}).findings == ()


def test_the_faster_of_two_replicas_is_not_the_slow_one() -> None:
    (finding,) = diagnosed(replicas=2, slow={(1, 0): 1.3}).findings
    assert finding.ranks == (1,)


def test_a_slow_worker_is_found_without_a_pipeline() -> None:
    (finding,) = diagnosed(replicas=8, stages=1, slow={(5, 0): 1.3}).findings
    assert (finding.cause, finding.ranks) == (StragglerCause.SLOW_WORKER, (5,))


def test_a_replica_that_is_slow_as_a_whole_is_only_possibly_slow() -> None:
    """Its sequences may be longer: no other rank has the same ones."""
    (finding,) = diagnosed(slow={(2, stage): 1.4 for stage in range(4)}).findings
    assert finding.cause is StragglerCause.SLOW_WORKER
    assert finding.ranks == (2, 5, 8, 11)
    assert finding.confidence is Confidence.POSSIBLE


@FEW
@given(seed=SEEDS, stage=st.integers(0, 3), more=st.floats(1.5, 2.5), barrier=st.booleans())
def test_unequal_stages_are_named_with_the_stage(seed: int, stage: int, more: float, barrier: bool) -> None:
    work = [more if place == stage else 1.0 for place in range(4)]
    (finding,) = diagnosed(seed, stage_work=work, barrier=barrier).findings
    assert finding.cause is StragglerCause.UNEQUAL_STAGES
    assert finding.stages == (stage,)
    assert finding.ranks == tuple(range(3 * stage, 3 * stage + 3))
    assert finding.confidence is Confidence.LIKELY


def test_stages_that_are_hardly_unequal_are_not_named() -> None:
    assert diagnosed(stage_work=[1, 1, 1, 1.04]).findings == ()


def test_with_one_replica_a_slow_worker_and_a_long_stage_look_alike_and_that_is_said() -> None:
    diagnosis = diagnosed(replicas=1, slow={(0, 2): 1.4})
    (finding,) = diagnosis.findings
    assert (finding.cause, finding.confidence) == (StragglerCause.UNEQUAL_STAGES, Confidence.POSSIBLE)
    assert diagnosis.notes == (
        "With one replica no two ranks have the same work: a slow worker looks like a stage with more work.",
    )


@FEW
@given(seed=SEEDS, spread=st.floats(0.2, 0.6), replicas=st.integers(2, 6), stages=st.integers(2, 3))
def test_unequal_sequences_are_named_and_no_rank_with_them(
    seed: int, spread: float, replicas: int, stages: int
) -> None:
    (finding,) = diagnosed(seed, sequences=spread, replicas=replicas, stages=stages).findings
    assert finding.cause is StragglerCause.UNEQUAL_SEQUENCES
    assert (finding.ranks, finding.stages) == ((), ())
    assert finding.confidence is Confidence.LIKELY


@FEW
@given(seed=SEEDS, noise=st.floats(0.15, 0.3), stages=st.integers(1, 4))
def test_operations_that_vary_by_themselves_are_no_unequal_sequences(seed: int, noise: float, stages: int) -> None:
    assert StragglerCause.UNEQUAL_SEQUENCES not in causes(diagnosed(seed, noise=noise, stages=stages))


def test_without_a_pipeline_unequal_sequences_are_only_possible() -> None:
    """A rank that is slow for moments makes a forward and the next backward longer, too."""
    (finding,) = diagnosed(stages=1, sequences=0.4).findings
    assert (finding.cause, finding.confidence) == (StragglerCause.UNEQUAL_SEQUENCES, Confidence.POSSIBLE)


def test_all_three_are_told_apart_where_they_meet() -> None:
    """In one trace of some hundreds chance hides one of them: twelve steps are few."""
    shape = {"stage_work": [1, 1, 1.5], "sequences": 0.3, "slow": {(1, 2): 1.6}}
    right = 0
    for seed in range(20):
        diagnosis = diagnosed(seed, stages=3, steps=12, **shape)
        named = {finding.cause: finding for finding in diagnosis.findings}
        savings = [finding.recoverable.max for finding in diagnosis.findings]
        assert savings == sorted(savings, reverse=True)
        right += (
            set(named) == set(StragglerCause)
            and named[StragglerCause.SLOW_WORKER].ranks == (7,)
            and named[StragglerCause.UNEQUAL_STAGES].stages == (2,)
        )
    assert right >= 19


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize(
    "bad, good",
    [
        ({"slow": {(1, 0): 2.0}}, {}),
        ({"stage_work": [1, 1, 1, 2]}, {"stage_work": [1.25] * 4}),
    ],
)
def test_the_saving_is_what_the_job_without_the_cause_takes_less(
    bad: dict[str, Any], good: dict[str, Any], barrier: bool
) -> None:
    """The replay's answer against a simulation of the mended job."""
    diagnosis = diagnosed(**bad, barrier=barrier)
    mended = diagnosed(seed=1, **good, barrier=barrier)
    assert diagnosis.equal_seconds == pytest.approx(mended.step_seconds, rel=0.02)
    saved = 1 - mended.step_seconds / diagnosis.step_seconds
    (finding,) = diagnosis.findings
    assert finding.recoverable.min == pytest.approx(finding.recoverable.max)
    assert finding.recoverable.max == pytest.approx(saved * diagnosis.gpu_hours, rel=0.05)
    assert saved > LEAST_COST


def test_two_causes_save_more_together_than_alone() -> None:
    diagnosis = diagnosed(sequences=0.4, slow={(0, 0): 2.0})
    for finding in diagnosis.findings:
        assert finding.recoverable.min < finding.recoverable.max
    assert diagnosis.recoverable_hours > max(finding.recoverable.max for finding in diagnosis.findings)


def test_where_ranks_wait_between_the_operations_nothing_is_named() -> None:
    diagnosis = diagnosed(loading=0.08)
    assert diagnosis.findings == ()
    assert not diagnosis.reliable
    assert "The rest lies between them, where ranks load data or wait for the host" in diagnosis.notes[0]
