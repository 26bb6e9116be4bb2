"""What findings say, on one printable line."""

import sys

import pytest

from stoker.findings.finding import Finding, Location, printable, single_line
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.messages import denial
from stoker.workload.conditions import clamp

HOSTILE = "a\x1b[31mred\x07\u202efed\u2028x\ud800\x00 \x9b2J\r\nb"
FINDING = Finding(
    rule="image-invalid",
    category=Category.NON_DL_JOB,
    severity=Severity.ERROR,
    confidence=Confidence.CERTAIN,
    detail=HOSTILE,
    evidence=HOSTILE,
    fix=HOSTILE,
    docs="",
    sources=(Source.MANIFEST,),
    location=Location(field_path="spec.image", excerpt=f"{HOSTILE}\n^^^^"),
)


@pytest.mark.parametrize("category", range(0, sys.maxunicode + 1, 0x1000))
def test_no_character_that_is_not_printable_is_left(category: int) -> None:
    text = "".join(map(chr, range(category, category + 0x1000)))
    assert single_line(text).isprintable()
    assert printable(text).replace("\n", "").isprintable()


def test_words_stay_as_they_are() -> None:
    assert single_line("  größer\tals\n\n8 GPUs, ja ") == "größer als 8 GPUs, ja"
    assert printable("line\n  ^^^") == "line\n  ^^^"


def test_a_hostile_text_is_one_printable_line_wherever_a_finding_is_shown() -> None:
    entry = FINDING.to_status()
    assert all(entry[key].isprintable() for key in ("detail", "evidence", "fix"))
    assert entry["location"]["fieldPath"].isprintable()
    assert clamp(HOSTILE).isprintable()
    refusal = denial("x", Verdict(denied=(FINDING,)))
    assert refusal.message.replace("\n", "").isprintable()
