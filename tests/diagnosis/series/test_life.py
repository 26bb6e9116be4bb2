"""A job's life over restarts and replaced pods, its stages, and what can't be said of a shared GPU."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from stoker.diagnosis.series.examination import Examination, examine
from stoker.findings.vocabulary import Stage
from stoker.telemetry.grid import life
from stoker.telemetry.series import Attempt, GpuSignal, LogMark, MarkKind
from tests.diagnosis.recording import START, Thresholds, from_dict

MINUTE = timedelta(minutes=1)


def exam(raw: dict[str, Any]) -> Examination:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    return examine(facts, series, Thresholds(), now)


def spans(seen: Examination) -> list[tuple[Stage, int, int]]:
    return [(span.stage, span.first, span.last) for span in seen.stages]


def test_an_earlier_run_of_the_container_belongs_to_the_life() -> None:
    pod = from_dict({"gpus": [{"util": "0x1"}]}).facts.pods[0]
    again = replace(
        pod,
        started_at=START + 10 * MINUTE,
        attempts=(Attempt(started_at=START, finished_at=START + 4 * MINUTE),),
        restarts=1,
    )
    times = START.timestamp() + 60.0 * np.arange(1, 16, dtype=np.float64)
    np.testing.assert_array_equal(life(again, times, 60.0), [True] * 4 + [False] * 6 + [True] * 5)


def test_a_former_pods_gpu_time_counts_and_ends_when_its_successor_has_a_node() -> None:
    recording = from_dict({"gpus": [{"util": "80x40"}]})
    facts, series, now = recording.at(40)
    (old,) = facts.pods
    new = replace(
        old, name="bert-0-second", uid="new", started_at=START + 12 * MINUTE, scheduled_at=START + 10 * MINUTE
    )
    (gpu,) = series.gpus
    half = series.times <= (START + 10 * MINUTE).timestamp()
    signals = {GpuSignal.UTIL: np.where(half, 40.0, np.nan)}
    later = {GpuSignal.UTIL: np.where(series.times > (START + 12 * MINUTE).timestamp(), 80.0, np.nan)}
    seen = examine(
        replace(facts, pods=(new,), former_pods=(old,)),
        replace(series, gpus=(replace(gpu, signals=signals), replace(gpu, pod=new.name, signals=later))),
        Thresholds(),
        now,
    )
    assert seen.expected_steps == 20 + 16
    assert seen.average == pytest.approx((20 * 40 + 16 * 80) / 36)
    assert [device.pod.name for device in seen.present] == [new.name]
    assert len(seen.attempts) == 2


def test_a_former_pod_without_samples_leaves_the_job_uncovered() -> None:
    recording = from_dict({"gpus": [{"util": "80x40"}]})
    facts, series, now = recording.at(40)
    gone = replace(facts.pods[0], name="gone", started_at=START - 30 * MINUTE, finished_at=START + 5 * MINUTE)
    seen = examine(replace(facts, former_pods=(gone,)), series, Thresholds(), now)
    assert not seen.every_gpu_seen
    assert not seen.covered


def test_cpus_at_work_before_the_first_kernel_are_preprocessing() -> None:
    seen = exam(
        {
            "gpus": [{"util": "0x30 90x60"}],
            "pods": [{"cpu": "0.5x10 12x20 2x60", "netRx": "2e7x10 1e3x80"}],
        }
    )
    assert spans(seen) == [
        (Stage.INITIALIZATION, 0, 10),
        (Stage.PREPROCESSING, 10, 30),
        (Stage.ACTIVE, 30, 90),
    ]


def test_a_log_line_about_packages_forbids_preprocessing() -> None:
    recording = from_dict(
        {"gpus": [{"util": "0x30 90x60"}], "pods": [{"cpu": "12x30 2x60", "netRx": "1e3x90"}]},
    )
    facts, series, now = recording.at(90)
    mark = LogMark(time=START + 14 * MINUTE, pod=facts.pods[0].name, kind=MarkKind.INSTALL, text="Building wheel")
    seen = examine(facts, replace(series, marks=(mark,)), Thresholds(), now)
    assert Stage.PREPROCESSING not in {span.stage for span in seen.stages}


def test_a_later_stretch_at_another_level_is_evaluation() -> None:
    assert spans(exam({"gpus": [{"util": "88..92x120 33..37x30"}]})) == [
        (Stage.TRAINING, 0, 120),
        (Stage.EVALUATION, 120, 150),
    ]


def test_evaluation_that_returns_is_told_from_training() -> None:
    seen = exam({"gpus": [{"util": "(90x40 35x12)x4 90x40"}]})
    assert seen.evaluating.sum() == 4 * 12
    assert not seen.training[40:52].any()


@pytest.mark.parametrize(
    "util",
    ["20x20 90x100", "90x60 20..95x60", "(90x10 0x4)x10", "90x60 35x60", "90x100 80x30", "90x100 0x30"],
    ids=["warm-up", "noise", "drops", "which is which", "close", "tail"],
)
def test_levels_without_support_make_no_stages(util: str) -> None:
    assert not exam({"gpus": [{"util": util}]}).evaluating.any()


def test_a_restart_begins_anew_and_its_wait_is_no_tail() -> None:
    recording = from_dict({"gpus": [{"util": "90x40 0x20 90x40", "memoryUsed": "9000x60 10x5 9000x35"}]})
    facts, series, now = recording.at(100)
    (pod,) = facts.pods
    restarted = START + 20 * MINUTE
    pod = replace(pod, started_at=restarted, attempts=(Attempt(started_at=START, finished_at=restarted),), restarts=1)
    seen = examine(replace(facts, pods=(pod,)), series, Thresholds(), now)
    assert len(seen.attempts) == 2
    assert Stage.TAIL not in {span.stage for span in seen.stages}


@pytest.mark.parametrize(
    "rates",
    ["5e9x20", " ".join(f"{20 + k}e6x1" for k in range(20))],
    ids=["steady", "rising"],
)
def test_traffic_over_nvlink_is_work_however_it_runs(rates: str) -> None:
    """A series holds rates: one that never falls is no total, and one that never changes is no rest."""
    (device,) = exam({"gpus": [{"util": "0x20", "nvlink": rates}]}).devices
    assert device.busy.all()


def test_a_graphics_engine_at_zero_while_kernels_run_is_not_believed() -> None:
    seen = exam({"gpus": [{"util": "30..40x40", "graphics": "0x40"}]})
    assert not seen.devices[0].trusted
    assert float(np.nanmean(seen.use)) > 25


def test_slices_and_shared_devices_are_no_whole_gpus() -> None:
    assert exam({"gpus": [{"util": "90x20"}]}).whole_gpus
    assert not exam({"job": {"gpuResource": "nvidia.com/mig-1g.10gb"}, "gpus": [{"util": "90x20"}]}).whole_gpus
    recording = from_dict({"gpus": [{"util": "90x20"}]})
    facts, series, now = recording.at(20)
    shared = replace(series, gpus=(replace(series.gpus[0], shared=True),))
    assert not examine(facts, shared, Thresholds(), now).whole_gpus
