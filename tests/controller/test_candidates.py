"""What reclaim is told of a job's objects."""

from datetime import timedelta

from stoker.api.policy import UtilizationPolicy
from stoker.controller.candidates import candidate
from stoker.findings.vocabulary import ReclaimMode
from stoker.policy.resolution import resolve
from stoker.reclaim import idle_after
from stoker.workload import ProgramFacts
from tests.workload import building

H100 = "NVIDIA-H100-80GB-HBM3"


def test_a_job_whose_queue_chose_its_gpus_belongs_to_the_class_of_these() -> None:
    """Kueue writes the flavor's node labels into the Job's template when it admits the job, never into the DLJob."""
    of_h100 = {"name": "h100", "gpuProducts": [H100], "mode": "Suspend", "idleAfter": "20m"}
    raw = {"metadata": {"name": "default"}, "spec": {"reclaim": {"idleAfter": "30m", "classes": [of_h100]}}}
    policy = resolve([UtilizationPolicy.model_validate(raw)], "team", {})
    before, after = building.pod(), building.pod()
    after["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": H100}
    elsewhere, admitted = (
        candidate(building.dljob(), building.job(), [pod], [], ProgramFacts()).traits for pod in (before, after)
    )
    assert (policy.class_of(elsewhere), idle_after(None, elsewhere, policy)) == (None, timedelta(minutes=30))
    found = policy.class_of(admitted)
    assert found is not None
    assert (found.name, idle_after(None, admitted, policy)) == ("h100", timedelta(minutes=20))
    assert policy.reclaim_of(admitted).mode is ReclaimMode.SUSPEND
