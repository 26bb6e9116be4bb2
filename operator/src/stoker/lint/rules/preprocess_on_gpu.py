"""The job prepares its data while its GPUs wait.

## What it flags

The rule flags a program that prepares data on CPUs, in the foreground, before the training of the same job: Python
programs named `preprocess_data.py`, `prepare_dataset.py`, `tokenize_corpus.py`, `extract_frames.py` and the like,
shell scripts with such names, Spark without GPUs, and ffmpeg in a loop. Init containers count, too: the pod holds its
GPUs while they run.

It also flags a job that runs only such programs, in an image without a framework (`python:3.11`, `ubuntu`).

## Why it costs GPU time

All GPUs of all pods are held and idle until the data is ready, and again at every restart. The same work on CPU nodes
costs about a hundredth, and every later training can use its result.

## When it stays silent

- The name does not mention data, such as `prepare.py` or `setup.py`, which may take a second.
- The run is small or partial (`--debug`, `--limit`, `--max_samples`, a toy or sample data set), or asks for `--help`.
- The arguments or the name mention a GPU (`--device cuda`, `embed`, `gpu`), or a launcher starts several processes:
  the program may compute on the GPUs.
- The program runs in the background, beside another program, or in a branch, for instance after a test whether the
  result exists.
- Only some ranks run it, the job is interactive, or it has no GPUs.
- No training follows, and the image may hold a framework, or the script installs packages or runs another program:
  these may use the GPUs.

## Change

Run it once as a job with `spec.gpusPerNode: 0`, and write the result to a volume that the training mounts.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Preprocessing
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.plan import Command, Launch, Launcher, LaunchPlan, Role
from stoker.lint.launch.queries import CommandOrder, counted, working
from stoker.lint.submission import Submission
from stoker.shell.model import Word

PREPARES = re.compile(
    r"(?:^|[/_.-])(?:"
    r"data[-_]prep(?:are|aration)?|download[-_]and[-_]prepare"
    r"|(?:make|compute|extract)[-_](?:fbanks?|mfccs?)"
    r"|prepare[-_](?:ade20k|aishell|c4|cityscapes|coco|common[-_]?voice|gigaspeech|imagenet|kinetics|kitti|librilight"
    r"|librispeech|libritts|ljspeech|nuscenes|openwebtext|pile|redpajama|slimpajama|vctk|voxceleb|waymo|wikipedia|wikitext)"
    r"|pre[-_]?process(?:ing|ed)?|tokeniz(?:e|ation|ing)|binariz(?:e|ation)"
    r"|(?:prepare|build|make|create|generate|convert|process|pack|write|clean|filter|dedup[a-z0-9]*)[-_]+(?:[a-z0-9]+[-_]+){0,4}"
    r"(?:data|datasets?|corpus|corpora|tfrecords?|lmdb|shards?|tokens)"
    r"|(?:extract|resize|resample|decode|convert)[-_]+(?:[a-z0-9]+[-_]+){0,4}(?:frames?|images?|audio|wavs?|videos?|mels?)"
    r")(?:[-_.]|$)",
    re.IGNORECASE,
)
"""Names of programs that prepare data."""

HANDLES_DATA = re.compile(
    r"(?:^|[-_])(?:average|clean|convert|copy|count|decode|dedup[a-z0-9]*|encode|extract|filter|merge|quantize|remove|score|split)"
    r"(?:[-_]|$)",
    re.IGNORECASE,
)
"""Names of programs that handle data in other ways, and are no training that the preparation would hold up."""

SMALL = re.compile(
    r"debug|dry[-_]?run|smoke|limit|shakespeare|mnist|cifar|--help|^-h$|(?:^|[-_/.])(?:toy|tiny|mini|subset)(?:[-_/.]|$)"
    r"|(?:max|num|n|sample)[-_](?:samples?|examples?|docs|documents|files|items|size|only|fraction)",
    re.IGNORECASE,
)
"""Words of runs that take only a moment."""

ON_GPUS = re.compile(
    r"gpu|cuda|device|embed|latent|vae|torch|infer|dali|nvenc|nvdec|cuvid|cudf|rapids|hwaccel", re.IGNORECASE
)
"""Words that say that GPUs may be used after all."""

WITHOUT_FRAMEWORK = frozenset({ImageKind.GENERIC, ImageKind.NON_DL})
EXAMINED = 16
"""Programs that are examined. Chosen because a script has a few such steps, and a script with thousands must not take
seconds.
"""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first preparation that a training waits for."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or submission.job_type is JobType.INTERACTIVE:
        return
    order = CommandOrder(plan)
    steps = [command for command in plan.of(Role.LAUNCH, Role.OTHER, Role.OPAQUE, Role.NON_DL) if _prepares(command)]
    trainings = _trainings(plan, steps)
    if not trainings and not submission.initial:
        yield from _alone(submission, plan, steps)
        return
    for step in steps[:EXAMINED]:
        parallel = _is_parallel(plan, order, step)
        if not _holds_up(step, parallel=parallel) or any(one.invocation.background for one in order.before(step)):
            continue
        following = plan.commands[order.position(step) + 1 :]
        if step.invocation.piped and any(one.launch and one.invocation.reads_pipe for one in following[:1]):
            continue  # its output is used at once
        training = next((one for one in trainings if _follows(order, one, step)), None)
        if training is None and not submission.initial:
            continue
        before = "the pod's containers start" if training is None else f"{_name(training)} starts"
        waiting = f"{submission.gpus} GPUs wait" if submission.gpus > 1 else "the GPU waits"
        yield Problem(
            detail=f"{_subject(step)} prepares data on CPUs before {before}, while {waiting}.",
            evidence="Spark uses no GPU without an option that says so."
            if step.tool == "spark-submit"
            else "Its name says so, and no argument names a GPU or a small part of the data.",
            fix=_fix(submission),
            confidence=Confidence.LIKELY,
            location=submission.locate(step.invocation, _words(step)),
            sources=(Source.SCRIPT,),
        )
        return


def _alone(submission: Submission, plan: LaunchPlan, steps: list[Command]) -> Iterator[Problem]:
    """Report the first step of a job that only prepares data, in an image that holds nothing else."""
    known = {id(step) for step in steps}
    if (
        not steps
        or not plan.readable
        or any(step.role is Role.NON_DL for step in steps)  # non-dl-command reports it
        or any(id(command) not in known for command in working(plan))
        or plan.of(Role.INSTALL, Role.INTERACTIVE)
        or submission.image.family.kind not in WITHOUT_FRAMEWORK
    ):
        return
    step = steps[0]
    yield Problem(
        detail=f"{_subject(step)} prepares data on CPUs, and nothing else runs:"
        f" {counted(submission.gpus, 'GPU')} will be idle.",
        evidence=f"Its name says so, and {submission.image.text} holds no deep-learning framework.",
        fix=f"Set {submission.paths.gpus_per_node}: 0 and submit it to a queue of CPU nodes.",
        confidence=Confidence.LIKELY,
        location=submission.locate(step.invocation, _words(step)),
        sources=(Source.SCRIPT, Source.MANIFEST),
    )


def _prepares(command: Command) -> bool:
    """Whether a command prepares data on CPUs, by its name and its arguments."""
    launch, words = command.launch, command.invocation.argv
    if any(SMALL.search(str(word)) or ON_GPUS.search(str(word)) for word in words):
        return False
    if launch is not None:
        return launch.launcher is Launcher.PYTHON and PREPARES.search(_program(launch)) is not None
    if command.role is Role.NON_DL:
        whole = command.tool == "spark-submit" and all(word.text is not None for word in words)
        return whole or (command.tool == "ffmpeg" and command.invocation.in_loop)
    return PREPARES.search(str(_words(command)[0]).rpartition("/")[2]) is not None


def _is_parallel(plan: LaunchPlan, order: CommandOrder, step: Command) -> bool:
    """Whether a pipeline that itself is waited for runs the command several times at once: `find | xargs -P 16`."""
    at = order.position(step)
    feeding = plan.commands[at - 1].invocation if at and step.invocation.reads_pipe else None
    return feeding is not None and feeding.piped and not feeding.background


def _holds_up(command: Command, *, parallel: bool) -> bool:
    """Whether every run waits for the command; a loop over files that may not be there counts as one that runs."""
    invocation = command.invocation
    return not (
        (invocation.background and not parallel)
        or invocation.captured
        or invocation.in_trap
        or invocation.after_failure
        or invocation.rank_dependent
        or len(invocation.branches) > invocation.in_loop
    )


def _trainings(plan: LaunchPlan, steps: list[Command]) -> list[Command]:
    """The programs that may train: those that neither prepare data nor handle them otherwise."""
    known = {id(step) for step in steps}
    return [
        command
        for command in plan.commands
        if command.launch is not None
        and id(command) not in known
        and not (command.launch.launcher is Launcher.PYTHON and HANDLES_DATA.search(_program(command.launch)))
    ]


def _follows(order: CommandOrder, later: Command, step: Command) -> bool:
    return order.position(later) > order.position(step) and not later.invocation.excludes(step.invocation)


def _program(launch: Launch) -> str:
    """A program's name: `preprocess_data` of `tools/preprocess_data.py`, the last part of a module's."""
    if not launch.program or launch.program[0].text == "-c":
        return ""
    name = str(launch.program[-1]).removesuffix(".py")
    return re.split(r"[/.]", name)[-1]


def _name(command: Command) -> str:
    """A training's name: its launcher's, or the program's where that is Python."""
    launch = command.launch
    plain = launch is not None and launch.launcher is Launcher.PYTHON and launch.program[-1:] != ()
    return _subject(command) if plain else command.invocation.name or ""


def _subject(command: Command) -> str:
    if command.launch is not None:
        return str(command.launch.program[-1])
    return "ffmpeg in a loop" if command.invocation.name == "ffmpeg" else str(_words(command)[0])


def _words(command: Command) -> tuple[Word, ...]:
    """The word that names a program: of `bash preprocess.sh` the script's."""
    if command.launch is not None:
        return command.launch.program[-1:]
    argv = command.invocation.argv
    script = next((word for word in argv[1:] if not word.prefix.startswith("-")), argv[0])
    return (script if command.invocation.name in {"bash", "sh"} else argv[0],)


def _fix(submission: Submission) -> str:
    return (
        "Run it once in a job of its own without GPUs"
        f"{f' ({submission.paths.gpus_per_node}: 0)' if submission.kind == 'DLJob' else ''},"
        " onto a volume that this job mounts."
    )


RULE: Rule[Submission] = Rule(
    id="A703",
    name="preprocess-on-gpu",
    category=Category.DATA_PREPROCESSING,
    severity=Severity.WARNING,
    summary="Data is prepared on CPUs while the GPUs wait.",
    fix="Prepare the data once, in a job without GPUs.",
    check=check,
    init_containers=True,
)
