"""A person at the GPUs is told from a program by the times, by what goes on between them, and by the nights."""

from typing import Any

import pytest

from stoker.diagnosis.series.examination import Examination, examine
from stoker.diagnosis.series.person import irregular_bursts, looks_interactive
from tests.diagnosis.recording import Thresholds, from_dict

AN_HOUR_OR_TWO = "(0x30 40x1 0x150 40x1 0x12 40x1 0x60 40x1 0x8 40x1 0x100 40x1)x4"
BY_DAY = "(0x30 40x1 0x50 40x1 0x12 40x1 0x6 40x1 0x8 40x1 0x20 40x1 0x588)x4"


def exam(**raw: Any) -> Examination:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    return examine(facts, series, Thresholds(), now)


@pytest.mark.parametrize("util, bursts", [(AN_HOUR_OR_TWO, 0), (BY_DAY, 24)], ids=["day and night", "by day only"])
def test_over_days_a_person_sleeps(util: str, bursts: int) -> None:
    assert irregular_bursts(exam(step="2m", gpus=[{"util": util}])) == bursts


@pytest.mark.parametrize("cpu, bursts", [("0.2x240", 3), ("4x240", 0), ("_x240", 3)])
def test_a_program_at_work_between_the_bursts_is_no_person(cpu: str, bursts: int) -> None:
    gpus = [{"util": "50x4 0x10 50x4 0x200 50x4 0x18"}]
    assert irregular_bursts(exam(gpus=gpus, pods=[{"cpu": cpu}])) == bursts


def test_a_training_with_pauses_is_no_session_though_it_was_abandoned_later() -> None:
    assert not looks_interactive(exam(gpus=[{"util": "90x20 0x5 90x20 0x5 90x10 0x20 90x10 0x2900"}]))
