"""The benchmark's metrics, on verdicts counted by hand."""

import pytest

from benchmarks.diagnosis.__main__ import judge
from benchmarks.diagnosis.score import Verdict, score, verdict
from benchmarks.diagnosis.worlds import WORLDS
from simulator import Tier
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, Severity, Source

BATCH, SAVE, SLEEP = Category.IMPROPER_BATCH_SIZE, Category.MODEL_CHECKPOINTING, Category.UNRELEASED_JOB


def verdict_of(truth: set[Category], *found: Category, undecided: bool = False) -> Verdict:
    return Verdict(
        case="any",
        seed=0,
        truth=frozenset(truth),
        found=found,
        sure=frozenset(found),
        undecided=undecided,
        candidates=frozenset({SAVE}) if undecided else frozenset(),
    )


VERDICTS = [
    verdict_of({BATCH}, BATCH),
    verdict_of({BATCH}, SAVE),
    verdict_of({SAVE}, SAVE, SLEEP),
    verdict_of({SAVE}, undecided=True),
    verdict_of({BATCH, SAVE}, SAVE, BATCH),
    verdict_of({BATCH, SLEEP}, SLEEP),
    verdict_of(set()),
    verdict_of(set(), SAVE),
]


def test_counts_hits_false_alarms_and_misses_of_each_category_over_all_jobs() -> None:
    measure = score(VERDICTS).measures[SAVE]

    assert (measure.hits, measure.wrong, measure.missed) == (2, 2, 1)
    assert measure.precision == 0.5
    assert measure.recall == pytest.approx(2 / 3)
    assert measure.f1 == pytest.approx(4 / 7)


def test_macro_f1_is_the_mean_over_the_categories_that_occur() -> None:
    # batch: 2 hits, 2 misses; save: as above; sleep: 1 hit, 1 false alarm
    assert score(VERDICTS).macro_f1 == pytest.approx((4 / 6 + 4 / 7 + 2 / 3) / 3)


def test_the_confusion_table_holds_jobs_with_one_cause_or_none_by_their_leading_finding() -> None:
    confusion = score(VERDICTS).confusion

    assert confusion == {
        ("ImproperBatchSize", "ImproperBatchSize"): 1,
        ("ImproperBatchSize", "ModelCheckpointing"): 1,
        ("ModelCheckpointing", "ModelCheckpointing"): 1,
        ("ModelCheckpointing", "undecided"): 1,
        ("none", "none"): 1,
        ("none", "ModelCheckpointing"): 1,
    }


def test_pairs_healthy_jobs_and_open_questions_are_counted_apart() -> None:
    found = score(VERDICTS)

    assert (found.pairs, found.both, found.one) == (2, 0.5, 0.5)
    assert (found.healthy, found.healthy_found, found.healthy_questioned) == (2, 1, 0)
    assert found.undecided == pytest.approx(1 / 6)
    assert found.true_among_candidates == 1.0
    assert found.reclaim_precision == {SLEEP: 0.5, Category.INTERACTIVE_JOB: None}


def test_a_possible_finding_with_alternatives_is_a_question_and_names_no_cause() -> None:
    def finding(confidence: Confidence, *alternatives: Category) -> Finding:
        return Finding(
            rule="any",
            category=BATCH,
            severity=Severity.WARNING,
            confidence=confidence,
            detail="d",
            evidence="e",
            fix="f",
            docs="u",
            sources=(Source.METRICS,),
            alternatives=alternatives,
        )

    question = verdict("any", 0, frozenset({SAVE}), [finding(Confidence.POSSIBLE, SAVE)], 0.0)
    answer = verdict("any", 0, frozenset({BATCH}), [finding(Confidence.LIKELY, SAVE)], 0.0)

    assert (question.found, question.leading) == ((), "undecided")
    assert question.candidates == {BATCH, SAVE}
    assert (answer.found, answer.right) == ((BATCH,), True)


def test_thresholds_are_never_tuned_on_what_is_reported() -> None:
    assert not any(set(world.tuning) & set(world.reporting) for world in WORLDS.values())


def test_a_job_is_simulated_recorded_and_judged() -> None:
    least, most = judge([Tier.UTIL_ONLY, Tier.EXTRAS], ("sleep-after-training", 1))

    assert least.truth == most.truth == {SLEEP}
    assert min(least.seconds, most.seconds) > 0
