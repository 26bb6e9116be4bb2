"""The cache of the cluster's objects. Watches fill it, and periodic lists correct it (watch.py, view.py).

Used by reconcile, by the scan and, for policies and namespaces, by admission. Readers must not change the objects.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stoker.adapters.kubernetes.client import DLJOBS, GPU_WORKLOADS, JOBS, NAMESPACES, PODS, POLICIES, Object, Resource
from stoker.cluster.faults import Faults
from stoker.lint.kinds.pod import mapping
from stoker.workload.manifest import DLJOB_LABEL, controller_uid

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """A DLJob's namespace and name; cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of(obj: Mapping[str, Any]) -> Key:
    """An object's own namespace and name."""
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def namespace_of(key: Key) -> str:
    """The group of a key in a WorkQueue that serves namespaces fairly."""
    return key.namespace


def owner_key(obj: Mapping[str, Any]) -> Key | None:
    """The DLJob that a child object names in its label; None without the label."""
    name = (obj["metadata"].get("labels") or {}).get(DLJOB_LABEL)
    return None if name is None else Key(obj["metadata"].get("namespace", ""), name)


Follower = Callable[[Key, Object | None], None]
"""Called with an object that was added or changed, and with None when it was deleted."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TEMPLATE_FIELDS = frozenset({"command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})
"""Fields of a container that the cache drops. They hold the script, which is most of a pod's size, and nothing reads
them from a pod.
"""


def slim(obj: Object) -> Object:
    """Drop what makes up most of an object and is never read: managedFields and kubectl's last-applied annotation.

    A status written from such an object removes neither, because the API server changes only the status.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    annotations = mapping(metadata.get("annotations"))
    if LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    return {**obj, "metadata": metadata}


def slim_pod(pod: Object) -> Object:
    """Like `slim` for a pod, also without its containers' TEMPLATE_FIELDS. Of a pod without a Job as its controller
    only the identity is kept, because nothing else of it is used.
    """
    if controller_uid(pod) is None:
        kept = ("name", "namespace", "uid", "resourceVersion", "labels")
        return {"metadata": {name: pod["metadata"][name] for name in kept if name in pod["metadata"]}}
    return slim_containers(pod)


def slim_containers(pod: Object) -> Object:
    """Like `slim` for a pod, also without its containers' TEMPLATE_FIELDS."""
    spec = mapping(pod.get("spec"))
    programs = {
        kind: [_without_program(container) for container in spec[kind]]
        for kind in ("containers", "initContainers")
        if isinstance(spec.get(kind), list)
    }
    return {**slim(pod), "spec": {**spec, **programs}}


def slim_job(job: Object) -> Object:
    """Like `slim` for a Job, also without its pod template, which follows from the DLJob."""
    spec = mapping(job.get("spec"))
    return {**slim(job), "spec": {name: value for name, value in spec.items() if name != "template"}}


def _without_program(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    return {name: value for name, value in container.items() if name not in TEMPLATE_FIELDS}


@dataclass(slots=True)
class Collection:
    """The cached objects of one resource.

    The newest resource version wins, whether a watch, a list or an own write delivered it. A deletion is remembered
    until a later list, so that a late event or response can't bring the object back.
    """

    objects: dict[Key, Object] = field(default_factory=dict)
    deleted: dict[Key, int] = field(default_factory=dict)
    group: Callable[[Mapping[str, Any]], Key | None] | None = None
    """Gives the group of an object for `members`; None: no groups."""
    groups: dict[Key, dict[Key, Object]] = field(default_factory=lambda: defaultdict(dict))
    unseen: dict[Key, int] = field(default_factory=dict)
    """Resource versions that a list has delivered and the watch has not delivered yet, by key."""
    overdue: int = 0
    """The number of `unseen` versions at the last list. Above 0 the watch has stopped delivering changes."""
    listed_at: int = 0
    """The resource version of the last list."""
    is_listed: bool = False
    """Whether a complete list was taken. Before the first one objects may be missing."""
    followers: list[Follower] = field(default_factory=list)
    slim: Callable[[Object], Object] = slim
    """Reduces an object to what the cache keeps."""
    faults: Faults = field(default_factory=Faults)

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def get(self, key: Key) -> Object | None:
        """The object with that key, or None."""
        return self.objects.get(key)

    def members(self, key: Key) -> list[Object]:
        """The objects of one group."""
        return list(self.groups.get(key, {}).values())

    def follow(self, follower: Follower) -> None:
        """Call `follower` for every present object, and from now on for every change."""
        self.followers.append(follower)
        for key, obj in self.objects.items():
            follower(key, obj)

    def watched(self, kind: str | None, obj: Object) -> bool:
        """Take an event of the watch; True if it changed the cache.

        `kind` is ADDED, MODIFIED, DELETED, or None for an object of the watch's initial list.
        """
        key = key_of(obj)
        if self.unseen.get(key, version_of(obj) + 1) <= version_of(obj):
            del self.unseen[key]
        return self.remove(obj) if kind == "DELETED" else self.put(obj)

    def put(self, obj: Object) -> bool:
        """Store a version of an object; False when the cached one is as new or newer."""
        key, version = key_of(obj), version_of(obj)
        known = self.objects.get(key)
        if self.deleted.get(key, -1) >= version or (known is not None and version_of(known) >= version):
            return False
        self.deleted.pop(key, None)
        self._forget(key)
        kept = self.objects[key] = self.slim(obj)
        if self.group is not None and (group := self.group(kept)) is not None:
            self.groups[group][key] = kept
        self._notify(key, kept)
        return True

    def remove(self, obj: Mapping[str, Any]) -> bool:
        """Remove a deleted object; False when it is not cached or a newer one of that name is."""
        key, version = key_of(obj), version_of(obj)
        self.deleted[key] = max(version, self.deleted.get(key, -1))
        known = self.objects.get(key)
        if known is None or version_of(known) > version:
            return False
        self._forget(key)
        self._notify(key, None)
        return True

    def compare(self, objects: Iterable[Object], version: int) -> list[Object]:
        """Bring the cache to a complete list with the resource version `version`. Returns the objects that differed:
        those that were gone, in their last version, and those that are new or changed.

        Resource versions only grow. A list with a lower version than the previous one comes from an API server whose
        store was restored from a backup. Then the cached objects are dropped and the list replaces them.
        """
        listed = {key_of(obj): obj for obj in objects}
        if version < self.listed_at:
            return self._begin_anew(listed, version)
        self.listed_at = version
        self.overdue = sum(key in self.objects for key in self.unseen)
        gone = [known for key, known in self.objects.items() if key not in listed and version_of(known) <= version]
        for known in gone:
            self._forget(key_of(known))
            self._notify(key_of(known), None)
        changed = [obj for key, obj in listed.items() if self._take(key, obj)]
        still = {key: at for key, at in self.unseen.items() if key in self.objects}
        self.unseen = still | {key_of(obj): version_of(obj) for obj in changed}
        self.deleted = {key: at for key, at in self.deleted.items() if at > version}
        self.is_listed = True
        return gone + changed

    def _begin_anew(self, listed: Mapping[Key, Object], version: int) -> list[Object]:
        logger.warning(
            "resource versions have gone back from %d to %d: known objects are dropped", self.listed_at, version
        )
        known = list(self.objects.values())
        for key in list(self.objects):
            self._forget(key)
            if key not in listed:
                self._notify(key, None)
        self.deleted, self.unseen, self.overdue, self.listed_at = {}, {}, 0, version
        for key, obj in listed.items():
            self._take(key, obj)
        return known + list(listed.values())

    def _take(self, key: Key, obj: Object) -> bool:
        """Store an object of a list. An exception that it causes is recorded, and the other objects are stored."""
        try:
            return self.put(obj)
        except Exception as error:
            self.faults.caught("watch", str(key), error)
            return False

    def _forget(self, key: Key) -> None:
        known = self.objects.pop(key, None)
        if known is not None and self.group is not None and (group := self.group(known)) is not None:
            self.groups[group].pop(key, None)
            if not self.groups[group]:
                del self.groups[group]

    def _notify(self, key: Key, obj: Object | None) -> None:
        for follower in self.followers:
            try:
                follower(key, obj)
            except Exception as error:
                # An exception of one follower must stop neither the other followers nor the watch.
                self.faults.caught("watch", str(key), error)


class ClusterCache:
    """The collections of all resources that the controller watches."""

    def __init__(self, faults: Faults) -> None:
        self.dljobs = Collection(faults=faults)
        self.gpu_workloads = Collection(faults=faults)
        self.jobs = Collection(slim=slim_job, faults=faults)
        self.pods = Collection(group=owner_key, slim=slim_pod, faults=faults)
        self.policies = Collection(faults=faults)
        self.namespaces = Collection(faults=faults)
        self._by_resource = {
            DLJOBS: self.dljobs,
            GPU_WORKLOADS: self.gpu_workloads,
            JOBS: self.jobs,
            PODS: self.pods,
            POLICIES: self.policies,
            NAMESPACES: self.namespaces,
        }

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that are always watched; GPUWorkloads are where workloads besides DLJobs are."""
        return tuple(resource for resource in self._by_resource if resource != GPU_WORKLOADS)

    def collection(self, resource: Resource) -> Collection:
        """The objects of a watched resource."""
        return self._by_resource[resource]

    def pods_of(self, key: Key, job_uid: str) -> list[Object]:
        """The pods whose controller is the Job with that uid. Pods of an earlier Job of the same name are left out, and
        so are pods that only have the label.
        """
        return [pod for pod in self.pods.members(key) if controller_uid(pod) == job_uid]


def version_of(obj: Mapping[str, Any]) -> int:
    """An object's resource version as a number. Resource versions are decimal numbers that grow with every change
    (documented since Kubernetes 1.35).
    """
    return int(obj["metadata"]["resourceVersion"])


def concerned(resource: Resource, obj: Mapping[str, Any]) -> Key | None:
    """The DLJob or GPUWorkload to reconcile after a change of the object; None for policies and namespaces (see
    `Policies`).
    """
    if resource in {DLJOBS, GPU_WORKLOADS}:
        return key_of(obj)
    return owner_key(obj) if resource in {JOBS, PODS} else None
