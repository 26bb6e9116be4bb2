"""The training operator's kinds beside the PyTorchJob (kubeflow.org/v1 of 1.9): TFJob, JAXJob, PaddleJob, XGBoostJob,
and the MXJob of versions up to 1.8.

Their roles run different programs, or connect by the variables that the operator sets, so nothing is said of their
number. The labels are the same for all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.schema import field_path_of
from stoker.api.structural import Schema
from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.container import Variable
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_manifest import COUNT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

NAME_LABEL = "training.kubeflow.org/job-name"
ROLE_LABELS = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role")
NUMBER_LABEL = "training.kubeflow.org/replica-index"
"""The labels that the training operator gives the pods of all its kinds."""

Injected = Callable[[Mapping[str, Any], int], Sequence[Variable]]
"""The variables that the operator adds to the containers of a job, which has so many pods in all."""


def replica_schema() -> Schema:
    """The schema of one role's pods."""
    return part_of_object({"replicas": COUNT, "template": kubernetes_schema.pod_template()}, "template")


def replicas_of(document: Mapping[str, Any], field: str) -> Iterator[tuple[str, str, Mapping[str, Any], int]]:
    """Of each role its name with a capital letter, its pods' field path, their spec and their number."""
    for name, one in document["spec"][field].items():
        pods = mapping(mapping(mapping(one).get("template")).get("spec"))
        yield (
            str(name).capitalize(),
            f"{field_path_of(('spec', field, name))}.template.spec",
            pods,
            max(1, whole_number(mapping(one), "replicas", 1)),
        )


def _kind(name: str, plural: str, field: str, injected: Injected, framework: Framework | None = None) -> WorkloadKind:
    """The record of a kind with its roles in this field of the spec."""

    def pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
        roles = list(replicas_of(document, field))
        variables = tuple(injected(document, sum(copies for *_, copies in roles)))
        for _, at, pods, copies in roles:
            yield PodSet(spec=pods, at=at, copies=copies, variables=variables, framework=framework)

    @cache
    def schema() -> Schema:
        roles = {"type": "object", "additionalProperties": replica_schema()}
        return whole_object(part_of_object({field: roles}, field))

    return WorkloadKind(
        name=name,
        group="kubeflow.org",
        version="v1",
        plural=plural,
        reader=pod_manifest_reader(schema, pod_sets),
        name_labels=(NAME_LABEL,),
        shares_labels=True,
        role_labels=ROLE_LABELS,
        number_labels=((NUMBER_LABEL,),),
    )


def _of_tensorflow(document: Mapping[str, Any], pods: int) -> Sequence[Variable]:
    """Only of a job of several pods."""
    del document
    return (("TF_CONFIG", "", None),) if pods > 1 else ()


def _of_jax(document: Mapping[str, Any], pods: int) -> Sequence[Variable]:
    name = mapping(document.get("metadata")).get("name")
    return (
        ("PYTHONUNBUFFERED", "", "1"),
        ("COORDINATOR_PORT", "", None),
        ("COORDINATOR_ADDRESS", "", f"{name}-worker-0" if name else None),
        ("NUM_PROCESSES", "", str(pods)),
        ("PROCESS_ID", "", "0" if pods == 1 else None),
    )


def _of_paddle(document: Mapping[str, Any], pods: int) -> Sequence[Variable]:
    name = mapping(document.get("metadata")).get("name")
    return (
        ("PYTHONUNBUFFERED", "", "1"),
        ("PADDLE_JOB_ID", "", name or None),
        ("PADDLE_NNODES", "", str(pods)),
        ("PADDLE_MASTER", "", None),
    )


def _of_xgboost(document: Mapping[str, Any], pods: int) -> Sequence[Variable]:
    name = mapping(document.get("metadata")).get("name")
    return (
        ("MASTER_PORT", "", None),
        ("MASTER_ADDR", "", f"{name}-master-0" if name else None),
        ("WORLD_SIZE", "", str(pods)),
        ("RANK", "", "0" if pods == 1 else None),
        ("PYTHONUNBUFFERED", "", "1"),
    )


def _of_mxnet(document: Mapping[str, Any], pods: int) -> Sequence[Variable]:
    del document, pods
    return (("MX_CONFIG", "", None), ("DMLC_ROLE", "", None))


TF_JOB = _kind("TFJob", "tfjobs", "tfReplicaSpecs", _of_tensorflow, Framework.TENSORFLOW)
JAX_JOB = _kind("JAXJob", "jaxjobs", "jaxReplicaSpecs", _of_jax, Framework.JAX)
PADDLE_JOB = _kind("PaddleJob", "paddlejobs", "paddleReplicaSpecs", _of_paddle)
XGBOOST_JOB = _kind("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs", _of_xgboost)
MX_JOB = _kind("MXJob", "mxjobs", "mxReplicaSpecs", _of_mxnet)

KUBEFLOW_JOBS = (TF_JOB, JAX_JOB, PADDLE_JOB, XGBOOST_JOB, MX_JOB)

__all__ = ["KUBEFLOW_JOBS", "NAME_LABEL", "NUMBER_LABEL", "ROLE_LABELS", "replica_schema", "replicas_of"]
