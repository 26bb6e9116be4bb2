"""The launcher is given another number of nodes than the job has.

## What it flags

The rule flags a number of nodes that contradicts the job: `torchrun --nnodes=4` or
`accelerate launch --num_machines 4` where `spec.nodes` is 2. It also flags a fixed rank in a script that every pod
runs: `torchrun --nnodes=2 --node_rank=0`.

## Why it costs GPU time

With too large a number, the rendezvous waits for nodes that do not exist until it times out, and all GPUs are held
and idle. With too small a number, the surplus nodes are refused and fail, or wait as well. If two pods both have rank
0, neither finds rank 1.

## When it stays silent

- The number cannot be resolved, or is a range (`--nnodes=1:4`) that includes the job's nodes.
- The launcher is given one node in a job with several: each pod may train on its own on purpose (see
  `duplicate-nodes`).
- Only some ranks run the command, or it is in a branch that cannot be decided: the nodes may have different roles.
- The nodes form groups: a `--rdzv_id` or an address is computed from the rank. If only the rank is computed, the rule
  warns.
- The fixed rank is beside `--rdzv_backend=c10d`, which assigns the ranks itself.
- The command runs only after a failure.
- The number of pods says nothing about the group: a Pod by itself, or a Job whose pods cannot find one another.

## Change

Use the same number in both places. The operator sets `PET_NNODES`, so torchrun needs no `--nnodes`.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--nnodes`
- Hugging Face Accelerate documentation, "accelerate launch": `--num_machines`
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import in_script, renumbered, together, within_word
from stoker.lint.launch.plan import CountSource, Launch, Launcher
from stoker.lint.launch.queries import (
    RANKS,
    counted,
    is_alone,
    normalized,
    origin_line,
    quoted,
    unread_options,
    with_number,
)
from stoker.lint.submission import Submission
from stoker.shell.model import Word

TELLING = frozenset(
    {Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE, Launcher.DEEPSPEED, Launcher.PADDLE}
)
"""Launchers that are told the number of nodes."""

NODE_RANKS = ("__node_rank", "__machine_rank")
"""Options that say which of the nodes this one is."""

MEETINGS = ("__rdzv_id", "__rdzv_endpoint", "__master_addr", "__main_process_ip")
"""Options that say where nodes meet: those that say the same are one group."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report each launch whose possible numbers of nodes do not include the job's."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.nodes_known:
        return
    for launch in plan.launches:
        told = launch.nodes
        if (
            launch.launcher not in TELLING
            or told.possible is None
            or submission.nodes in told.possible
            or told.maximum == 1
            or not quoted(told)
            or launch.standalone
            or not launch.invocation.certain
            or _forms_groups(launch)
        ):
            continue
        changed = with_number(told, submission.nodes)
        asked = told.value if told.value is not None else max(told.possible)
        change = f"Change it to {changed}" if changed is not None else f"Make it {submission.nodes}"
        fewer = asked < submission.nodes
        line = origin_line(told)
        certain = told.value is not None and is_alone(plan, launch) and not _computes_rank(submission, launch)
        yield Problem(
            detail=f"{quoted(told)} {'makes a group of' if fewer else 'waits for'} {counted(asked, 'node')}, but"
            f" {submission.nodes_origin}.",
            evidence=f"{'The other nodes find the group complete' if fewer else 'The other nodes never join'}"
            f"{f'; the number is from line {line}' if line else ''}.",
            fix=f"{change}, or {submission.set_nodes(asked)}.",
            confidence=submission.surely if certain else Confidence.LIKELY,
            location=submission.locate_count(launch, told),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=None if submission.leaders else _change(submission, launch),
        )
    for launch in plan.launches:
        yield from _same_rank(submission, launch)


def _same_rank(submission: Submission, launch: Launch) -> Iterator[Problem]:
    """Report a fixed rank, if every pod is given the same one of several."""
    told = launch.nodes.value
    if (
        launch.launcher not in {Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE}
        or told != submission.nodes
        or told < 2
        or submission.leaders
        or not submission.rank
        or not launch.invocation.certain
        or launch.invocation.in_loop
        or launch.invocation.background
        or unread_options(launch)
        or not _is_static(launch)
    ):
        return
    words = _option(launch, NODE_RANKS)
    rank = words[-1].text.rpartition("=")[2] if words and words[-1].text is not None else ""
    if not rank.isdecimal():
        return
    written, variable = " ".join(map(str, words)), f"${submission.rank}"
    yield Problem(
        detail=f'"{written}" gives each of the {told} pods the same rank: they never find one another.',
        evidence=f"{submission.nodes_origin}, and every pod runs this command.",
        fix=f"Change it to {written.removesuffix(rank)}{variable}.",
        confidence=Confidence.LIKELY,
        location=submission.locate(launch.invocation, words),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=None
        if "'" in _written(submission, words[-1])
        else in_script(submission, [within_word(submission, words[-1], rank, variable)], safe=False),
    )


def _option(launch: Launch, names: tuple[str, ...]) -> tuple[Word, ...]:
    """The words of the last of some options before the program: `--node_rank=0`, or `--node_rank` and `0`."""
    found: tuple[Word, ...] = ()
    for word, following in pairwise([*launch.invocation.argv, Word.known("")]):
        if word in launch.program:
            break
        name, equals, _ = (word.text or word.prefix).partition("=")
        if normalized(name) in names:
            found = (word,) if equals else (word, following)
    return found


def _is_static(launch: Launch) -> bool:
    """Whether nodes keep the ranks that they are given: other kinds of rendezvous assign them."""
    backend, word = _option(launch, ("__rdzv_backend",)), launch.invocation.environment.get("PET_RDZV_BACKEND")
    text = backend[-1].text if backend else word.text if word is not None else "static"
    return text is not None and text.rpartition("=")[2] == "static"


def _forms_groups(launch: Launch) -> bool:
    """Whether the rank decides which nodes meet, so that a launch need not include all nodes."""
    return any(_of_rank(launch, (name,)) for name in MEETINGS)


def _of_rank(launch: Launch, names: tuple[str, ...]) -> bool:
    return any(word.names & RANKS for word in _option(launch, names))


def _computes_rank(submission: Submission, launch: Launch) -> bool:
    """Whether a node's rank is computed from the job's, as that of a group is: `$((STOKER_NODE_RANK % 2))`."""
    if not _of_rank(launch, NODE_RANKS):
        return False
    written = _written(submission, _option(launch, NODE_RANKS)[-1])
    variable = re.search(r"\$\{?(\w+)(?::?-\w+)?\}?[\"']?\Z", written)
    return written != "" and (variable is None or variable[1] not in RANKS)


def _written(submission: Submission, word: Word) -> str:
    """A word as it stands in the script; "" if it does not stand there."""
    script = submission.script
    return "" if script is None or word.span is None else script.source[slice(*script.offsets(word.span))]


def _change(submission: Submission, launch: Launch) -> Change | None:
    """The job's number of nodes, and the total of processes if that was right for the other number."""
    change, total = renumbered(submission, launch, launch.nodes, submission.nodes), launch.total
    given = total.source is not CountSource.DERIVED and total.words
    if not given or total.value != (launch.nodes.value or 0) * submission.gpus_per_node:
        return change
    return together(change, renumbered(submission, launch, total, submission.gpus))


RULE: Rule[Submission] = Rule(
    id="A104",
    name="launcher-nodes-mismatch",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="The launcher is given another number of nodes than the job has.",
    fix="Make the launcher's number of nodes that of the job, or leave it to the injected PET_NNODES.",
    check=check,
    action=Action.DENY,
)
