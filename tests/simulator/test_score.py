"""The benchmark's metrics, on verdicts counted by hand."""

from dataclasses import replace

import pytest

from benchmarks.diagnosis.__main__ import judge
from benchmarks.diagnosis.score import Possible, Verdict, score, verdict
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


def finding_of(category: Category, confidence: Confidence, *others: Category) -> Finding:
    return Finding(
        rule="any",
        category=category,
        severity=Severity.WARNING,
        confidence=confidence,
        detail="",
        evidence="",
        fix="",
        docs="",
        sources=(Source.METRICS,),
        alternatives=others,
    )


LIKELY, POSSIBLE = Confidence.LIKELY, Confidence.POSSIBLE


@pytest.mark.parametrize(
    "finding, hits",
    [
        (finding_of(SAVE, LIKELY), (1, 1, 1)),
        (finding_of(SAVE, POSSIBLE), (1, 0, 1)),
        (finding_of(BATCH, POSSIBLE, SAVE), (0, 0, 1)),
        (finding_of(BATCH, POSSIBLE), (0, 0, 0)),
    ],
)
def test_a_possible_finding_counts_in_three_ways(finding: Finding, hits: tuple[int, int, int]) -> None:
    found = score([verdict("any", 0, frozenset({SAVE}), [finding], 0.0)])

    assert tuple((found.readings[way].macro_f1 or 0) for way in Possible) == hits


def test_on_a_healthy_job_a_possible_finding_is_one_to_all_who_read_it() -> None:
    found = score([verdict("any", 0, frozenset(), [finding_of(SAVE, POSSIBLE, BATCH)], 0.0)])

    assert [found.readings[way].healthy_found for way in Possible] == [1, 0, 1]


def test_recall_is_told_by_the_worst_the_middle_and_the_best_mechanism() -> None:
    recalls = {"few": [1, 0, 0, 0], "half": [1, 1, 0, 0], "all": [1, 1, 1, 1]}
    verdicts = [
        replace(verdict_of({SAVE}, *([SAVE] if hit else [])), case=case)
        for case, hits in recalls.items()
        for hit in hits
    ]
    spread = score(verdicts).by_mechanism[SAVE]

    assert (spread.mechanisms, spread.worst, spread.middle, spread.best) == (3, 0.25, 0.5, 1.0)
