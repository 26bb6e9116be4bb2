"""The cluster's objects as last seen: fed by watches and checked against lists; read by reconcile and by reviews."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, PODS, POLICIES, Object, Resource
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
    """What keys are grouped by where all are to have their turn."""
    return key.namespace


def owner_key(obj: Mapping[str, Any]) -> Key | None:
    """The DLJob that a labelled child names."""
    name = (obj["metadata"].get("labels") or {}).get(DLJOB_LABEL)
    return None if name is None else Key(obj["metadata"].get("namespace", ""), name)


Follower = Callable[[Key, Object | None], None]
"""Is told of an object that came or changed, or with None that it went."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TEMPLATE_FIELDS = frozenset({"command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})
"""Of a container: what makes up most of a pod, whose script it holds, and is never read of a pod."""


def slim(obj: Object) -> Object:
    """An object without what nobody reads and makes up most of it: managedFields, and the copy that `kubectl apply`
    keeps of it. A write of the status takes neither away: the API server leaves all but the status as it is.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    annotations = mapping(metadata.get("annotations"))
    if LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    return {**obj, "metadata": metadata}


def slim_pod(pod: Object) -> Object:
    """The same of a pod, and without its containers' programs. Of one whose controller is no Job, which counts nowhere,
    only who it is.
    """
    if controller_uid(pod) is None:
        kept = ("name", "namespace", "uid", "resourceVersion", "labels")
        return {"metadata": {name: pod["metadata"][name] for name in kept if name in pod["metadata"]}}
    spec = mapping(pod.get("spec"))
    programs = {
        kind: [_without_program(container) for container in spec[kind]]
        for kind in ("containers", "initContainers")
        if isinstance(spec.get(kind), list)
    }
    return {**slim(pod), "spec": {**spec, **programs}}


def slim_job(job: Object) -> Object:
    """The same of a Job, without its pods' template, which is the DLJob's."""
    spec = mapping(job.get("spec"))
    return {**slim(job), "spec": {name: value for name, value in spec.items() if name != "template"}}


def _without_program(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    return {name: value for name, value in container.items() if name not in TEMPLATE_FIELDS}


@dataclass(slots=True)
class Collection:
    """The objects of one resource. The newest resource version wins, whichever way it came; a deletion is remembered
    until a list taken after it, so that neither a late event nor a late answer brings an object back.
    """

    objects: dict[Key, Object] = field(default_factory=dict)
    deleted: dict[Key, int] = field(default_factory=dict)
    group: Callable[[Mapping[str, Any]], Key | None] | None = None
    """By what objects are looked up together."""
    groups: dict[Key, dict[Key, Object]] = field(default_factory=lambda: defaultdict(dict))
    unseen: dict[Key, int] = field(default_factory=dict)
    """Versions that a list has brought and the watch has not told of yet."""
    overdue: int = 0
    """Of these, the ones that the watch had not told of until the next list: it has fallen silent."""
    listed_at: int = 0
    """The resource version of the last list."""
    is_listed: bool = False
    """Whether a list has been compared: before that, objects may be missing."""
    followers: list[Follower] = field(default_factory=list)
    slim: Callable[[Object], Object] = slim
    """What is kept of an object."""
    faults: Faults = field(default_factory=Faults)

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def get(self, key: Key) -> Object | None:
        """The object of that name."""
        return self.objects.get(key)

    def members(self, key: Key) -> list[Object]:
        """The objects of one group."""
        return list(self.groups.get(key, {}).values())

    def follow(self, follower: Follower) -> None:
        """Tell of every object that is there, and from now on of every change."""
        self.followers.append(follower)
        for key, obj in self.objects.items():
            follower(key, obj)

    def watched(self, kind: str | None, obj: Object) -> bool:
        """Take an event of the watch: ADDED, MODIFIED, DELETED, or None for an object that the watch began with."""
        key = key_of(obj)
        if self.unseen.get(key, version_of(obj) + 1) <= version_of(obj):
            del self.unseen[key]
        return self.remove(obj) if kind == "DELETED" else self.put(obj)

    def put(self, obj: Object) -> bool:
        """Take a version of an object; False when what is known is as new."""
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
        """Take the end of an object; False when a newer one of that name is known."""
        key, version = key_of(obj), version_of(obj)
        self.deleted[key] = max(version, self.deleted.get(key, -1))
        known = self.objects.get(key)
        if known is None or version_of(known) > version:
            return False
        self._forget(key)
        self._notify(key, None)
        return True

    def compare(self, objects: Iterable[Object], version: int) -> list[Object]:
        """Take a complete list as of resource version `version`; what differed from it, which no event had told of.

        Versions only grow. A list that is older than the list before is of an API server whose store was set back, as
        from a backup: whatever is known is of a time that no longer was, and the list counts.
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
        """Put an object of a list; one that can't be taken does not keep the others out."""
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
                # What an object makes one follower raise keeps neither the others nor the watch from going on.
                self.faults.caught("watch", str(key), error)


class ClusterCache:
    """All collections that the controller reads."""

    def __init__(self, faults: Faults) -> None:
        self.dljobs = Collection(faults=faults)
        self.jobs = Collection(slim=slim_job, faults=faults)
        self.pods = Collection(group=owner_key, slim=slim_pod, faults=faults)
        self.policies = Collection(faults=faults)
        self.namespaces = Collection(faults=faults)
        self._by_resource = {
            DLJOBS: self.dljobs,
            JOBS: self.jobs,
            PODS: self.pods,
            POLICIES: self.policies,
            NAMESPACES: self.namespaces,
        }

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What is watched."""
        return tuple(self._by_resource)

    def collection(self, resource: Resource) -> Collection:
        """The objects of a watched resource."""
        return self._by_resource[resource]

    def pods_of(self, key: Key, job_uid: str) -> list[Object]:
        """The pods whose controller is a DLJob's Job; not those of an earlier Job of the same name, nor those that only
        have its label or name it as an owner.
        """
        return [pod for pod in self.pods.members(key) if controller_uid(pod) == job_uid]


def version_of(obj: Mapping[str, Any]) -> int:
    """An object's resource version. They are decimal numbers and grow with every change in the cluster (Kubernetes 1.35
    documents it).
    """
    return int(obj["metadata"]["resourceVersion"])


def concerned(resource: Resource, obj: Mapping[str, Any]) -> Key | None:
    """The DLJob to look at when the object changed; None for policies and namespaces, which `Policies` follows."""
    if resource == DLJOBS:
        return key_of(obj)
    return owner_key(obj) if resource in {JOBS, PODS} else None
