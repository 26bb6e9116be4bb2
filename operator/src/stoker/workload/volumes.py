"""What of a pod's volumes is still there when the pod is gone, and which of them its node reads and writes for it."""

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.api.dljob import TRAINER
from stoker.lint.kinds.gpu_resource import gpu_request
from stoker.lint.kinds.pod import listed, mapping

LASTING = frozenset(
    {
        *("persistentVolumeClaim", "nfs", "hostPath"),
        *("cephfs", "glusterfs", "azureFile", "azureDisk", "gcePersistentDisk", "awsElasticBlockStore", "cinder"),
        *("iscsi", "fc", "rbd", "vsphereVolume", "portworxVolume", "quobyte", "storageos", "scaleIO"),
    }
)
"""Sources of volumes (core/v1 Volume) whose content is not the pod's own. An emptyDir and a generic ephemeral volume
go with the pod; configMap, secret, projected, downwardAPI, image and gitRepo can't be written to, or go with it.
"""
LASTING_CSI_DRIVERS = frozenset(
    {
        "gcsfuse.csi.storage.gke.io",
        "blob.csi.azure.com",
        "file.csi.azure.com",
        "nfs.csi.k8s.io",
        "smb.csi.k8s.io",
    }
)
"""Inline CSI volumes end with the pod, unless the driver mounts a bucket or an export that was there before."""
HOST_PATHS_OF_THE_SYSTEM = ("/dev", "/proc", "/sys", "/run", "/var/run", "/etc", "/usr", "/lib")
"""Directories of a node that pods mount for devices, sockets, drivers or shared memory, never to keep results in."""
HOST_PATH_DIRECTORIES = frozenset({"", "Directory", "DirectoryOrCreate"})
"""Types of a hostPath under which files can be written."""


def keeps_results(spec: object) -> bool:
    """Whether the container that computes may write to a volume that outlives the pod.

    A volume, or a mount, that is only read keeps nothing; neither does one that only a sidecar has. Whether the results
    are really written there nobody can tell from a manifest.
    """
    lasting = {volume.get("name") for volume in _volumes(spec) if _is_lasting(volume)}
    mounts = (mapping(mount) for mount in listed(_computing(spec).get("volumeMounts")))
    return any(mount.get("name") in lasting and not mount.get("readOnly") for mount in mounts)


def mounts_storage(spec: object) -> bool:
    """Whether some container mounts storage whose traffic is the node's: neither the pod's network nor, for a network
    file system, its block devices show what goes there.
    """
    stored = {volume.get("name") for volume in _volumes(spec) if LASTING & volume.keys() or "csi" in volume}
    containers = (*listed(mapping(spec).get("containers")), *listed(mapping(spec).get("initContainers")))
    mounts = (mapping(mount) for one in containers for mount in listed(mapping(one).get("volumeMounts")))
    return any(mount.get("name") in stored for mount in mounts)


def _volumes(spec: object) -> Iterator[Mapping[str, Any]]:
    return (mapping(volume) for volume in listed(mapping(spec).get("volumes")))


def _computing(spec: object) -> Mapping[str, Any]:
    """A DLJob's trainer; of other pods the container with GPUs, or their only one."""
    containers = [mapping(one) for one in listed(mapping(spec).get("containers"))]
    named = (one for one in containers if one.get("name") == TRAINER)
    with_gpus = (one for one in containers if gpu_request(one, "") is not None)
    only = containers[0] if len(containers) == 1 else {}
    return next(named, None) or next(with_gpus, None) or only


def _is_lasting(volume: Mapping[str, Any]) -> bool:
    csi = mapping(volume.get("csi"))
    if csi:
        return csi.get("driver") in LASTING_CSI_DRIVERS and not csi.get("readOnly")
    kind = next((name for name in volume if name in LASTING), None)
    if kind is None or mapping(volume.get(kind)).get("readOnly"):
        return False
    return kind != "hostPath" or _keeps_files(mapping(volume["hostPath"]))


def _keeps_files(host_path: Mapping[str, Any]) -> bool:
    path = str(host_path.get("path") or "/").rstrip("/")
    of_the_system = any(path == one or path.startswith(f"{one}/") for one in HOST_PATHS_OF_THE_SYSTEM)
    return bool(path) and not of_the_system and str(host_path.get("type") or "") in HOST_PATH_DIRECTORIES


__all__ = ["keeps_results", "mounts_storage"]
