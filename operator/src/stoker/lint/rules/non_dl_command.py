"""The job runs no deep learning.

## What it flags

The rule flags scripts in which every command is known to be other work: data processing (`spark-submit`, `hadoop`,
`dask`), databases, web servers, statistics (`Rscript`), media (`ffmpeg`), genomics (`samtools`, `gatk`), documents
(`pandoc`), without any option for GPUs.

It also warns of a script that was read completely and only installs, downloads, copies or uploads.

It never denies if an option for GPUs may be hidden: Spark with a properties file, with its own configuration
directory or a volume over it; media, genomics and documents, whose programs may have plugins; R and Octave outside an
image that is known to hold no framework; and images with CUDA.

## Why it costs GPU time

The job holds GPUs, and nothing uses them.

## When it stays silent

- An option, variable, package or image of RAPIDS or another GPU library is in sight, or any word with `gpu` or
  `cuda`.
- dask runs in an image with CUDA or a framework: its clients may send work for the GPUs.
- Another command may use a GPU, or cannot be read.
- R uses a package for GPUs, in its arguments or in a script in sight: torch, keras, tensorflow, brulee, luz, xgboost
  and the like.
- The job is interactive (see `interactive-entry`), or has no GPUs.

## Change

Submit the same manifest with `spec.gpusPerNode: 0`, to a queue of CPU nodes.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Non-DL Job
- RAPIDS Accelerator for Apache Spark documentation: `spark.rapids.*` and `spark.*.resource.gpu.*`
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.plan import Command, LaunchPlan, Role
from stoker.lint.launch.queries import counted, working
from stoker.lint.launch.tools import tools
from stoker.lint.submission import Submission

RUN_ANYTHING = frozenset({"dask", "dask-ssh", "dask-worker"})
"""Tools that run what their clients send."""

GPU_IMAGES = re.compile(r"rapids|cudf|cuml|nvtabular", re.IGNORECASE)
"""Images of libraries that make such tools use GPUs, without any option."""

GPU_WORDS = re.compile(
    r"gpu|cuda|rapids|cudf|cuml|nvtabular|nvidia|nvenc|nvdec|torch|keras|tensorflow|horovod|mxnet|onnx"
    r"|brulee|\bluz\b|tabnet|xgboost|lightgbm|catboost",
    re.IGNORECASE,
)
"""Words that say that a GPU may be used after all."""

PREPARES = {
    Role.INSTALL: "installs",
    Role.DOWNLOAD: "downloads",
    Role.COPY: "copies",
    Role.UPLOAD: "uploads",
}
"""Roles of commands that use no GPU, and what they do."""

BUILDS = frozenset({"bazel", "cmake", "make", "meson", "ninja", "setup.py"})
"""Tools that may run what they build."""

SPARK = frozenset({"spark-submit", "pyspark", "spark-shell", "spark-sql", "spark-class", "sparkR"})
SPARK_HOMES = ("/opt/spark", "/opt/bitnami/spark", "/usr/local/spark", "/usr/spark", "/usr/lib/spark", "/etc/spark")
"""Where images keep Spark; its GPUs may be configured in `conf/spark-defaults.conf` there."""

LANGUAGES = frozenset({"Rscript", "R", "octave", "sas", "stata", "stata-mp"})
"""Languages whose programs may use any package of the image."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the job if all that it does is other work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or not plan.readable:
        return
    commands = working(plan)
    if not commands:
        yield from _nothing_works(submission, plan)
    foreign = [command for command in commands if command.role is Role.NON_DL]
    if not foreign or plan.of(Role.INTERACTIVE) or any(command.role is not Role.NON_DL for command in commands):
        return
    if any(_may_use_gpus(command) for command in foreign) or GPU_WORDS.search(" ".join(_own_environment(submission))):
        return
    kind = submission.image.family.kind
    for_gpus = kind in {ImageKind.FRAMEWORK, ImageKind.CUDA} or GPU_WORDS.search(submission.image.text)
    if GPU_IMAGES.search(submission.image.text) or (for_gpus and any(one.tool in RUN_ANYTHING for one in foreign)):
        return
    hidden = next((place for command in foreign if (place := _unseen(command, submission))), "")
    certain = (
        not for_gpus  # the image is made for GPUs
        and not hidden
        and all(command.invocation.certain and command.tool not in RUN_ANYTHING for command in foreign)
        and not any(command.tool in tools().plugins for command in foreign)
    )
    first = foreign[0]
    names = sorted({command.tool or command.invocation.name or "" for command in foreign})
    yield Problem(
        detail=f"{', '.join(names)} use{'s' if len(names) == 1 else ''} no GPU, and nothing else runs:"
        f" {counted(submission.gpus, 'GPU')} will be idle.",
        evidence=f"Every working command of the job is {' or '.join(names)}, "
        + (f"and nothing in sight asks for GPUs; {hidden} may." if hidden else "without any option for GPUs."),
        fix=f"Set {submission.paths.gpus_per_node}: 0 and submit it to a queue of CPU nodes.",
        confidence=submission.surely if certain else Confidence.LIKELY,
        location=submission.locate(first.invocation, first.invocation.argv[:1]),
        sources=(Source.SCRIPT,),
    )


def _nothing_works(submission: Submission, plan: LaunchPlan) -> Iterator[Problem]:
    """The job whose script only prepares: it installs, downloads, copies or uploads, and ends."""
    prepares = [command for command in plan.of(*PREPARES) if not command.invocation.captured]
    waits = plan.of(Role.INTERACTIVE, Role.ENDLESS, Role.SLEEP, Role.WAIT)
    if not prepares or waits or any(command.tool in BUILDS for command in prepares):
        return
    verbs = [verb for role, verb in PREPARES.items() if any(command.role is role for command in prepares)]
    does = " and ".join(filter(None, [", ".join(verbs[:-1]), verbs[-1]]))
    first = prepares[0]
    yield Problem(
        detail=f"The script only {does}: {counted(submission.gpus, 'GPU')} will be idle.",
        evidence="It was read completely, and no command in it can use a GPU.",
        fix=f"Set {submission.paths.gpus_per_node}: 0 and submit it to a queue of CPU nodes.",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        location=submission.locate(first.invocation, first.invocation.argv[:1]),
        sources=(Source.SCRIPT,),
    )


def _may_use_gpus(command: Command) -> bool:
    """Whether the command mentions GPUs, or has words that cannot be read."""
    invocation = command.invocation
    if any(word.text is None for word in invocation.argv):
        return True
    texts = [str(word) for word in invocation.argv]
    texts += [invocation.files[text] for text in texts if text in invocation.files]
    texts += [str(word) for name, word in invocation.environment.items() if name.startswith(("SPARK_", "PYSPARK_"))]
    own = tools().gpu_words.get(command.tool, ())
    return any(
        GPU_WORDS.search(text) or any(word in text.lower() for word in own)
        for text in (*texts, invocation.stdin_text or "")
    )


def _unseen(command: Command, submission: Submission) -> str:
    """What may give the command GPUs without being in sight; "" if nothing does."""
    if command.tool in LANGUAGES and submission.image.family.kind is not ImageKind.NON_DL:
        return "its program"
    if command.tool not in SPARK:
        return ""
    environment, words = command.invocation.environment, command.invocation.argv
    if any(word.prefix.startswith("--properties-file") for word in words):
        return "the file of --properties-file"
    if "SPARK_CONF_DIR" in environment:
        return "the configuration in SPARK_CONF_DIR"
    home = environment.get("SPARK_HOME")
    for directory in (*SPARK_HOMES, *([home.text] if home is not None and home.text else [])):
        mount = submission.pod.mount_of(f"{directory}/conf/spark-defaults.conf")
        if mount is not None:
            return f"the configuration mounted at {mount.path}"
    return ""


def _own_environment(submission: Submission) -> list[str]:
    """The manifest's own variables; the operator's and the node's say nothing about the program."""
    return [f"{name}={submission.environment.get(name) or ''}" for name in submission.environment_fields]


RULE: Rule[Submission] = Rule(
    id="A301",
    name="non-dl-command",
    category=Category.NON_DL_JOB,
    severity=Severity.ERROR,
    summary="No command of the job does deep learning.",
    fix="Submit the job without GPUs.",
    check=check,
    action=Action.DENY,
)
