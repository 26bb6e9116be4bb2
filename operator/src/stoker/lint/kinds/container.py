"""Reads one container into the terms of a submission: its image, its variables, and what it runs.

Used by lint.kinds.dljob and lint.kinds.pod_set, the two ways in which a manifest gives a container.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.image_reference import Families, ImageFacts, ImageKind, ImageReferenceError, classify, parse
from stoker.lint.launch.plan import LaunchPlan, plan
from stoker.lint.submission import Image
from stoker.shell.model import Allowance, ShellScript
from stoker.shell.script import MAX_STRING, expand_kubernetes, kubernetes_references, read_argv, read_script

Variable = tuple[str, str, str | None]
"""Name, field path and value of a variable; a value that is read from elsewhere is None."""

Argument = tuple[str, str]
"""Field path and text of a word of a command."""

_CHANGES_DIRECTORY = re.compile(r"(?:^|[\s;&|({])(?:cd|pushd)\s", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a container runs; see the attributes of `Submission` that are called the same."""

    script: ShellScript | None = None
    script_field: str = ""
    argv: tuple[Argument, ...] = ()
    entry_known: bool = True
    plan: LaunchPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """What a container runs in. gpus_per_node: its GPUs; countable: whether they are whole devices, or slices of them.

    environment: its variables. files: those whose content is known, by path, as seen from where it starts. allowance:
    what reading it may cost.
    """

    nodes: int
    gpus_per_node: int
    countable: bool
    environment: Mapping[str, str | None]
    files: Mapping[str, str]
    allowance: Allowance


def run_script(text: str, field: str, runtime: RuntimeContext) -> Run:
    """What runs of a script that a field holds."""
    script = read_script(
        text,
        environment=runtime.environment,
        gpus_per_node=runtime.gpus_per_node if runtime.countable else None,
        files=_readable(runtime.files, [text]),
        allowance=runtime.allowance,
    )
    return Run(script=script, script_field=field, plan=_plan(script, runtime))


def run_command(
    command: Sequence[Argument],
    args: Sequence[Argument],
    runtime: RuntimeContext,
    *,
    entrypoint: Sequence[Argument] = (),
) -> Run:
    """What runs of a container's command and args, which the kubelet expands.

    entrypoint: that of the image, where it is known, which arguments without a command are given to.
    """
    words = (*(command or (entrypoint if args else ())), *args)
    paths = [path for path, _ in words]
    texts = expand_kubernetes([text for _, text in words], runtime.environment)
    argv = tuple(zip(paths, texts, strict=True))
    # Arguments alone go to an entry point that nobody has seen; most images' one runs them as they stand.
    if not argv or (not command and texts[0].startswith("-")):
        return Run(argv=argv, entry_known=bool(command))
    script = read_argv(
        texts,
        environment=runtime.environment,
        gpus_per_node=runtime.gpus_per_node if runtime.countable else None,
        files=_readable(runtime.files, texts),
        allowance=runtime.allowance,
    )
    return Run(
        script=script,
        script_field=next((path for path, text in argv if text == script.source), ""),
        argv=argv,
        entry_known=bool(command),
        plan=_plan(script, runtime),
    )


def _plan(script: ShellScript, runtime: RuntimeContext) -> LaunchPlan:
    # The script's commands carry their environment: what it unsets must not come back.
    files = _readable(runtime.files, [script.source])
    return plan(script, nodes=runtime.nodes, gpus_per_node=runtime.gpus_per_node, files=files)


def _readable(files: Mapping[str, str], texts: Iterable[str]) -> Mapping[str, str]:
    """The files that paths in a script surely mean: relative ones only while nothing goes to another directory."""
    if any(_CHANGES_DIRECTORY.search(text) for text in texts):
        return {path: text for path, text in files.items() if path.startswith("/")}
    return files


MAX_ENVIRONMENT = 2_097_152
"""Characters: Linux starts no program with more than 2 MiB of arguments and variables, as stacks usually are."""


def read_variables(
    variables: Iterable[Variable], environment: Mapping[str, str | None]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """An environment with a manifest's variables laid over it in their order, and the field that sets each of them.

    A variable without a field is one that nobody wrote, as a controller injects it. What no program could be started
    with is unknown: a value longer than any can be, and all after the first MAX_ENVIRONMENT characters together.
    """
    laid: dict[str, str | None] = dict(environment)
    fields: dict[str, str] = {}
    left = MAX_ENVIRONMENT
    for name, path, value in variables:
        laid[name] = None if value is None or left < 0 else _expanded(value, laid)
        left -= len(laid[name] or "")
        if path:
            fields[name] = path
    return laid, fields


def _expanded(value: str, variables: Mapping[str, str | None]) -> str | None:
    """A variable's value after the kubelet's expansion; None where it takes in an unknown one."""
    values = [variables.get(name, "") for name in kubernetes_references(value)]
    if len(value) + sum(MAX_STRING if one is None else len(one) for one in values) > MAX_STRING:
        return None
    return expand_kubernetes([value], variables)[0]


UNKNOWN_IMAGE = Image(text="an image that another object names", family=ImageFacts(kind=ImageKind.UNKNOWN))
"""Of a container whose image stands in an object that is not in sight."""


def read_image(text: str, families: Families) -> Image:
    """The image of a container; `families` are an administrator's, tried before the built-in ones."""
    if not text.strip():
        return Image(text=text, error="is empty", family=ImageFacts(kind=ImageKind.UNKNOWN))
    try:
        reference = parse(text)
    except ImageReferenceError as error:
        return Image(text=text, error=str(error), family=ImageFacts(kind=ImageKind.UNKNOWN))
    return Image(text=text, reference=reference, family=classify(reference, families))


def entrypoint_of(image: Image, field: str) -> list[Argument]:
    """The image's own command, where it is known; the field is the image's."""
    return [(field, word) for word in image.family.entrypoint]


def framework_of(image: Image) -> Framework | None:
    """The framework that an image is known to hold."""
    return next((framework for framework in Framework if framework.value == image.family.framework), None)


__all__ = [
    "UNKNOWN_IMAGE",
    "Argument",
    "RuntimeContext",
    "Run",
    "Variable",
    "entrypoint_of",
    "framework_of",
    "read_image",
    "read_variables",
    "run_command",
]
__all__ += ["run_script"]
