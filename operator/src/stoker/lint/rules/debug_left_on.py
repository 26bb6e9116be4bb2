"""A debugging switch is on.

## What it flags

The rule flags switches that make a program wait for the GPU, or check its results, in each step:
`CUDA_LAUNCH_BLOCKING=1`, `HIP_LAUNCH_BLOCKING=1`, `AMD_SERIALIZE_KERNEL=3`, `PYTORCH_NO_CUDA_MEMORY_CACHING=1`,
`JAX_DISABLE_JIT=1`, `JAX_DEBUG_NANS=1`, and `detect_anomaly` or `run_eagerly` among a program's arguments.

It only gives advice about `TORCH_DISTRIBUTED_DEBUG=DETAIL`, and about `NCCL_P2P_DISABLE=1` on nodes with several
GPUs.

## Why it costs GPU time

With blocking launches the GPU is idle between two kernels, while the program prepares the next one. The same result
takes 1.2 to 3 times as long. Without peer-to-peer copies the GPUs of a node exchange gradients through host memory,
at a fraction of NVLink's bandwidth. Such a switch finds a fault within a few steps, and then stays on by mistake.

## When it stays silent

- The switch costs next to nothing: `TORCH_USE_CUDA_DSA`, `NCCL_DEBUG=INFO`, `TORCH_SHOW_CPP_STACKTRACES`.
- The switch is off (`0`, `false`), is set under a condition, or has a value that cannot be resolved.
- The program or the job is named after debugging, tests or profiling, or the job is interactive.
- The job has no GPUs.

## Change

Remove the switch.

## References

- PyTorch documentation, "CUDA semantics" (asynchronous execution) and "CUDA Environment Variables"
- PyTorch documentation, "Automatic differentiation": anomaly detection "should be enabled only for debugging"
- PyTorch documentation, "Distributed communication package": `TORCH_DISTRIBUTED_DEBUG`
- NCCL documentation, "Environment Variables": `NCCL_P2P_DISABLE`
- JAX documentation, "Configuration options": `jax_disable_jit`, `jax_debug_nans`
- AMD ROCm documentation, "Debugging": `AMD_SERIALIZE_KERNEL`
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise, zip_longest

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, JobType, Maturity, Severity, Source
from stoker.lint.fixes.propose import in_script, without_variable, without_word, without_words
from stoker.lint.launch.names import has_word
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.queries import normalized, texts
from stoker.lint.submission import Submission
from stoker.shell.model import Word

WAITS = "the GPU is idle between any two kernels, while the next one is prepared"
VARIABLES: Mapping[str, str] = {
    "CUDA_LAUNCH_BLOCKING": WAITS,
    "HIP_LAUNCH_BLOCKING": WAITS,
    "AMD_SERIALIZE_KERNEL": WAITS,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "each tensor is allocated by the driver, which waits for the GPU",
    "JAX_DISABLE_JIT": "nothing is compiled, and each operation is started by itself",
    "JAX_DEBUG_NANS": "each result is copied from the GPU and checked",
    "NCCL_P2P_DISABLE": "the GPUs of a node exchange their data through the host's memory, not by NVLink or PCIe",
    "TORCH_DISTRIBUTED_DEBUG": "the ranks compare each collective call before they make it",
}
"""Variables that cost time at every step when they are on, and why."""

ADVISED = frozenset({"NCCL_P2P_DISABLE", "TORCH_DISTRIBUTED_DEBUG"})
"""What some machines need, or what costs less."""

ARGUMENTS: Mapping[str, str] = {
    "detect_anomaly": "each gradient is checked, and each operation's origin kept",
    "run_eagerly": "the model runs operation by operation instead of as a compiled graph",
}
"""The same of a program's arguments, by the last part of their name (`-` as `_`)."""

PLACES = 16
"""Places of a variable that are examined. Chosen because a script sets it in one or two, and a script with thousands
must not take seconds.
"""

OFF = frozenset({"", "0", "false", "no", "off"})
DELIBERATE = ("debug", "test", "smoke", "repro", "profil", "sanit", "trace")
"""How words begin in the name of a job or a program that says itself what the switch is for."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report each switch once, at the first launch that runs with it."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or submission.job_type is JobType.INTERACTIVE:
        return
    if has_word(submission.name, *DELIBERATE):
        return
    told: set[str] = set()
    for launch in plan.launches:
        invocation = launch.invocation
        if not invocation.certain or invocation.captured or _is_deliberate(launch):
            continue
        for name, words in _switches(launch):
            if name == "NCCL_P2P_DISABLE" and submission.gpus_per_node < 2:
                continue
            if name not in told:
                told.add(name)
                yield _problem(submission, launch, name, words)


def _switches(launch: Launch) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """The switches that are on for a launch: the variable and its value, or the option and its words.

    mpirun gives its programs a variable by `-x NAME=1`.
    """
    for name in VARIABLES:
        word = launch.invocation.environment.get(name)
        if word is None or word.text is None or word.text.lower() in OFF:
            continue
        if name != "TORCH_DISTRIBUTED_DEBUG" or word.text.upper() == "DETAIL":
            yield name, (word,)
    for option, word in pairwise(launch.invocation.argv if launch.launcher is Launcher.MPIRUN else ()):
        name, _, value = (word.text or "").partition("=")
        if option.text == "-x" and name in VARIABLES and value.lower() not in OFF:
            yield name, (option, word)
    yield from _options(launch)


def _problem(submission: Submission, launch: Launch, name: str, words: tuple[Word, ...]) -> Problem:
    invocation = launch.invocation
    if len(words) == 1 and name in VARIABLES:
        text, cost = f"{name}={words[0]}", VARIABLES[name]
        location = submission.locate_setting(invocation, name, words[0])
    else:
        text, cost = " ".join(str(word) for word in words), {**VARIABLES, **ARGUMENTS}[name]
        location = submission.locate(invocation, words)
    return Problem(
        detail=f"{text} slows {invocation.name or 'the program'} down: {cost}.",
        evidence="It is a switch for debugging"
        + (", or for machines whose GPUs can't reach one another." if name == "NCCL_P2P_DISABLE" else "."),
        fix=f"Remove {text}.",
        severity=Severity.ADVICE if name in ADVISED else None,
        confidence=submission.surely,
        location=location,
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=_change(submission, name, words),
    )


def _change(submission: Submission, name: str, words: tuple[Word, ...]) -> Change | None:
    """The job without the switch. A variable is removed for all launches."""
    if len(words) > 1 or name not in VARIABLES:
        cut = without_words(submission, words) if len(words) > 1 else without_word(submission, words[0])
        return in_script(submission, [cut], safe=True)
    launches = submission.plan.launches if submission.plan is not None else ()
    values = (launch.invocation.environment.get(name) for launch in launches)
    set_at = {word.span: word for word in values if word is not None}
    return without_variable(submission, name, tuple(set_at.values()), safe=True) if len(set_at) <= PLACES else None


def _options(launch: Launch) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """The arguments that are on, as they were written: `--trainer.detect_anomaly true`, `run_eagerly=True`."""
    for word, following in zip_longest(launch.arguments, launch.arguments[1:]):
        name, equals, value = (word.text or "").partition("=")
        key = normalized(name).lstrip("_+").rsplit(".", 1)[-1]
        if key not in ARGUMENTS or not (equals or name.startswith("--")):
            continue
        words: tuple[Word, ...] = (word,)
        if not equals and following is not None and not following.prefix.startswith("-"):
            words, value = (word, following), following.text
        elif not equals:
            value = "true"
        if value is not None and value.lower() not in OFF:
            yield key, words


def _is_deliberate(launch: Launch) -> bool:
    return any(has_word(word.text or "", *DELIBERATE) for word in launch.program) or bool(
        texts(launch)[1:2] == ["test"]
    )


RULE: Rule[Submission] = Rule(
    id="A113",
    name="debug-left-on",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="A debugging switch slows down every step.",
    fix="Remove the switch.",
    check=check,
    drivers=True,
    maturity=Maturity.PREVIEW,
)
