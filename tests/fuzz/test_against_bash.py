"""What the interpreter claims about a script is what bash does with it.

Random scripts are interpreted and then run by bash, in an empty directory and an environment of four variables, with
stubs for the programs that note how they were called. Of every successful run:

- each command that the interpreter calls certain was run, with the words and exported variables that it knows, and
  those that run one after the other in that order;
- each command that was run is one that the interpreter has seen, certain or not, in full or in part.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.fuzz.real_shell import World, compared
from tests.fuzz.shell_grammar import VARIABLES, scripts

VALUES = st.sampled_from(["", "1", "2", "a", "a b", "a.b.c", "0,1", "8", "--x", "B", " a  b "])
WORLDS = st.builds(
    World,
    st.dictionaries(st.sampled_from(VARIABLES), VALUES),
    st.frozensets(st.sampled_from(VARIABLES), max_size=2),
    st.sampled_from([0, 1]),
)
LENIENT = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def check(source: str, world: World, programs: Path) -> None:
    how, wrong = compared(source, world, programs)
    event(how)
    assert not wrong, "\n".join([source, str(world), *wrong])


@settings(LENIENT, max_examples=60, derandomize=True)
@given(scripts(), WORLDS)
def test_what_is_claimed_of_a_script_is_what_bash_does(programs: Path, source: str, world: World) -> None:
    check(source, world, programs)


@pytest.mark.long
@settings(LENIENT, max_examples=10_000)
@given(scripts(), WORLDS)
def test_what_is_claimed_of_many_scripts_is_what_bash_does(programs: Path, source: str, world: World) -> None:
    check(source, world, programs)
