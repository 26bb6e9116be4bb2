"""The CustomResourceDefinitions of all kinds, made from their models."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from stoker.api import dljob, gpu_workload, policy
from stoker.api.names import GROUP, VERSION
from stoker.api.schema import VALIDATIONS, Validation, attribute_docstrings, structural_schema

NAME_RULE = Validation(
    rule=f"size(self.metadata.name) <= {dljob.MAX_NAME_LENGTH} && self.metadata.name.matches('{dljob.NAME_PATTERN}')",
    message=f"a DLJob's name has at most {dljob.MAX_NAME_LENGTH} characters and no dots",
    message_expression=f"size(self.metadata.name) > {dljob.MAX_NAME_LENGTH}"
    f" ? '\"%s\" has %d characters, at most {dljob.MAX_NAME_LENGTH} are allowed: its pods are called NAME-RANK'"
    ".format([self.metadata.name, size(self.metadata.name)])"
    " : '\"%s\" must have no dots, because it becomes part of host names; use for example %s'"
    ".format([self.metadata.name, self.metadata.name.replace('.', '-')])",
    field_path=".metadata.name",
)
"""The only rule at the root of a DLJob: rules there are checked at every write, status included, so that tightening one
would lock what is stored.
"""

BASE_RULE = Validation(
    rule=f"(self.metadata.name == '{policy.BASE}') != (has(self.spec) && has(self.spec.namespaceSelector))",
    message=f'must be absent in the policy "{policy.BASE}", the base of all namespaces; required in every other policy'
    " ({} selects all namespaces)",
    field_path=".spec.namespaceSelector",
)


def dljob_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of DLJob."""
    return _definition(
        model=dljob.DLJob,
        kind=dljob.KIND,
        plural=dljob.PLURAL,
        short_names=["dlj"],
        scope="Namespaced",
        root_rules=[NAME_RULE],
        columns=_workload_columns(),
        selectable=[".spec.jobType", ".spec.gpuProduct", ".status.phase", ".status.reclaim.state"],
    )


def gpu_workload_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of GPUWorkload."""
    return _definition(
        model=gpu_workload.GPUWorkload,
        kind=gpu_workload.KIND,
        plural=gpu_workload.PLURAL,
        short_names=["gpuw"],
        scope="Namespaced",
        root_rules=[],
        columns=[
            _column("Kind", "string", ".spec.owner.kind", "Kind of the object that the pods belong to."),
            _column("Of", "string", ".spec.owner.name", "Name of that object."),
            *_workload_columns(),
        ],
        selectable=[".spec.owner.kind", ".spec.owner.name", ".status.phase", ".status.reclaim.state"],
    )


def policy_definition() -> dict[str, Any]:
    """The CustomResourceDefinition of UtilizationPolicy."""
    return _definition(
        model=policy.UtilizationPolicy,
        kind=policy.KIND,
        plural=policy.PLURAL,
        short_names=["upol"],
        scope="Cluster",
        root_rules=[BASE_RULE],
        columns=[
            _column(
                "Priority",
                "integer",
                ".spec.priority",
                "Of the policies that select a namespace, the highest priority applies.",
            ),
            _column(
                "Reclaim", "string", ".status.reclaimMode", "What is done to idle jobs: Observe, Suspend or Delete."
            ),
            _column(
                "Ready",
                "string",
                '.status.conditions[?(@.type=="Ready")].reason',
                "InForce, or why the policy is not in force.",
            ),
            _column(
                "Attention",
                "string",
                '.status.conditions[?(@.type=="NeedsAttention")].reason',
                "Settings without the effect that they seem to have, the most important first.",
            ),
            _column("Idle after", "string", ".spec.reclaim.idleAfter", "How long a job must be idle.", wide=True),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since its creation."),
        ],
        selectable=[],
    )


def _workload_columns() -> list[dict[str, Any]]:
    """What kubectl shows of a status that all workloads share."""
    return [
        _column("Phase", "string", ".status.phase", "Phase of the job."),
        _column("Ready", "string", ".status.ready", "Ready pods, of all pods."),
        _column("GPUs", "integer", ".status.gpus", "Number of GPUs of the job."),
        _column(
            "Util%",
            "integer",
            ".status.utilization.averagePercent",
            "Mean utilization over its life and all its GPUs.",
        ),
        _column("Idle", "date", ".status.idleSince", "How long all its GPUs have been idle."),
        _column(
            "Findings",
            "string",
            ".status.findingsSummary",
            "Number of open findings, and the one with the most idle GPU-hours.",
        ),
        _column(
            "Recent%",
            "integer",
            ".status.utilization.recentPercent",
            "Mean utilization over the last 10 minutes.",
            wide=True,
        ),
        _column("Idle GPU-h", "string", ".status.utilization.gpuHoursIdle", "GPU-hours that were not used.", wide=True),
        _column(
            "Reclaim",
            "string",
            ".status.reclaim.state",
            "Reclaim state.",
            wide=True,
        ),
        _column(
            "Reason",
            "string",
            '.status.conditions[?(@.type=="PodsReady")].reason',
            "Reason of the condition PodsReady.",
            wide=True,
        ),
        _column(
            "Analysed",
            "string",
            '.status.conditions[?(@.type=="Analysed")].reason',
            "Why the manifest was not analysed completely; empty if it was.",
            wide=True,
        ),
        _column(
            "Looked",
            "date",
            ".status.lookedAt",
            "Time since the controller's last scan, as of the last write.",
            wide=True,
        ),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since its creation."),
    ]


def definitions() -> dict[str, dict[str, Any]]:
    """All CustomResourceDefinitions by plural name."""
    return {
        dljob.PLURAL: dljob_definition(),
        gpu_workload.PLURAL: gpu_workload_definition(),
        policy.PLURAL: policy_definition(),
    }


def _definition(
    *,
    model: type[BaseModel],
    kind: str,
    plural: str,
    short_names: list[str],
    scope: str,
    root_rules: list[Validation],
    columns: list[dict[str, Any]],
    selectable: list[str],
) -> dict[str, Any]:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema(model, root_rules)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {**names, "shortNames": short_names},
            "scope": scope,
            "versions": [version],
        },
    }


def _root_schema(model: type[BaseModel], rules: list[Validation]) -> dict[str, Any]:
    """The schema of a whole object; the API server itself knows apiVersion, kind and metadata."""
    fields: Mapping[str, Any] = {
        name: structural_schema(_model_of(model, name)) | _description(model, name) for name in ("spec", "status")
    }
    # The API server stores no empty list, and `stoker doctor` compares what is stored.
    validations = {VALIDATIONS: [rule.to_schema() for rule in rules]} if rules else {}
    return {
        "description": " ".join((model.__doc__ or "").split()),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            **fields,
        },
        **validations,
    }


def _model_of(model: type[BaseModel], name: str) -> type[BaseModel]:
    """The model of a field, its `| None` taken off."""
    annotation = model.model_fields[name].annotation
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    msg = f"{model.__name__}.{name} is no model"
    raise TypeError(msg)


def _description(model: type[BaseModel], name: str) -> dict[str, str]:
    description = attribute_docstrings(model).get(name)
    return {} if description is None else {"description": description}


def _column(name: str, type_: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": type_, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column
