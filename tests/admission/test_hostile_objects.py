"""The DLJobs of the corpus of hostile objects in the real worker processes, beside the reviews of somebody else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.hostile.objects import Hostile, Kind, dljob, hostile_objects
from stoker.adapters.workers import Workers
from stoker.admission.admission_review import AdmissionResponse
from stoker.admission.job_review import JobReviewer
from stoker.cluster.view import ClusterView
from tests.admission.test_job_review import request

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LONG = 600.0
"""Seconds within which all answers are there, however busy the machine is."""
JOBS = [one for one in hostile_objects() if one.kind is Kind.JOB]
AT_ONCE = 4
"""Hostile reviews that wait or run at a time."""
WRONG = dljob("bystander", gpusPerNode=8, script="torchrun --nproc_per_node=4 train.py")


@pytest.fixture
async def reviewer() -> AsyncIterator[JobReviewer]:
    """With little time for each review, so that many of the hostile ones are cut short."""
    view = ClusterView()
    for number, name in enumerate(("tenant", "team")):
        view.namespaces.watched(None, {"metadata": {"name": name, "resourceVersion": str(number + 1)}})
    spec = {"analysis": {"reviewBudget": "100ms"}}
    view.policies.watched("ADDED", {"metadata": {"name": "default", "resourceVersion": "3"}, "spec": spec})
    async with Workers(2, memory=256 * 1024 * 1024) as workers:
        await workers.ready()
        yield JobReviewer(view, workers, lambda: NOW)


async def answered(reviewer: JobReviewer, manifest: Any, namespace: str) -> AdmissionResponse:
    deadline = asyncio.get_running_loop().time() + LONG
    return await reviewer(replace(request(new=manifest), namespace=namespace, deadline=deadline))


async def test_a_bystander_gets_the_same_answer_beside_each_hostile_object(
    reviewer: JobReviewer, caplog: pytest.LogCaptureFixture
) -> None:
    """And each hostile one is refused, let pass, or named as not analysed: never answered by a fault of Stoker's."""
    alone = await answered(reviewer, WRONG, "team")
    assert not alone.allowed
    room = asyncio.Semaphore(AT_ONCE)
    answers: dict[str, AdmissionResponse] = {}

    async def beside(one: Hostile) -> None:
        async with room:
            answers[one.name], bystanders = await asyncio.gather(
                answered(reviewer, one.manifest, "tenant"), answered(reviewer, WRONG, "team")
            )
            assert bystanders == alone, one.name

    async with asyncio.TaskGroup() as group:
        for one in JOBS:
            group.create_task(beside(one))
    assert len(answers) == len(JOBS) > 300
    failures = {name: one.verdict.failures for name, one in answers.items() if one.verdict and one.verdict.failures}
    assert failures == {}
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
