"""What a person's shell needs to look at a cluster that was left up."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.binaries import resolve_all
from e2e.cluster.registry import Record

PROGRAMS = ("kubectl", "helm")


def tools_folder(folder: Path, programs: Mapping[str, Path]) -> Path:
    """A folder below `folder` in which the programs have their plain names: in the cache these carry a version."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in PROGRAMS:
        link = tools / name
        if not link.is_symlink():
            link.symlink_to(programs[name])
    return tools


def commands_folder() -> Path:
    """Where `stoker` is: beside the interpreter."""
    return Path(sys.executable).parent


def exports(entry: Record) -> list[str]:
    """Lines for a shell to take: `eval "$(make cluster)"`."""
    tools = tools_folder(Path(entry.folder), resolve_all(PROGRAMS))
    return [
        f"export KUBECONFIG={shlex.quote(entry.kubeconfig)}",
        f"export PROMETHEUS_URL={shlex.quote(entry.prometheus_url)}",
        f'export PATH={shlex.quote(f"{tools}:{commands_folder()}")}:"$PATH"',
    ]
