"""What would be reclaimed, by what the controller has written; and a cluster that no Prometheus was named for."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, PODS, POLICIES, ForbiddenError
from stoker.inspection.doctor.check import NotCheckableError
from stoker.inspection.doctor.jobs import reclaim
from stoker.inspection.doctor.scene import DEPLOYMENTS, Scene
from tests.cli.test_explain import FINDING, IDLE, NOW, ago
from tests.controller.cluster import FakeApi, HeldClock
from tests.inspection.doctor.test_installation import deployment
from tests.workload.building import JOB_UID, WITH_VOLUME, dljob_object, job, pod

if TYPE_CHECKING:
    from stoker.adapters.kubernetes.client import Kubernetes


def scene(api: FakeApi) -> Scene:
    return Scene(cast("Kubernetes", api), None, HeldClock(NOW), namespace="stoker-system")


def idle_job(mode: str, **spec: Any) -> FakeApi:
    """A cluster with one job of eight GPUs that has been idle for two hours."""
    api = FakeApi()
    status = {
        "phase": "Running",
        "jobUID": JOB_UID,
        "conditions": [{**IDLE, "lastTransitionTime": ago(120)}],
        "findings": [FINDING],
        "reclaim": {"state": "Idle", "reason": "idle", "idleSince": ago(120)},
        "lookedAt": ago(1),
    }
    api.store(DLJOBS, "team", dljob_object(status=status, **spec))
    api.store(JOBS, "team", job())
    running = pod(started=ago(600))
    running["spec"]["terminationGracePeriodSeconds"] = 60
    api.store(PODS, "team", running)
    api.store(NAMESPACES, None, {"metadata": {"name": "team"}})
    kinds = {"apiVersion": "stoker.dev/v1alpha1", "kind": "UtilizationPolicy"}
    api.store(POLICIES, None, {**kinds, "metadata": {"name": "default"}, "spec": {"reclaim": {"mode": mode}}})
    return api


@pytest.mark.parametrize(
    "mode, words",
    [
        ("Observe", "if Observe ended now, 1 job with 8 GPUs (team/bert)"),
        ("Suspend", "(team/bert) may be reclaimed now"),
    ],
)
def test_an_idle_job_is_in_the_forecast(mode: str, words: str) -> None:
    found = asyncio.run(reclaim(scene(idle_job(mode, podTemplate=WITH_VOLUME))))
    assert words in found.found


def test_a_job_that_a_condition_protects_is_not() -> None:
    """Its results would be lost with its pods."""
    found = asyncio.run(reclaim(scene(idle_job("Observe"))))
    assert found.found == "no idle DLJob fulfils the conditions of a reclaim"


def test_without_an_address_the_hint_says_which_prometheus_the_controller_reads() -> None:
    api = FakeApi()
    api.store(DEPLOYMENTS, "stoker-system", deployment("ctl", "run", "controller", "--prometheus-url=http://prom.svc"))
    with pytest.raises(NotCheckableError, match=r"the controller reads http://prom\.svc"):
        asyncio.run(scene(api).metrics())


def test_what_may_not_be_read_is_asked_for_once() -> None:
    api = FakeApi()

    def refuse(_: str) -> None:
        raise ForbiddenError("list", code=403, reason="Forbidden")

    api.before = refuse
    looked = scene(api)

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(NotCheckableError, match=r"you may not list dljobs\.stoker\.dev"):
                await looked.objects(DLJOBS)

    asyncio.run(twice())
    assert api.requests == ["list dljobs"]
