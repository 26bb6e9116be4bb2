"""Who may read the metrics, asked of the API server; and over what they are shown."""

import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from stoker.adapters.http.metrics_server import (
    ACCESS_REVIEWS,
    KEPT,
    REMEMBERED,
    MetricsServer,
    MetricsSettings,
    Readers,
)
from stoker.adapters.kubernetes.client import KubernetesApi, Object, Resource, UnavailableError
from tests.certificates.authority import Authority
from tests.controller.cluster import FakeApi, HeldClock

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Accounts(FakeApi):
    """An API server that knows two tokens: of Prometheus, who may read, and of somebody, who may not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.down = False

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any], **_: Any) -> Object:
        if self.down:
            raise UnavailableError("create", code=503, reason="later")
        self.asked.append((resource.plural, body["spec"]))
        if resource == ACCESS_REVIEWS:
            return {"status": {"allowed": body["spec"]["user"] == "prometheus"}}
        name = {"good": "prometheus", "other": "somebody"}.get(body["spec"]["token"])
        user = {"username": name, "groups": ["system:authenticated"]}
        return {"status": {"authenticated": True, "user": user} if name else {"authenticated": False}}


async def page(_: web.Request) -> web.Response:
    return web.Response(text="stoker_up 1\n")


class Server:
    def __init__(self, api: Accounts, port: int) -> None:
        self.api, self.port = api, port

    async def get(self, authorization: str | None, *, path: str = "/metrics") -> tuple[int, str]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {} if authorization is None else {"Authorization": authorization}
        connector = aiohttp.TCPConnector(ssl=context)
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.get(f"https://127.0.0.1:{self.port}{path}", headers=headers) as response,
        ):
            return response.status, await response.text()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    api = Accounts()
    async with MetricsServer(page, MetricsSettings(address="127.0.0.1", port=0), api) as serving:
        yield Server(api, serving.port)


@pytest.mark.parametrize(
    "authorization, status",
    [
        ("Bearer good", 200),
        ("bearer good", 200),
        ("Bearer other", 403),
        ("Bearer made-up", 401),
        ("Bearer ", 401),
        ("Basic Z29vZDpnb29k", 401),
        (None, 401),
    ],
)
async def test_only_who_may_get_the_metrics_sees_them(server: Server, authorization: str | None, status: int) -> None:
    seen, text = await server.get(authorization)
    assert seen == status
    assert ("stoker_up" in text) == (status == 200)


async def test_the_api_server_is_asked_for_the_users_right_to_get_the_path(server: Server) -> None:
    await server.get("Bearer good")
    (_, token), (_, access) = server.api.asked
    assert token == {"token": "good"}
    assert (access["user"], access["groups"]) == ("prometheus", ["system:authenticated"])
    assert access["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


async def test_while_the_api_server_does_not_answer_nobody_sees_them(server: Server) -> None:
    server.api.down = True
    assert (await server.get("Bearer good"))[0] == 503
    server.api.down = False
    assert (await server.get("Bearer good"))[0] == 200


async def test_there_is_nothing_else_on_the_port(server: Server) -> None:
    assert (await server.get("Bearer good", path="/healthz"))[0] == 404


async def test_an_answer_serves_for_a_while_and_is_asked_for_again() -> None:
    api, clock = Accounts(), HeldClock(NOW)
    readers = Readers(api, clock)
    for _ in range(5):
        assert await readers.check("good") == 200
        assert await readers.check("made-up") == 401
    assert len(api.asked) == 3
    clock.time += timedelta(seconds=KEPT)
    await readers.check("good")
    assert len(api.asked) == 5


async def test_made_up_tokens_are_not_remembered_without_end() -> None:
    readers = Readers(Accounts(), HeldClock(NOW))
    for number in range(REMEMBERED + 50):
        await readers.check(f"made-up-{number}")
    assert len(readers._known) == REMEMBERED


async def test_without_authentication_they_are_plain_text_for_everybody() -> None:
    api: KubernetesApi = Accounts()
    settings = MetricsSettings(address="127.0.0.1", port=0, authentication=False)
    async with (
        MetricsServer(page, settings, api) as server,
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{server.port}/metrics") as response,
    ):
        assert (response.status, await response.text()) == (200, "stoker_up 1\n")


async def test_with_a_certificate_the_server_can_be_verified(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path)
    settings = MetricsSettings(address="127.0.0.1", port=0, certificate_folder=tmp_path)
    async with (
        MetricsServer(page, settings, Accounts()) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority.client_context())) as client,
        client.get(f"https://localhost:{server.port}/metrics", headers={"Authorization": "Bearer good"}) as response,
    ):
        assert response.status == 200
