"""torchrun starts one process, its default, on several GPUs.

## What it flags

The rule flags torchrun (also `python -m torch.distributed.run` and `.launch`) without `--nproc-per-node` on several
GPUs if `PET_NPROC_PER_NODE` is not set, because the default is one process. In a DLJob the operator sets the
variable, and `torchrun train.py` is right. There the rule flags scripts that remove the variable (`unset`, `env -i`).

## Why it costs GPU time

One GPU works, the others are idle for the whole life of the job.

## When it stays silent

- The variable is set, by the operator or in the manifest.
- The program's arguments ask for model parallelism or a device map: one process then uses several GPUs.
- Other commands run beside the launch, or the GPUs are MIG slices or shared.

## Change

Give `--nproc-per-node=gpu`, or keep `PET_NPROC_PER_NODE` as the operator sets it.

## References

- PyTorch source, `torch/distributed/run.py` and `argparse_util.py`: every option is also read from `PET_<OPTION>`
"""

from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import after_word, in_script
from stoker.lint.launch.plan import CountSource, Launch, Launcher
from stoker.lint.launch.queries import counted, side_by_side, texts
from stoker.lint.submission import Submission

MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})

SEVERAL_DEVICES = ("device_map", "device-map", "parallel", "pipeline")
"""Words in a program's arguments that say that one process drives several GPUs."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report torchrun with its default of one process."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 2 or not submission.counts_devices or side_by_side(plan):
        return
    for launch in plan.launches:
        if (
            launch.launcher in {Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH}
            and launch.processes_per_node.source is CountSource.DEFAULT
            and not launch.invocation.after_failure
            and not launch.model_parallel
            and not any(word in text for text in texts(launch) for word in SEVERAL_DEVICES)
        ):
            idle = submission.gpus_per_node - 1
            yield Problem(
                detail=f"{launch.launcher} starts 1 process on {submission.gpus_per_node} GPUs:"
                f" neither --nproc-per-node nor PET_NPROC_PER_NODE is set, {counted(idle, 'GPU')} will be idle.",
                evidence="1 is torchrun's default.",
                fix="Add --nproc-per-node=gpu, or leave PET_NPROC_PER_NODE as the operator sets it."
                if submission.injects_group
                else "Add --nproc-per-node=gpu.",
                confidence=Confidence.LIKELY,
                location=submission.locate(launch.invocation, launch.invocation.argv[:1]),
                sources=(Source.SCRIPT, Source.MANIFEST),
                change=_change(submission, launch),
            )


def _change(submission: Submission, launch: Launch) -> Change | None:
    """One more option after the launcher's name, or the module's (`python -m torch.distributed.run`)."""
    old = launch.launcher is Launcher.TORCH_DISTRIBUTED_LAUNCH
    option = f"--nproc_per_node={submission.gpus_per_node}" if old else "--nproc-per-node=gpu"
    words = launch.invocation.argv
    named = next((word for word in words if word.text in MODULES), None) or (None if old else words[0])
    return None if named is None else in_script(submission, [after_word(submission, named, option)], safe=False)


RULE: Rule[Submission] = Rule(
    id="A103",
    name="torchrun-nproc-omitted",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.WARNING,
    summary="torchrun starts one process, its default, on several GPUs.",
    fix="Add --nproc-per-node=gpu.",
    check=check,
)
