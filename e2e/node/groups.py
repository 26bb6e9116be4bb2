"""The control groups of a real node: one of our own in each hierarchy, below the group that this process is in.

The node's processes see their groups as the roots of the hierarchies (a cgroup namespace), so everything that kubelet
and runc create lies below them, within this machine's own limits, and can be removed with them.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Our group in one hierarchy.

    `hierarchy` is what the hierarchy is mounted with: `memory`, `cpu,cpuacct`, `name=systemd`; empty for cgroup v2.
    """

    hierarchy: str
    folder: Path

    @property
    def entrance(self) -> Path:
        """Where processes enter. With cgroup v2 a group that has groups below it must not have processes itself."""
        return self.folder if self.hierarchy else self.folder / "processes"

    def create(self) -> None:
        """Make it, ready for processes. Raises OSError where this process may not."""
        self.folder.mkdir(exist_ok=True)
        if not self.hierarchy:
            self.entrance.mkdir(exist_ok=True)
        elif "cpuset" in self.hierarchy.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which then takes no process
                (self.folder / file).write_text((self.folder.parent / file).read_text())

    def remove(self, patience: float = 10.0) -> bool:
        """Remove it with all groups below, whose processes have been killed; False when one stays after `patience`
        seconds.
        """
        deadline = time.monotonic() + patience
        while self.folder.exists():
            for folder, _, _ in os.walk(self.folder, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:  # its processes have not quite ended
                    break
            else:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def groups(name: str) -> list[Group]:
    """Our groups of that name, one in each hierarchy that is mounted; nothing is created yet.

    On a machine with cgroup v1 (a v2 hierarchy beside it has no controllers) these are all v1 hierarchies, since
    kubelet demands each that /proc/self/cgroup names. On a machine with cgroup v2 only it is the one, below its root:
    only there may groups and processes be side by side. **The path for cgroup v2 has not yet run anywhere.**
    """
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for _, folder, kind, options, *_ in mounts:
            if controllers and kind == "cgroup" and set(controllers.split(",")) <= set(options.split(",")):
                found.append(Group(hierarchy=controllers, folder=Path(folder) / path.strip("/") / name))
                break
    if found:
        return found
    return [Group(hierarchy="", folder=Path(folder) / name) for _, folder, kind, *_ in mounts if kind == "cgroup2"]
