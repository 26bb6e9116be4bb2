"""What a program's log says beats what its series suggest, and makes a finding certain."""

from dataclasses import replace
from datetime import timedelta

from stoker.diagnosis.job import diagnose
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, Source
from stoker.telemetry.series import LogMark, MarkKind
from tests.diagnosis.recording import START, Thresholds, from_dict

STEP = timedelta(seconds=30)
DROPS = {
    "gpus": [
        {"util": "(92x8 0x4)x12", "graphics": "(92x8 0x4)x12", "memoryUsed": "9000x144", "memoryFree": "23500x144"}
    ],
    "pods": [{"cpu": "1.2x144", "netRx": "1e5x144", "netTx": "(1e5x8 2e8x4)x12"}],
}


def judged(kind: MarkKind | None, every: int = 12) -> Finding:
    recording = from_dict({"job": {"framework": "PyTorch"}, **DROPS})
    facts, series, now = recording.at(recording.length)
    marks = tuple(
        LogMark(time=START + (8 + k) * STEP, pod=facts.pods[0].name, kind=kind, text="Saving model to /mnt/step.pt")
        for k in range(0, 144, every)
        if kind is not None
    )
    (finding,) = diagnose(facts, replace(series, marks=marks), (), Thresholds(), now).findings
    return finding


def test_series_alone_are_likely_at_most() -> None:
    assert judged(None).confidence is Confidence.LIKELY


def test_a_line_at_each_drop_makes_it_certain_and_is_quoted() -> None:
    finding = judged(MarkKind.CHECKPOINT)
    assert (finding.category, finding.confidence) == (Category.MODEL_CHECKPOINTING, Confidence.CERTAIN)
    assert finding.sources == (Source.METRICS, Source.LOGS)
    assert "Saving model to /mnt/step.pt" in finding.evidence


def test_the_log_decides_against_the_statistics() -> None:
    assert judged(MarkKind.UPLOAD).category is Category.INTERMEDIATE_RESULT_UPLOAD


def test_lines_at_few_of_the_drops_decide_nothing() -> None:
    assert judged(MarkKind.UPLOAD, every=36).confidence is Confidence.LIKELY


def test_other_lines_decide_nothing() -> None:
    assert judged(MarkKind.EPOCH).category is Category.MODEL_CHECKPOINTING
    assert judged(MarkKind.EPOCH).confidence is Confidence.LIKELY
