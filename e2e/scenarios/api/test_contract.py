"""What the CustomResourceDefinitions accept, the models accept, and the other way round: else the webhook refuses what
kubectl has let pass, or the controller finds what it can't read.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.scenarios.api.applying import Applier, dljob, policy
from stoker.api.dljob import DLJob, DLJobSpec
from stoker.api.policy import UtilizationPolicy, UtilizationPolicySpec
from stoker.api.schema import ApiModel, structural_schema
from tests.api.arbitrary import Arbitrary

pytestmark = pytest.mark.e2e
SAMPLES = 250
NO_ZONE = "is not a time zone"
"""What a schema can't know."""


def refusal_of_server(cluster: Cluster, path: str, document: Mapping[str, Any]) -> str:
    """What the API server says against an object; "" where it takes it."""
    try:
        cluster.api("POST", f"{path}?dryRun=All&fieldValidation=Ignore", document)
    except ApiError as error:
        if error.status not in {400, 422}:
            raise
        return error.message
    return ""


def refusal_of_model(model: type[ApiModel], document: Mapping[str, Any]) -> str:
    """What the model says against it."""
    try:
        model.model_validate(document)
    except ValidationError as error:
        return str(error)
    return ""


def compare(cluster: Cluster, model: type[ApiModel], path: str, documents: list[dict[str, Any]]) -> tuple[int, int]:
    """How many objects both accept and both refuse; fails for those about which they differ."""
    differing: list[str] = []
    taken = refused = 0
    for document in documents:
        server, own = refusal_of_server(cluster, path, document), refusal_of_model(model, document)
        if bool(server) != bool(own) and NO_ZONE not in own:
            differing.append(f"{document}\n  server: {server[:500] or 'takes it'}\n  model: {own[:500] or 'takes it'}")
        taken, refused = taken + (not own), refused + bool(own)
    assert not differing, f"{len(differing)} of {len(documents)}:\n" + "\n".join(differing[:5])
    return taken, refused


def test_pod_templates(applier: Applier) -> None:
    schema = structural_schema(DLJobSpec)["properties"]["podTemplate"]
    documents = [
        dljob(podTemplate=Arbitrary(seed, oddness=0.02 if seed % 2 else 0.0).value(schema)) for seed in range(SAMPLES)
    ]
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{applier.namespace}/dljobs"
    taken, refused = compare(applier.cluster, DLJob, path, documents)
    assert min(taken, refused) > SAMPLES / 20, "else this shows nothing"


def test_jobs(applier: Applier) -> None:
    schema = structural_schema(DLJobSpec)
    schema["properties"].pop("podTemplate")
    documents = [_with(dljob(), Arbitrary(seed, oddness=0.003).value(schema)) for seed in range(SAMPLES)]
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{applier.namespace}/dljobs"
    taken, refused = compare(applier.cluster, DLJob, path, documents)
    assert min(taken, refused) > SAMPLES / 20, "else this shows nothing"


def test_policies(applier: Applier) -> None:
    schema = structural_schema(UtilizationPolicySpec)
    documents = [
        _with(policy("other", namespaceSelector={}), Arbitrary(seed, oddness=0.003).value(schema))
        for seed in range(SAMPLES)
    ]
    path = "/apis/stoker.dev/v1alpha1/utilizationpolicies"
    taken, refused = compare(applier.cluster, UtilizationPolicy, path, documents)
    assert min(taken, refused) > SAMPLES / 20, "else this shows nothing"


def _with(document: dict[str, Any], spec: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec} if isinstance(spec, dict) else spec}
