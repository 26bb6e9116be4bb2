"""Jobs of the simulator, on really scheduled pods with hours of history, end in the cause that they play, or none."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.scenarios.harness.jobs import Jobs, ago
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.diagnosis.idleness import idleness, screen_request
from stoker.diagnosis.job import diagnose
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.findings.vocabulary import Category
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.screen import step_for
from stoker.telemetry.series import JobFacts, PodFacts

WINDOW = timedelta(minutes=60)
PLAYED: dict[str, tuple[dict[str, Any], Category | None, IdlenessState]] = {
    "sleeps-after-training": (
        {
            "pods": 2,
            "gpus": 4,
            "started_at": ago(hours=4),
            "scenario": """
                phases:
                - {for: 5m, cpu: 1.5, netRx: 40MB/s}
                - {for: 150m, util: 91, memory: 70%, cpu: 6}
                - {util: 0, memory: 70%, cpu: 0.02, netRx: 2kB/s, netTx: 2kB/s}
            """,
        },
        Category.UNRELEASED_JOB,
        IdlenessState.IDLE,
    ),
    "evaluates-on-its-cpus": (
        {
            "gpus": 2,
            "started_at": ago(hours=4),
            "scenario": "phases: [{for: 150m, util: 91, cpu: 6}, {util: 0, memory: 70%, cpu: 7}]",
        },
        None,
        IdlenessState.IDLE,
    ),
    "uses-one-of-eight": (
        {
            "gpus": 8,
            "started_at": ago(hours=3),
            "scenario": "phases: [{util: 0, cpu: 2, gpus: {'0': {util: 88, memory: 60%}}}]",
        },
        Category.API_MISUSE,
        IdlenessState.ACTIVE,
    ),
    "starts-too-few": (
        {
            "gpus": 8,
            "started_at": ago(hours=3),
            "scenario": "phases: [{util: 0, cpu: 5, gpus: {'0-3': {util: 83, memory: 60%}}}]",
        },
        Category.GPU_OVERSUBSCRIPTION,
        IdlenessState.ACTIVE,
    ),
    "feeds-too-little": (
        {
            "gpus": 2,
            "started_at": ago(hours=3),
            "scenario": "phases: [{for: 4m, cpu: 1}, {util: 31, memory: 22%, cpu: 2, netRx: 1MB/s, dram: 10}]",
        },
        Category.IMPROPER_BATCH_SIZE,
        IdlenessState.ACTIVE,
    ),
    "installs": (
        {
            "gpus": 2,
            "started_at": ago(hours=2),
            "scenario": """
                phases:
                - {for: 17m, cpu: 1.2, netRx: 4MB/s, diskWrite: 9MB/s}
                - {util: 93, memory: 70%, cpu: 6}
            """,
        },
        Category.LONG_LIBRARY_INSTALLATION,
        IdlenessState.ACTIVE,
    ),
    "tinkers": (
        {
            "gpus": 1,
            "started_at": ago(hours=5),
            "scenario": """
                phases:
                - {for: 31m, cpu: 0.1}
                - {for: 2m, util: 40, memory: 10%}
                - {for: 5m, memory: 10%, cpu: 0.1}
                - {for: 1m, util: 30, memory: 10%}
                - {for: 4m, memory: 10%, cpu: 0.1}
                - {for: 1m, util: 60, memory: 10%}
                - {for: 150m, memory: 10%, cpu: 0.1}
                - {for: 2m, util: 40, memory: 10%}
                - {memory: 10%, cpu: 0.1}
            """,
        },
        Category.INTERACTIVE_JOB,
        IdlenessState.IDLE,
    ),
    "trains": (
        {
            "pods": 2,
            "gpus": 8,
            "started_at": ago(hours=6),
            "scenario": """
                phases:
                - {for: 4m, cpu: 1.5, netRx: 40MB/s}
                - repeat: forever
                  phases:
                  - {for: 25m, util: 93, memory: 70%, cpu: 9}
                  - {for: 30s, util: 20, memory: 70%, cpu: 4, netTx: 300MB/s}
                  - {for: 3m, util: 70, memory: 40%, cpu: 9}
            """,
        },
        None,
        IdlenessState.ACTIVE,
    ),
}


def facts(jobs: Jobs, name: str) -> JobFacts:
    """A plain Job's facts, as its pods tell them."""
    pods = jobs.pods(name)
    gpus = int(PLAYED[name][0]["gpus"])
    return JobFacts(
        namespace=jobs.namespace,
        name=name,
        uid=name,
        nodes=len(pods),
        gpus_per_node=gpus,
        pods=tuple(
            PodFacts(
                name=pod["metadata"]["name"],
                uid=pod["metadata"]["uid"],
                rank=int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]),
                node=pod["spec"]["nodeName"],
                gpus=gpus,
                started_at=datetime.fromisoformat(
                    pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
                ),
                ready=True,
            )
            for pod in pods
        ),
    )


@pytest.fixture(scope="module")
def played(start_cluster: StartCluster) -> Iterator[Jobs]:
    """All the jobs, running, with their past in Prometheus. Nobody had their GPUs in that past: a cluster of their own,
    in which each of the ten pods finds a whole node.
    """
    cluster = start_cluster("played")
    cluster.add_nodes(10)
    cluster.start_prometheus()
    jobs = Jobs(cluster, cluster.create_namespace("metrics"))
    for name, (job, _, _) in PLAYED.items():
        jobs.create(name, **job)
    for name, (job, _, _) in PLAYED.items():
        jobs.running(name, job.get("pods", 1))
    cluster.backfill(jobs.namespace)
    ours = f'count(DCGM_FI_DEV_GPU_UTIL{{namespace="{jobs.namespace}"}} and on() vector(1))'
    count = sum(job.get("pods", 1) * job["gpus"] for job, _, _ in PLAYED.values())
    wait_for("live samples", lambda: [float(row["value"][1]) for row in cluster.query(ours)] == [count])
    yield jobs
    cluster.stop()


@pytest.fixture
async def source(played: Jobs) -> AsyncIterator[PrometheusSource]:
    async with PrometheusSource(PrometheusAccess(url=played.cluster.prometheus_url)) as source:
        yield source


@pytest.mark.parametrize("name", PLAYED)
async def test_a_job_ends_in_the_cause_that_it_plays(played: Jobs, source: PrometheusSource, name: str) -> None:
    job, now = facts(played, name), datetime.now(UTC)
    start = min(pod.started_at for pod in job.pods if pod.started_at is not None)
    series = await source.series(job, start, now, step_for(now - start))
    found: Diagnosis = diagnose(job, series, (), BUILT_IN.thresholds, now)
    assert found.unknown is None
    _, category, state = PLAYED[name]
    assert [finding.category for finding in found.findings] == ([] if category is None else [category])

    (screen,) = await source.screen([screen_request(job, window=WINDOW, now=now)], now)
    answer: Idleness = idleness(job, screen, window=WINDOW, min_coverage_percent=90, now=now)
    assert answer.state is state, answer.message
