"""What fuzzing has found, each once, by name."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.api.dljob import DLJob
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN
from tests.fuzz.real_shell import World, compared

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

MISREAD = {
    "hex in an ANSI string": "torchrun $'\\x41\\101'",
    "an empty word of braces vanishes": "torchrun {,x} 1",
    "braces around what is quoted or expanded": 'A=3; torchrun "$A"{1,2} {a,"b c",$A} x{"1"..3}',
    "more words than are followed": "torchrun {1..20}{1..20}",
    "zero-padded numbers": "torchrun {01..3} {1..03..2} {c..a} {a..e..2}",
    "two unknown words beside one another": "torchrun $A$B $A",
    "an unknown element is no word": 'torchrun ${LIST[$N]} "${LIST[$N]}"',
    "a word of several nodes": 'A=1; torchrun "a $A"\\$A "$A"\'b\'',
    "an empty word between quotes": 'torchrun "${A+s}" "${A:+s}" "$*" 2',
    "a count in a default": 'torchrun "${1:-$#}"',
    "parameters in a here-document": "set -- a b\ncat > run.sh <<EOF\ntorchrun $@ $# $* ${1}\nEOF\nbash run.sh x",
    "continued lines in a here-document": "cat > run.sh <<EOF\ntorchrun \\\n ${A//,/ } ${B//,/ }\npip\nEOF\n. ./run.sh",
    "an unknown word between single quotes": "cat > run.sh <<EOF\ntorchrun '$(prepare)'\nEOF\nbash run.sh",
    "single quotes in a quoted default": 'torchrun "${B:-\'x\'}" "${B:-a\\b}" "${B:-"y"}"',
    "a negated pipeline": "if ! torchrun | tee log; then giveup; exit 1; fi",
    "a substitution is run once": "torchrun $(prepare) > log; echo $(prepare 2) | cat",
    "a list whose end is piped": '[ -n "$B" ] && torchrun 2>&1 | tee log\nA=1 && pip $A > x | cat\npip $A',
    "a list that is not all piped": "[ -f none ] || prepare 2>&1 | cat | torchrun",
    "a line that ends in a number": "prepare | cat | torchrun \n! grep -q x hosts || pip \\\n  -- \\\n  1",
    "a test in the line after a redirection": '[ $# -eq 0 ] && pip 1 > log\n[ "$A" = 1 ] && torchrun',
    "no operand is no empty operand": "if [ -n $A ]; then torchrun; fi; if [ ! -n $A ]; then pip; fi",
    "an array is not exported": "export A=1\nA=(2 3)\ntorchrun",
    "all words before the first assignment": 'export A=3 B="a $A"\ntorchrun',
    "what is exported stays so": "export A\nread A B <<< '1 2'\ntorchrun",
    "a local variable inherits its export": "export A=1\nf() {\nlocal A=3\ntorchrun\n}\nf",
    "too few to shift": 'shift\ntorchrun "$?"',
    "set to what nobody sets": "B=$A\ntorchrun ${B+s} ${B-d}\nexport A=$A\ntorchrun ${A-d}",
}
"""Scripts of which the interpreter once claimed what bash does not do."""


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("world", [World({}), World({"A": "1", "B": "a b", "N": "0"}, frozenset({"A"}), 1)])
def test_a_script_that_was_misread_is_read_as_bash_reads_it(name: str, world: World, programs: Path) -> None:
    assert compared(MISREAD[name], world, programs)[1] == []


BROKE = {
    "a launcher without a program": "torchrun --nproc-per 4 --max&&-restarts=3 --tee 3 train.py",
    "an open quote after a launcher": "torchrun --nproc_per_node=4 --n'_python python3 train.py\n",
}
"""Scripts over which a rule once broke."""


@pytest.mark.parametrize("script", BROKE.values(), ids=BROKE)
def test_no_rule_breaks_over_it(script: str) -> None:
    body = {"metadata": {"name": "x"}, "spec": {"gpusPerNode": 8, "image": "a.example/b:1", "script": script}}
    verdict = review(DLJob.model_validate(body), BUILT_IN, now=NOW, clock=lambda: 0.0)
    assert verdict.failures == ()
