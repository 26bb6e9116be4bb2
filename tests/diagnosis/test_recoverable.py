"""How much GPU time a change may give back."""

import pytest

from stoker.diagnosis.job import diagnose
from stoker.findings.vocabulary import Category
from tests.diagnosis.recording import Thresholds, from_dict

SAVES = {
    "of": "0",
    "util": "(92x6 0x8)x20",
    "graphics": "(92x6 0x8)x20",
    "memoryUsed": "9000x280",
    "memoryFree": "23500x280",
}
UNUSED = {"util": "0x280", "graphics": "0x280", "memoryUsed": "10x280", "memoryFree": "32490x280", "pcieTx": "0x280"}


@pytest.mark.parametrize("unused", [0, 1, 3])
def test_a_gpu_that_does_no_work_loses_nothing_by_a_checkpoint(unused: int) -> None:
    recording = from_dict(
        {
            "job": {"gpusPerNode": 1 + unused, "framework": "PyTorch"},
            "step": "12s",
            "gpus": [UNUSED, SAVES | {"pcieTx": "(2e6x6 3e8x1 2e6x7)x20"}],
            "pods": [{"cpu": "1.2x280", "netRx": "1e5x280", "netTx": "(1e5x6 3e7x8)x20"}],
        }
    )
    facts, series, now = recording.at(recording.length)
    found = {one.category: one for one in diagnose(facts, series, (), Thresholds(), now).findings}
    saves = found[Category.MODEL_CHECKPOINTING].recoverable
    assert saves is not None
    # 19 saves of 8 steps lie between two stretches of work; what follows the last of these is none.
    assert saves.max == pytest.approx(19 * 8 * 12 / 3600)
    assert 0 < saves.min < saves.max
