"""Lightning is configured for fewer GPUs or nodes than the job has.

## What it flags

The rule flags a number on the command line of a Lightning `Trainer` that is too small: `--trainer.devices 4`
(LightningCLI) or `trainer.devices=4` (Hydra, NeMo) on 8 GPUs, or `trainer.num_nodes` below the nodes of the job. It
also flags `fabric run` and `lightning run` with `--devices 4`, or without the option: their default is one.

## Why it costs GPU time

Lightning starts one process for each of its devices. The other GPUs are idle for the whole life of the job. With too
few nodes, each pod trains the same model on its own.

## When it stays silent

- The value is `auto`, `-1` or a list of all GPUs, or cannot be resolved, or another program of the job has all GPUs.
- The number is in the program or in a configuration file, or the option has another name: `--devices` of another
  program may mean something else.
- Another launcher starts the processes (torchrun, srun), or the job says `trainer.accelerator=cpu`.
- Several programs run side by side, or a sweep runs (`--multirun`). For the number of nodes: tests, predictions and
  commands that depend on the rank.
- The GPUs are MIG slices or shared, or the command runs only after a failure.

## Change

Use `trainer.devices=auto` for all GPUs of the pod, and `trainer.num_nodes=$STOKER_NODES`.

## References

- PyTorch Lightning documentation, "Trainer": `devices`, `num_nodes`
- PyTorch Lightning documentation, "Fabric CLI": `fabric run --devices`
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

from stoker.findings.finding import Problem
from stoker.findings.quantity import small_number
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.fixes.propose import in_script, within_word
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.queries import counted, side_by_side
from stoker.lint.launch.work import Work, work_of
from stoker.lint.submission import Submission
from stoker.shell.model import Word

DEVICES = frozenset({"trainer.devices", "trainer.gpus"})
ACCELERATOR = frozenset({"trainer.accelerator"})
NODES = frozenset({"trainer.num_nodes"})
COMMANDS = frozenset({"fabric", "lightning"})
"""Lightning's own commands, whose `--devices` and `--num-nodes` mean the same."""

TRAINER_OPTIONS = frozenset({"--accelerator", "--strategy"})
"""Options of a Trainer that, side by side, no other program has: its other ones then stand beside them."""

Given = tuple[tuple[Word, ...], str]
"""An option's words and its value."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch with too few devices, and the first with too few nodes."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.counts_devices or side_by_side(plan):
        return
    launches = [launch for launch in plan.launches if _is_judged(launch)]
    yield from _devices(submission, launches)
    yield from _nodes(submission, launches)


def _devices(submission: Submission, launches: list[Launch]) -> Iterator[Problem]:
    if any(_uses_all(launch, submission) for launch in launches):
        return  # an evaluation beside the training needs no more
    for launch in launches:
        given, gpus = _given(launch, DEVICES, "--devices"), _visible(launch, submission)
        by_default = given is None and launch.launcher is Launcher.LIGHTNING
        used = _number(given[1]) if given is not None else launch.processes_per_node.value if by_default else None
        if used is None or gpus is None or not 0 < used < gpus:
            continue
        words, value = given if given is not None else (launch.invocation.argv[:1], "")
        subject = " ".join(str(word) for word in words)
        each = " of each node" if submission.nodes > 1 else ""
        field = submission.paths.gpus_per_node
        told = f'"{subject}"' if value else f"{subject} without --devices"
        change = f"Change it to {subject[: -len(value)]}{gpus}" if value else f"Add --devices {gpus}"
        yield Problem(
            detail=f"{told} trains on {used} of the {gpus} GPUs{each}.",
            evidence=f"Lightning uses no others; {field} is {submission.gpus_per_node}.",
            fix=f"{change}, or set {field}: {used}.",
            confidence=Confidence.LIKELY,  # the Trainer may be that of another library
            location=submission.locate(launch.invocation, words),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=in_script(submission, [within_word(submission, words[-1], value, str(gpus))], safe=False)
            if value.isdigit()
            else None,
        )
        return


def _uses_all(launch: Launch, submission: Submission) -> bool:
    given = _given(launch, DEVICES, "--devices")
    if given is None:
        return False
    return given[1] in {"auto", "-1"} or (_number(given[1]) or 0) >= submission.gpus_per_node


def _nodes(submission: Submission, launches: list[Launch]) -> Iterator[Problem]:
    if submission.nodes < 2 or not submission.nodes_known:
        return
    for launch in launches:
        given = _given(launch, NODES, "--num-nodes")
        told = None if given is None else small_number(given[1])
        if given is None or told is None or not 0 < told < submission.nodes or _is_independent(launch):
            continue
        subject = " ".join(str(word) for word in given[0])
        anew = f", in each of the {submission.nodes} pods separately" if told == 1 else ""
        yield Problem(
            detail=f'"{subject}" trains on {counted(told, "node")}{anew}; {submission.nodes_origin}.',
            evidence="Lightning makes a group of exactly that many nodes.",
            fix=f"Change it to {subject[: -len(given[1])]}{submission.nodes}, or {submission.set_nodes(told)}.",
            confidence=Confidence.LIKELY,
            location=submission.locate(launch.invocation, given[0]),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=in_script(
                submission, [within_word(submission, given[0][-1], given[1], str(submission.nodes))], safe=False
            ),
        )
        return


def _is_judged(launch: Launch) -> bool:
    """Whether Lightning starts its processes itself, on GPUs, once."""
    accelerator = _given(launch, ACCELERATOR, "--accelerator")
    return (
        (launch.launcher is Launcher.PYTHON or launch.invocation.name in COMMANDS)
        and not launch.invocation.after_failure
        and not launch.invocation.captured
        and not {"--multirun", "-m"} & {word.text for word in launch.arguments}
        and (accelerator is None or accelerator[1].lower() in {"auto", "gpu", "cuda"})
    )


def _given(launch: Launch, names: frozenset[str], own: str) -> Given | None:
    """The last of some options of the command line, where its value is known."""
    found: Given | None = None
    words = launch.arguments
    if launch.launcher is Launcher.LIGHTNING:  # its own options stand before the program
        argv = launch.invocation.argv
        words = argv[: len(argv) - len(words)]
    heads = [word.text if word.text is not None else word.prefix for word in words]
    trainers = launch.invocation.name in COMMANDS or {head.partition("=")[0] for head in heads} >= TRAINER_OPTIONS
    for word, following, head in zip_longest(words, words[1:], heads):
        name, equals, value = head.partition("=")
        mine = trainers and name.replace("_", "-") == own
        if not mine and (name.lstrip("-+") not in names or not (equals or name.startswith("--"))):
            continue
        if equals:
            found = ((word,), value) if word.text is not None else None
        elif following is None or following.text is None:
            found = None
        else:
            found = ((word, following), following.text)
    return found


def _number(value: str) -> int | None:
    """How many devices a value means: 4, "0,1", [0,1]; None for all of them, and for what is no number."""
    listed = re.fullmatch(r"\[?(\d{1,3}(?:,\s*\d{1,3})*),?\]?", value)
    if listed is None:
        return None
    indices = listed[1].split(",")
    return len(set(indices)) if len(indices) > 1 or not value.isdigit() else int(value)


def _visible(launch: Launch, submission: Submission) -> int | None:
    """How many GPUs the program sees; None where that is unknown."""
    if launch.devices is None:
        return submission.gpus_per_node
    count = launch.devices.count
    return None if count is None else min(count, submission.gpus_per_node)


def _is_independent(launch: Launch) -> bool:
    return (
        launch.invocation.rank_dependent
        or any(word.text is None for word in launch.invocation.argv)
        or work_of(launch) is Work.INDEPENDENT
    )


RULE: Rule[Submission] = Rule(
    id="A115",
    name="lightning-devices",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="Lightning is configured for fewer GPUs or nodes than the job has.",
    fix="Leave the number to Lightning (devices=auto), or request fewer GPUs.",
    check=check,
    maturity=Maturity.PREVIEW,
)
