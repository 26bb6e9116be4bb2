"""Read a script, or a container's command and args, without running anything.

One of the three modules of this package that others import (see `stoker.shell`).
"""

import re
from collections.abc import Collection, Mapping, Sequence

from stoker.shell.interpreter import values
from stoker.shell.interpreter.comments import comments
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.interpreter import Interpreter, beginning
from stoker.shell.interpreter.parsed_text import NOWHERE
from stoker.shell.interpreter.values import Fragment, Value
from stoker.shell.model import Allowance, ShellScript, Shortfall
from stoker.shell.words import SHELLS, has_short_option

_REFERENCE = re.compile(r"\$(?:\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")


def read_script(
    source: str,
    *,
    environment: Mapping[str, str | None] | None = None,
    positional: Sequence[str] | None = (),
    gpus_per_node: int | None = None,
    files: Mapping[str, str] | None = None,
    allowance: Allowance | None = None,
) -> ShellScript:
    """Follow a script. Never raises; work is bounded, and what is left of the allowance is not exceeded.

    environment: what the pod gives it; None = set, value unknown. It overrides defaults such as `${N:-8}`.
    positional: $1..; () = none are passed, None = unknown.
    gpus_per_node: what `nvidia-smi -L | wc -l` counts in the pod; None = unknown.
    files: readable files beside the script by path (sources of the job), for `source x.sh` and `bash x.sh`.
    """
    allowance = allowance or Allowance()
    if (shortfall := _refused(len(source), allowance)) is not None:
        return ShellScript(source=source, complete=False, shortfall=shortfall)
    interpreter = Interpreter(source, gpus_per_node=gpus_per_node, allowance=allowance)
    return interpreter.run(beginning(environment or {}, positional, files or {}))


def read_argv(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str | None] | None = None,
    gpus_per_node: int | None = None,
    files: Mapping[str, str] | None = None,
    allowance: Allowance | None = None,
) -> ShellScript:
    """Follow a container's command and args (already expanded by the kubelet: `expand_kubernetes`).

    `sh -c TEXT` and its kin: `ShellScript.source` is TEXT, `ShellScript.argument` its index, and spans are of TEXT.
    A plain argv: its words have no spans, but `Word.argument`, their index in argv; the source is empty.
    """
    index = _script_argument(argv)
    source = argv[index] if index is not None else ""
    allowance = allowance or Allowance()
    if (shortfall := _refused(sum(map(len, argv)), allowance)) is not None:
        return ShellScript(source=source, complete=False, shortfall=shortfall, argument=index)
    unknown = {name for name, value in (environment or {}).items() if value is None}
    fields = [
        Field(
            values.literal(text, 0, len(text), quoted=True) if position == index else _argument(text, unknown),
            (0, len(text)) if position == index and text else NOWHERE,
            argument=position,
        )
        for position, text in enumerate(argv)
    ]
    interpreter = Interpreter(source, gpus_per_node=gpus_per_node, allowance=allowance, argument=index)
    return interpreter.run_argv(fields, beginning(environment or {}, (), files or {}))


def _refused(characters: int, allowance: Allowance) -> Shortfall | None:
    """Why a text of this length is not read at all."""
    if not allowance.takes(characters):
        return Shortfall.TOO_LARGE
    return Shortfall.OVER_BUDGET if allowance.is_over else None


def _argument(text: str, unknown: Collection[str]) -> Value:
    """A word with holes where the kubelet puts in variables of unknown value."""
    fragments: list[Fragment] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        if match[1] in unknown:
            fragments += [
                Fragment(text[end : match.start()], quoted=True),
                Fragment(None, quoted=True, names=frozenset({match[1]})),
            ]
            end = match.end()
    return ((*fragments, Fragment(text[end:], quoted=True)),)


def _script_argument(argv: Sequence[str]) -> int | None:
    """The index of the text in `... bash -lc TEXT`."""
    shell = False
    for index, text in enumerate(argv):
        if text.rsplit("/", 1)[-1] in SHELLS:
            shell = True
        elif shell and has_short_option(text, "c"):
            following = index + 1
            while following < len(argv) and argv[following].startswith("-"):
                following += 1
            return following if following < len(argv) else None
        elif shell and not text.startswith(("-", "+")) and argv[index - 1] not in ("-o", "+o", "-O"):
            return None
    return None


MAX_STRING = 131_072
"""Bytes of the longest argument or variable that Linux starts a program with (MAX_ARG_STRLEN of linux/binfmts.h)."""


def kubernetes_references(text: str) -> tuple[str, ...]:
    """The names that the kubelet replaces in a text: those of `$(NAME)`, but not of `$$(NAME)`."""
    return tuple(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


def expand_kubernetes(argv: Sequence[str], environment: Mapping[str, str | None]) -> tuple[str, ...]:
    """The kubelet's expansion of command and args: `$(NAME)` by the container's environment, `$$` to `$`.

    References to unset names and to names of unknown value stay as they are, and so does a whole text that would become
    longer than any argument can be: references to references double with each.
    """

    def expand(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        value = environment.get(match[1])
        return match[0] if value is None else value

    return tuple(
        _REFERENCE.sub(expand, text)
        if sum(len(environment.get(name) or "") for name in kubernetes_references(text)) <= MAX_STRING
        else text
        for text in argv
    )


__all__ = ["MAX_STRING", "comments", "expand_kubernetes", "kubernetes_references", "read_argv", "read_script"]
