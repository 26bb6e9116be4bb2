from functools import partial

import aiohttp

from stoker.adapters.http.health import HealthServer


async def test_a_probe_says_what_is_wrong_and_turns_ok() -> None:
    problems: dict[str, str | None] = {"cluster": "policies not listed yet", "server": None}
    health = HealthServer(
        address="127.0.0.1",
        port=0,
        live={"watch": lambda: None},
        ready={name: partial(problems.get, name) for name in problems},
    )
    async with health, aiohttp.ClientSession(f"http://127.0.0.1:{health.port}") as client:
        async with client.get("/healthz") as response:
            assert (response.status, await response.text()) == (200, "ok\n")
        async with client.get("/readyz") as response:
            assert (response.status, await response.text()) == (503, "cluster: policies not listed yet\n")
        problems["cluster"] = None
        async with client.get("/readyz") as response:
            assert (response.status, await response.text()) == (200, "ok\n")
        async with client.get("/metrics") as response:
            assert response.status == 404
