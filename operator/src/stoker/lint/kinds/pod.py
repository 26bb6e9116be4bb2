"""What a pod's manifest says about what a container runs in: its volumes, its shared memory, its CPUs.

Used by the readers of manifests; `mapping` and `listed` make any value safe to walk through.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stoker.findings.quantity import quantity

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path of POSIX shared memory, not a temporary file of ours
RUNTIME_SHARED_MEMORY = 64 * 2**20
"""Bytes of /dev/shm where the manifest mounts nothing there (containerd's and CRI-O's default)."""


class VolumeKind(StrEnum):
    """What is behind a mount, as far as it matters for the speed and the life of what is in it."""

    CLAIM = "claim"  # persistentVolumeClaim
    NETWORK = "network"  # a file system or disk of another machine, named in the pod itself
    NODE = "node"  # hostPath: a directory of the node
    SCRATCH = "scratch"  # empty at the start, gone with the pod, on a disk
    MEMORY = "memory"  # the same in memory
    CONFIG = "config"  # config maps, secrets and what else is small and read only
    OTHER = "other"  # a type nobody knows, or no volume of this name


VOLUME_KINDS: Mapping[str, VolumeKind] = {
    "persistentVolumeClaim": VolumeKind.CLAIM,
    **dict.fromkeys(
        (
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "csi",
            "fc",
            "flexVolume",
            "gcePersistentDisk",
            "glusterfs",
            "iscsi",
            "nfs",
            "portworxVolume",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
            "vsphereVolume",
        ),
        VolumeKind.NETWORK,
    ),
    "hostPath": VolumeKind.NODE,
    **dict.fromkeys(("emptyDir", "ephemeral", "gitRepo"), VolumeKind.SCRATCH),
    **dict.fromkeys(("configMap", "downwardAPI", "projected", "secret"), VolumeKind.CONFIG),
}
"""The volume types of k8s.io/api/core/v1 (VolumeSource)."""

KEPT = frozenset({VolumeKind.CLAIM, VolumeKind.NETWORK, VolumeKind.NODE})
"""Volumes whose content is there before the pod is, and stays when it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume in the container. field_path: the entry of volumeMounts, "" for one that the operator adds.

    volume: as the API writes it. sub_path: the part of it that is mounted, "" for the whole.
    """

    path: str
    kind: VolumeKind
    field_path: str = ""
    volume: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    sub_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The container's /dev/shm.

    kind: of the volume that is mounted there; None = the container runtime's own. size: its limit in bytes; None where
    only the node's or the container's memory limits it. field_path: the volume, "" for one that isn't in the manifest.
    """

    kind: VolumeKind | None = None
    size: float | None = RUNTIME_SHARED_MEMORY
    field_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What a pod template says beside the command.

    sidecars: names of the containers beside this one. without_image: the fields of those that name no image. mounts:
    its volumes. cpu_limit: its cores, None without a limit; cpu_limit_field: the field that says so. host_ipc: it
    shares the node's IPC namespace, and with it its /dev/shm.
    """

    sidecars: tuple[str, ...] = ()
    without_image: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    shared_memory: SharedMemory = field(default_factory=SharedMemory)
    host_ipc: bool = False
    cpu_limit: float | None = None
    cpu_limit_field: str = ""

    @property
    def kept(self) -> tuple[str, ...]:
        """Mount paths of volumes that outlive the pod: claims, network file systems, directories of the node."""
        return tuple(mount.path for mount in self.mounts if mount.kind in KEPT)

    def mount_of(self, path: str) -> Mount | None:
        """The mount that an absolute path lies in; None where it lies in the container's own file system."""
        around = [mount for mount in self.mounts if f"{path.rstrip('/')}/".startswith(f"{mount.path.rstrip('/')}/")]
        return max(around, key=lambda mount: len(mount.path), default=None)


def read_pod(
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    *,
    at: str,
    container_at: str,
    volumes: Mapping[str, Mapping[str, Any]] | None = None,
    mounts: Mapping[str, str] | None = None,
) -> PodSettings:
    """Read a pod's spec, whatever its shape: what can't be read is passed over.

    at, container_at: the field paths of the spec and of the container. volumes (by name) and mounts (a volume's name
    by path) are what the operator adds; the manifest's own are laid over them.
    """
    known = {name: (volume, "") for name, volume in (volumes or {}).items()}
    for index, volume in enumerate(map(mapping, listed(spec.get("volumes")))):
        name = str(volume.get("name"))
        base, _ = known.get(name, ({}, ""))
        known[name] = (_laid_over(base, volume), f"{at}.volumes[{index}]")
    mounted: dict[str, tuple[Mapping[str, Any], str]] = {
        path: ({"name": name}, "") for path, name in (mounts or {}).items()
    }
    for index, mount in enumerate(map(mapping, listed(container.get("volumeMounts")))):
        if path := str(mount.get("mountPath", "")).rstrip("/"):
            mounted[path] = (mount, f"{container_at}.volumeMounts[{index}]")
    host_ipc = spec.get("hostIPC") is True
    limit = mapping(mapping(container.get("resources")).get("limits")).get("cpu")
    shared = SharedMemory(kind=VolumeKind.NODE, size=None) if host_ipc else SharedMemory()
    found: list[Mount] = []
    for path, (mount, place) in mounted.items():
        volume, volume_place = known.get(str(mount.get("name")), ({}, ""))
        kind = volume_kind(volume)
        sub_path = str(mount.get("subPath") or "").strip("/")
        found.append(Mount(path=path, kind=kind, field_path=place, volume=volume, sub_path=sub_path))
        if path == SHARED_MEMORY:
            size = quantity(mapping(volume.get("emptyDir")).get("sizeLimit"))
            shared = SharedMemory(kind=kind, size=size, field_path=volume_place)
    others = [one for one in map(mapping, listed(spec.get("containers"))) if one.get("name") != container.get("name")]
    return PodSettings(
        sidecars=tuple(str(other.get("name")) for other in others),
        without_image=tuple(
            f"{at}.containers[{other.get('name')}].image" for other in others if not other.get("image")
        ),
        mounts=tuple(found),
        shared_memory=shared,
        host_ipc=host_ipc,
        cpu_limit=quantity(limit),
        cpu_limit_field="" if limit is None else f"{container_at}.resources.limits.cpu",
    )


def volume_kind(volume: Mapping[str, Any]) -> VolumeKind:
    """The kind of a volume as the API writes it."""
    if mapping(volume.get("emptyDir")).get("medium") == "Memory":
        return VolumeKind.MEMORY
    return next((VOLUME_KINDS[key] for key in volume if key in VOLUME_KINDS), VolumeKind.OTHER)


def _laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """A volume on one of the same name, as Kubernetes' strategic merge lays them."""
    both = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], Mapping) and isinstance(over[key], Mapping):
            both[key] = {**base[key], **over[key]}
    return both


def config_files(
    mounts: Iterable[Mount], config_maps: Mapping[str, Mapping[str, str]], working_directory: str | None
) -> dict[str, str]:
    """The files that config maps, by name, become in a container: by absolute path, and by name where it starts."""
    files: dict[str, str] = {}
    for mount in mounts:
        sources = listed(mapping(mount.volume.get("projected")).get("sources"))
        for source in (mapping(one).get("configMap") for one in (mount.volume, *sources)):
            data = config_maps.get(str(mapping(source).get("name")), {})
            items = [mapping(item) for item in listed(mapping(source).get("items"))]
            names = [(str(item.get("key")), str(item.get("path"))) for item in items] or [(key, key) for key in data]
            for key, name in names:
                if key in data and (not mount.sub_path or mount.sub_path == name):
                    files[mount.path if mount.sub_path else f"{mount.path}/{name}"] = data[key]
    if working_directory is not None:
        start = f"{working_directory.rstrip('/')}/"
        files |= {path.removeprefix(start): text for path, text in files.items() if path.startswith(start)}
    return files


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


__all__ = [
    "KEPT",
    "RUNTIME_SHARED_MEMORY",
    "SHARED_MEMORY",
    "Mount",
    "PodSettings",
    "SharedMemory",
    "VolumeKind",
    "config_files",
    "listed",
    "mapping",
    "read_pod",
    "volume_kind",
]
