"""The promise of docs/compatibility.md: what an earlier version has stored is read, kept and changed by this one."""

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.conftest import StartCluster
from e2e.stored_objects import MODELS, PATHS, establish, recorded, store, versions
from stoker.api.crds import definitions

pytestmark = pytest.mark.e2e


def lacks(stored: Any, read: Any) -> bool:
    """Whether something that was stored is missing or different in what is read; a newer version may add fields."""
    if isinstance(stored, Mapping) and isinstance(read, Mapping):
        return any(name not in read or lacks(value, read[name]) for name, value in stored.items())
    if isinstance(stored, list) and isinstance(read, list):
        return len(stored) != len(read) or any(map(lacks, stored, read))
    return bool(stored != read)


@pytest.mark.parametrize("version", versions())
def test_what_was_stored_is_read_kept_and_changed_through_the_current_definitions(
    start_cluster: StartCluster, version: str
) -> None:
    cluster = start_cluster("compat")
    establish(cluster, recorded(version, "crds"))
    for plural in PATHS:
        for document in recorded(version, plural):
            store(cluster, plural, document)
    establish(cluster, [dict(one) for one in definitions().values()])
    for plural, path in PATHS.items():
        read = {one["metadata"]["name"]: one for one in cluster.api("GET", path)["items"]}
        for document in recorded(version, plural):
            found = read[document["metadata"]["name"]]
            assert not lacks(document, found), f"{plural} {document['metadata']['name']}"
            MODELS[plural].model_validate(found)
            own = f"{path}/{document['metadata']['name']}"
            labelled = {"metadata": {"labels": {"read": "by-the-current-version"}}}
            changed = cluster.api("PATCH", own, labelled, "application/merge-patch+json")
            written = cluster.api("PUT", f"{own}/status", changed)
            assert not lacks(document, {**written, "metadata": document["metadata"]}), own
    cluster.stop()


@pytest.mark.parametrize("version", versions())
def test_a_version_has_enough_objects_to_mean_something(version: str) -> None:
    documents = [document for plural in PATHS for document in recorded(version, plural)]
    assert len(documents) >= 50
    assert sum("status" in document for document in documents) >= 50
