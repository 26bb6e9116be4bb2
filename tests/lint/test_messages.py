"""What users read at `kubectl apply`."""

from dataclasses import replace

import pytest

from stoker.findings.finding import Change, Finding, Location, TextEdit
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.messages import MAX_WARNING_LENGTH, StatusCause, denial, not_analysed, warning_line, warnings
from stoker.shell.model import Shortfall


def finding(rule: str, detail: str, *, fix: str = "Mend it.", location: Location | None = None) -> Finding:
    return Finding(
        rule=rule,
        category=Category.GPU_OVERSUBSCRIPTION,
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        detail=detail,
        evidence="",
        fix=fix,
        docs="",
        sources=(Source.SCRIPT,),
        location=location or Location(field_path="spec.image"),
    )


FEW = finding(
    "launcher-too-few",
    '"--nproc_per_node=4" starts 4 processes on 8 GPUs.',
    fix="Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4.",
    location=Location(
        field_path="spec.script",
        line=3,
        column=10,
        end_column=28,
        excerpt="torchrun --nproc_per_node=4 train.py\n         ^^^^^^^^^^^^^^^^^^",
    ),
)


def test_a_refusal_has_the_place_the_numbers_the_line_and_the_change() -> None:
    refused = denial("bert", Verdict(denied=(FEW,)))
    assert refused.causes == (
        StatusCause(
            reason="FieldValueInvalid",
            field="spec.script",
            message='line 3: "--nproc_per_node=4" starts 4 processes on 8 GPUs (launcher-too-few).\n'
            "    torchrun --nproc_per_node=4 train.py\n"
            "             ^^^^^^^^^^^^^^^^^^\n"
            "  Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4.",
        ),
    )
    assert refused.message.startswith('DLJob.stoker.dev "bert" is invalid: spec.script: line 3: "--nproc_per_node=4"')


def test_a_computed_change_of_one_line_is_shown_under_the_line() -> None:
    source = "cd /app\n\ntorchrun --nproc_per_node=4 train.py\n"
    edit = TextEdit(field_path="spec.script", start=35, end=36, text="8", source=source)
    few = replace(FEW, change=Change(edits=(edit,), safe=False))
    (cause,) = denial("bert", Verdict(denied=(few,))).causes
    assert cause.message.splitlines()[1:4] == [
        "    torchrun --nproc_per_node=4 train.py",
        "             ^^^^^^^^^^^^^^^^^^",
        "    torchrun --nproc_per_node=8 train.py",
    ]


def test_a_change_of_several_lines_is_left_to_the_words() -> None:
    edit = TextEdit(field_path="spec.script", start=0, end=0, text="set -e\n", source="torchrun train.py\n")
    few = replace(FEW, change=Change(edits=(edit,), safe=True))
    assert denial("bert", Verdict(denied=(few,))) == denial("bert", Verdict(denied=(FEW,)))


def test_every_denied_finding_is_a_cause_of_its_own() -> None:
    missing = finding("image-missing", "spec.image is empty.")
    refused = denial("bert", Verdict(denied=(FEW, missing)))
    assert [(cause.field, cause.reason) for cause in refused.causes] == [
        ("spec.script", "FieldValueInvalid"),
        ("spec.image", "FieldValueRequired"),
    ]
    assert "spec.image: spec.image is empty (image-missing)." in refused.message


def test_a_warning_is_one_line_that_begins_with_its_rule() -> None:
    (line,) = warnings(Verdict(warned=(FEW,)))
    assert line == (
        'launcher-too-few: spec.script:3: "--nproc_per_node=4" starts 4 processes on 8 GPUs.'
        " Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4."
    )


def test_line_breaks_and_tabs_which_hide_a_warning_in_kubectl_are_gone() -> None:
    (line,) = warnings(Verdict(warned=(finding("r", "a\nb\tc."),)))
    assert line == "r: spec.image: a b c. Mend it."


def test_a_long_warning_says_what_is_wrong_and_what_to_do_before_the_reasons() -> None:
    (line,) = warnings(Verdict(warned=(finding("r", "4 of 8 GPUs idle. " + "Many reasons. " * 50),)))
    assert line == "r: spec.image: 4 of 8 GPUs idle. Mend it. (stoker lint says why)"


def test_where_the_fault_itself_is_long_the_fix_is_told() -> None:
    (line,) = warnings(Verdict(warned=(finding("r", "very " * 100 + "long."),)))
    assert line == "r: spec.image: Mend it. (stoker lint says why)"


@pytest.mark.parametrize("word", ["mend ", "x", "\u00fc"])
def test_a_fix_that_is_too_long_is_cut_after_a_word(word: str) -> None:
    (line,) = warnings(Verdict(warned=(finding("r", "Wrong.", fix=word * 300),)))
    assert line.startswith(f"r: spec.image: {word * 5}")
    assert line.endswith(f"{word.strip()}... (stoker lint says why)")
    assert len(line.encode()) <= MAX_WARNING_LENGTH


def test_a_line_of_a_policy_is_cut_after_a_word() -> None:
    line = warning_line("spec.rules: " + "many words " * 50)
    assert line.endswith(("many...", "words..."))
    assert len(line.encode()) <= MAX_WARNING_LENGTH


def test_the_cut_counts_bytes_where_letters_have_more_than_one() -> None:
    (line,) = warnings(Verdict(warned=(finding("r", "ü" * 300),)))
    assert len(line.encode()) <= MAX_WARNING_LENGTH


def test_three_warnings_are_shown_and_the_rest_is_counted() -> None:
    many = Verdict(warned=tuple(finding(f"rule-{n}", "Bad.") for n in range(5)))
    lines = warnings(many)
    assert [line.partition(":")[0] for line in lines[:3]] == ["rule-0", "rule-1", "rule-2"]
    assert lines[3:] == ["and 2 more (stoker lint shows them)"]


def test_what_is_audited_or_denied_is_no_warning() -> None:
    assert warnings(Verdict(denied=(FEW,), audited=(FEW,))) == []


@pytest.mark.parametrize("shortfall", list(Shortfall))
def test_why_a_job_was_not_analysed_fits_a_warning(shortfall: Shortfall) -> None:
    said = not_analysed(shortfall)
    assert warning_line(said) == said
    assert not said.endswith(".")
