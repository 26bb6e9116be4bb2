"""No GPU time is counted twice, and what source and series say of one cause is one finding."""

from dataclasses import replace
from typing import Any

import pytest

from stoker.catalogue import admission_rules
from stoker.diagnosis.contradiction import LEAVE_GPUS_UNUSED
from stoker.diagnosis.job import diagnose
from stoker.findings.finding import Finding, Location
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from tests.diagnosis.recording import Thresholds, from_dict

INSTALLS_THEN_SLEEPS: dict[str, Any] = {
    "job": {"gpusPerNode": 4, "cpuLimit": 16},
    "gpus": [
        {"of": "0-1", "util": "0x40 80x80 0x60", "memoryUsed": "4x40 9000x140", "memoryFree": "32000x40 23000x140"},
        {"of": "2-3", "util": "0x180", "memoryUsed": "4x180", "memoryFree": "32000x180"},
    ],
    "pods": [{"cpu": "1.5x40 3x80 0.02x60", "netRx": "3e6x40 0x140", "netTx": "0x180", "diskWrite": "8e6x40 0x140"}],
}
SLEEP = Finding(
    rule="trailing-sleep",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    confidence=Confidence.CERTAIN,
    detail='"sleep 1h" runs after the training.',
    evidence="",
    fix="Remove line 3.",
    docs="",
    sources=(Source.SCRIPT,),
    location=Location(field_path="spec.script", line=3),
)


def findings(raw: dict[str, Any], *static: Finding) -> tuple[Finding, ...]:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    return diagnose(facts, series, static, Thresholds(), now).findings


def test_idle_hours_are_divided_among_the_causes() -> None:
    """Four GPUs for 90 min: two never work, all wait for an installation, and all are kept after the end."""
    found = findings(INSTALLS_THEN_SLEEPS)
    assert {finding.category for finding in found} == {
        Category.GPU_OVERSUBSCRIPTION,
        Category.LONG_LIBRARY_INSTALLATION,
        Category.UNRELEASED_JOB,
    }
    idle = (2 * 90 + 2 * 50 + 2 * 40 * 0.2) / 60
    explained = sum(finding.gpu_hours_idle or 0 for finding in found)
    assert explained == pytest.approx(idle - 2 * 40 * 0.2 / 60)
    hours = [finding.gpu_hours_idle or 0 for finding in found]
    assert hours == sorted(hours, reverse=True)


def test_source_and_series_make_one_surer_finding() -> None:
    (unreleased,) = (f for f in findings(INSTALLS_THEN_SLEEPS, SLEEP) if f.category is Category.UNRELEASED_JOB)
    assert unreleased.confidence is Confidence.CERTAIN
    assert unreleased.rule == "unreleased-job"
    assert unreleased.sources == (Source.SCRIPT, Source.METRICS)
    assert unreleased.fix == "Remove line 3."
    assert unreleased.location == SLEEP.location
    assert SLEEP.detail in unreleased.evidence


def test_what_the_source_shows_stays_open_after_its_interval() -> None:
    """The installation is over, but the script will install again at each restart."""
    installs = replace(SLEEP, rule="heavy-install", category=Category.LONG_LIBRARY_INSTALLATION)
    category = Category.LONG_LIBRARY_INSTALLATION
    (over,) = (f for f in findings(INSTALLS_THEN_SLEEPS) if f.category is category)
    assert not over.is_open
    (known,) = (f for f in findings(INSTALLS_THEN_SLEEPS, installs) if f.category is category)
    assert known.is_open


PARALLELISM = replace(
    SLEEP,
    rule="serving-parallelism",
    category=Category.GPU_OVERSUBSCRIPTION,
    detail="vLLM's default parallel size of 1 leaves a GPU unused.",
)


def test_what_ran_refutes_what_was_read() -> None:
    """Certain or not: both GPUs work, so none is left unused."""
    both = {"job": {"gpusPerNode": 2}, "gpus": [{"util": "90x60"}]}
    assert findings(both, PARALLELISM) == ()


def test_what_ran_confirms_what_was_read() -> None:
    one = {"job": {"gpusPerNode": 2}, "gpus": [{"of": 0, "util": "90x60"}, {"of": 1, "util": "0x60"}]}
    (found,) = findings(one, PARALLELISM)
    assert found.category is Category.GPU_OVERSUBSCRIPTION
    assert found.confidence is Confidence.CERTAIN


@pytest.mark.parametrize("util", ["90x20", "0x60", "_x60"])
def test_what_has_hardly_run_refutes_nothing(util: str) -> None:
    """Ten minutes of work may be a test; a GPU without samples, or at rest, contradicts nobody."""
    assert PARALLELISM in findings({"job": {"gpusPerNode": 2}, "gpus": [{"of": 0, "util": util}]}, PARALLELISM)


@pytest.mark.parametrize("util, stays", [("0x10 90x60", False), ("0x30 90x60", True)])
def test_an_installation_that_was_short_is_no_long_one(util: str, stays: bool) -> None:
    installs = replace(SLEEP, rule="heavy-install", category=Category.LONG_LIBRARY_INSTALLATION)
    found = {finding.category for finding in findings({"gpus": [{"util": util}]}, installs)}
    assert (Category.LONG_LIBRARY_INSTALLATION in found) is stays


def test_a_job_whose_gpus_work_needs_gpus() -> None:
    analytics = replace(SLEEP, rule="non-dl-command", category=Category.NON_DL_JOB)
    assert findings({"gpus": [{"util": "90x60"}]}, analytics) == ()
    assert findings({"gpus": [{"util": "0x10 90x10"}]}, analytics) == (analytics,)


def test_the_rules_that_can_be_refuted_exist() -> None:
    assert {rule.name for rule in admission_rules()} >= LEAVE_GPUS_UNUSED


def test_a_static_finding_that_the_series_do_not_speak_of_stays() -> None:
    busy = {"gpus": [{"util": "90x60"}]}
    assert findings(busy, SLEEP) == (SLEEP,)


def test_a_named_alternative_that_the_source_shows_decides_the_category() -> None:
    one_of_two = {
        "job": {"gpusPerNode": 2},
        "gpus": [{"of": "0", "util": "80x60"}, {"of": "1", "util": "0x60"}],
    }
    (alone,) = findings(one_of_two)
    assert alone.category is Category.API_MISUSE
    launcher = replace(SLEEP, rule="launcher-too-few", category=Category.GPU_OVERSUBSCRIPTION)
    (joined,) = findings(one_of_two, launcher)
    assert joined.category is Category.GPU_OVERSUBSCRIPTION
    assert joined.alternatives == (Category.API_MISUSE,)


def test_a_rule_that_is_off_claims_no_time_from_the_others() -> None:
    recording = from_dict(INSTALLS_THEN_SLEEPS)
    facts, series, now = recording.at(recording.length)

    def hours(*off: str) -> dict[str, float]:
        found = diagnose(facts, series, (), Thresholds(), now, off=off).findings
        return {finding.rule: finding.gpu_hours_idle or 0 for finding in found}

    every, without = hours(), hours("gpus-unused")
    assert set(every) - set(without) == {"gpus-unused"}
    assert without["long-installation"] > every["long-installation"]


def advised(raw: dict[str, Any]) -> tuple[list[Category], list[str]]:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    found = diagnose(facts, series, (), Thresholds(), now)
    return [finding.category for finding in found.findings], [advice.rule for advice in found.advice]


def saves(work: int, pause: int) -> dict[str, Any]:
    return {
        "job": {"gpusPerNode": 1, "framework": "PyTorch"},
        "gpus": [{"util": f"(95x{work} 0x{pause})x12", "graphics": f"(94x{work} 0x{pause})x12"}],
        "pods": [{"cpu": f"1.2x{12 * (work + pause)}", "netTx": f"(1e5x{work} 1e8x{pause})x12"}],
    }


def test_what_takes_little_of_a_job_that_is_not_low_is_advice() -> None:
    """A checkpoint of one and a half minutes in ten: it is no cause of a low utilization."""
    assert advised(saves(17, 3)) == ([], ["checkpoint-stall"])


def test_what_takes_much_is_a_finding_whatever_the_utilization() -> None:
    """Three minutes in ten, at 66 %."""
    assert advised(saves(14, 6)) == ([Category.MODEL_CHECKPOINTING], [])


def test_what_makes_a_job_low_is_a_finding() -> None:
    assert advised(saves(6, 8)) == ([Category.MODEL_CHECKPOINTING], [])


def test_a_doubt_about_the_rest_is_not_removed_by_the_source() -> None:
    """A sleep in the script makes its rest no surer where processes poll, where it has come back before, or where it
    never began: what is only possible is never reclaimed.
    """
    polls = {"gpus": [{"util": "90x60 0x100"}], "pods": [{"cpu": "2x60 0.2x100"}]}
    comes_back = {"gpus": [{"util": "90x30 0x30 90x30 0x30 90x30 0x150"}], "pods": [{"cpu": "0x300"}]}
    never_began = {"gpus": [{"util": "0x300"}], "pods": [{"cpu": "0x300"}]}
    for raw in (polls, comes_back, never_began):
        (found,) = findings({"job": {"gpusPerNode": 1}, **raw}, SLEEP)
        assert found.category is Category.UNRELEASED_JOB
        assert found.confidence is Confidence.POSSIBLE


def test_what_waits_for_work_to_come_does_not_wait_for_its_data() -> None:
    """Two rests of half an hour in which nothing happens at all: what training seems to lose is advice. Pauses in which
    the CPUs work are the job's own.
    """
    util = "(0x8 60x4)x10 0x60 60x1 (0x8 60x4)x10 0x60 60x1 (0x8 60x4)x10"
    shared = {"job": {"gpusPerNode": 1}, "gpus": [{"util": util, "graphics": util}]}
    reads = {"netRx": "(2e7x12)x10 500x60 2e7x121 500x60 2e7x121", "netTx": "500x482"}
    asked, _ = advised({**shared, "pods": [{"cpu": "(0.5x12)x10 0.01x60 0.5x121 0.01x60 0.5x121", **reads}]})
    assert asked == []
    works, _ = advised({**shared, "pods": [{"cpu": "8x482", **reads}]})
    assert works != []
