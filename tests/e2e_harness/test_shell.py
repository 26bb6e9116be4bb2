"""What a person is given to look at a cluster that was left up."""

import os
import subprocess
from pathlib import Path

import pytest

from e2e.cluster import shell
from e2e.cluster.registry import Record


def test_the_printed_lines_let_a_shell_find_the_programs_and_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = {name: tmp_path / f"{name}-v1.0" for name in shell.PROGRAMS}
    for path in cached.values():
        path.write_text("#!/bin/sh\necho here\n")
        path.chmod(0o755)
    monkeypatch.setattr(shell, "resolve_all", lambda _: cached)
    folder = tmp_path / "a cluster"
    folder.mkdir()
    entry = Record(name="dev", folder=str(folder), kubeconfig=f"{folder}/admin", prometheus_url="http://127.0.0.1:1")
    for _ in range(2):
        lines = "\n".join(shell.exports(entry))
    script = f'{lines}\nkubectl && command -v stoker && command -v helm && echo "$KUBECONFIG $PROMETHEUS_URL"'
    result = subprocess.run(
        ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == [
        "here",
        str(shell.commands_folder() / "stoker"),
        str(folder / "bin" / "helm"),
        f"{folder}/admin http://127.0.0.1:1",
    ]
