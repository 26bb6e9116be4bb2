"""How every command is told which job is meant, and in which cluster and namespace: as kubectl has it."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

_NAME = r"([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)"
_DLJOB = re.compile(rf"(?:(?i:dljobs?(?:\.stoker\.dev)?)/)?{_NAME}")
_OF_ANY_KIND = re.compile(rf"(?:[A-Za-z][A-Za-z0-9.-]*/)?{_NAME}")

C = TypeVar("C", bound=Callable[..., Any])


class JobName(click.ParamType[str]):
    """The name of a job as kubectl takes and prints it: `bert`, `dljob/bert`, `dljob.stoker.dev/bert`.

    of_any_kind: whether other kinds than DLJob may stand before the name, such as `jobset/bert`.
    """

    name = "job"

    def __init__(self, *, of_any_kind: bool = False) -> None:
        self._read = _OF_ANY_KIND.fullmatch if of_any_kind else _DLJOB.fullmatch
        self._what = "job" if of_any_kind else "DLJob"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = self._read(str(value))
        if match is None:
            self.fail(f"{str(value)!r} is not the name of a {self._what}: write bert or dljob/bert", param, ctx)
        return match[1]


def cluster_options(namespace_help: str) -> Callable[[C], C]:
    """Give a command the options -n, --kubeconfig and --context: `namespace`, `kubeconfig`, `kube_context`, each a text
    or None.
    """

    def with_options(command: C) -> C:
        for option in (
            click.option("--context", "kube_context", help="Context of the kubeconfig. [default: the current context]"),
            click.option(
                "--kubeconfig", type=click.Path(dir_okay=False), help="[default: $KUBECONFIG, then ~/.kube/config]"
            ),
            click.option("-n", "--namespace", help=namespace_help),
        ):
            command = option(command)
        return command

    return with_options


__all__ = ["JobName", "cluster_options"]
