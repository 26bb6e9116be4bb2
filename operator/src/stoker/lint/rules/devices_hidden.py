"""No GPU is visible to the program.

## What it flags

The rule flags a `CUDA_VISIBLE_DEVICES` that hides all GPUs from everything that the job starts: it is empty, `-1`, or
its first entry is an index that the pod does not have. In a pod the indices start at 0, whatever they are on the
node, so `CUDA_VISIBLE_DEVICES=4` hides the only GPU of a pod.

It also flags `deepspeed --include localhost:4,5` on GPUs that do not exist, with which deepspeed starts nothing, and
`JAX_PLATFORMS=cpu` or `JAX_PLATFORM_NAME=cpu` for JAX programs.

## Why it costs GPU time

The program runs on CPUs, about a hundred times slower, while its GPUs are held. A launcher that starts one process
for each GPU usually fails, after it has waited for the GPUs. The study saw a job that ran on CPUs for 481 minutes.

## When it stays silent

- Only some of the commands cannot see the GPUs: they may be steps that need none.
- The value cannot be resolved, or holds GPU or MIG identifiers instead of indices.
- deepspeed chooses GPUs itself (`--include`, `--num_gpus`) and sets the variable anew, or its choice names other
  hosts.
- A variable of JAX is set, but neither the image nor `spec.framework` says that the job uses JAX.
- The variable is ROCm's `HIP_VISIBLE_DEVICES` and the GPUs are NVIDIA's.
- The job has no GPUs.

## Change

Remove the variable: the container sees exactly the GPUs that it was given.

## References

- NVIDIA CUDA C++ Programming Guide, "CUDA Environment Variables": entries after an invalid index are ignored
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.quantity import small_number
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Severity, Source
from stoker.lint.fixes.propose import without_variable
from stoker.lint.launch.plan import Launch, Launcher, LaunchPlan
from stoker.lint.launch.queries import PER_DEVICE_LAUNCHERS, counted, devices_from, reads_devices, selecting
from stoker.lint.submission import Submission

JAX_VARIABLES = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME")
"""JAX's own choice of devices (its documentation, "Configuration options")."""

SELECTED = re.compile(r"(?:^|=)(?:localhost|127\.0\.0\.1):([\d, ]+)$")
"""deepspeed's `--include localhost:4,5`."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the variable if it hides all GPUs from all launches, and devices of a launcher that do not exist."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.counts_devices or not plan.readable:
        return
    yield from _missing(submission, plan)
    launches = [launch for launch in plan.launches if not launch.invocation.captured]
    yield from _jax_on_cpus(submission, launches)
    if not launches or not all(_hidden(launch, submission) for launch in launches):
        return
    launch = launches[-1]
    assert launch.devices is not None
    words = [one.devices.word for one in launches if one.devices is not None]
    name, value = devices_from(launch), launch.devices.word.text or ""
    what = f"{name}={value}" if value else f'{name}=""'
    why = (
        "shows no GPU"
        if not launch.devices.indices
        else f"begins with GPU {launch.devices.indices[0]}, but {_has(submission)}"
    )
    counting = launch.launcher in PER_DEVICE_LAUNCHERS
    outcome = "fails, or runs on CPUs, and leaves" if counting else "runs on CPUs and leaves"
    yield Problem(
        detail=f"{what} {why}: the program {outcome} {counted(submission.gpus, 'GPU')} idle.",
        evidence=f"{submission.paths.gpus_per_node} is {submission.gpus_per_node}.",
        fix=f"Remove {name}: the container sees exactly its own GPUs, counted from 0.",
        confidence=submission.surely,
        location=submission.locate_setting(launch.invocation, name, launch.devices.word),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=without_variable(submission, name, words, safe=True),
    )


def _jax_on_cpus(submission: Submission, launches: list[Launch]) -> Iterator[Problem]:
    """Report the variable that makes every launch of a JAX job use CPUs."""
    if Framework.JAX not in {submission.framework, submission.image.family.framework} or not launches:
        return
    for name in JAX_VARIABLES:
        words = [word for one in launches if (word := one.invocation.environment.get(name)) is not None]
        if len(words) == len(launches) and all(word.text == "cpu" for word in words):
            yield Problem(
                detail=f"{name}=cpu keeps JAX on CPUs: {counted(submission.gpus, 'GPU')} will be idle.",
                evidence=f"{submission.paths.gpus_per_node} is {submission.gpus_per_node}.",
                fix=f"Remove {name}: JAX takes the GPUs that it finds.",
                confidence=Confidence.LIKELY,
                location=submission.locate_setting(launches[-1].invocation, name, words[-1]),
                sources=(Source.SCRIPT, Source.MANIFEST),
                change=without_variable(submission, name, words, safe=False),
            )
            return


def _missing(submission: Submission, plan: LaunchPlan) -> Iterator[Problem]:
    """The launcher deepspeed starts nothing when its selection on this host names a device that is not there."""
    for launch in plan.launches:
        count = launch.processes_per_node
        selected = SELECTED.search(str(count.words[-1])) if count.words and selecting(count) else None
        indices = map(small_number, selected[1].split(",") if selected else [])
        beyond = [index for index in indices if index is not None]
        if (
            launch.launcher is not Launcher.DEEPSPEED
            or launch.hostfile
            or launch.invocation.after_failure
            or not beyond
        ):
            continue
        highest = max(beyond)
        if highest >= submission.gpus_per_node:
            yield Problem(
                detail=f'"{count.text}" names GPU {highest}, but {_has(submission)}: {launch.launcher} starts nothing.',
                evidence=f"{submission.paths.gpus_per_node} is {submission.gpus_per_node}.",
                fix=f"Remove {selecting(count)}: the container sees exactly its own GPUs, counted from 0.",
                confidence=submission.surely,
                location=submission.locate(launch.invocation, count.words),
                sources=(Source.SCRIPT, Source.MANIFEST),
            )


def _has(submission: Submission) -> str:
    gpus = submission.gpus_per_node
    return "in the pod the only one is 0" if gpus == 1 else f"in the pod they are 0 to {gpus - 1}"


def _hidden(launch: Launch, submission: Submission) -> bool:
    devices, gpus = launch.devices, submission.gpus_per_node
    if devices is None or devices.indices is None or devices.identifiers or launch.model_parallel:
        return False
    if (launch.launcher is Launcher.DEEPSPEED and launch.explicit) or not reads_devices(
        launch, submission.gpu_resource
    ):
        return False
    return not devices.indices or not 0 <= devices.indices[0] < gpus


RULE: Rule[Submission] = Rule(
    id="A107",
    name="devices-hidden",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="CUDA_VISIBLE_DEVICES hides every GPU from the program.",
    fix="Remove CUDA_VISIBLE_DEVICES: the container sees exactly its own GPUs, counted from 0.",
    check=check,
)
