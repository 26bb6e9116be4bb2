"""The connections on which kopf watches: what comes in is cut to a depth that kopf can take.

kopf reads watches and lists by `json.loads` and walks the objects recursively. One object nested a thousand levels
deep, which anybody may store, would end the watch and with it the process. So kopf is given a session whose answers
hold no such object any more; see `stoker.adapters.kubernetes.bounded_json`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from stoker.adapters.kubernetes.bounded_json import shallow
from stoker.adapters.kubernetes.client import PARSED_AT_ONCE, parse


def with_bounded_depth(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """The same credentials, on a session of our own. Call it on the event loop."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=BoundedResponse,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


class BoundedResponse(aiohttp.ClientResponse):
    """An answer of the API server, whole (a list) or line by line (a watch)."""

    async def start(self, connection: Any) -> "BoundedResponse":
        await super().start(connection)
        self.content = _BoundedLines(self.content)  # type: ignore[assignment]  # what is read of a stream
        return self

    async def json(self, **_: Any) -> Any:
        return await parse(await self.read())


class _BoundedLines:
    """A stream whose lines, each an event of a watch, are cut to the depth that can be read."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines, as many as have come."""
        rest = bytearray()
        async for chunk in self._stream.iter_chunked(size):
            if b"\n" not in chunk:
                rest += chunk
                continue
            *lines, last = (bytes(rest) + chunk).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                yield await _shallow(line) + b"\n"
        if rest:
            yield await _shallow(bytes(rest))


async def _shallow(line: bytes) -> bytes:
    return shallow(line) if len(line) <= PARSED_AT_ONCE else await asyncio.to_thread(shallow, line)
