"""The script copies a Python environment or a code tree from a network share.

## What it flags

The rule flags a copy of a Python environment from a network volume of the pod, another host or a cloud store, at the
start of the job or in an init container: `cp -r /mnt/share/miniconda3 /opt`, `rsync`, `azcopy`, or `tar -x` of a
packed environment.

It only gives advice about a folder of code or libraries (`code`, `src`, `libs`), which may be small. It also only
gives advice about an environment under `/mnt`, `/nfs` or the like if the manifest does not say what is mounted there.

## Why it costs GPU time

An environment consists of about a hundred thousand small files, and each is a round trip to the share. The study saw
a copy of 16 minutes. During the copy the GPUs are held and idle, in every pod and at every restart.

## When it stays silent

- The path is not named like an environment or a code tree: it may be data.
- The source is in the image, on the node or in memory, or cannot be resolved.
- The copy runs in the background or in a branch, for instance after a test whether the copy exists.
- The copy comes after the work, or the job runs nothing else.
- The job has no GPUs.

## Change

Build an image that holds the environment. Code can run from the share itself, or from the job's `spec.sources`.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, Long Library Installation
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.kinds.pod import Mount, VolumeKind
from stoker.lint.launch.plan import Command, Role
from stoker.lint.launch.queries import CommandOrder
from stoker.lint.submission import Submission
from stoker.shell.model import Word
from stoker.shell.words import has_short_option

ENVIRONMENT = re.compile(
    r"(?:^|/)(?:(?:ana|mini)conda\d?|miniforge\d?|mambaforge|micromamba|(?:conda|python)[-_]?envs?|\.?venvs?|virtualenvs?"
    r"|(?:site|dist)-packages|envs/[^/]+|py(?:thon)?[\d.]*[-_]env"
    r"|(?:[\w.-]*[-_])?(?:env|environment|venv|conda)\.(?:tar(?:\.\w+)?|tgz|zip))/?[*.]?$",
    re.IGNORECASE,
)
"""Paths that are named like a Python environment, or an archive of one."""

CODE = re.compile(r"(?:^|/)(?:code|codebase|src|source|repo|libs?|librar(?:y|ies)|third_party)/?[*.]?$", re.IGNORECASE)
"""Paths that are named like a folder of code or libraries."""

REMOTE = re.compile(r"^[a-z][a-z0-9]*://|^(?:[\w.-]+@)?[\w.-]+:(?!\\)")
SHARES = frozenset({VolumeKind.CLAIM, VolumeKind.NETWORK})
SHARE = re.compile(r"^/(?:mnt|nfs|shared?|gpfs|lustre|cephfs|efs|fsx|blob|pvc)\d*/", re.IGNORECASE)
"""Where shares are mounted by custom, also by what the manifest says nothing of."""

EXAMINED = 16
"""Copies that are examined. Chosen because a script has a few, and a script with thousands must not take seconds."""

VALUED = frozenset(
    {"-e", "--rsh", "--exclude", "--include", "--exclude-from", "-f", "--file", "-C", "--directory", "-d"}
)
"""Options of copying tools that take the next word."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first copy of an environment, or else of code, before the work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    order = CommandOrder(plan)
    copies = [
        (ENVIRONMENT.search(source.text or "") is not None, command, source)
        for command in plan.of(Role.COPY, Role.DOWNLOAD)
        for source in _sources(command)
        if _holds_up(command) and _comes_from_afar(source.text or "", submission)
    ]
    copies.sort(key=lambda one: not one[0])
    found = next((one for one in copies[:EXAMINED] if submission.initial or order.followed(one[1])), None)
    if found is None:
        return
    environment, command, source = found
    sure = environment and _is_shared(source.text or "", submission)
    waiting = f"{submission.gpus} GPUs wait" if submission.gpus > 1 else "the GPU waits"
    what = "a Python environment by its name" if environment else "a tree of code by its name"
    image = f"Build an image that holds it, and set {submission.paths.image} to that."
    yield Problem(
        detail=f"{command.tool} copies {source.text} in every pod at every start, while {waiting}.",
        evidence=f"It is {what}, {_place(source.text or '', submission)}.",
        fix=image if environment else "Run it from where it is, or build an image that holds it.",
        severity=None if sure else Severity.ADVICE,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        location=submission.locate(command.invocation, (source,)),
        sources=(Source.SCRIPT, Source.MANIFEST),
    )


def _holds_up(command: Command) -> bool:
    """Whether every run waits for the command."""
    invocation = command.invocation
    return invocation.certain and not (invocation.background or invocation.captured or invocation.in_trap)


def _comes_from_afar(path: str, submission: Submission) -> bool:
    """Whether the path is an environment on a share, or where shares are usually mounted, or code on a share."""
    if ENVIRONMENT.search(path):
        return _is_shared(path, submission) or (_mount(path, submission) is None and SHARE.match(path) is not None)
    return CODE.search(path) is not None and _is_shared(path, submission)


def _sources(command: Command) -> list[Word]:
    """What a command copies from: all operands but the last one; an archive that is unpacked."""
    if command.role is Role.DOWNLOAD:
        return list(command.urls)
    words, operands, archive = command.invocation.argv[1:], [], []
    skip = False
    for index, word in enumerate(words):
        text = word.text or word.prefix
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text in VALUED
            if command.tool == "tar" and re.fullmatch(r"-[a-z]*f|--file", text):
                archive, skip = list(words[index + 1 : index + 2]), True
        else:
            operands.append(word)
    if command.tool == "tar":
        packs = any(has_short_option(f"-{(word.text or '').removeprefix('-')}", "c") for word in words[:1])
        first = (operands[0].text or "") if operands else ""
        old_style = first.endswith("f") and has_short_option(f"-{first}", "x")
        return [] if packs else archive or (operands[1:2] if old_style else [])
    if command.tool in {"unzip", "unrar", "7z"}:
        return operands[:1]
    return operands[:-1]


def _mount(path: str, submission: Submission) -> Mount | None:
    return submission.pod.mount_of(path) if path.startswith("/") else None


def _is_shared(path: str, submission: Submission) -> bool:
    mount = _mount(path, submission)
    return REMOTE.search(path) is not None or (mount is not None and mount.kind in SHARES)


def _place(path: str, submission: Submission) -> str:
    mount = _mount(path, submission)
    if mount is not None:
        return f"on the network volume at {mount.path}"
    return "on another machine" if REMOTE.search(path) else "where shares are mounted by custom"


RULE: Rule[Submission] = Rule(
    id="A403",
    name="code-tree-copy",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The script copies an environment from a share at every start.",
    fix="Build an image that holds the environment.",
    check=check,
    init_containers=True,
    maturity=Maturity.PREVIEW,
)
