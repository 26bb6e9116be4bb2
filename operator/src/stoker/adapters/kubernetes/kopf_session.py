"""The HTTP sessions on which kopf lists and watches, with bounded nesting of the received JSON.

Used by cluster/process.py. kopf parses with `json.loads` and walks objects recursively. One object nested a thousand
levels deep, which any user may store, would end the watch and the process. So kopf gets a session whose responses are
cut to MAX_DEPTH levels; see `stoker.adapters.kubernetes.bounded_json`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from stoker.adapters.kubernetes.bounded_json import shallow
from stoker.adapters.kubernetes.client import PARSED_AT_ONCE, parse


def with_bounded_depth(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """A session for kopf with these credentials and BoundedResponse. Call it on the event loop."""
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
    """A response of the API server with bounded nesting, read whole (a list) or line by line (a watch)."""

    async def start(self, connection: Any) -> "BoundedResponse":
        await super().start(connection)
        self.content = _BoundedLines(self.content)  # type: ignore[assignment]  # what is read of a stream
        return self

    async def json(self, **_: Any) -> Any:
        return await parse(await self.read())


class _BoundedLines:
    """A stream of a watch. Each line is an event, and its nesting is cut to MAX_DEPTH levels."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield complete lines as they arrive."""
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
