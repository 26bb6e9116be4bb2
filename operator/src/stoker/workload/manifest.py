"""The objects that a DLJob becomes: an Indexed Job and, with several nodes, a headless Service.

They are created once and never applied again, so whatever the API server, Kueue or another controller changes in them
stays.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from stoker.api.dljob import KIND, TRAINER, DLJob
from stoker.api.environment import injected, service_name
from stoker.api.names import API_VERSION, GROUP, KUEUE
from stoker.findings.vocabulary import SuccessPolicy
from stoker.lint.kinds.pod import listed, mapping
from stoker.workload.template import merge

DLJOB_LABEL = f"{GROUP}/dljob"
"""On every child: the name of its DLJob."""

INDEX_FIELD = "metadata.labels['batch.kubernetes.io/job-completion-index']"
"""Where a pod finds its rank: `$(JOB_COMPLETION_INDEX)` can't be used in env, the Job controller adds that variable
last.
"""

GRACE_SECONDS = 120
"""Time to save a checkpoint after SIGTERM."""
WORKSPACE = "/workspace"
NEVER_A_PROGRAM = [126, 127]
"""A shell's exit codes for a command that can't be run or found: a restart would meet the same."""

INIT = (files("stoker.workload") / "init.sh").read_text(encoding="utf-8")
"""What runs a script as process 1; see init.sh."""


def job_manifest(job: DLJob) -> dict[str, Any]:
    """The Indexed Job. `suspend` is left out: who manages it decides."""
    spec = job.spec
    manifest: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": propagated(job.metadata.labels) | {DLJOB_LABEL: job.name},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": spec.nodes,
            "parallelism": spec.nodes,
            # The plain backoffLimit counts all pods together: eight pods that each fail once would fail the job.
            "backoffLimitPerIndex": spec.effective_max_restarts,
            "maxFailedIndexes": 0,
            # A replacement beside a terminating rank would meet it at the rendezvous.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": TRAINER, "operator": "In", "values": NEVER_A_PROGRAM},
                    },
                ]
            },
            "template": pod_template(job),
        },
    }
    if spec.active_deadline_seconds is not None:
        manifest["spec"]["activeDeadlineSeconds"] = spec.active_deadline_seconds
    if spec.success_policy is SuccessPolicy.LEADER:
        manifest["spec"]["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return manifest


def service_manifest(job: DLJob) -> dict[str, Any] | None:
    """The headless Service by which the pods find one another before they are ready; None at one node."""
    if job.spec.nodes == 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(job.name),
            "namespace": job.namespace,
            "labels": {DLJOB_LABEL: job.name},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {DLJOB_LABEL: job.name}},
    }


def owner_reference(job: DLJob) -> dict[str, Any]:
    """What makes a child ours, and the garbage collector take it with us."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_ours(child: Mapping[str, Any], uid: str) -> bool:
    """Whether the object's controller is the DLJob with that uid."""
    return controller_uid(child) == uid


def controller_uid(owned: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller."""
    reference = controller_of(owned)
    return None if reference is None else str(reference.get("uid"))


def controller_of(owned: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The reference to the object's controller. There is at most one; others may call themselves owners, too."""
    references = listed(owned["metadata"].get("ownerReferences"))
    return next((one for one in map(mapping, references) if one.get("controller") is True), None)


def pod_template(job: DLJob) -> dict[str, Any]:
    """The pods' template: the operator's, and the user's podTemplate laid over it."""
    spec = job.spec
    # Kueue's labels are for the Job: on pods they would ask for a second, pod-wise admission.
    labels = {key: value for key, value in propagated(job.metadata.labels).items() if not key.startswith(f"{KUEUE}/")}
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    # Docker's default of 64 MiB is too small for data loaders' worker processes.
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - in the container
    trainer: dict[str, Any] = {
        "name": TRAINER,
        "image": spec.image,
        **_entry(job),
        "env": _environment(job),
        "resources": _resources(job),
        "volumeMounts": mounts,
    }
    if spec.sources is not None:
        volumes.append({"name": "sources", "configMap": {"name": spec.sources.config_map}})
        mounts.append({"name": "sources", "mountPath": WORKSPACE})
        trainer["workingDir"] = WORKSPACE
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "containers": [trainer],
        "volumes": volumes,
    }
    if spec.node_selector:
        pod["nodeSelector"] = spec.node_selector
    if spec.gpus_per_node:
        # GPU nodes are commonly tainted with the resource's name (as admission plugin ExtendedResourceToleration
        # expects).
        pod["tolerations"] = [{"key": spec.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}]
    if spec.nodes > 1:
        pod["subdomain"] = service_name(job.name)
    template = {"metadata": {"labels": labels}, "spec": pod}
    merged = merge(template, spec.pod_template or {})
    merged.setdefault("metadata", {}).setdefault("labels", {})[DLJOB_LABEL] = job.name
    return merged


def propagated(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that children inherit: all but those that mean something to Kubernetes or to Stoker on the DLJob
    itself.
    """
    return {
        key: value for key, value in labels.items() if not _is_reserved(key.partition("/")[0] if "/" in key else "")
    }


def _is_reserved(domain: str) -> bool:
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in ("kubernetes.io", GROUP))


def _entry(job: DLJob) -> dict[str, Any]:
    spec = job.spec
    if spec.script is not None:
        return {"command": ["/bin/sh", "-c", verbatim(INIT), "stoker", verbatim(spec.script)]}
    entry = {"command": spec.command, "args": spec.args}
    return {key: list(value) for key, value in entry.items() if value is not None}


def verbatim(text: str) -> str:
    """Text as the kubelet must be given it to hand it on unchanged: it turns `$$` into `$` and expands `$(NAME)`."""
    return text.replace("$", "$$")


def _environment(job: DLJob) -> list[dict[str, Any]]:
    """The injected variables first, so that the user's own may refer to them."""
    spec = job.spec
    variables = injected(spec.nodes, spec.gpus_per_node, job.name, job.namespace)
    rank = {"fieldRef": {"fieldPath": INDEX_FIELD}}
    ours = [
        {"name": name, "valueFrom": rank} if value is None else {"name": name, "value": value}
        for name, value in variables.items()
    ]
    return ours + [variable.model_dump(mode="json", by_alias=True, exclude_none=True) for variable in spec.env]


def _resources(job: DLJob) -> dict[str, Any]:
    """The user's resources; GPUs in requests and limits, which must be equal for extended resources."""
    spec = job.spec
    asked = spec.resources.model_dump(mode="json", by_alias=True) if spec.resources is not None else {}
    gpus = {spec.gpu_resource: str(spec.gpus_per_node)} if spec.gpus_per_node else {}
    resources = {kind: {**asked.get(kind, {}), **gpus} for kind in ("limits", "requests")}
    return {kind: amounts for kind, amounts in resources.items() if amounts}
