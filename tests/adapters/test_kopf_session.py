"""What kopf reads of the API server: an object that is nested too deep for kopf arrives cut, the others as they are."""

import json
from collections.abc import AsyncIterator

import aiohttp
import kopf
import pytest
from aiohttp import web
from kopf._cogs.clients.api import iter_jsonlines

from stoker.adapters.kubernetes.bounded_json import MAX_DEPTH
from stoker.adapters.kubernetes.kopf_session import with_bounded_depth

DEEP = '{"a":' * 5000 + "{}" + "}" * 5000
EVENTS = [
    '{"type":"ADDED","object":{"metadata":{"name":"one"}}}',
    '{"type":"ADDED","object":{"metadata":{"name":"deep"},"spec":' + DEEP + ',"status":{"phase":"Running"}}}',
    '{"type":"MODIFIED","object":{"metadata":{"name":"two"},"text":"' + "x" * 600_000 + '"}}',
]


@pytest.fixture
async def session() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A session as kopf gets it, and the address of a server with a watch and a list."""

    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        text = "".join(f"{event}\n" for event in EVENTS).encode()
        for start in range(0, len(text), 10_007):
            await answer.write(text[start : start + 10_007])
        return answer

    async def everything(_: web.Request) -> web.Response:
        return web.Response(
            text='{"items":[{"name":"one"},' + DEEP + ',{"name":"two"}]}', content_type="application/json"
        )

    app = web.Application()
    app.router.add_get("/watch", watch)
    app.router.add_get("/list", everything)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made = with_bounded_depth(kopf.ConnectionInfo(server=address, token="t"))
    yield made.aiohttp_session, address
    await made.aiohttp_session.close()
    await runner.cleanup()


async def test_the_events_of_a_watch_come_whole_and_none_is_too_deep(
    session: tuple[aiohttp.ClientSession, str],
) -> None:
    client, address = session
    async with client.get(f"{address}/watch") as answer:
        lines = [line async for line in iter_jsonlines(answer.content)]
    one, deep, two = map(json.loads, lines)
    assert (one["object"]["metadata"]["name"], two) == ("one", json.loads(EVENTS[2]))
    assert deep["object"]["status"] == {"phase": "Running"}
    assert lines[1].count(b"{") <= MAX_DEPTH + 5


async def test_a_list_is_read_whatever_is_in_it(session: tuple[aiohttp.ClientSession, str]) -> None:
    client, address = session
    async with client.get(f"{address}/list") as answer:
        read = await answer.json()
    assert (read["items"][0], read["items"][2]) == ({"name": "one"}, {"name": "two"})
