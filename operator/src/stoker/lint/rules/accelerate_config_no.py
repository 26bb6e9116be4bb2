"""The accelerate configuration file turns distributed training off.

## What it flags

The rule flags `accelerate launch` with several processes (`--num_processes 8`, or `num_processes: 8` in the file) and
a configuration file that says `distributed_type: NO`.

## Why it costs GPU time

`distributed_type` decides how accelerate starts the program. With `NO` it starts a single process, and ignores the
number. One GPU works, the others are idle for the whole life of the job.

## When it stays silent

- The file is not in sight. The rule reads a file that the script writes, or that is in a config map that lint sees.
- An option overrides the file: `--multi_gpu`, `--use_fsdp`, `--use_deepspeed`, `--use_megatron_lm`, `--cpu` or
  `--tpu`.
- The job has one GPU a node, or asks for one process, or the number of processes cannot be resolved.
- The command runs only after a failure.

## Change

Add `--multi_gpu`, or write `distributed_type: MULTI_GPU` into the file.

## References

- Hugging Face Accelerate source, `commands/launch.py`: without a kind of distribution `simple_launcher` is used
- Hugging Face Accelerate documentation, "accelerate launch": `--multi_gpu`
"""

from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.fixes.propose import after_word, in_script
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.queries import counted
from stoker.lint.submission import Submission
from stoker.shell.model import Word

OVERRULING = frozenset({"--use_megatron_lm", "--use_deepspeed", "--use_fsdp", "--multi_gpu", "--cpu", "--tpu"})


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch that its configuration file reduces to a single process."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 2 or not submission.counts_devices:
        return
    for launch in plan.launches:
        number = launch.total.minimum
        if not _is_undone(launch) or number is None or number < 2 or launch.invocation.after_failure:
            continue
        path = launch.configuration.text if launch.configuration is not None else ""
        words = _option(launch)
        told = f'"{launch.total.text}"' if "num" in launch.total.text else f"num_processes: {number}"
        each = f" in each of the {submission.nodes} pods" if submission.nodes > 1 else ""
        yield Problem(
            detail=f"{path} says distributed_type: NO, so that accelerate starts 1 process{each}, not {number}.",
            evidence=f"{told} applies only to distributed training;"
            f" {counted(submission.gpus_per_node - 1, 'GPU')} will be idle.",
            fix=f"Add --multi_gpu, or write distributed_type: MULTI_GPU into {path}.",
            confidence=submission.surely if launch.invocation.certain else Confidence.LIKELY,
            location=submission.locate(launch.invocation, words),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=_change(submission, words),
        )
        return


def _is_undone(launch: Launch) -> bool:
    words = {(word.text or "").replace("-", "_").replace("__", "--", 1) for word in launch.invocation.argv}
    return (
        launch.launcher is Launcher.ACCELERATE
        and launch.distributed_type == "NO"
        and not launch.multi_gpu
        and not words & OVERRULING
    )


def _option(launch: Launch) -> tuple[Word, ...]:
    """The words that name the configuration: `--config_file`, `one.yaml`."""
    argv = launch.invocation.argv
    for index, word in enumerate(argv):
        name, equals, _ = (word.text or "").partition("=")
        if name in {"--config_file", "--config-file"}:
            return (word,) if equals else argv[index : index + 2]
    return argv[:1]


def _change(submission: Submission, words: tuple[Word, ...]) -> Change | None:
    return in_script(submission, [after_word(submission, words[-1], "--multi_gpu")], safe=True)


RULE: Rule[Submission] = Rule(
    id="A114",
    name="accelerate-config-no",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="The accelerate configuration file turns distributed training off.",
    fix="Add --multi_gpu, or write distributed_type: MULTI_GPU into the configuration.",
    check=check,
    maturity=Maturity.PREVIEW,
)
