"""KServe's InferenceService (serving.kserve.io/v1beta1, 0.16): a predictor with its model's server, a transformer, an
explainer.

The container of a `model` stands in that field, and a ServingRuntime adds its image, its command and more to it. The
containers of a custom server stand in the component itself, as in a pod's spec.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import SHARED_MEMORY, listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import Place, PodSet, whole_number

COMPONENTS = ("predictor", "transformer", "explainer")
SERVERS = (
    "model",
    "huggingface",
    "lightgbm",
    "onnx",
    "paddle",
    "pmml",
    "pytorch",
    "sklearn",
    "tensorflow",
    "triton",
    "xgboost",
)
"""The fields of a predictor that hold a container which a runtime completes."""
WORKERS = "workerSpec"


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    for name in COMPONENTS:
        component = mapping(document["spec"].get(name))
        if component:
            copies = max(1, whole_number(component, "minReplicas", 1))
            yield from _of_component(component, f"spec.{name}", copies)


def _of_component(component: Mapping[str, Any], at: str, copies: int) -> Iterator[PodSet]:
    """The pods of a component: those with the server, and the workers that it has on other nodes."""
    served = next((name for name in SERVERS if isinstance(component.get(name), Mapping)), None)
    containers = listed(component.get("containers"))
    if served is None:
        yield PodSet(spec=component, at=at, copies=copies, job_type=JobType.SERVING)
    else:
        own = mapping(component[served])
        # The runtime may mount something there.
        mounts = [*listed(own.get("volumeMounts")), {"name": "unknown", "mountPath": SHARED_MEMORY}]
        yield PodSet(
            spec={**component, "containers": [*containers, {**own, "volumeMounts": mounts}]},
            at=at,
            copies=copies,
            job_type=JobType.SERVING,
            places={len(containers): Place(at=f"{at}.{served}")},
            complete=False,
        )
    workers = mapping(component.get(WORKERS))
    if workers:
        number = max(1, whole_number(workers, "pipelineParallelSize", 2) - 1)
        spec = f"{at}.{WORKERS}"
        yield PodSet(spec=workers, at=spec, copies=copies * number, job_type=JobType.SERVING, complete=False)


@lru_cache(maxsize=1)
def _schema() -> Schema:
    pod = kubernetes_schema.pod_spec()["properties"]
    # A runtime names what its containers lack.
    container = part_of_object(kubernetes_schema.container()["properties"])
    containers = {"type": "array", "items": container}
    shared = {"containers": containers, "initContainers": containers, "volumes": pod["volumes"], "minReplicas": COUNT}
    workers = part_of_object({**shared, "pipelineParallelSize": COUNT})
    component = part_of_object({**shared, **dict.fromkeys(SERVERS, container), WORKERS: workers})
    return whole_object(part_of_object(dict.fromkeys(COMPONENTS, component), COMPONENTS[0]))


INFERENCE_SERVICE = WorkloadKind(
    name="InferenceService",
    group="serving.kserve.io",
    version="v1beta1",
    plural="inferenceservices",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=("serving.kserve.io/inferenceservice",),
    job_type=JobType.SERVING,
    tells_all=False,
)

__all__ = ["INFERENCE_SERVICE"]
