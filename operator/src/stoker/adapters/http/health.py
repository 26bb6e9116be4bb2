"""Liveness and readiness over plain HTTP, for the kubelet's probes."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

from aiohttp import web

from stoker.adapters.http.listener import Limits, Listener

logger = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says in a few words what is wrong, or None when nothing is."""

LIMITS = Limits(connections=64, idle_timeout=60.0)

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HealthServer:
    """Answers `/healthz` (restart me when it fails) and `/readyz` (send me work when it succeeds): 200, or 503 with
    what is wrong.

    An asynchronous context manager. `live` and `ready` name the checks; being asked at all shows that the event loop
    turns. What they say names no job and nobody: whoever reaches the port may read it.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
    ) -> None:
        self._address = address
        app = web.Application()
        app.router.add_get("/healthz", _endpoint(live))
        app.router.add_get("/readyz", _endpoint(ready))
        self._listener = Listener(app, address=address, port=port, limits=LIMITS)

    @property
    def port(self) -> int:
        """The port that is listened on, also where 0 was asked for."""
        return self._listener.port

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        logger.info("Answering probes at http://%s:%d/healthz and /readyz.", self._address, self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._listener.__aexit__(*error)


def _endpoint(checks: Mapping[str, Check]) -> Page:
    async def answer(_: web.Request) -> web.Response:
        problems = [f"{name}: {problem}" for name, check in checks.items() if (problem := check()) is not None]
        return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")

    return answer
