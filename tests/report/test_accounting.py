from dataclasses import replace
from math import fsum, isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.findings.vocabulary import Category, Stage
from stoker.report import Dimension, Statement, settle, state
from stoker.telemetry.usage import JobIdentity, JobRecord, UsageRecord
from tests.report.recording import CHECKPOINT, SMALL_BATCH, TOO_FEW, UNRELEASED, job_record, usage_record

PARTS = 8
HOURS = st.floats(min_value=0, max_value=1e6)
NAMES = st.sampled_from(["", "a", "b", "c"])


@st.composite
def job_records(draw: st.DrawFn) -> JobRecord:
    """A job whose measurements contradict one another freely."""

    def row(values: st.SearchStrategy[float | None]) -> tuple[float | None, ...]:
        return tuple(draw(st.lists(values, min_size=PARTS + 1, max_size=PARTS + 1)))

    def hours() -> tuple[float, ...]:
        return tuple(draw(st.lists(HOURS, min_size=PARTS, max_size=PARTS)))

    sums = st.none() | HOURS
    causes = draw(st.sets(st.sampled_from([CHECKPOINT, SMALL_BATCH, TOO_FEW, UNRELEASED])))
    return JobRecord(
        identity=JobIdentity(
            uid=draw(st.none() | st.uuids().map(str)),
            namespace=draw(NAMES),
            name=draw(NAMES),
            owner=draw(NAMES),
            team=draw(NAMES),
            job_type=draw(NAMES),
            product=draw(NAMES),
        ),
        held=hours(),
        sampled=hours(),
        used=hours(),
        causes={cause: row(sums) for cause in sorted(causes)},
        stages={stage: row(sums) for stage in draw(st.sets(st.sampled_from(Stage)))},
        first_seen=draw(st.none() | st.integers(0, PARTS - 1)),
    )


RECORDS = st.lists(job_records(), max_size=6).map(lambda jobs: usage_record(jobs, parts=PARTS // 2))


def close(one: float, two: float) -> bool:
    return isclose(one, two, rel_tol=1e-9, abs_tol=1e-6)


@given(RECORDS)
def test_every_requested_gpu_hour_is_used_unknown_unexplained_or_one_causes(record: UsageRecord) -> None:
    statement = state(record)
    now = range(record.first, len(record.parts))
    requested = fsum(max(job.held[part], job.sampled[part]) for job in record.jobs for part in now)
    total = statement.total
    parts = (*(line.lost for line in statement.causes), statement.unexplained, total.used, total.unknown)
    assert close(fsum(parts), requested)
    assert min(parts) >= 0
    assert close(total.requested, requested)


@given(RECORDS)
def test_the_groups_of_each_dimension_the_time_line_the_stages_and_the_jobs_add_up_to_the_total(
    record: UsageRecord,
) -> None:
    statement = state(record)
    total = statement.total
    partitions = [
        *([row.balance for row in statement.groups[dimension]] for dimension in Dimension),
        [balance for _, balance in statement.timeline],
        [job.balance for job in statement.jobs],
    ]
    for balances in partitions:
        assert close(fsum(one.used for one in balances), total.used)
        assert close(fsum(one.lost for one in balances), total.lost)
        assert close(fsum(one.unknown for one in balances), total.unknown)
    assert close(fsum(statement.stages.values()) + statement.unstaged, total.lost)


@given(RECORDS)
def test_each_jobs_causes_are_at_most_what_it_lost(record: UsageRecord) -> None:
    for job in state(record).jobs:
        assert fsum(job.causes.values()) <= job.balance.lost * (1 + 1e-9)
        assert close(fsum(job.causes.values()) + job.unexplained, job.balance.lost)


@pytest.mark.parametrize(
    "held, sampled, used, expected",
    [
        (10, 10, 4, (4, 6, 0)),
        (10, 6, 4, (4, 2, 4)),
        # The operator was away for a while, the exporter was not.
        (4, 10, 4, (4, 6, 0)),
        # An exporter that scrapes twice can't make more work than there was time.
        (10, 10, 12, (10, 0, 0)),
        (10, 0, 0, (0, 0, 10)),
    ],
)
def test_what_was_not_sampled_is_unknown_and_what_was_sampled_was_held(
    held: float, sampled: float, used: float, expected: tuple[float, float, float]
) -> None:
    balance = settle(held=held, sampled=sampled, used=used)
    assert (balance.used, balance.lost, balance.unknown) == expected


def lost_by_cause(statement: Statement) -> dict[Category, float]:
    return {line.category: line.lost for line in statement.causes}


def test_a_finding_counts_with_what_it_lost_within_the_period_only() -> None:
    """A job of two weeks, half of each week lost: this week has half of the finding's sum."""
    job = job_record("bert", gpus=8, start=0, end=56, utilization=0.5, causes={SMALL_BATCH: 1000.0})
    statement = state(usage_record([job]))
    assert lost_by_cause(statement) == {Category.IMPROPER_BATCH_SIZE: pytest.approx(500)}
    assert statement.total.lost == pytest.approx(8 * 168 * 0.5)
    assert statement.unexplained == pytest.approx(8 * 168 * 0.5 - 500)
    assert statement.causes[0].before == pytest.approx(500)


def test_the_period_before_is_not_charged_with_what_a_job_lost_earlier_still() -> None:
    """A job that is older than both weeks: at their start its finding stood at 700 GPU-hours."""
    job = job_record("bert", gpus=8, start=0, end=56, utilization=0.5, causes={SMALL_BATCH: 560.0})
    sums = tuple(700 + (value or 0.0) for value in job.causes[SMALL_BATCH])
    statement = state(usage_record([replace(job, causes={SMALL_BATCH: sums})]))
    assert statement.causes[0].lost == pytest.approx(280)
    assert statement.causes[0].before == pytest.approx(280)


def test_causes_that_claim_more_than_was_lost_are_cut_alike_and_that_is_said() -> None:
    job = job_record("bert", gpus=1, start=28, end=56, utilization=0.5, causes={SMALL_BATCH: 126.0, CHECKPOINT: 42.0})
    statement = state(usage_record([job]))
    assert lost_by_cause(statement) == {
        Category.IMPROPER_BATCH_SIZE: pytest.approx(63),
        Category.MODEL_CHECKPOINTING: pytest.approx(21),
    }
    assert "causesScaled" in {one.key for one in statement.assumed}


def test_a_job_that_was_deleted_long_ago_counts_with_all_it_lost() -> None:
    gone = job_record("gone", gpus=4, start=30, end=34, utilization=0.25, causes={UNRELEASED: 60.0}, team="vision")
    statement = state(usage_record([gone]))
    (row,) = statement.groups[Dimension.TEAM]
    assert (row.value, row.jobs, row.main_cause) == ("vision", 1, Category.UNRELEASED_JOB)
    assert row.balance.lost == pytest.approx(4 * 24 * 0.75)
    assert lost_by_cause(statement)[Category.UNRELEASED_JOB] == pytest.approx(60)


def test_findings_of_a_job_older_than_its_record_count_from_its_beginning_and_that_is_said() -> None:
    old = job_record("old", gpus=1, start=20, end=56, utilization=0.0, causes={UNRELEASED: 100.0})
    late = replace(
        old,
        first_seen=50,
        held=tuple(0.0 if part < 50 else hours for part, hours in enumerate(old.held)),
        causes={UNRELEASED: tuple(None if at <= 50 else value for at, value in enumerate(old.causes[UNRELEASED]))},
    )
    statement = state(usage_record([late]))
    assert lost_by_cause(statement)[Category.UNRELEASED_JOB] == pytest.approx(100)
    keys = {one.key for one in statement.assumed}
    assert {"causesFromBirth", "beforeRecord"} <= keys


def test_a_period_before_that_was_not_watched_is_not_compared_with() -> None:
    job = job_record("bert", gpus=8, start=28, end=56, utilization=0.5)
    watched = (0.0,) * 10 + (1.0,) * 46
    statement = state(usage_record([job], watched=watched))
    assert statement.before is None
    assert all(row.before is None for row in statement.groups[Dimension.NAMESPACE])
    assert "noComparison" in {one.key for one in statement.assumed}


def test_a_period_before_with_no_jobs_is_compared_with_when_it_was_watched() -> None:
    statement = state(usage_record([job_record("bert", gpus=8, start=28, end=56, utilization=0.5)]))
    assert statement.before is not None
    assert statement.before.requested == 0


def test_causes_are_not_compared_with_a_period_that_the_operator_did_not_record() -> None:
    job = job_record("bert", gpus=8, start=0, end=56, utilization=0.5, causes={SMALL_BATCH: 100.0})
    statement = state(usage_record([job], recorded=(0.0,) * 28 + (1.0,) * 28))
    assert statement.before is not None
    assert statement.causes[0].before is None


@pytest.mark.parametrize(
    "changes, key, words",
    [
        (
            {"watched": (1.0,) * 40 + (0.5,) + (1.0,) * 15},
            "notWatched",
            "within 2026-11-17T00:00:00Z to 2026-11-17T06:00:00Z",
        ),
        ({"watched": (1.0,) * 40 + (0.0,) * 4 + (1.0,) * 12}, "notWatched", "24 h (2026-11-17T00:00:00Z to 2026-11-18"),
        ({"recorded": (1.0,) * 54 + (0.0,) * 2}, "notRecorded", "12 h (2026-11-20T12:00:00Z to 2026-11-21T00:00:00Z)"),
        ({"warnings": ("a store is unreachable",)}, "prometheusWarning", "a store is unreachable"),
    ],
)
def test_gaps_are_said_with_their_length_and_place(changes: dict[str, Any], key: str, words: str) -> None:
    statement = state(usage_record([job_record("bert", gpus=8, start=28, end=56, utilization=0.5)], **changes))
    (text,) = (one.text for one in statement.assumed if one.key == key)
    assert words in text


def test_nothing_is_said_to_be_assumed_of_a_period_without_gaps_but_the_resolution() -> None:
    job = job_record("bert", gpus=1, start=28, end=56, utilization=0.5, stages={Stage.TRAINING: 84.0})
    assert [one.key for one in state(usage_record([job])).assumed] == ["resolution"]


def test_pods_without_a_record_count_with_their_samples() -> None:
    foreign = job_record("", gpus=4, start=28, end=32, utilization=0.5, recorded=False, namespace="legacy")
    statement = state(usage_record([foreign]))
    assert statement.total.requested == pytest.approx(96)
    (text,) = (one for one in statement.assumed if one.key == "noRecord")
    assert text.gpu_hours == pytest.approx(96)


def test_unknown_time_lowers_no_ones_utilization() -> None:
    blind = job_record("blind", gpus=8, start=28, end=56, utilization=0.8, coverage=0.25)
    total = state(usage_record([blind])).total
    assert total.used_share == pytest.approx(0.8)
    assert total.known_share == pytest.approx(0.25)
