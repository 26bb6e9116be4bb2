"""No GPU time is counted twice, and what source and series say of one cause is one finding."""

from dataclasses import replace
from typing import Any

import pytest

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
