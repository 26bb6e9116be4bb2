"""The hook that `make hooks` installs refuses a commit whose message has not the form that CONTRIBUTING asks for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hack.commit_message import faults

ROOT = Path(__file__).parents[2]
FITS = "a" * 72


@pytest.mark.parametrize(
    "message",
    [
        "Say what changed\n",
        FITS,
        f"{FITS}\n\nThe reason.\n\nAnother one.\n",
        "Sagt „größer“" + "ß" * 59,
        f"\n# a comment of git's, longer than a subject may be, which counts for nothing\n{FITS}\n# b\n",
        f"Say it\n\nWhy\n# ------------------------ >8 ------------------------\ndiff --git a b\n{'x' * 99}\n",
        "# nothing but a comment\n",
        "",
    ],
)
def test_a_message_in_the_right_form_passes(message: str) -> None:
    assert faults(message) == []


@pytest.mark.parametrize(
    "message, fault",
    [
        (f"{FITS}b\n", "the subject has 73 characters, at most 72 are allowed: put reasons into the body"),
        ("Say it\nand why\n", 'a blank line is missing between the subject and the body, before "and why"'),
        (
            "Say it\n# a comment\nand why\n",
            'a blank line is missing between the subject and the body, before "and why"',
        ),
        ("Say it\n\n\nWhy\n", "more than one blank line stands between the subject and the body"),
    ],
)
def test_each_fault_is_one_line_that_says_what_is_allowed(message: str, fault: str) -> None:
    assert faults(message) == [fault]


def test_git_asks_the_installed_hook(tmp_path: Path) -> None:
    """In a repository with this one's Makefile and hook, after `make hooks`."""
    shutil.copytree(ROOT / "hack", tmp_path / "hack")
    shutil.copy(ROOT / "Makefile", tmp_path)

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com"]
        return subprocess.run(["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init", "--quiet")
    subprocess.run(["make", "--silent", "hooks"], cwd=tmp_path, check=True)
    refused = git("commit", "--quiet", "--allow-empty", "--message", f"{FITS}b")
    assert refused.returncode == 1
    assert "the subject has 73 characters, at most 72 are allowed" in refused.stderr
    accepted = git("commit", "--quiet", "--allow-empty", "--message", FITS)
    assert accepted.returncode == 0, accepted.stderr
