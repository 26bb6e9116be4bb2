"""Liveness and readiness over plain HTTP, for the kubelet's probes."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Self

from aiohttp import web

logger = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says in a few words what is wrong, or None when nothing is."""

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HealthServer:
    """Answers `/healthz` (restart me when it fails) and `/readyz` (send me work when it succeeds): 200, or 503 with
    what is wrong.

    An asynchronous context manager. `live` and `ready` name the checks; being asked at all shows that the event loop
    turns. `pages` are further paths, such as /metrics.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        pages: Mapping[str, Page] = MappingProxyType({}),
    ) -> None:
        self._address = address
        self._port = port
        app = web.Application()
        app.router.add_get("/healthz", _endpoint(live))
        app.router.add_get("/readyz", _endpoint(ready))
        for path, page in pages.items():
            app.router.add_get(path, page)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    @property
    def port(self) -> int:
        """The port that is listened on, also where 0 was asked for."""
        return int(self._runner.addresses[0][1])

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._address, self._port).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        logger.info("Answering probes at http://%s:%d/healthz and /readyz.", self._address, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


def _endpoint(checks: Mapping[str, Check]) -> Page:
    async def answer(_: web.Request) -> web.Response:
        problems = [f"{name}: {problem}" for name, check in checks.items() if (problem := check()) is not None]
        return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")

    return answer
