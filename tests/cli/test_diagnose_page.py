"""docs/diagnose.md says what the command does."""

import os
import re
from pathlib import Path

import click
import pytest
import yaml

from stoker.cli.diagnose import diagnose
from stoker.inspection.recorded import RecordedJob
from tests.cli.test_diagnose import Tape, entry, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/diagnose.md").read_text()
STRIPS = [
    "0x24 82..96x206 0x250",
    "0x24 80..96x206 0x250",
    "0x24 82..97x106 _x30 82..97x70 0x250",
    "0x24 78..95x206 0x250",
]
"""Twelve minutes of start-up, training for an hour and three quarters, a gap in one GPU's samples, then nothing."""


def test_the_page_names_every_option() -> None:
    options = [
        name for one in diagnose.params if isinstance(one, click.Option) for name in one.opts if name[:2] == "--"
    ]
    own = [name for name in options if not name.startswith("--prometheus-")]
    assert [name for name in own if f"`{name}" not in PAGE] == []


def test_the_shown_answer_is_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(pods={"bert-large-0": STRIPS})
    monkeypatch.setattr("stoker.adapters.prometheus.source.PrometheusSource", lambda access, **_: tape)
    job = entry("bert-large", gpusPerNode=4, script="torchrun --standalone train.py\nsleep infinity\n")
    answer = run(tmp_path, jobs=[job], COLUMNS="110").stdout
    said = "  note: diagnosed as of 2026-11-20T10:00:00Z\n"
    assert said in answer  # the page shows what is seen at that time
    answer = answer.replace(said, "")
    (shown,) = re.findall(r"```\n(nlp/bert-large\n.*?)```", PAGE, re.DOTALL)
    if os.environ.get("EXPECT") == "write":
        (ROOT / "docs/diagnose.md").write_text(PAGE.replace(shown, answer))
        return
    assert shown == answer, "EXPECT=write pytest tests/cli/test_diagnose_page.py writes the page"


def test_the_recorded_job_shown_is_one_and_every_field_is_told() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = yaml.safe_load(text)
    assert RecordedJob.model_validate(shown, extra="forbid").nodes == 2
    fields = [field.alias for field in RecordedJob.model_fields.values()]
    assert [name for name in fields if f"`{name}`" not in PAGE] == []
