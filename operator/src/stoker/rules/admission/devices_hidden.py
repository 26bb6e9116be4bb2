"""No GPU is visible to the program.

## What it flags

`CUDA_VISIBLE_DEVICES` set to nothing, to `-1`, or to an index that the pod does not have as its first entry, for
everything that the job launches. In a pod the indices start again at 0, whatever they are on the node:
`CUDA_VISIBLE_DEVICES=4` on one GPU hides it.

## Why it costs GPU time

The program runs on CPUs, a hundred times slower, while its GPUs are bound; under a launcher of one process for each
GPU it more likely fails, after it has waited for them. The study saw a job on CPUs for 481 minutes.

## When it stays silent

- only some of the commands are hidden from the GPUs: a step that needs none;
- a value that can't be resolved, GPU or MIG identifiers instead of indices;
- deepspeed with a choice of its own (`--include`, `--num_gpus`), which sets the variable anew;
- jobs without GPUs.

## Change

Remove the variable: the container sees exactly the GPUs that it was given.

## References

- NVIDIA CUDA C++ Programming Guide, "CUDA Environment Variables": entries after an invalid index are ignored
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

from collections.abc import Iterator

from stoker.models.finding import Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Category, Severity, Source
from stoker.subjects.editing import without_variable
from stoker.subjects.launch_plan import Launch, Launcher
from stoker.subjects.reading import PER_DEVICE_LAUNCHERS, counted
from stoker.subjects.submission import Submission

VARIABLE = "CUDA_VISIBLE_DEVICES"


def check(submission: Submission) -> Iterator[Problem]:
    """Report the variable when it hides all GPUs from all launches."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.counts_devices or not plan.readable:
        return
    launches = [launch for launch in plan.launches if not launch.invocation.captured]
    if not launches or not all(_hidden(launch, submission.gpus_per_node) for launch in launches):
        return
    launch = launches[-1]
    assert launch.devices is not None
    words = [one.devices.word for one in launches if one.devices is not None]
    value = launch.devices.word.text or ""
    what = f"{VARIABLE}={value}" if value else f'{VARIABLE}=""'
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
        confidence=submission.surely,
        location=submission.locate_setting(launch.invocation, VARIABLE, launch.devices.word),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=without_variable(submission, VARIABLE, words, safe=True),
    )


def _has(submission: Submission) -> str:
    gpus = submission.gpus_per_node
    return "in the pod the only one is 0" if gpus == 1 else f"in the pod they are 0 to {gpus - 1}"


def _hidden(launch: Launch, gpus: int) -> bool:
    devices = launch.devices
    if devices is None or devices.indices is None or devices.identifiers or launch.model_parallel:
        return False
    if launch.launcher is Launcher.DEEPSPEED and launch.explicit:
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
