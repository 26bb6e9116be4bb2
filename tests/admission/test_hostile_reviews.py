"""Reviews that take all they can get, beside those of somebody else: the real server, and real worker processes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from stoker.adapters.workers import Workers
from stoker.admission import judgement
from stoker.admission.job_review import JobReviewer
from stoker.admission.judgement import warm_up
from stoker.admission.server import ServerSettings
from stoker.cluster.view import ClusterView
from tests.admission.conftest import serving
from tests.admission.malformed_reviews import OBJECT, review

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WRONG = "torchrun --nproc_per_node=4 train.py\n"
COSTLY = "parallel " + "{} " * 19_000
"""Takes most of a second to follow."""
LARGEST = 65_536

HOSTILE: dict[str, dict[str, Any]] = {
    "costly script": {"script": COSTLY},
    "loops": {"script": "while true; do for i in 1 2 3; do a $i; done; done\n" * 1_200},
    "long words": {"script": "x=" + "a," * 15_000 + "\n" + "a $x\n" * 3_000},
    "init containers": {
        "script": WRONG,
        "podTemplate": {
            "spec": {
                "initContainers": [
                    {"name": f"i{number}", "image": "a.example/b:1", "command": ["bash", "-c", COSTLY]}
                    for number in range(4)
                ]
            }
        },
    },
}


class Asked:
    """The webhook, as the API server asks it."""

    def __init__(self, client: aiohttp.ClientSession, port: int) -> None:
        self._client = client
        self._url = f"https://localhost:{port}/validate/dljobs?timeout=30s"

    async def create(self, namespace: str, **spec: Any) -> dict[str, Any]:
        """The response to the creation of a DLJob."""
        new = {**OBJECT, "metadata": {"name": "bert", "namespace": namespace}, "spec": {**OBJECT["spec"], **spec}}
        body = json.dumps(review(new=new, namespace=namespace)).encode()
        headers = {"Content-Type": "application/json"}
        async with self._client.post(self._url, data=body, headers=headers) as answer:
            response: dict[str, Any] = (await answer.json())["response"]
            return response


@pytest.fixture
async def view() -> ClusterView:
    view = ClusterView()
    for name in ("team", "hostile"):
        view.namespaces.watched(None, {"metadata": {"name": name, "resourceVersion": "1"}})
    return view


@pytest.fixture
async def webhook(settings: ServerSettings, client: aiohttp.ClientSession, view: ClusterView) -> AsyncIterator[Asked]:
    async with AsyncExitStack() as stack:
        workers = Workers(2, warm_up=warm_up, modules=[judgement.__name__])
        server = await stack.enter_async_context(serving(settings, JobReviewer(view, workers, lambda: NOW)))
        # Started last and so ended first: the server waits for the answers to all that it was asked.
        await stack.enter_async_context(workers)
        yield Asked(client, server.port)


async def test_a_bystander_is_judged_as_ever_beside_fifty_hostile_reviews(webhook: Asked) -> None:
    flood = [asyncio.create_task(webhook.create("hostile", **spec)) for spec in [*HOSTILE.values()] * 13][:50]
    for _ in range(8):
        answer = await webhook.create("team", script=WRONG)
        assert not answer["allowed"]
        assert "launcher-too-few" in answer["status"]["message"]
    assert not all(one.done() for one in flood), "the bystander was answered after the flood only"
    for one in flood:
        one.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


@pytest.mark.parametrize("name", sorted(HOSTILE))
async def test_what_exceeds_the_budget_is_as_the_policy_says_and_its_image_is_judged(
    name: str, webhook: Asked, view: ClusterView
) -> None:
    """With `onOverBudget: Deny` nobody gets round the rules by padding a script."""
    answer = await webhook.create("hostile", **HOSTILE[name], image="bert:latest")
    assert answer["warnings"][0].startswith("image-unpinned:")
    spec = {"analysis": {"onOverBudget": "Deny"}, "rules": {"image-unpinned": {"action": "Deny"}}}
    view.policies.watched("ADDED", {"metadata": {"name": "default", "resourceVersion": "2"}, "spec": spec})
    answer = await webhook.create("hostile", **HOSTILE[name], image="bert:latest")
    assert not answer["allowed"]
    assert "image-unpinned" in answer["status"]["message"]


async def test_the_largest_script_of_plain_commands_is_judged_to_its_end(webhook: Asked) -> None:
    filler = 'echo "step $STEP of $STEPS" >> /workspace/log\n' * 1400
    script = filler[: LARGEST - len(WRONG) - 1].rpartition("\n")[0] + "\n" + WRONG
    answer = await webhook.create("team", script=script)
    assert not answer["allowed"]
    assert "launcher-too-few" in answer["status"]["message"]
