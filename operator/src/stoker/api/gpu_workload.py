"""GPUWorkload: what Stoker says of a workload with GPUs that it did not create, such as a Job or a JobSet.

The controller creates one for the topmost owner of pods with GPUs, where a policy asks for it (`spec.workloads`). It is
owned by that object, and so deleted with it. Nobody else writes it.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from stoker.api.meta import ObjectMeta
from stoker.api.schema import ApiModel, Validation, readable, validations
from stoker.api.status import WorkloadStatus

KIND = "GPUWorkload"
PLURAL = "gpuworkloads"
MAX_NAME = 253
"""Characters of an object's name (DNS subdomain)."""
DIGEST = 10
"""Hexadecimal digits that tell apart names which had to be shortened; chosen so that no two of a namespace's meet."""

SAME_OWNER = Validation(
    rule="self.owner == oldSelf.owner",
    message="the field is immutable: the controller makes another GPUWorkload for another object",
    field_path=".owner",
)


class WorkloadOwner(ApiModel):
    """The object that the pods belong to: the topmost owner, or the pod itself where nothing owns it."""

    api_version: Annotated[str, Field(min_length=1, max_length=317)]
    """Its group and version, such as batch/v1."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Its kind, such as Job."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name."""
    uid: Annotated[str, Field(min_length=1, max_length=64)]
    """Its uid; another object of the same name is another workload."""


class GPUWorkloadSpec(ApiModel):
    """Which workload it is about; written by the operator."""

    model_config = ConfigDict(json_schema_extra=validations(SAME_OWNER))

    owner: WorkloadOwner
    """The object that the pods belong to."""


class GPUWorkload(ApiModel):
    """What Stoker says of a workload with GPUs that it did not create. The controller writes it; users only read it."""

    api_version: Literal["stoker.dev/v1alpha1"] = "stoker.dev/v1alpha1"
    kind: Literal["GPUWorkload"] = "GPUWorkload"
    metadata: ObjectMeta
    spec: GPUWorkloadSpec
    """Which workload it is about; written by the operator."""
    status: WorkloadStatus | None = None
    """What is observed of it; written by the operator."""

    @field_validator("status", mode="wrap")
    @classmethod
    def _readable_status(cls, value: object, handler: ValidatorFunctionWrapHandler) -> WorkloadStatus | None:
        """A status that another version wrote never keeps an object from being read."""
        try:
            status: WorkloadStatus | None = handler(value)
        except ValidationError:
            status, _, _ = readable(WorkloadStatus, value)
        return status

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.metadata.uid


def workload_name(kind: str, name: str) -> str:
    """The name of the GPUWorkload of an object: `job-train` for the Job train. `kind` is what Stoker calls it, which
    differs for kinds of one name in two groups. A name that would be too long is cut and ends with a digest of the
    whole.
    """
    whole = f"{kind.lower()}-{name}"
    if len(whole) <= MAX_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGEST]
    return f"{whole[: MAX_NAME - DIGEST - 1].rstrip('.-')}-{digest}"


def manifest(namespace: str, name: str, owner: Mapping[str, str]) -> dict[str, Any]:
    """The GPUWorkload of that name (see `workload_name`) of an owner (apiVersion, kind, name, uid) as it is created.
    The garbage collector deletes it with its owner.
    """
    reference = {**owner, "controller": False, "blockOwnerDeletion": False}
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": KIND,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "ownerReferences": [reference],
        },
        "spec": {"owner": dict(owner)},
    }
