"""docs/status.md names every condition and reason that there is."""

import re
from pathlib import Path

import pytest

from stoker.api.dljob import DLJobStatus
from stoker.api.status import UtilizationStatus
from stoker.findings.vocabulary import ConditionType, Phase, UnknownReason
from stoker.reclaim import NoticeReason

PAGE = (Path(__file__).parents[2] / "docs" / "status.md").read_text()
SELF_EXPLAINED = {"conditions", "observedGeneration", "observedSuspend", "jobUID", "utilization"}


@pytest.mark.parametrize("word", [*ConditionType, *UnknownReason, *NoticeReason, *Phase])
def test_every_condition_reason_and_phase_is_explained(word: str) -> None:
    assert re.search(rf"\b{word}\b", PAGE)


def test_every_field_is_explained() -> None:
    fields = [*DLJobStatus.model_fields.values(), *UtilizationStatus.model_fields.values()]
    names = {str(field.alias) for field in fields} - SELF_EXPLAINED
    assert {name for name in names if not re.search(rf"`(utilization\.)?{name}`", PAGE)} == set()
