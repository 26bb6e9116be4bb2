"""The first line of the script has no effect.

## What it flags

The rule flags a first line (`#!...`) of `spec.script` that names another interpreter than a shell
(`#!/usr/bin/env python`), or gives the shell options (`#!/bin/bash -e`). The operator runs the script with bash, or
with sh if there is no bash, and does not read this line.

## Why it costs GPU time

A Python program that bash runs fails at once. Without the `-e` that its author expects, a script continues after a
failed download or installation, and trains on nothing.

## When it stays silent

- The line names a shell without options. Startup scripts mean the same to sh, bash, ksh and, usually, zsh.
- No command can set the option.

## Change

Write `set -e` as a command of its own, or start the interpreter: `python - <<'EOF'`.

## References

- `kubectl explain dljob.spec.script`
- GNU Bash manual, "The Set Builtin"
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Location, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity, Source
from stoker.lint.fixes.propose import in_script
from stoker.lint.submission import Submission

SHELLS = frozenset({"bash", "sh", "dash", "ash", "ksh", "zsh"})

SET_OPTIONS = re.compile(r"(?:[-+][abefhkmnptuvxBCEHPT]*(?:o(?: [a-z]+)?)?(?: |$))+")
"""Options that the `set` builtin knows as well."""

LOGIN = frozenset({"-l", "--login"})


def check(submission: Submission) -> Iterator[Problem]:
    """Report a first line that asks for more than a shell."""
    script = submission.script
    if script is None or submission.script_field != submission.paths.script or not script.source.startswith("#!"):
        return
    line = script.source.split("\n", 1)[0].rstrip()
    words = line[2:].split()
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if word != "-S"]
    if not words:
        return
    interpreter, options = words[0].rsplit("/", 1)[-1], words[1:]
    if interpreter in SHELLS and not options:
        return
    location = Location(
        field_path=submission.script_field,
        line=1,
        column=1,
        end_column=len(line) + 1,
        excerpt=f"{line}\n{'^' * len(line)}",
    )
    if interpreter not in SHELLS:
        yield Problem(
            detail=f'"{line}" is ignored: the script is run by bash, not by {interpreter}.',
            fix=f"Start it as a command: {interpreter} train.py, or {interpreter} - <<'END' ... END.",
            severity=Severity.ERROR,
            location=location,
            sources=(Source.SCRIPT,),
        )
        return
    given = " ".join(options)
    instead = "source /etc/profile" if given in LOGIN else f"set {given}" if SET_OPTIONS.fullmatch(given) else None
    if instead is not None:
        yield Problem(
            detail=f'"{line}" is ignored, and with it "{given}".',
            fix=f"Write it as a command: {instead}.",
            location=location,
            sources=(Source.SCRIPT,),
            change=in_script(submission, [(len(line) - len(given) - 1, len(line), f"\n{instead}")], safe=False)
            if line.endswith(f" {given}")
            else None,
        )


RULE: Rule[Submission] = Rule(
    id="A601",
    name="shebang-ignored",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="The #! line of the script has no effect.",
    fix="Write what it asks for as a command.",
    check=check,
)
