"""What is there already when a DLJob's Service and Job are created."""

import pytest

from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import JOBS, SERVICES
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.children import Children, NameConflictError
from stoker.workload.manifest import service_manifest
from tests.controller.cluster import FakeApi
from tests.workload.building import dljob


async def test_a_service_that_an_interrupted_attempt_left_is_used() -> None:
    api, job = FakeApi(), dljob(nodes=2)
    service = service_manifest(job)
    assert service is not None
    api.store(SERVICES, "team", service)
    await Children(api, ClusterCache(Faults()), SystemClock()).create(job)
    assert (JOBS, "team", "bert") in api.objects


async def test_a_service_of_somebody_else_is_a_conflict_by_its_own_name() -> None:
    api = FakeApi()
    api.store(SERVICES, "team", {"kind": "Service", "metadata": {"name": "dlj-bert"}})
    with pytest.raises(NameConflictError, match="a Service named dlj-bert exists"):
        await Children(api, ClusterCache(Faults()), SystemClock()).create(dljob(nodes=2))
    assert (JOBS, "team", "bert") not in api.objects
