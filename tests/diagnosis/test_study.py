"""The worked examples of "An Empirical Study on Low GPU Utilization of Deep Learning Jobs" (ICSE 2024) in their series.

Each ends in the study's own category.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from stoker.diagnosis import diagnose
from stoker.models.diagnosis import Diagnosis
from stoker.models.finding import Finding
from stoker.models.vocabulary import Category, Confidence, Severity, Source
from tests.diagnosis.recording import Thresholds, from_dict


def examine(raw: dict[str, Any], static: Sequence[Finding] = ()) -> Diagnosis:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    return diagnose(facts, series, static, Thresholds(), now)


def seen_before(rule: str, category: Category, detail: str, fix: str) -> Finding:
    """What admission found in the script."""
    return Finding(
        rule=rule,
        category=category,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        detail=detail,
        evidence="",
        fix=fix,
        docs="",
        sources=(Source.SCRIPT,),
    )


def test_eight_gpus_between_10_and_40_percent_have_too_small_a_batch() -> None:
    """Section 1: "utilization fluctuates mainly between 10 and 40 %", eight V100."""
    found = examine(
        {
            "job": {"gpusPerNode": 8},
            "gpus": [{"util": "10..40x120", "memoryUsed": "6200x120", "memoryFree": "26300x120"}],
            "pods": [{"cpu": "8.5x120", "netRx": "1e5x120"}],
        }
    )
    assert [finding.category for finding in found.findings] == [Category.IMPROPER_BATCH_SIZE]


def test_an_interactive_job_uses_under_one_percent_of_four_gpus_in_251_8_minutes() -> None:
    """Section 4.1."""
    found = examine(
        {
            "step": "12s",
            "job": {"gpusPerNode": 4},
            "gpus": [{"util": "0x90 25x4 0x20 30x6 0x20 10x10 0x500 35x9 0x250 20x2 0x348"}],
            "pods": [{"cpu": "1x1259"}],
        }
    )
    assert found.utilization is not None
    assert found.utilization.gpu_hours == pytest.approx(4 * 251.8 / 60)
    assert found.utilization.average_percent is not None
    assert 0 < found.utilization.average_percent < 1
    assert [finding.category for finding in found.findings] == [Category.INTERACTIVE_JOB]


def test_nproc_per_node_4_on_eight_gpus_halves_the_utilization() -> None:
    """Section 4.1: four at 83.24 %, four at 0, so 41.62 %."""
    found = examine(
        {
            "job": {"gpusPerNode": 8, "processesPerNode": 4},
            "gpus": [
                {"of": "0-3", "util": "83.24x120", "memoryUsed": "20000x120", "memoryFree": "12500x120"},
                {"of": "4-7", "util": "0x120", "memoryUsed": "3x120", "memoryFree": "32497x120"},
            ],
        }
    )
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(41.62)
    assert [finding.category for finding in found.findings] == [Category.GPU_OVERSUBSCRIPTION]


def test_ten_extra_minutes_of_sleep_on_eight_gpus_are_an_unreleased_job() -> None:
    """Section 4.1; the upload had ended before."""
    found = examine(
        {
            "job": {"gpusPerNode": 8, "finished": True},
            "gpus": [{"util": "90x200 0x20", "memoryUsed": "20000x220", "memoryFree": "12500x220"}],
            "pods": [{"cpu": "8x200 0.01x20", "netTx": "0x190 2e8x10 0x20"}],
        }
    )
    (finding,) = found.findings
    assert finding.category is Category.UNRELEASED_JOB
    assert finding.gpu_hours_idle == pytest.approx(8 * 10 / 60)
    assert not finding.is_open


def test_a_library_folder_copied_from_a_share_takes_sixteen_minutes() -> None:
    """Section 4.4. The series can't tell libraries from data; the script can."""
    raw = {
        "job": {"gpusPerNode": 1},
        "gpus": [{"util": "0x32 80x100", "memoryUsed": "3x32 20000x100", "memoryFree": "32497x32 12500x100"}],
        "pods": [{"cpu": "0.4x32 3x100", "netRx": "5e7x32 0x100", "diskWrite": "5e7x32 0x100"}],
    }
    (alone,) = examine(raw).findings
    assert alone.category is Category.EXTERNAL_DATA_USAGE
    assert alone.alternatives == (Category.LONG_LIBRARY_INSTALLATION,)
    copy = seen_before("code-tree-copy", Category.LONG_LIBRARY_INSTALLATION, "cp -r copies libraries.", "Use an image.")
    (joined,) = examine(raw, [copy]).findings
    assert (joined.category, joined.confidence) == (Category.LONG_LIBRARY_INSTALLATION, Confidence.CERTAIN)
    assert joined.sources == (Source.SCRIPT, Source.METRICS)
    assert joined.gpu_hours_idle == pytest.approx(16 / 60)


def test_two_visible_devices_and_one_used_are_a_misused_api() -> None:
    """Section 4.4, figure 6: `CUDA_VISIBLE_DEVICES=0,1 python train.py`."""
    found = examine(
        {
            "job": {"gpusPerNode": 2, "processesPerNode": 1},
            "gpus": [
                {"of": "0", "util": "85x100", "memoryUsed": "20000x100", "memoryFree": "12500x100"},
                {"of": "1", "util": "0x100", "memoryUsed": "3x100", "memoryFree": "32497x100"},
            ],
        }
    )
    (finding,) = found.findings
    assert finding.category is Category.API_MISUSE
    assert finding.alternatives == (Category.GPU_OVERSUBSCRIPTION,)


def test_bert_large_at_a_batch_of_32_is_not_low_by_the_studys_rule() -> None:
    """Section 4.5, table 2: 55.21 % over its life, 19.46 % of the memory, and yet 4.92 times to gain: no finding."""
    found = examine(
        {
            "job": {"gpusPerNode": 8, "framework": "PyTorch"},
            "gpus": [{"util": "0x17 64.4x103", "memoryUsed": "6325x120", "memoryFree": "26175x120"}],
            "pods": [{"cpu": "8x120", "netRx": "0x120"}],
        }
    )
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(55.21, abs=0.1)
    assert found.findings == ()


def test_a_checkpoint_of_96_in_168_seconds_is_a_checkpoint_and_no_small_batch() -> None:
    """Section 4.2: U = 39.57 %, memory to spare, but the GPU is interrupted, not underfed."""
    found = examine(
        {
            "step": "12s",
            "job": {"gpusPerNode": 1, "framework": "PyTorch"},
            "gpus": [{"util": "(92.3x6 0x8)x30", "memoryUsed": "9000x420", "memoryFree": "23500x420"}],
            "pods": [{"cpu": "1x420", "netRx": "0x420", "netTx": "(0x6 2e8x8)x30"}],
        }
    )
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(39.57, abs=0.05)
    (finding,) = found.findings
    assert finding.category is Category.MODEL_CHECKPOINTING
    assert finding.is_open
