"""Startup shell scripts, read by a small abstract interpreter: constants are propagated, what it can't follow is unknown."""

from collections.abc import Mapping, Sequence

from stoker.subjects.shell_model import Branch, Excerpt, Invocation, ShellScript, Span, SyntaxIssue, Word


def interpret(
    source: str,
    *,
    environment: Mapping[str, str | None] | None = None,
    positional: Sequence[str] | None = (),
    gpus_per_node: int | None = None,
    files: Mapping[str, str] | None = None,
) -> ShellScript:
    """Follow a script. Never raises; work is bounded.

    environment: what the pod gives it; None = set, value unknown. It overrides defaults such as `${N:-8}`.
    positional: $1..; () = none are passed, None = unknown.
    gpus_per_node: what `nvidia-smi -L | wc -l` counts in the pod; None = unknown.
    files: readable files beside the script by path (sources of the job), for `source x.sh` and `bash x.sh`.
    """
    raise NotImplementedError


def interpret_argv(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str | None] | None = None,
    gpus_per_node: int | None = None,
    files: Mapping[str, str] | None = None,
) -> ShellScript:
    """Follow a container's command and args (already expanded by the kubelet: `expand_kubernetes`).

    `sh -c TEXT` and its kin: `ShellScript.source` is TEXT and spans are of TEXT. A plain argv: one invocation, its words
    have no spans and the source is the shell-quoted command line.
    """
    raise NotImplementedError


def expand_kubernetes(argv: Sequence[str], environment: Mapping[str, str | None]) -> tuple[str, ...]:
    """The kubelet's expansion of command and args: `$(NAME)` by the container's environment, `$$` to `$`.

    References to unset names and to names of unknown value stay as they are.
    """
    raise NotImplementedError


__all__ = [
    "Branch",
    "Excerpt",
    "Invocation",
    "ShellScript",
    "Span",
    "SyntaxIssue",
    "Word",
    "expand_kubernetes",
    "interpret",
    "interpret_argv",
]
