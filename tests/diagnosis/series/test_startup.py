"""What pods do before the GPUs are first used, in each attempt of a job."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoker.diagnosis.series.examination import Examination, examine
from stoker.diagnosis.series.startup import Doing, startups
from stoker.telemetry.series import Attempt
from tests.diagnosis.recording import START, Thresholds, from_dict

PIP = {"cpu": "1.1x24 3x40", "netRx": "4e6x24 0x40", "diskWrite": "9e6x24 0x40"}
UNUSED = {"util": "0x24 90x40", "memoryUsed": "3x24 20000x40", "memoryFree": "32497x24 12500x40"}


def exam(gpus: dict[str, str], pods: dict[str, str], **raw: Any) -> Examination:
    recording = from_dict({"gpus": [gpus], "pods": [pods], **raw})
    facts, series, now = recording.at(recording.length)
    return examine(facts, series, Thresholds(), now)


def test_every_step_of_a_start_has_one_doing() -> None:
    (startup,) = startups(exam(UNUSED, PIP))
    assert (startup.first, startup.last, startup.used) == (0, 24, True)
    assert sum(startup.seconds(doing, 30) for doing in Doing) == 24 * 30
    assert startup.breakdown(30) == "installing 12 min"


def test_each_attempt_has_a_start_of_its_own() -> None:
    recording = from_dict(
        {
            "gpus": [{key: f"{text} {text}" for key, text in UNUSED.items()}],
            "pods": [{key: f"{text} {text}" for key, text in PIP.items()}],
        }
    )
    facts, series, now = recording.at(recording.length)
    again = START + timedelta(minutes=32)
    earlier = Attempt(started_at=START, finished_at=again)
    pods = tuple(replace(pod, attempts=(earlier,), started_at=again) for pod in facts.pods)
    found = startups(examine(replace(facts, pods=pods), series, Thresholds(), now))
    assert [(startup.first, startup.last) for startup in found] == [(0, 24), (64, 88)]
    assert [startup.seconds(Doing.INSTALLING, 30) for startup in found] == [720, 720]


@pytest.mark.parametrize(
    "check",
    ["0x3 90x1 0x20 90x40", "0x10 30x2 0x12 90x40"],
    ids=["one sample", "two samples apart from the work"],
)
def test_a_check_of_the_devices_is_not_their_first_use(check: str) -> None:
    (startup,) = startups(exam(UNUSED | {"util": check}, PIP))
    assert startup.last == 24


def test_a_model_in_memory_ends_the_start_before_any_kernel() -> None:
    loaded = {"memoryUsed": "3x10 18000x54", "memoryFree": "32497x10 14500x54"}
    (startup,) = startups(exam(UNUSED | loaded, PIP))
    assert startup.last == 10


def test_what_was_before_a_gap_in_the_samples_stands() -> None:
    (startup,) = startups(exam(UNUSED | {"util": "0x16 _x8 90x40"}, PIP))
    assert (startup.first, startup.last) == (0, 16)


@pytest.mark.parametrize("job", [{"jobType": "Serving"}, {"jobType": "Interactive"}, {"interactiveEntry": True}])
def test_services_and_persons_have_no_start_to_judge(job: dict[str, Any]) -> None:
    assert startups(exam(UNUSED, PIP, job=job)) == []


@pytest.mark.parametrize("minutes, starts", [(0, 1), (5, 0)])
def test_a_start_that_is_out_of_sight_is_none_to_judge(minutes: int, starts: int) -> None:
    """Pods that compute before any GPU works are at their start only where the job has just begun."""
    recording = from_dict({"gpus": [UNUSED], "pods": [PIP]})
    facts, series, now = recording.at(recording.length)
    began = START - timedelta(minutes=minutes)
    pods = tuple(replace(pod, started_at=began) for pod in facts.pods)
    assert len(startups(examine(replace(facts, pods=pods), series, Thresholds(), now))) == starts
