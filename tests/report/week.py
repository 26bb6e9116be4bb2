"""A week of a cluster in which much goes wrong, and whose users have hostile names."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from stoker.findings.vocabulary import Stage
from stoker.report import JobNotes, Statement, state
from stoker.telemetry.usage import UsageRecord
from tests.report.recording import (
    CHECKPOINT,
    INTERACTIVE,
    SMALL_BATCH,
    TOO_FEW,
    UNRELEASED,
    job_record,
    usage_record,
)

NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)
HOSTILE = "<script>window.broken = 1</script>"
HOSTILE_OWNER = '"><img src=x onerror="window.broken = 2">'
FORMULA = '=HYPERLINK("http://x","y")'
MATHS = "$x^{2$ 日本 \u202e %s"
RULE_FIXES: Mapping[str, str] = {
    "small-batch": "Raise the batch size.",
    "unreleased-job": "Let the job end with its last command.",
    "gpus-unused": "Start one process for each GPU.",
    "checkpoints": "Write checkpoints in the background.",
    "interactive-job": "Use the interactive class.",
}


def record(**changes: Any) -> UsageRecord:
    """Eight jobs: some since the week before, one without samples for a while, one that no DLJob owns."""
    jobs = [
        job_record(
            "llama-sft",
            gpus=16,
            start=20,
            end=56,
            utilization=0.93,
            owner="mina",
            team="nlp",
            stages={Stage.INITIALIZATION: 12, Stage.TRAINING: 210},
        ),
        job_record(
            "bert-large",
            gpus=16,
            start=30,
            end=50,
            utilization=0.31,
            owner="jonas",
            team="nlp",
            causes={SMALL_BATCH: 1150},
            stages={Stage.INITIALIZATION: 30, Stage.ACTIVE: 1260},
        ),
        job_record(
            "gpt-unreleased",
            gpus=8,
            start=28,
            end=44,
            utilization=0.42,
            owner=FORMULA,
            team=MATHS,
            causes={UNRELEASED: 400},
            stages={Stage.TAIL: 402, Stage.TRAINING: 30},
        ),
        job_record(
            "notebook-7",
            gpus=4,
            start=10,
            end=56,
            utilization=0.02,
            owner=HOSTILE_OWNER,
            team=HOSTILE,
            namespace="sandbox",
            causes={INTERACTIVE: 1000},
        ),
        job_record(
            "ranker",
            gpus=8,
            start=36,
            end=56,
            utilization=0.415,
            coverage=0.9,
            owner="kai",
            team="a-team-with-a-name-that-takes-sixty-three-characters-and-no-less",
            namespace="search",
            causes={TOO_FEW: 470, CHECKPOINT: 30},
        ),
        job_record("diffusion", gpus=24, start=0, end=30, utilization=0.72, team="vision", causes={CHECKPOINT: 700}),
        job_record("clip-ft", gpus=8, start=40, end=52, utilization=0.8, coverage=0.6, namespace="search"),
        job_record("", gpus=4, start=34, end=46, utilization=0.5, recorded=False, namespace="legacy"),
    ]
    return usage_record(jobs, **changes)


def statement(**changes: Any) -> Statement:
    """What is reported of it; of one job the cluster still knows the fix."""
    notes = {"uid-bert-large": JobNotes(fixes={"small-batch": "Raise --batch-size from 32 to 64."})}
    return state(record(**changes), notes=notes, rule_fixes=RULE_FIXES)
