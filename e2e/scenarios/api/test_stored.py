"""What was stored before podTemplate had a schema and objects had bounds can still be labelled and suspended."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.scenarios.api.applying import Applier, dljob

pytestmark = pytest.mark.e2e
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dljobs.stoker.dev"
TYPO = dljob("probe", podTemplate={"spec": {"tolerationz": []}})


@contextmanager
def without_schema(applier: Applier) -> Iterator[None]:
    """A CRD that takes everything in the spec, until the block ends."""
    cluster = applier.cluster
    whole = cluster.api("GET", CRD)["spec"]["versions"]
    open_to_all = copy.deepcopy(whole)
    properties = open_to_all[0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    open_to_all[0].pop("selectableFields", None)
    try:
        _replace(cluster, open_to_all)
        wait_for("the open schema", lambda: _takes_typo(applier))
        yield
    finally:
        _replace(cluster, whole)
        wait_for("the schema", lambda: not _takes_typo(applier))


def _replace(cluster: Cluster, versions: list[dict[str, Any]]) -> None:
    cluster.api("PATCH", CRD, {"spec": {"versions": versions}}, "application/merge-patch+json")


def _takes_typo(applier: Applier) -> bool:
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{applier.namespace}/dljobs?dryRun=All&fieldValidation=Strict"
    try:
        applier.cluster.api("POST", path, TYPO)
    except ApiError as error:
        if error.status not in {400, 422}:
            raise
        return False
    return True


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_what_is_beyond_the_bounds_is_not_locked_and_what_is_unknown_is_not_read(applier: Applier) -> None:
    annotations = {f"a{number}": "x" * 60_000 for number in range(5)}
    pod = {"dnsPolicy": "Odd", "nodeName": "x" * 5000, "volumes": [{"emptyDir": {}}]}
    full = {"nodes": 1, "gpuResource": "nvidia.com/gpu", "successPolicy": "All"}
    with without_schema(applier):
        applier.create(dljob("deep", **full, podTemplate={"spec": {"zzz": nested(480)}}))
        large = {"metadata": {"annotations": annotations}, "spec": pod}
        applier.create(dljob("large", **full, args=["x" * 130_000] * 5, podTemplate=large))
    assert applier.get("deep")["spec"]["podTemplate"] == {"spec": {}}
    for name in ("deep", "large"):
        labelled = applier.run("label", "dljob", name, "a=b")
        assert labelled.returncode == 0, labelled.stderr[:2000]
        suspended = applier.patch(name, {"suspend": True})
        assert suspended.returncode == 0, suspended.stderr[:2000]
        applier.set_status(name, {"phase": "Pending"})
    again = json.loads(json.dumps(applier.get("large")))
    again["metadata"] = {"name": "again"}
    assert "spec.podTemplate.spec.dnsPolicy" in applier.refusal(again, "--validate=ignore")
