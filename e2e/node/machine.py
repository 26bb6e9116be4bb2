"""Whether this machine can run a real node: what it needs is tried, not guessed."""

import functools
import os
import shutil
import subprocess
import sys
import uuid

from e2e.node.groups import groups

PROGRAMS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "runc": "runc",
    "nft": "nftables",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
"""What is taken from the system, and the Debian package that has it."""

NAMESPACES = ("--cgroup", "--mount", "--net", "--pid", "--uts", "--ipc")


@functools.cache
def obstacle() -> str:
    """Why no real node can run here, in a sentence; empty when one can."""
    if sys.platform != "linux":
        return "a real node needs Linux"
    if os.geteuid() != 0:
        return "a real node needs root"
    if missing := sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None}):
        return f"a real node needs the Debian packages {', '.join(missing)}: sudo apt-get install {' '.join(missing)}"
    return _groups_obstacle() or _namespaces_obstacle()


def _groups_obstacle() -> str:
    ours = groups(f"stoker-try-{uuid.uuid4().hex[:8]}")
    hierarchies = {controller for group in ours for controller in group.hierarchy.split(",")}
    if not ours or not ({"memory", "cpu", "pids"} <= hierarchies or hierarchies == {""}):
        return "a real node needs the cgroup hierarchies cpu, memory and pids, or cgroup v2: they are not mounted here"
    try:
        for group in ours:
            group.create()
    except OSError as error:
        return f"a real node needs control groups of its own, which this process may not create: {error}"
    finally:
        for group in ours:
            group.remove(patience=1.0)
    return ""


def _namespaces_obstacle() -> str:
    """New namespaces, with mounts and a network interface made in them."""
    attempt = "mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && ip link add try0 type veth peer name try1"
    argv = ["unshare", *NAMESPACES, "--fork", "--mount-proc", "sh", "-c", attempt]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return f"a real node needs namespaces of its own, which this process may not have: {answer.stderr.strip()}"
    return ""
