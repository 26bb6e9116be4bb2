"""Objects as a released version of the API has stored them, kept under tests/compat/<version>/.

    python -m e2e.stored_objects v0.1.0     record those of this source tree, before it is tagged

A folder has the version's CustomResourceDefinitions (crds.yaml) and what an API server with these has stored of the
examples and of arbitrary specs and statuses (dljobs.yaml, utilizationpolicies.yaml). A folder is never recorded again
once its version is tagged. scenarios/api/test_compatibility.py stores the objects under their own CRDs and reads them
through the current ones.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster, create
from e2e.cluster.waiting import wait_for
from stoker.api.crds import definitions
from stoker.api.dljob import DLJob, DLJobSpec, DLJobStatus
from stoker.api.policy import UtilizationPolicy, UtilizationPolicySpec, UtilizationPolicyStatus
from stoker.api.schema import ApiModel, readable, structural_schema
from tests.api.arbitrary import Arbitrary

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "compat"
NAMESPACE = "default"
PATHS = {
    "dljobs": f"/apis/stoker.dev/v1alpha1/namespaces/{NAMESPACE}/dljobs",
    "utilizationpolicies": "/apis/stoker.dev/v1alpha1/utilizationpolicies",
}
"""Where objects of each kind are, by its plural, which is also the name of its file."""
MODELS: Mapping[str, type[ApiModel]] = {"dljobs": DLJob, "utilizationpolicies": UtilizationPolicy}
ARBITRARY = {"dljobs": 40, "utilizationpolicies": 15}
"""How many arbitrary objects are recorded of each kind. Chosen so that every field of spec and status occurs."""
TIME = "2026-11-22T12:00:00Z"


def versions() -> list[str]:
    """The versions with recorded objects."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def recorded(version: str, file: str) -> list[dict[str, Any]]:
    """The documents of one file of a version: crds, dljobs or utilizationpolicies."""
    return list(yaml.safe_load_all((FOLDER / version / f"{file}.yaml").read_text()))


def store(cluster: Cluster, plural: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Create an object, write its status, and return it as it is stored. Raises ApiError where it is refused."""
    created = cluster.api("POST", f"{PATHS[plural]}?fieldValidation=Ignore", {**document})
    if "status" in document:
        path = f"{PATHS[plural]}/{document['metadata']['name']}/status"
        created = cluster.api("PUT", path, {**created, "status": document["status"]})
    stored: dict[str, Any] = created
    return stored


def establish(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Install CustomResourceDefinitions, over those of another version where there are any."""
    cluster.apply(*documents)
    wait_for("the kinds to be served", lambda: [cluster.api("GET", path) for path in PATHS.values()], quiet=True)


def _examples(plural: str) -> Iterator[dict[str, Any]]:
    folders = ("examples", "examples/wrong") if plural == "dljobs" else ("examples/policies",)
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                if document["kind"] in {"DLJob", "UtilizationPolicy"}:
                    # The policy `default` alone is the base of all namespaces; others have another form.
                    name = path.stem if document["kind"] == "UtilizationPolicy" else f"example-{path.stem}"
                    yield {**document, "metadata": {**document["metadata"], "name": name}}


class _Fitting(Arbitrary):
    """Arbitrary values of which each time is one, as the API server demands."""

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value for a schema of a CustomResourceDefinition."""
        return TIME if schema.get("format") == "date-time" else super().value(schema, depth)


def _arbitrary(plural: str, seed: int) -> dict[str, Any]:
    spec, status, needed = (
        (DLJobSpec, DLJobStatus, {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:2026.11"})
        if plural == "dljobs"
        else (UtilizationPolicySpec, UtilizationPolicyStatus, {"namespaceSelector": {}})
    )
    document = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": MODELS[plural].__name__,
        "metadata": {"name": f"arbitrary-{seed}"},
        "spec": needed | _Fitting(seed, oddness=0).value(structural_schema(spec)),
        "status": _Fitting(seed, oddness=0).value(structural_schema(status)),
    }
    _, without_broken_fields, _ = readable(MODELS[plural], document)
    return without_broken_fields


def record(cluster: Cluster, version: str) -> None:
    """Write a version's folder, with the CRDs of this source tree."""
    folder = FOLDER / version
    folder.mkdir(parents=True)
    crds = [dict(one) for one in definitions().values()]
    establish(cluster, crds)
    (folder / "crds.yaml").write_text(yaml.safe_dump_all(crds, sort_keys=False, width=120))
    for plural in PATHS:
        stored = [_kept(store(cluster, plural, one)) for one in _examples(plural)]
        seed, wanted = 0, len(stored) + ARBITRARY[plural]
        while len(stored) < wanted:
            seed += 1
            try:
                document = _arbitrary(plural, seed)
                stored.append(_kept(store(cluster, plural, document)))
            except (ValidationError, ApiError):
                continue  # a combination of fields that is not allowed
        (folder / f"{plural}.yaml").write_text(yaml.safe_dump_all(stored, sort_keys=False, width=120))


def _kept(stored: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in stored["metadata"].items() if name in {"name", "labels", "annotations"}}
    return {**stored, "metadata": metadata}


if __name__ == "__main__":
    with create(name="compat", report=print) as scratch:
        record(scratch, sys.argv[1])
