"""GPUs that a pod holds beside those that are counted."""

from typing import Any

import pytest

from stoker.lint.kinds.gpu_resource import uncounted_gpus

OTHER = {"a.b/gpu": 1}


def pod(limits: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    own = {"nvidia.com/gpu": "1", "cpu": "4", "memory": "8Gi", "rdma/hca": "1", **(limits or {})}
    return {"containers": [{"name": "trainer", "resources": {"limits": own}}], **spec}


@pytest.mark.parametrize(
    "spec",
    [
        pod(),
        pod({"nvidia.com/mig-1g.5gb": "0"}),
        pod(initContainers=[{"name": "fetch", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}]),
        pod(initContainers=[{"name": "c", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 1}}}]),
        pod(resourceClaims=[]),
        {"containers": []},
        {},
    ],
)
def test_units_of_the_counted_resource_are_all_there_is(spec: dict[str, Any]) -> None:
    assert uncounted_gpus(spec, "nvidia.com/gpu") is None


@pytest.mark.parametrize(
    "spec, words",
    [
        (pod(resourceClaims=[{"name": "four-more"}]), "resource claim four-more"),
        (pod(resourceClaims=[{"name": "a"}, {"name": "b"}]), "2 resource claims"),
        (pod({"nvidia.com/mig-3g.20gb": 1}), "nvidia.com/mig-3g.20gb of container trainer"),
        (pod({"nvidia.com/gpu.shared": 1}), "nvidia.com/gpu.shared of container trainer"),
        (pod({"nvidia.com/gpumem": "4000"}), "nvidia.com/gpumem of container trainer"),
        (pod({"amd.com/gpu": "many"}), "amd.com/gpu of container trainer"),
        (
            pod(
                initContainers=[{"name": "cache", "restartPolicy": "Always", "resources": {"requests": {"a.b/gpu": 1}}}]
            ),
            "a.b/gpu of container cache",
        ),
        (
            {
                "containers": [
                    *pod()["containers"],
                    {"name": "side", "resources": {"limits": {"gpu.intel.com/i915": 1}}},
                ]
            },
            "gpu.intel.com/i915 of container side",
        ),
    ],
)
def test_claims_and_other_resources_are_told(spec: dict[str, Any], words: str) -> None:
    assert uncounted_gpus(spec, "nvidia.com/gpu") == words


@pytest.mark.parametrize("broken", [{"resourceClaims": "x"}, {"containers": [None, {"resources": []}]}])
def test_what_has_another_shape_is_no_fault(broken: dict[str, Any]) -> None:
    assert uncounted_gpus(broken, "nvidia.com/gpu") is None
