"""What the pods' own status tells stands though Prometheus has nothing, or only a part."""

from dataclasses import replace
from typing import Any

from stoker.diagnosis.job import diagnose
from stoker.diagnosis.series.examination import examine
from stoker.diagnosis.series.input_wait import input_wait
from stoker.findings.vocabulary import Category, UnknownReason
from tests.diagnosis.recording import Thresholds, from_dict

PULLING: dict[str, Any] = {
    "job": {"nodes": 2, "gpusPerNode": 8},
    "step": "1m",
    "steps": 25,
    "podFacts": [{"scheduled": "0s", "started": "never", "waitingFor": "ContainerCreating"}],
}


def test_gpus_bound_before_any_container_has_run_are_reported_and_counted_as_no_utilization() -> None:
    recording = from_dict(PULLING)
    facts, series, now = recording.at(25)
    found = diagnose(facts, series, (), Thresholds(), now)
    assert found.utilization is None
    assert found.unknown is UnknownReason.NO_SAMPLES
    (finding,) = found.findings
    assert finding.category is Category.STARTUP_HOLD
    assert finding.recoverable is not None
    assert finding.recoverable.max == 16 * 25 / 60
    assert finding.gpu_hours_idle == 0


def test_of_a_partial_answer_nothing_is_concluded_but_what_needs_no_samples() -> None:
    held = PULLING | {"gpus": [{"util": "0x25"}], "podFacts": [{"scheduled": "-15m", "started": "0s"}]}
    recording = from_dict(held)
    facts, series, now = recording.at(25)
    found = diagnose(facts, replace(series, complete=False), (), Thresholds(), now)
    assert found.unknown is UnknownReason.PARTIAL
    assert [finding.category for finding in found.findings] == [Category.STARTUP_HOLD]


def test_a_gpu_that_is_known_to_work_but_not_how_much_takes_no_part_in_the_level() -> None:
    silent = {"of": "1", "util": "30..40x8", "power": "250x120"}
    recording = from_dict(
        {
            "job": {"gpusPerNode": 2, "framework": "PyTorch", "contextIdleWatts": 55},
            "gpus": [{"of": "0", "util": "30..40x120"}, silent],
            "pods": [{"cpu": "1x120", "netRx": "1e4x120"}],
        }
    )
    facts, series, now = recording.at(120)
    found = input_wait(examine(facts, series, Thresholds(), now))
    assert found is not None
    assert 30 <= found.level <= 40


def test_a_rule_that_is_off_is_not_asked_without_samples_either() -> None:
    recording = from_dict(PULLING)
    facts, series, now = recording.at(25)
    assert diagnose(facts, series, (), Thresholds(), now, off=("startup-hold",)).findings == ()
