"""The process that holds a real node's namespaces and control groups.

`python -m e2e.node.sandbox hold FOLDER` creates the groups, and in namespaces of their own PID 1, which prepares mounts
and network. Then FOLDER/sandbox.json says how to enter. Teardown is one SIGTERM: PID 1 is killed, the kernel ends every
process of its PID namespace, and mounts, interfaces, routes and nft tables go with their namespaces; the groups, empty
now, are removed. If the process that started it dies, the kernel sends that SIGTERM.

Nothing outside changes: no interface, no rule, no sysctl of this machine.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from e2e.node.groups import Group, groups
from e2e.node.machine import NAMESPACES
from e2e.node.settings import NODE_ADDRESS, NODE_NAME

_PR_SET_PDEATHSIG = 1
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What kubelet sets for the whole machine unless it finds it set: it is shown files with these values instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How to enter a sandbox that is up: its PID 1 as seen from here, and where processes enter its groups."""

    pid: int
    entrances: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path) -> "Sandbox":
        """The sandbox that `hold` has made in this folder. Raises OSError while it is not up."""
        content = json.loads((folder / "sandbox.json").read_text())
        return cls(pid=content["pid"], entrances=tuple(content["entrances"]))

    def entering(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` inside: in all groups and namespaces. Paths in it must be absolute."""
        enter = 'for group in $GROUPS_TO_ENTER; do echo $$ > "$group/cgroup.procs"; done; exec "$@"'
        return [
            *("env", f"GROUPS_TO_ENTER={' '.join(self.entrances)}", "sh", "-c", enter, "sh"),
            *("nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--"),
            *argv,
        ]


# ------------------------------------------------------------------------------------------------- outside: the holder


def _hold(folder: Path) -> int:
    signal.signal(signal.SIGTERM, _stop)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    ours = groups(f"stoker-node-{os.getpid()}")
    try:
        for group in ours:
            group.create()
        return _run(folder, ours)
    except _StoppedError:
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for group in ours:
            if not group.remove():
                print(f"the group {group.folder} can't be removed: it still has processes", file=sys.stderr)


def _run(folder: Path, ours: list[Group]) -> int:
    def enter() -> None:
        for group in ours:
            (group.entrance / "cgroup.procs").write_text("0")

    described = json.dumps([[group.hierarchy, str(group.folder)] for group in ours])
    inside = [sys.executable, "-m", "e2e.node.sandbox", "inside", str(folder), described]
    argv = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--propagation=private", *inside]
    process = subprocess.Popen(argv, preexec_fn=enter)  # noqa: PLW1509 - one thread
    try:
        while not (folder / "prepared").exists():
            if process.poll() is not None:
                return 1
            time.sleep(0.01)
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        content = {"pid": pid, "entrances": [str(group.entrance) for group in ours]}
        (folder / "sandbox.new").write_text(json.dumps(content))
        (folder / "sandbox.new").replace(folder / "sandbox.json")
        return process.wait()
    finally:
        process.kill()  # PID 1 dies with it (--kill-child), and with that all processes inside
        process.wait()


class _StoppedError(BaseException):
    """SIGTERM."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _StoppedError


# ------------------------------------------------------------------------------------------------------- inside: PID 1


def _inside(folder: Path, ours: list[tuple[str, str]]) -> None:
    """Prepare mounts and network, then only reap: `sleep` inherits that children are reaped by the kernel."""
    _mount_folders(folder)
    _mount_groups([hierarchy for hierarchy, _ in ours])
    _show_sysctls()
    _connect()
    _call("hostname", NODE_NAME)
    (folder / "prepared").touch()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.execvp("sleep", ["sleep", "infinity"])


def _mount_folders(folder: Path) -> None:
    """Own views of the places that kubelet, containerd and the CNI plugins write to, whatever their settings say."""
    _call("mount", "--make-rshared", "/")
    for place in ("/var/lib", "/var/log"):
        own = folder / place.strip("/").replace("/", "-")
        own.mkdir()
        _call("mount", "--bind", str(own), place)
    for place in ("/var/lib/kubelet", "/var/lib/cni"):
        Path(place).mkdir()
    _call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    _call("mount", "-t", "sysfs", "sysfs", "/sys")  # the one of this network namespace


def _mount_groups(hierarchies: list[str]) -> None:
    root = Path("/sys/fs/cgroup")
    if hierarchies == [""]:
        _call("mount", "-t", "cgroup2", "cgroup2", str(root))
        return
    _call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root))
    for hierarchy in hierarchies:
        folder = root / hierarchy.removeprefix("name=")
        folder.mkdir()
        options = f"none,{hierarchy}" if hierarchy.startswith("name=") else hierarchy
        _call("mount", "-t", "cgroup", "-o", options, "cgroup", str(folder))


def _show_sysctls() -> None:
    for name, value in _SYSCTLS.items():
        file = Path("/run") / f"sysctl-{name.replace('/', '-')}"
        file.write_text(f"{value}\n")
        _call("mount", "--bind", str(file), f"/proc/sys/{name}")


def _connect() -> None:
    """The node's address is on a cable that leads nowhere, with the default route, so that addresses of Services have
    one. (Not a dummy interface: not every kernel has them.)
    """
    _call("ip", "link", "set", "lo", "up")
    _call("ip", "link", "add", "node0", "type", "veth", "peer", "name", "nowhere0")
    for interface in ("nowhere0", "node0"):
        _call("ip", "link", "set", interface, "up")
    _call("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "node0")
    _call("ip", "route", "add", "default", "dev", "node0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        sys.exit(_hold(Path(sys.argv[2])))
    _inside(Path(sys.argv[2]), json.loads(sys.argv[3]))
