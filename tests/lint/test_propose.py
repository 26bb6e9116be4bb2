"""Where a script is cut, so that what is left is still a script that does the rest."""

import pytest

from stoker.api.dljob import DLJob
from stoker.findings.finding import Change, FieldEdit, TextEdit
from stoker.lint.fixes.propose import (
    Cut,
    after_word,
    as_changed,
    in_script,
    renumbered,
    without_command,
    without_setting,
    without_statement,
    without_word,
)
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.launch.model import Launch
from stoker.lint.launch.queries import given_count
from stoker.lint.submission import Submission

SLEEP = "sleep 60"


def submitted(script: str, **spec: object) -> Submission:
    document = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": "a"},
        "spec": {"image": "registry.example.com/a:1", "gpusPerNode": 8, "script": script, **spec},
    }
    return read_dljob(DLJob.model_validate(document))


def launch(submission: Submission) -> Launch:
    assert submission.plan is not None
    return submission.plan.launches[-1]


def cut(source: str, where: Cut | None) -> str | None:
    return None if where is None else source[: where[0]] + where[2] + source[where[1] :]


def made(change: Change | None) -> str | None:
    """The script after a change of its text."""
    if change is None:
        return None
    text = ""
    for edit in sorted(change.edits, key=lambda one: one.start if isinstance(one, TextEdit) else 0, reverse=True):
        assert isinstance(edit, TextEdit)
        text = text or edit.source
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


@pytest.mark.parametrize(
    "script, left",
    [
        ("a\nsleep 60\n", "a\n"),
        ("a\nsleep 60", "a"),
        ("a\n\tsleep 60  # uploads\nb\n", "a\nb\n"),
        ("a && sleep 60\n", "a\n"),
        ("a || sleep 60", "a"),
        ("a; sleep 60; b", "a; b"),
        ("a; sleep 60 && b", "a; b"),
        ("a && sleep 60 && b", "a && b"),
        ("a && \\\n  sleep 60\nb\n", "a\nb\n"),
        ("a &&\n  sleep 60\nb", "a\nb"),
        ("sleep 60; b", "b"),
        ("sleep 60 && b", "b"),
        ("a\nsleep 60 > /dev/null 2>&1\nb\n", "a\nb\n"),
        ("if x; then sleep 60; fi", "if x; then :; fi"),
        ("if x; then\n  sleep 60\nelse\n  b\nfi\n", "if x; then\n  :\nelse\n  b\nfi\n"),
        ("if x; then sleep 60; b; fi", "if x; then b; fi"),
        ("f() { sleep 60; }", "f() { :; }"),
        ("a || { b; sleep 60; }", "a || { b; }"),
        ("(a; sleep 60)", "(a)"),
        ("bash -c 'a; sleep 60'", "bash -c 'a'"),
        ('bash -c "a\nsleep 60"', 'bash -c "a"'),
        # What is left to its author.
        ("a; sleep 60 | b", None),
        ("a; sleep 60 &", None),
        ("sleep 60 || b", None),
        ("time sleep 60", None),
        ("a \\\n sleep 60\n", None),
        ('bash -c "sleep 60"', None),
        ("case x in\n y) sleep 60;;\nesac", None),
    ],
)
def test_a_statement_goes_with_its_operator_or_its_line(script: str, left: str | None) -> None:
    start = script.index(SLEEP)
    assert cut(script, without_statement(script, start, start + len(SLEEP))) == left


@pytest.mark.parametrize(
    "script, left",
    [
        ("torchrun t.py\nsleep 60\n", "torchrun t.py\n"),
        ("torchrun t.py\nbash -c 'echo done; sleep 60'\n", "torchrun t.py\nbash -c 'echo done'\n"),
        ('torchrun t.py\nT=60\neval "sleep $T"\n', None),
        ("pause() { sleep 60; }\npause\ntorchrun t.py\npause\n", None),
        ('CMD="sleep 60"\ntorchrun t.py\n$CMD\n', None),
        ("torchrun t.py\nnohup sleep 60\n", None),
        ("torchrun t.py\nsl''eep 60\n", None),
    ],
)
def test_a_command_is_removed_only_where_it_stands_as_it_is_read_and_runs_once(script: str, left: str | None) -> None:
    submission = submitted(script)
    assert submission.script is not None
    last = submission.script.invocations[-1]
    assert last.name == "sleep"
    assert cut(script, without_command(submission, last)) == left


@pytest.mark.parametrize(
    "script, after",
    [
        ("torchrun --nproc_per_node=4 t.py", "torchrun --nproc_per_node=8 t.py"),
        ("torchrun --nproc_per_node '4' t.py", "torchrun --nproc_per_node '8' t.py"),
        ("N=4\ntorchrun --nproc_per_node=$N t.py", "N=8\ntorchrun --nproc_per_node=$N t.py"),
        ("N=${N:-4}\ntorchrun --nproc_per_node=$N t.py", "N=${N:-8}\ntorchrun --nproc_per_node=$N t.py"),
        ("torchrun --nproc_per_node=${N:-4} t.py", "torchrun --nproc_per_node=${N:-8} t.py"),
        ("f() { torchrun --nproc_per_node $1 t.py; }\nf 4", "f() { torchrun --nproc_per_node $1 t.py; }\nf 8"),
        ('N=4\nC="torchrun --nproc_per_node=$N t.py"\n$C', 'N=8\nC="torchrun --nproc_per_node=$N t.py"\n$C'),
        ("A=(torchrun --nproc_per_node 4)\n${A[@]} t.py", "A=(torchrun --nproc_per_node 8)\n${A[@]} t.py"),
        ("bash -c 'torchrun --nproc_per_node=4 t.py'", "bash -c 'torchrun --nproc_per_node=8 t.py'"),
        ('eval "torchrun --nproc_per_node=4 \\"t.py\\""', 'eval "torchrun --nproc_per_node=8 \\"t.py\\""'),
        ("export PET_NPROC_PER_NODE=4\ntorchrun t.py", "export PET_NPROC_PER_NODE=8\ntorchrun t.py"),
        ("torchrun --nproc_per_node=$STOKER_NODES t.py", "torchrun --nproc_per_node=8 t.py"),
        # Numbers that nobody wrote.
        ("N=$((2*2))\ntorchrun --nproc_per_node=$N t.py", None),
        ("torchrun --nproc_per_node=$(seq 4 | wc -l) t.py", None),
    ],
)
def test_a_number_is_changed_where_it_was_written(script: str, after: str | None) -> None:
    submission = submitted(script)
    last = launch(submission)
    assert made(renumbered(submission, last, given_count(last), 8)) == after


def test_a_number_of_the_manifest_is_changed_there() -> None:
    submission = submitted("torchrun --nproc_per_node=$N t.py", env=[{"name": "N", "value": "4"}])
    last = launch(submission)
    assert renumbered(submission, last, given_count(last), 8) == Change(
        edits=(FieldEdit(field_path="spec.env[0].value", value="8"),), safe=False
    )


@pytest.mark.parametrize(
    "script, left",
    [
        ("torchrun --standalone t.py", "torchrun t.py"),
        ("torchrun t.py --standalone", "torchrun t.py"),
        ("torchrun \\\n  --standalone \\\n  t.py", "torchrun \\\n  t.py"),
        ("torchrun --standalone \\\n  t.py", "torchrun \\\n  t.py"),
        ("A=1 CUDA_VISIBLE_DEVICES=0 \\\n  torchrun t.py", "A=1 \\\n  torchrun t.py"),
        ("A=1 CUDA_VISIBLE_DEVICES=0 torchrun t.py", "A=1 torchrun t.py"),
        ("export CUDA_VISIBLE_DEVICES=0\ntorchrun t.py", "torchrun t.py"),
        ("export A=1 CUDA_VISIBLE_DEVICES=0\ntorchrun t.py", "export A=1\ntorchrun t.py"),
        ("CUDA_VISIBLE_DEVICES=0; export CUDA_VISIBLE_DEVICES; torchrun t.py", None),
    ],
)
def test_a_word_or_a_setting_goes_with_its_blanks(script: str, left: str | None) -> None:
    submission = submitted(script)
    command = launch(submission).invocation
    option = next((word for word in command.argv if word.text == "--standalone"), None)
    if option is not None:
        assert cut(script, without_word(submission, option)) == left
    elif left is not None:
        assert cut(script, without_setting(submission, command.environment["CUDA_VISIBLE_DEVICES"])) == left


def test_a_word_is_added_where_the_other_one_was_written() -> None:
    script = 'CMD="torchrun t.py"\n$CMD'
    submission = submitted(script)
    where = after_word(submission, launch(submission).invocation.argv[0], "--nproc-per-node=gpu")
    assert cut(script, where) == 'CMD="torchrun --nproc-per-node=gpu t.py"\n$CMD'


def test_cuts_that_overlap_make_no_change() -> None:
    submission = submitted("torchrun t.py")
    assert in_script(submission, [(0, 5, ""), (3, 8, "")], safe=True) is None
    assert in_script(submission, [(0, 5, ""), None], safe=True) is None
    assert in_script(submission, [], safe=True) is None


def text_edit(source: str, old: str, new: str) -> Change:
    start = source.index(old)
    edit = TextEdit(field_path="spec.script", start=start, end=start + len(old), text=new, source=source)
    return Change(edits=(edit,), safe=True)


@pytest.mark.parametrize(
    "change, line",
    [
        (text_edit("a\ntorchrun \\\n  --n=4 t.py\nb\n", "4", "8"), "torchrun --n=8 t.py"),
        (text_edit("a\nsleep 60\nb\n", "sleep 60\n", ""), None),
        (text_edit("#!/bin/sh -e\na\n", " -e", "\nset -e"), None),
        (text_edit("4", "4", "8"), "spec.script: 8"),
        (Change(edits=(FieldEdit(field_path="spec.image", value="a:1"),), safe=True), "spec.image: a:1"),
        (Change(edits=(FieldEdit(field_path="spec.volumes[]", value="a"),), safe=True), None),
        (Change(edits=(FieldEdit(field_path="spec.maxRestarts", value=None),), safe=True), None),
    ],
)
def test_a_change_of_one_line_can_be_shown(change: Change, line: str | None) -> None:
    assert as_changed(change) == line
