"""Jobs with several acceptable causes, and a second simulator."""

import json
import sys
from dataclasses import replace

import pytest

from benchmarks.diagnosis.__main__ import main
from benchmarks.diagnosis.score import Verdict, score
from benchmarks.diagnosis.worlds import WORLDS
from stoker.findings.vocabulary import Category

SLEEP, HANG, BATCH = Category.UNRELEASED_JOB, Category.STALLED, Category.IMPROPER_BATCH_SIZE


def verdict_of(*found: Category, named: tuple[Category, ...] = (), ambiguous: bool = True) -> Verdict:
    return Verdict(
        case="any",
        seed=0,
        truth=frozenset({HANG}),
        acceptable=frozenset({HANG, SLEEP}) if ambiguous else frozenset(),
        found=found,
        sure=frozenset(found),
        named=frozenset((*found, *named)),
    )


def test_ambiguous_jobs_are_counted_by_their_true_cause_among_all_that_is_named() -> None:
    found = score([verdict_of(SLEEP), verdict_of(SLEEP, named=(HANG,)), verdict_of(HANG), verdict_of(BATCH)])

    assert (found.jobs, found.ambiguous) == (4, 4)
    assert found.ambiguous_named == 0.5
    assert found.ambiguous_wrong == 0.25


def test_ambiguous_jobs_count_in_no_measure_but_the_precision_of_what_reclaim_acts_on() -> None:
    found = score([verdict_of(SLEEP), verdict_of(BATCH), verdict_of(SLEEP, ambiguous=False)])

    assert found.measures[HANG].missed == 1
    assert found.measures[BATCH].wrong == 0
    assert found.reclaim_precision[SLEEP] == 0.5
    assert sum(found.confusion.values()) == 1


@pytest.mark.parametrize("option", [["--show", "streamed"], ["--case", "streamed"], ["--unseen"]])
def test_the_cases_of_world_b_are_not_asked_for_one_by_one(option: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["diagnosis", "--world", "b", *option])

    with pytest.raises(SystemExit) as stopped:
        main()

    assert stopped.value.code == 2


def test_reporting_seeds_are_scored_without_the_names_of_failing_cases(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    b = WORLDS["b"]
    monkeypatch.setitem(WORLDS, "b", replace(b, reporting=b.reporting[:1], tuning=b.tuning[:1]))
    options = ["--world", "b", "--tier", "util-only", "--format", "json", "--jobs", "1", "--seeds"]
    documents = {}
    for chosen in ("reporting", "tuning"):
        monkeypatch.setattr(sys, "argv", ["diagnosis", *options, chosen])
        main()
        (documents[chosen],) = json.loads(capsys.readouterr().out)

    assert documents["reporting"]["jobs"] == documents["tuning"]["jobs"] > 80
    assert documents["reporting"]["ambiguous"]["jobs"] > 10
    assert documents["reporting"]["wrong"] == []
    assert documents["tuning"]["wrong"]
