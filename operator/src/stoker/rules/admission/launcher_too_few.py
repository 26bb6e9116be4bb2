"""Fewer processes than GPUs.

## What it flags

A launcher that is told to start fewer processes on each node than the node has GPUs, although each process uses one
GPU: `torchrun --nproc_per_node=4` on 8 GPUs, `deepspeed --num_gpus 4`, `accelerate launch --num_processes 12` on two
nodes of 8 (there the number is the total of all nodes).

It denies where one GPU per process is the launcher's own rule (torchrun, torch.distributed.launch, horovodrun,
accelerate with several processes, deepspeed) and the launch is the only thing that the job runs. It warns for
mpirun and its kin, where GPUs or hosts are named instead of counted (`deepspeed --include localhost:0,1`, a host file,
`accelerate launch --gpu_ids 0,1`), wherever other commands or branches are in sight, where the program itself is
told GPUs (`--num_gpus 8`, `--vae_device cuda:1`), where its name or its configuration's says that it trains a model
beside another one (`grpo.py`, `ppo.yaml`), and where an unknown word may be options (`train.py $(cat args.txt)`).

## Why it costs GPU time

A GPU without a process is idle for the whole life of the job, and nobody else may use it.

## When it stays silent

- a count that can't be resolved, or a set of counts that includes enough of them; the default of a variable that
  `envFrom` may set;
- another launch that uses all GPUs, or several commands that run side by side and may share them;
- tensor, pipeline or any other model parallelism, a device map, or several GPUs per process in the program's
  arguments: a process then drives several GPUs;
- an option of the program that places something on a GPU without a process: `--teacher_device cuda:7`;
- vLLM, SGLang or rollouts in the program's arguments: they take the GPUs that are left;
- as many processes as `CUDA_VISIBLE_DEVICES` leaves GPUs, without a number of their own (see `devices-subset`);
- accelerate's total of all nodes given as that of one (see `accelerate-per-node-count`);
- MIG slices and shared GPUs, whose number says nothing about devices;
- programs under mpirun that are not Python's: what their ranks do with GPUs is their own affair;
- commands that run only after a failure.

## Change

Start as many processes as there are GPUs, or request fewer GPUs. The operator sets `PET_NPROC_PER_NODE`, so that a
bare `torchrun train.py` starts one process for each GPU.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--nproc-per-node`
- Hugging Face Accelerate documentation, "accelerate launch": `--num_processes` is the total
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

from collections.abc import Iterator

from stoker.models.finding import Change, Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.subjects.editing import renumbered, together, without_variable
from stoker.subjects.launch_plan import Count, CountSource, Launch, Launcher
from stoker.subjects.reading import (
    COUNTING_LAUNCHERS,
    PER_DEVICE_LAUNCHERS,
    counted,
    drives_several_devices,
    given_count,
    is_alone,
    is_learning,
    on_each,
    origin_line,
    plain,
    quoted,
    rests_on_unset,
    selecting,
    side_by_side,
    spread,
    started_by,
    told_devices,
    totals_one_node,
    trains_several_models,
    unread_options,
    with_number,
)
from stoker.subjects.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the launch with the most processes, when even that one leaves GPUs without a process."""
    gpus, plan = submission.gpus_per_node, submission.plan
    if plan is None or gpus < 2 or not submission.counts_devices or side_by_side(plan):
        return
    launches = [launch for launch in plan.launches if _counts(launch)]
    if not submission.environment_known and any(rests_on_unset(plan.script, given_count(one)) for one in launches):
        return
    if not launches or any(not _leaves_gpus(launch, submission) for launch in launches):
        return
    launch = max(launches, key=lambda one: one.processes_per_node.maximum or 0)
    if totals_one_node(plan, launch):
        return
    count = launch.processes_per_node
    given, line = given_count(launch), origin_line(given_count(launch))
    processes = count.maximum or 0
    certain = (
        launch.launcher in PER_DEVICE_LAUNCHERS
        and _is_number(launch, given)
        and launch.one_device_per_process
        and count.value is not None
        and not told_devices(launch)
        and not trains_several_models(launch)
        and not unread_options(launch)
    )
    yield Problem(
        detail=_detail(submission, launch, given, processes),
        evidence=f"{started_by(launch)} starts {counted(processes, 'process')}{on_each(submission.nodes)},"
        f" {submission.paths.gpus_per_node} is {gpus}{f'; the number is from line {line}' if line else ''}.",
        fix=_fix(submission, launch, given, processes),
        confidence=submission.surely if certain and is_alone(plan, launch) else Confidence.LIKELY,
        location=submission.locate_count(launch, given),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=_change(submission, launch, given),
    )


def _counts(launch: Launch) -> bool:
    """Whether the launch starts a counted number of processes as part of a run that succeeds."""
    return (
        launch.launcher in COUNTING_LAUNCHERS
        and is_learning(launch)
        and not launch.invocation.after_failure
        and not launch.invocation.captured
        and given_count(launch).source not in {CountSource.DEFAULT, CountSource.DEVICES}
    )


def _is_number(launch: Launch, given: Count) -> bool:
    """Whether the user gave a number of processes, and not GPUs or hosts by name."""
    named = launch.launcher is Launcher.DEEPSPEED and not plain(given.text).startswith("__num_")
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
    changed = with_number(
        given,
        submission.gpus_per_node * spread(launch, given, submission.nodes),
        submission.environment_fields,
    )
    start = f"Start {submission.gpus_per_node}{on_each(submission.nodes)}"
    change = start if changed is None else f"Change it to {changed}"
    devices = launch.devices
    if selecting(given):
        change = f"Leave {selecting(given)} out"
    elif devices is not None and devices.count is not None and devices.count < submission.gpus_per_node:
        of_environment = devices.word in launch.invocation.environment.values()
        change += f" and leave {'CUDA_VISIBLE_DEVICES' if of_environment else '--gpu_ids'} out"
    return f"{change}, or set {submission.paths.gpus_per_node}: {processes}." if processes else f"{change}."


def _change(submission: Submission, launch: Launch, given: Count) -> Change | None:
    """As many processes as there are GPUs, and all GPUs in sight of them."""
    if not _is_number(launch, given):
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
