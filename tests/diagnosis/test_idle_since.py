"""Since when a job rests: missing is not idle, and an old gap ends what is known."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.diagnosis.job import diagnose
from tests.diagnosis.recording import START, Thresholds, from_dict


def since(*utils: str, **job: Any) -> datetime | None:
    recording = from_dict(
        {
            "job": {"gpusPerNode": len(utils), **job},
            "gpus": [{"of": f"{n}", "util": util} for n, util in enumerate(utils)],
        }
    )
    facts, series, now = recording.at(recording.length)
    return diagnose(facts, series, (), Thresholds(), now).idle_since


@pytest.mark.parametrize(
    "utils,steps",
    [
        pytest.param(["80x60 0x60"], 60, id="after the last work"),
        pytest.param(["0x120"], 0, id="from the start"),
        pytest.param(["80x60 0x60", "80x90 0x30"], 90, id="the last of its GPUs decides"),
        pytest.param(["80x60 0x20 _x6 0x34"], 60, id="three minutes without samples are no doubt"),
        pytest.param(["80x60 0x20 _x7 0x33"], 87, id="a longer gap is one"),
        pytest.param(["80x120"], None, id="it works"),
        pytest.param(["80x60 0x60", "80x120"], None, id="one of them works"),
        pytest.param(["80x60 0x53 _x7"], None, id="nothing is known of now"),
        pytest.param(["_x120"], None, id="nothing is known at all"),
    ],
)
def test_a_job_rests_since_every_gpu_has_been_seen_idle(utils: list[str], steps: int | None) -> None:
    assert since(*utils) == (None if steps is None else START + steps * timedelta(seconds=30))


def test_a_gpu_without_samples_leaves_the_question_open() -> None:
    assert since("0x120", gpusPerNode=2) is None


def test_a_job_that_has_ended_does_not_rest() -> None:
    assert since("80x60 0x60", finished=True) is None
