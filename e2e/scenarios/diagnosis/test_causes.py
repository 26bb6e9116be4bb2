"""Each of the fifteen causes, five jobs with two of them, and five healthy jobs that look suspicious, with hours of
history in a real Prometheus: `kubectl describe` names the causes, and nothing of the healthy ones.
"""

import pytest

from e2e.cluster.provider import Cluster
from e2e.scenarios.diagnosis.playing import Playing, played
from simulator import CASES

ONE_CAUSE = (
    "notebook",
    "processes-too-few",
    "sleep-after-training",
    "trees",
    "small-batch-transformer",
    "memory-offload",
    "checkpoint-remote",
    "unpinned-video",
    "preprocessing-cores",
    "read-objects",
    "download-model",
    "upload-predictions",
    "exchange-ethernet",
    "install-wheels",
    "one-device-of-several",
)
TWO_CAUSES = (
    "pair-install-processes",
    "pair-install-small-batch",
    "pair-checkpoint-unreleased",
    "pair-download-preprocessing",
    "pair-processes-checkpoint",
)
HEALTHY = ("asynchronous-checkpoints", "final-evaluation", "validation-each-epoch", "compiling", "streaming")


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Playing:
    """All of them, examined over their whole lives."""
    simulated = [played(case) for case in (*ONE_CAUSE, *TWO_CAUSES, *HEALTHY)]
    jobs = Playing(cluster, cluster.create_namespace("diagnosis"))
    jobs.provide(simulated)
    for job in simulated:
        jobs.start(job)
    for job in simulated:
        jobs.wait_phase(job.case, "Running")
    cluster.backfill(jobs.namespace)
    jobs.examined(*(job.case for job in simulated))
    return jobs


def test_every_one_of_the_fifteen_causes_is_played() -> None:
    assert len({category for case in ONE_CAUSE for category in CASES[case].truth}) == 15


@pytest.mark.parametrize("case", ONE_CAUSE)
def test_the_cause_leads(jobs: Playing, case: str) -> None:
    (truth,) = CASES[case].truth
    jobs.wait_for_causes(case, lambda causes: causes[:1] == [truth])


@pytest.mark.parametrize("case", TWO_CAUSES)
def test_both_causes_are_named(jobs: Playing, case: str) -> None:
    truth = CASES[case].truth
    jobs.wait_for_causes(case, lambda causes: truth <= set(causes))


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_is_said_of_a_healthy_job(jobs: Playing, case: str) -> None:
    assert jobs.status(case)["utilization"]["averagePercent"] > 0
    assert jobs.causes(case) == []
