"""Each hostile object of the corpus in the controller's view of the cluster: what is said of others stays as it is."""

import asyncio
from typing import Any

import pytest

from e2e.hostile.objects import Hostile, Kind, hostile_objects
from tests.controller.test_bystanders import GUILTY, newer, results, world
from tests.controller.test_scan import World

OBJECTS = [one for one in hostile_objects() if one.kind not in {Kind.NAMESPACE, Kind.POLICY, Kind.SERIES}]


def merged(known: Any, patch: Any) -> Any:
    """RFC 7386, as the API server applies a merge patch."""
    if not isinstance(patch, dict):
        return patch
    base = known if isinstance(known, dict) else {}
    changed = {key: merged(base.get(key), value) for key, value in patch.items() if value is not None}
    return {key: value for key, value in {**base, **changed}.items() if patch.get(key, value) is not None}


def put(made: World, one: Hostile) -> None:
    """Have the controller see the object; the DLJob, the Job and the pod that change are the guilty job's."""
    match one.kind:
        case Kind.JOB:
            job = newer(made, "dljobs", GUILTY)
            metadata = {**one.manifest["metadata"], **job["metadata"]}
            made.cache.dljobs.put({**job, "metadata": metadata, "spec": one.manifest["spec"]})
        case Kind.POD | Kind.POD_STATUS:
            made.cache.pods.put(merged(newer(made, "pods", GUILTY), one.manifest))
        case Kind.STRAY:
            stray = merged(newer(made, "pods", GUILTY), {"metadata": {"name": "stray", "uid": "stray"}})
            made.cache.pods.put(merged(stray, {"spec": one.manifest["spec"]}))
        case Kind.CHILD:
            owner = {"controller": True, "uid": f"uid-{GUILTY}"}
            metadata = {"name": GUILTY, "namespace": "team", "uid": "job", "resourceVersion": "1"}
            child = {
                "metadata": {**metadata, "ownerReferences": [owner], "labels": {"stoker.dev/dljob": GUILTY}},
                "spec": {"suspend": False, "parallelism": 1, "completions": 1},
                "status": {},
            }
            made.cache.jobs.put(merged(child, one.manifest))


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[Any, ...]]:
    """What is said of the others where there is no hostile object."""
    return asyncio.run(results(world()))


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: one.name)
async def test_a_hostile_object_changes_nothing_that_is_said_of_others(
    one: Hostile, alone: dict[str, tuple[Any, ...]]
) -> None:
    beside = world()
    put(beside, one)
    assert await results(beside) == alone
