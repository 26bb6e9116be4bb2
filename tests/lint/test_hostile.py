"""Scripts made to break the review: it neither raises nor denies, and says what it left out."""

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Category, Severity, Source
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.review import review, review_submission
from stoker.lint.submission import Submission
from stoker.policy.effective import BUILT_IN
from stoker.shell.model import Shortfall

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def judge(**spec: Any) -> Verdict:
    body = {"gpusPerNode": 8, "image": "registry.example.com/a:1", **spec}
    # The clock stands still: this is about the analysis, not about this machine's speed.
    return review(DLJob.model_validate({"metadata": {"name": "x"}, "spec": body}), BUILT_IN, now=NOW, clock=lambda: 0.0)


@cache
def timed(script: str) -> tuple[Verdict, float]:
    """A script's verdict, and the processor time of its review, which several tests look at."""
    begin = time.thread_time()
    return judge(script=script), time.thread_time() - begin


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
    "deep-groups": "(" * 10_000 + "torchrun" + ")" * 10_000,
    "deep-conditions": "if a; then " * 3_000 + "torchrun" + "; fi" * 3_000,
    "deep-shells": 'bash -c "' * 5_000,
    "brace-product": "torchrun " + "{1..100}" * 8_000,
    "brace-nest": "torchrun " + "{a," * 10_000 + "}" * 10_000,
    "power": "torchrun $((2**1000000)) $((9**9**9**9)) $((1 << 99999999999))",
    "huge-numbers": "torchrun --nproc_per_node=" + "9" * 50_000 + " --nnodes=$((" + "9" * 5_000 + "))",
    "word-sets": "".join(f'if [ -f {n} ]; then a="$a$b x"; else b="$b$a"; fi\n' for n in range(900)) + "torchrun $a $b",
    "word-set-product": "".join(f"[ -f {n} ] && {n}=1 || {n}=2\n" for n in "abcdefghijkl")
    + "torchrun $a$b$c$d$e$f$g\n" * 900,
    "removals": "x=" + "a" * 2_000 + "\n" + ": ${x##*a*a*b}\n" * 4_000,
    "replacements": "x=" + "ab" * 250 + "\n" + ": ${x//a*b/c}\n" * 4_000,
    "glob": "torchrun " + "*?[a-z]" * 9_000,
    "case-patterns": "x=" + "a" * 4_000 + "\ncase $x in " + "*a*aaaaaaaaaaaaaaaaaaab) a;; " * 2_000 + "esac",
    "expressions": "[[ "
    + "a" * 200
    + " =~ (a+)+(a|aa)*(.*)*$b ]] && torchrun\n[[ aaaa =~ (a?){99}a{99} ]] || torchrun\n" * 100,
    "parameters": "set -- " + "a " * 4_000 + "\n" + ": $@\n" * 8_000,
    "recursion": "f() { f $1$1; f; torchrun; }; f a",
    "mutual-eval": """a='eval "$b"; eval "$b"'; b='eval "$a"; eval "$a"'; eval "$a\"""",
    "colon-bomb": ":(){ :|:& };:",
    "heredoc": "cat > x.sh <<E\n" + "torchrun $a $b\n" * 4_000 + "E\nbash x.sh",
    "heredocs-in-heredocs": "".join(f"bash <<E{n}\n" for n in range(500)) + "torchrun\n",
    "commands": "a\n" * 32_000,
    "run-ons": "".join(f'echo "{n}"|t|{n}\n[ 0 ]\n' for n in range(2_000)),
    "tabs": "torchrun" + "\t" * 60_000 + "x",
    "blanks": "torchrun # stoker: ignore[a]" + " " * 60_000,
    "marks": "# stoker: ignore[" * 3_800,
    "backslashes": "torchrun " + "\\" * 60_000,
    "carriage-returns": "torchrun\r\n" * 6_000,
    "package-names": "pip install " + "a-" * 30_000 + " git+https://" + "/a" * 1_000,
    "flags": "tail -" + "f" * 60_000,
    "right-to-left": "torchrun \u202e\u200b\ufeff\u0301\u2028 x\n" * 2_500,
    "look-alikes": "tоrchrun --nproc_per_nоde=4 t.py\n" * 1_000,  # noqa: RUF001 - Cyrillic letters on purpose
    "NULs": "torchrun\0--nproc_per_node=4\0" * 1_000,
    "object-store-with-dashes": "wget https://s3" + "-a" * 60 + ".amazonaws.comx/data.tar",
    "object-store-with-dots": "wget https://" + ".s3" * 21_000 + ".com/x.tar\ntorchrun t.py",
    "batch-size": "torchrun train.py --batch-size " + "a-" * 32_000,
    "batch-size-of-digits": "torchrun train.py --batch-size=" + "9" * 60_000,
    "python-newlines": "python -c 'import time" + "\n" * 60_000 + "x'\ntorchrun t.py",
    "program-underscores": "python dedup" + "_" * 60_000 + ".py\ntorchrun t.py",
    "digits-of-nodes": "python train.py --trainer.num_nodes=" + "9" * 60_000,
    "digits-that-are-none": "python train.py --trainer.num_nodes ² --trainer.devices ²",
    "digits-of-devices": "deepspeed --include localhost:" + "9" * 60_000 + " t.py",
    "digits-of-a-port": "jupyter lab --port=" + "9" * 60_000,
    "digits-of-a-sleep": "python -c 'import time; time.sleep(" + "9" * 60_000 + ")'",
    "package-versions": "apt-get install a" + "-1" * 30_000 + "x\ntorchrun t.py",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_no_script_breaks_the_review_or_is_denied_for_its_shape(script: str) -> None:
    verdict, seconds = timed(script)
    assert verdict.failures == ()
    assert verdict.denied == ()
    assert set(verdict.unfinished) <= {"script"}
    assert seconds < 20  # far above what any of them takes: what tries the square of its ways takes minutes


@pytest.mark.parametrize("name", ["fork-bomb", "nested-loops", "removals", "case-patterns", "parameters", "commands"])
def test_a_script_that_is_not_followed_to_its_end_is_named(name: str) -> None:
    verdict, _ = timed(SCRIPTS[name])
    assert verdict.unfinished == ("script",)


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


def test_variables_that_double_each_other_are_read_as_far_as_a_program_could_be_started() -> None:
    env = [{"name": "V0", "value": "4"}]
    env += [{"name": f"V{number}", "value": f"$(V{number - 1})$(V{number - 1})"} for number in range(1, 100)]
    verdict = judge(script="echo $V99\ntorchrun --nproc_per_node=$V0 t.py", env=env)
    assert [finding.rule for finding in verdict.denied] == ["launcher-too-few"]
    verdict = judge(command=["torchrun", "--nproc_per_node=4", *["$(V9)$(V9)" * 1000] * 100], env=env)
    assert verdict.failures == ()


def test_as_many_variables_as_may_be_are_read() -> None:
    env = [{"name": f"V{number}", "value": f"$(V{number - 1})x"} for number in range(256)]
    template = {"spec": {"containers": [{"name": "trainer", "env": env}]}}
    verdict = judge(script="torchrun --nproc_per_node=$V3 t.py", podTemplate=template)
    assert (verdict.failures, verdict.denied) == ((), ())


def test_a_rule_that_finds_something_forever_is_stopped_by_the_budget() -> None:
    now = itertools.count(step=0.01)
    verdict = review_submission(
        SUBMISSION, BUILT_IN, now=NOW, rules=[endless("a-rule"), endless("b-rule")], clock=lambda: next(now)
    )
    assert verdict.unfinished == ("a-rule", "b-rule")
    assert 90 <= len(verdict.warned) <= 120  # what was found until then stands
    assert verdict.shortfall is Shortfall.OVER_BUDGET


SUBMISSION = read_dljob(
    DLJob.model_validate(
        {"metadata": {"name": "x"}, "spec": {"gpusPerNode": 1, "image": "a.example/b:1", "script": "a"}}
    )
)


def endless(name: str) -> Rule[Submission]:
    """A rule that finds something in each of ever more commands."""

    def check(_: Submission) -> Iterator[Problem]:
        while True:
            yield Problem(detail="a fault", sources=(Source.SCRIPT,))

    return Rule(
        id="X001",
        name=name,
        category=Category.API_MISUSE,
        severity=Severity.WARNING,
        summary="A fault.",
        fix="Mend it.",
        check=check,
    )
