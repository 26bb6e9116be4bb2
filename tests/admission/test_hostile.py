"""Scripts made to break the review: it neither raises nor denies, and says what it left out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.admission import review
from stoker.models.dljob import DLJob
from stoker.models.policy import BUILT_IN
from stoker.models.verdict import Verdict

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def judge(**spec: Any) -> Verdict:
    body = {"gpusPerNode": 8, "image": "registry.example.com/a:1", **spec}
    # The clock stands still: this is about the analysis, not about this machine's speed.
    return review(DLJob.model_validate({"metadata": {"name": "x"}, "spec": body}), BUILT_IN, now=NOW, clock=lambda: 0.0)


SCRIPTS = {
    "comments": "# x\n" * 16_000,
    "programs": "python t.py\n" * 5_000,
    "sleeps": "python t.py & sleep 99\n" * 2_500,
    "tails": "python a.py; tail -f x\n" * 2_500,
    "parentheses": "(" * 30_000 + ")" * 30_000,
    "open-conditions": "if true; then " * 2_000,
    "open-substitutions": "$(" * 20_000,
    "braces": "echo " + "{a,b}" * 5_000,
    "fork-bomb": "f(){ f|f& };f",
    "doubling": "a=xxxxxxxxxx\n" + "a=$a$a\n" * 200,
    "nested-loops": "for i in 1 2 3 4 5 6 7 8 9; do " * 8 + "torchrun x.py;" + "done;" * 8,
    "control-characters": "python t.py \x01\x02\x7f\r\n",
    "one-line": "echo " + "a" * 60_000,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_no_script_breaks_the_review_or_is_denied_for_its_shape(script: str) -> None:
    verdict = judge(script=script)
    assert verdict.failures == ()
    assert verdict.denied == ()
    assert set(verdict.unfinished) <= {"script"}


@pytest.mark.parametrize("name", ["fork-bomb", "nested-loops"])
def test_a_script_that_is_not_followed_to_its_end_is_named(name: str) -> None:
    assert judge(script=SCRIPTS[name]).unfinished == ("script",)


def test_an_ordinary_script_is_followed_to_its_end() -> None:
    assert judge(script="torchrun train.py").unfinished == ()


def test_a_syntax_error_is_no_lack_of_time() -> None:
    assert judge(script="if true; then").unfinished == ()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_fault_is_found_beside_any_letters_and_line_ends(line_end: str) -> None:
    verdict = judge(script=f"echo 'grüße 😀'{line_end}torchrun --nproc_per_node=4 t.py{line_end}")
    assert [finding.rule for finding in verdict.denied] == ["launcher-too-few"]


def test_variables_that_name_each_other_are_no_loop() -> None:
    env = [{"name": "A", "value": "$(B)$(C)" * 1000}, {"name": "B", "value": "$(A)"}]
    assert judge(script="python t.py", env=env).failures == ()
