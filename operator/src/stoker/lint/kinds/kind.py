"""The record of a kind of workload: all that Stoker knows of it, in one value.

lint.kinds.registry lists the records. A kind is added by a record there, and by a reader of its manifests where the
rules shall judge them. Used by `stoker lint` (which documents it judges, and how), by `stoker diagnose` (which pods
belong together, which manifest made them) and by lint.kinds' readers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.api.schema import Violation
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.image_reference import Families
from stoker.lint.submission import Submission
from stoker.shell.model import Allowance


class ManifestError(ValueError):
    """A manifest that can't be read; `violations` say where and why."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """What is known besides a manifest: an administrator's image families, the data of config maps by name, other
    objects that it may refer to by kind and name, whether the policy takes the declared job type at its word; and what
    reading may cost.
    """

    families: Families = ()
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    objects: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    job_types_trusted: bool = True
    allowance: Allowance = field(default_factory=Allowance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReader:
    """How manifests of a kind are read.

    violations: everything in which a document breaks its schema, unknown fields included. submissions: the containers
    that ask for GPUs, and the init containers beside them; raises ManifestError for a document that breaks its schema
    where it is read.
    """

    violations: Callable[[Mapping[str, Any]], list[Violation]]
    submissions: Callable[[Mapping[str, Any], ReadContext], list[Submission]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendField:
    """The boolean field of an object's spec by which its pods are taken away and given back.

    suspended: the value that takes them away; an absent field is the other one.
    """

    name: str
    suspended: bool

    def is_suspended(self, document: Mapping[str, Any]) -> bool:
        """Whether the object's pods are taken away."""
        return document["spec"].get(self.name) is self.suspended

    def patch(self, *, suspend: bool) -> dict[str, Any]:
        """The patch that takes the pods away, or gives them back."""
        return {"spec": {self.name: suspend is self.suspended}}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKind:
    """One kind of object that makes pods with GPUs.

    name: what messages call it. kind: what manifests call it, where that is another name, as another group's kind has
    the same. group, version, plural: where its API is served; empty plural: Stoker never asks for one.
    reader: None for a kind of which only the pods are read.
    admitted: admission judges it: the webhook, which fetches no config maps. A document of another version of its
    group, or of none, is judged, too: its schema then says so.
    name_labels: labels that mark its pods, with the object's name for a value. shares_labels: other kinds have the same
    ones, and the pod's owner tells which it is. uid_label: the label with the object's uid.
    role_labels: labels that tell apart pods of one object that are numbered separately. number_labels: labels and
    annotations that number the pods of one role; an entry of several counts with all of them.
    owned: another object may have made it, which the pods' labels don't tell.
    job_type: what its pods do, as far as the kind says it. referred: other kinds' manifests refer to it; it makes no
    pods. tells_all: False where its manifests say less than its pods do, as other objects add to them.
    suspend: how the operator suspends it; None where it never does.
    """

    name: str
    kind: str = ""
    group: str = ""
    version: str = ""
    plural: str = ""
    reader: ManifestReader | None = None
    admitted: bool = False
    name_labels: tuple[str, ...] = ()
    shares_labels: bool = False
    uid_label: str = ""
    role_labels: tuple[str, ...] = ()
    number_labels: tuple[tuple[str, ...], ...] = ()
    owned: bool = False
    job_type: JobType = JobType.TRAINING
    referred: bool = False
    tells_all: bool = True
    suspend: SuspendField | None = None

    @property
    def api_version(self) -> str:
        """As manifests write it: `batch/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_of(self, document: Mapping[str, Any]) -> bool:
        """Whether a document is of this kind, in whichever version."""
        version = document.get("apiVersion")
        if document.get("kind") != (self.kind or self.name):
            return False
        if not isinstance(version, str):
            return self.admitted
        return version.rpartition("/")[0] == self.group or (self.admitted and version == self.group)


__all__ = ["ManifestError", "ManifestReader", "ReadContext", "SuspendField", "WorkloadKind"]
