"""Clusters that were left up (`python -m e2e up`), so that a later command finds and stops them."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.binaries import cache_folder
from e2e.cluster.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A cluster left up: its folder, and what a user needs to look at it."""

    name: str
    folder: str
    kubeconfig: str
    prometheus_url: str

    @property
    def alive(self) -> bool:
        """Whether its supervisor answers: by its socket in the cluster's folder, so no other process can be meant."""
        return Supervisor(Path(self.folder)).alive()


def record(name: str, folder: Path, *, kubeconfig: Path, prometheus_url: str) -> None:
    """Remember a cluster, in place of a former one of the same name."""
    entry = Record(name=name, folder=str(folder), kubeconfig=str(kubeconfig), prometheus_url=prometheus_url)
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(entry), indent=2) + "\n")


def find(name: str) -> Record | None:
    """The cluster of that name if it is up; one that is not is forgotten."""
    try:
        entry = Record(**json.loads(_path(name).read_text()))
    except FileNotFoundError:
        return None
    if entry.alive:
        return entry
    _forget(entry)
    return None


def stop(name: str) -> bool:
    """End the cluster of that name with all its processes; False when it is not up."""
    entry = find(name)
    if entry is None:
        return False
    Supervisor(Path(entry.folder)).shut_down()
    _forget(entry)
    return True


def names() -> list[str]:
    """The names of all clusters that are remembered."""
    return sorted(path.stem for path in _path("x").parent.glob("*.json"))


def _forget(entry: Record) -> None:
    shutil.rmtree(entry.folder, ignore_errors=True)
    _path(entry.name).unlink(missing_ok=True)


def _path(name: str) -> Path:
    return cache_folder() / "clusters" / f"{name}.json"
