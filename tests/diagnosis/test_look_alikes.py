"""Causes that metrics cannot tell apart are named beside one another."""

from typing import Any

from stoker.diagnosis.job import diagnose
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence
from tests.diagnosis.recording import Thresholds, from_dict

STEADY = {"graphics": "25..40x240", "memoryUsed": "9000x240", "memoryFree": "9000x240", "pcieRx": "2e7x240"}
RATIONED = {
    "graphics": "(20..45x60 0x4)x5",
    "memoryUsed": "9000x320",
    "memoryFree": "9000x320",
    "pcieRx": "(2e7x60 0x4)x5",
}


def found(gpu: dict[str, Any], pod: dict[str, Any], **job: Any) -> list[Finding]:
    raw = {"job": {"gpusPerNode": 1, "cpuLimit": 16} | job, "gpus": [gpu], "pods": [pod]}
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length)
    return list(diagnose(facts, series, (), Thresholds(), now).findings)


def test_a_read_over_the_network_may_be_from_a_store_or_from_a_public_site() -> None:
    fed = STEADY | {"graphics": "20..45x240"}
    (finding,) = found(fed, {"cpu": "1.3x240", "netRx": "4e7..2e8x240", "netTx": "1e5x240"})
    assert (finding.category, finding.alternatives) == (Category.REMOTE_DATA_READ, (Category.EXTERNAL_DATA_USAGE,))


def test_thin_data_with_silences_is_as_likely_from_a_public_site() -> None:
    thin = {"cpu": "(0.6x60 0.03x4)x5", "netRx": "(2e6..9e6x60 2000x4)x5", "netTx": "(1e5x60 2000x4)x5"}
    (finding,) = found(RATIONED, thin)
    assert (finding.confidence, finding.alternatives) == (Confidence.POSSIBLE, (Category.EXTERNAL_DATA_USAGE,))

    (steady,) = found(
        STEADY | {"graphics": "20..45x240"}, {"cpu": "0.6x240", "netRx": "2e6..9e6x240", "netTx": "1e5x240"}
    )
    assert steady.confidence is Confidence.LIKELY


def test_what_is_copied_at_the_start_may_be_data_or_libraries_from_anywhere() -> None:
    gpu = {"util": "0x32 80x100", "memoryUsed": "3x32 20000x100", "memoryFree": "32497x32 12500x100"}
    copied = {"cpu": "0.4x32 3x100", "netRx": "5e7x32 0x100", "diskWrite": "5e7x32 0x100"}
    unpacked = {"cpu": "1x32 3x100", "netRx": "5e6x32 0x100", "diskWrite": "3e7x32 0x100"}

    (one,), (other,) = found(gpu, copied), found(gpu, unpacked)

    assert one.category is Category.EXTERNAL_DATA_USAGE
    assert {*one.alternatives} == {Category.LONG_LIBRARY_INSTALLATION, Category.REMOTE_DATA_READ}
    assert other.category is Category.LONG_LIBRARY_INSTALLATION
    assert {*other.alternatives} == {
        Category.DATA_PREPROCESSING,
        Category.EXTERNAL_DATA_USAGE,
        Category.REMOTE_DATA_READ,
    }


def test_the_log_decides_among_look_alikes() -> None:
    gpu = {"util": "0x32 80x100", "memoryUsed": "3x32 20000x100", "memoryFree": "32497x32 12500x100"}
    pod = {"cpu": "0.4x32 3x100", "netRx": "5e7x32 0x100", "diskWrite": "5e7x32 0x100"}
    mark = {"at": "1m", "kind": "download", "text": "Downloading shards:   0%|          | 0/15"}
    recording = from_dict({"job": {"gpusPerNode": 1}, "gpus": [gpu], "pods": [pod], "marks": [mark]})
    facts, series, now = recording.at(recording.length)

    (finding,) = diagnose(facts, series, (), Thresholds(), now).findings

    assert (finding.confidence, finding.alternatives) == (Confidence.CERTAIN, ())
