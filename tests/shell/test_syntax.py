"""What is said to be no shell's script is refused by bash, too."""

import random
import subprocess

import pytest

from stoker.shell.script import read_script
from tests.rules.fixtures import cases

SPECS = [
    spec for case in cases("admission") for spec in (case.document.get("spec"), case.document.get("fixed")) if spec
]
SCRIPTS = sorted({str(spec["script"]) for spec in SPECS if "script" in spec})
COMPOUND = [script for script in SCRIPTS if any(word in script for word in ("if ", "for ", "while ", "case "))]
INSERTED = ("fi", "done", "if true; then", "for x in a; do", "esac", "else", "echo done", 'echo "if x"', "# for you")


def messages(script: str) -> list[str]:
    return [issue.message for issue in read_script(script).syntax_issues if issue.certain]


def bash_refuses(script: str) -> bool:
    """Whether bash has anything to say; of some faults it tells and then reads on."""
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode != 0 or bool(done.stderr)


def broken(script: str, chance: random.Random) -> str:
    """The script with a line or a word left out, or a line put in."""
    lines = script.split("\n")
    at = chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            del lines[at]
        case 1:
            words = lines[at].split(" ")
            del words[chance.randrange(len(words))]
            lines[at] = " ".join(words)
        case _:
            lines.insert(at, chance.choice(INSERTED))
    return "\n".join(lines)


def test_whatever_is_found_in_a_broken_script_bash_refuses() -> None:
    chance = random.Random(11)
    scripts = {broken(chance.choice(COMPOUND), chance) for _ in range(400)}
    found = [script for script in scripts if messages(script)]
    assert len(found) > 40, "else this shows nothing"
    assert [script for script in found if not bash_refuses(script)] == []


@pytest.mark.parametrize(
    "script, message",
    [
        ("if true; then\n  if x; then y; fi\ntorchrun a.py", '"if" has no "fi" after it'),
        ("while true; do\n  python a.py", '"while" has no "done" after it'),
        ("select x in a b; do\n  python a.py", '"select" has no "done" after it'),
        ("case $x in\n  a) python a.py ;;", '"case" has no "esac" after it'),
        ("python a.py\nfi", '"fi" stands where no compound command was begun'),
        ("python a.py\nelse\npython b.py\nfi", '"else" stands where no compound command was begun'),
        ("then python a.py", '"then" stands where no compound command was begun'),
    ],
)
def test_the_fault_is_named(script: str, message: str) -> None:
    assert messages(script) == [message]
    assert bash_refuses(script)


@pytest.mark.parametrize(
    "script",
    [
        "echo if then fi done\npython a.py --until done",
        "bash -c 'if true; then'\npython a.py",
        "cat <<EOF\nfi\nEOF\n'fi' || \"done\" || \\esac",
        "f() { if x; then y; fi; }; f",
        "",
    ],
)
def test_other_words_are_let_be(script: str) -> None:
    assert messages(script) == []
