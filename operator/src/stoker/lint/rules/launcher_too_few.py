"""The launcher starts fewer processes than there are GPUs.

## What it flags

The rule flags a launcher that is given fewer processes for a node than the node has GPUs, if each process uses one
GPU: `torchrun --nproc_per_node=4` on 8 GPUs, `deepspeed --num_gpus 4`, or `accelerate launch --num_processes 12` on
two nodes of 8 (here the number is the total of all nodes). If the job starts the same program several times in turn,
it reports each launch with too few. It also flags values that are no number of processes: torchrun fails with
`--nproc_per_node=-1`, `0` or `all`.

It denies if the launcher itself gives each process one GPU (torchrun, torch.distributed.launch, horovodrun,
deepspeed, accelerate with several processes) and the launch is the only work of the job. It warns

- for mpirun and similar launchers;
- if GPUs or hosts are named instead of counted: `deepspeed --include localhost:0,1`, a host file,
  `accelerate launch --gpu_ids 0,1`;
- if the job has other commands or branches;
- if the program itself is given GPUs: `--num_gpus 8`, `--vae_device cuda:1`;
- if the name of the program or of its configuration says that it trains a model beside another one: `grpo.py`,
  `ppo.yaml`;
- if accelerate has a configuration file that is not in sight;
- if an unknown word may hold options: `train.py $(cat args.txt)`.

## Why it costs GPU time

A GPU without a process is idle for the whole life of the job, and no other job may use it.

## When it stays silent

- The number cannot be resolved, or one of its possible values is large enough, or it is the default of a variable
  that `envFrom` may set.
- Another launch, of another program, uses all GPUs, or several commands run side by side and may share them.
- The program's arguments ask for model parallelism, a device map or several GPUs per process: a process then uses
  several GPUs.
- An option of the program uses a GPU without a process: `--teacher_device cuda:7`.
- The program's arguments name vLLM, SGLang or rollouts, which use the remaining GPUs.
- `CUDA_VISIBLE_DEVICES` sets the number, and the launcher is given none (see `devices-subset`).
- accelerate's total is that of one node (see `accelerate-per-node-count`).
- The GPUs are MIG slices or shared: their number says nothing about devices.
- mpirun starts a program that is not written in Python: how its ranks use GPUs is not known.
- The command runs only after a failure.

## Change

Start as many processes as there are GPUs, or request fewer GPUs. The operator sets `PET_NPROC_PER_NODE`, so that
`torchrun train.py` without a number starts one process for each GPU.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--nproc-per-node`
- Hugging Face Accelerate documentation, "accelerate launch": `--num_processes` is the total
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import in_script, renumbered, together, within_word, without_variable
from stoker.lint.launch.names import has_word
from stoker.lint.launch.plan import Count, CountSource, Launch, Launcher, LaunchPlan
from stoker.lint.launch.queries import (
    COUNTING_LAUNCHERS,
    PER_DEVICE_LAUNCHERS,
    counted,
    drives_several_devices,
    given_count,
    is_alone,
    is_given_devices,
    is_learning,
    normalized,
    on_each,
    origin_line,
    quoted,
    rests_on_unset,
    selecting,
    side_by_side,
    spread,
    started_by,
    texts,
    totals_one_node,
    trains_several_models,
    unread_options,
    with_number,
)
from stoker.lint.submission import Submission

NO_NUMBER = re.compile(r"-\d+|0+|all")
"""Numbers of processes that torchrun's source refuses (`torch/distributed/run.py`)."""

SMALLER = (
    *("eval", "valid", "test", "infer", "predict", "generat", "sampl", "prepar", "preprocess", "process", "tokeni"),
    *("export", "convert", "merge", "extract", "cache", "dry", "debug", "smoke", "warm", "bench", "profil", "download"),
)
"""How words begin, in a program's name or in arguments that it has once and not again, of work for which fewer GPUs may
do.
"""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the launch with the most processes if even that one leaves GPUs without a process."""
    gpus, plan = submission.gpus_per_node, submission.plan
    if plan is not None and gpus > 0:
        yield from (_failing(submission, plan, launch) for launch in plan.launches if _is_no_number(launch))
    if plan is None or gpus < 2 or not submission.counts_devices or side_by_side(plan):
        return
    launches = [launch for launch in plan.launches if _counts(launch)]
    if not submission.environment_known and any(rests_on_unset(plan.script, given_count(one)) for one in launches):
        return
    wasting = {one.invocation.span: one for one in _wasting(launches, submission) if not totals_one_node(plan, one)}
    yield from (_problem(submission, plan, launch) for launch in wasting.values())


def _wasting(launches: list[Launch], submission: Submission) -> Iterator[Launch]:
    """The launch with the most processes if it leaves GPUs, and the launches that start its work again."""
    most = max(launches, key=lambda one: one.processes_per_node.maximum or 0, default=None)
    wasteful = [launch for launch in launches if _leaves_gpus(launch, submission)]
    if most is None:
        return
    if len(wasteful) == len(launches):
        yield from (one for one in wasteful if one is most or _starts_again(one, most))
        return
    full = [one for one in launches if one.processes_per_node.value == submission.gpus_per_node]
    yield from (one for one in wasteful if any(_starts_again(one, other) for other in full))


def _starts_again(launch: Launch, other: Launch) -> bool:
    """Whether a launch trains with the program of another one, of the same run."""
    differing = set(texts(launch)) ^ set(texts(other))
    return (
        list(map(str, launch.program)) == list(map(str, other.program)) != []
        and not launch.invocation.excludes(other.invocation)
        and not drives_several_devices(other)
        and not any(has_word(text, *SMALLER) for text in (*differing, *map(str, launch.program)))
    )


def _problem(submission: Submission, plan: LaunchPlan, launch: Launch) -> Problem:
    gpus = submission.gpus_per_node
    count = launch.processes_per_node
    given, line = given_count(launch), origin_line(given_count(launch))
    processes = count.maximum or 0
    certain = (
        launch.launcher in PER_DEVICE_LAUNCHERS
        and _is_number(launch, given)
        and launch.one_device_per_process
        and count.value is not None
        and not is_given_devices(launch)
        and not trains_several_models(launch)
        and not unread_options(launch)
    )
    return Problem(
        detail=_detail(submission, launch, given, processes),
        evidence=f"{started_by(launch)} starts {counted(processes, 'process')}{on_each(submission.nodes)},"
        f" {submission.paths.gpus_per_node} is {gpus}{f'; the number is from line {line}' if line else ''}.",
        fix=_fix(submission, launch, given, processes if processes == _most(plan) else 0),
        confidence=submission.surely if certain and is_alone(plan, launch) else Confidence.LIKELY,
        location=submission.locate_count(launch, given),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=_change(submission, launch, given),
    )


def _is_no_number(launch: Launch) -> bool:
    """Whether torchrun is given a value with which it fails."""
    word = launch.processes_per_node.words[-1] if launch.processes_per_node.words else None
    return (
        launch.launcher in {Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH}
        and word is not None
        and "nproc_per_node" in normalized(launch.processes_per_node.text)
        and NO_NUMBER.fullmatch((word.text or "").rpartition("=")[2]) is not None
        and not launch.invocation.after_failure
    )


def _failing(submission: Submission, plan: LaunchPlan, launch: Launch) -> Problem:
    count, number = launch.processes_per_node, str(submission.gpus_per_node)
    word = count.words[-1]
    value = (word.text or "").rpartition("=")[2]
    return Problem(
        detail=f'"{count.text}" is not a number of processes: {started_by(launch)} fails with it.',
        evidence=f"{submission.paths.gpus_per_node} is {number}; gpu and auto stand for as many.",
        fix=f"Change it to {count.text.removesuffix(value)}{number}.",
        confidence=submission.surely if is_alone(plan, launch) else Confidence.LIKELY,
        location=submission.locate_count(launch, count),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=in_script(submission, [within_word(submission, word, value, number)], safe=False),
        alternatives=(Category.API_MISUSE,),
    )


def _most(plan: LaunchPlan) -> int:
    """The most processes that a launch of the job starts."""
    return max(launch.processes_per_node.maximum or 0 for launch in plan.launches)


def _counts(launch: Launch) -> bool:
    """Whether the launch starts a counted number of processes as part of a run that succeeds."""
    return (
        launch.launcher in COUNTING_LAUNCHERS
        and is_learning(launch)
        and not launch.invocation.after_failure
        and not launch.invocation.captured
        and not _is_no_number(launch)
        and given_count(launch).source not in {CountSource.DEFAULT, CountSource.DEVICES}
    )


def _is_number(launch: Launch, given: Count) -> bool:
    """Whether the user gave a number of processes, and did not name GPUs or hosts."""
    named = launch.launcher is Launcher.DEEPSPEED and not normalized(given.text).startswith("__num_")
    return not selecting(given) and not named


def _leaves_gpus(launch: Launch, submission: Submission) -> bool:
    """Whether every count that the launch may have is too small, and no process drives several GPUs."""
    if launch.launcher in {Launcher.MPIRUN, Launcher.HOROVODRUN} and submission.nodes > 1:
        return False  # across nodes it is the launcher itself that fails
    maximum = launch.processes_per_node.maximum
    return maximum is not None and maximum < submission.gpus_per_node and not drives_several_devices(launch)


def _detail(submission: Submission, launch: Launch, given: Count, processes: int) -> str:
    subject = quoted(given) or started_by(launch)
    if spread(launch, given, submission.nodes) == submission.nodes > 1 and given.value is not None:
        every = f"{submission.gpus} GPUs ({submission.nodes} nodes of {submission.gpus_per_node})"
        return f"{subject} starts {counted(given.value, 'process')} on {every}."
    most = "" if launch.processes_per_node.value is not None else "at most "
    each = " of each node" if submission.nodes > 1 else ""
    return f"{subject} starts {most}{counted(processes, 'process')} on {submission.gpus_per_node} GPUs{each}."


def _fix(submission: Submission, launch: Launch, given: Count, processes: int) -> str:
    """As many processes as there are GPUs, or as many GPUs as processes, unless that is 0."""
    changed = with_number(
        given,
        submission.gpus_per_node * spread(launch, given, submission.nodes),
        submission.environment_fields,
    )
    start = f"Start {submission.gpus_per_node}{on_each(submission.nodes)}"
    change = start if changed is None else f"Change it to {changed}"
    devices, slots = launch.devices, launch.slots
    if slots.value is not None and slots.value < submission.gpus_per_node:
        change += f" and the slots of {slots.words[0]} to {submission.gpus_per_node}"
    if selecting(given):
        change = f"Leave {selecting(given)} out"
    elif devices is not None and devices.count is not None and devices.count < submission.gpus_per_node:
        of_environment = devices.word in launch.invocation.environment.values()
        change += f" and leave {'CUDA_VISIBLE_DEVICES' if of_environment else '--gpu_ids'} out"
    return f"{change}, or set {submission.paths.gpus_per_node}: {processes}." if processes else f"{change}."


def _change(submission: Submission, launch: Launch, given: Count) -> Change | None:
    """As many processes as there are GPUs, with all GPUs visible to them."""
    slots = launch.slots.value
    if not _is_number(launch, given) or (slots is not None and slots < submission.gpus_per_node):
        return None
    if submission.leaders and given is launch.total:
        return None
    number = submission.gpus_per_node * spread(launch, given, submission.nodes)
    change, devices = renumbered(submission, launch, given, number), launch.devices
    if devices is None or devices.count is None or devices.count >= submission.gpus_per_node:
        return change
    if devices.word not in launch.invocation.environment.values():
        return None
    return together(change, without_variable(submission, "CUDA_VISIBLE_DEVICES", [devices.word], safe=False))


RULE: Rule[Submission] = Rule(
    id="A101",
    name="launcher-too-few",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.ERROR,
    summary="The launcher starts fewer processes than there are GPUs.",
    fix="Start one process for each GPU, or request fewer GPUs.",
    check=check,
    action=Action.DENY,
)
