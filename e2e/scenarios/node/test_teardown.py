"""A cluster with a real node leaves nothing on this machine."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster.node import NodeCluster
from e2e.cluster.waiting import wait_for
from e2e.node.sandbox import Sandbox


def _left(sandbox: Sandbox) -> list[str]:
    """Groups of the sandbox that are still there, and its PID 1 if that still runs."""
    groups = [entrance for entrance in sandbox.entrances if Path(entrance).exists()]
    return [*groups, *([f"process {sandbox.pid}"] if Path(f"/proc/{sandbox.pid}").exists() else [])]


def _outside() -> list[str]:
    """This machine's interfaces, mounts, and what kubelet would set if it could."""
    interfaces = sorted(path.name for path in Path("/sys/class/net").iterdir())
    mounts = Path("/proc/self/mounts").read_text()
    settings = [Path(f"/proc/sys/{name}").read_text() for name in ("kernel/panic", "vm/overcommit_memory")]
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False).stdout
    return [*interfaces, mounts, *settings, rules]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "supervisor killed"])
def test_a_node_leaves_nothing(killed: bool, report: Callable[[str], object]) -> None:
    """Neither after `stop` nor when its supervisor is killed with -9."""
    before = _outside()
    with NodeCluster("teardown", report=report) as cluster:
        sandbox = Sandbox.read(cluster.folder / "node")
        assert _left(sandbox)
        assert _outside() == before
        if killed:
            os.kill(int((cluster.folder / "supervisor.pid").read_text()), signal.SIGKILL)
            wait_for("the sandbox to end by itself", lambda: not _left(sandbox))
    assert _left(sandbox) == []
    assert not cluster.folder.exists()
    assert _outside() == before
