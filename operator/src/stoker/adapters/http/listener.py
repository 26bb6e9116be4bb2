"""Accepts connections for an aiohttp application, with bounds that a client can't talk its way around.

aiohttp and asyncio bound neither the number of connections nor the time in which a request's headers arrive, and a TLS
connection costs some 300 KB before its first byte is read. So connections are accepted here, each with a place in a
table of fixed size. When the table is full, a connection of the address that holds the most places is closed for the
new one, so whoever opens many loses their own. Those without a request are closed first, those whose request is being
answered never.
"""

import asyncio
import errno
import gc
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from aiohttp import web

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
PAUSE = 0.1
"""Seconds without accepting after the system had no descriptor or memory for a connection."""
LOGGED_EVERY = 60.0
"""Seconds between two lines in the log about a full table."""
COLLECT_AFTER = 16
"""TLS connections that may be gone before what they leave is collected: asyncio's part of each is a cycle with a buffer
of 256 KB, which counts as a few dozen objects for the collector and would stay for long.
"""
MAX_HEADERS = 48
"""Header fields of a request."""
MAX_LINE = 8190
"""Bytes of one header field, and of the request line. The token of a ServiceAccount takes 1 to 2 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections there may be, and how long, in seconds, one may take for what it has to do."""

    connections: int = 128
    handshake_timeout: float = 5.0
    header_timeout: float = 5.0
    """From the first byte of a request, or from the connection if it sends none, to the end of its headers."""
    idle_timeout: float = 600.0
    """Between two requests. Longer than the API server keeps an idle connection (90 s): who closes first must not be
    us, or a request that is just being sent is lost."""


Closed = Callable[["_Connection"], None]


class _State(IntEnum):
    """What a connection is doing; in the order in which connections are closed for want of places."""

    IDLE = 0
    SENDING = 1
    ANSWERED = 2
    """Its request is here and is being answered."""


class _Connection(asyncio.Protocol):
    """One connection: hands everything on to aiohttp's protocol and knows what the connection is doing."""

    def __init__(self, address: str, inner: asyncio.Protocol, header_timeout: float, closed: Closed) -> None:
        self.address = address
        self.since = asyncio.get_running_loop().time()
        self.state = _State.SENDING
        self.opening: asyncio.Task[bool] | None = None
        self.inner = inner
        self._header_timeout = header_timeout
        self._closed = closed
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def begin(self) -> None:
        """A request is being sent: its headers have to be complete in time."""
        loop = asyncio.get_running_loop()
        self.state, self.since = _State.SENDING, loop.time()
        self.stop_timer()
        self._timer = loop.call_later(self._header_timeout, self.abort)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Close it at once, whatever it is doing."""
        self.stop_timer()
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.begin()
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.state is _State.IDLE:
            self.begin()
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_timer()
        self._closed(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class Listener:
    """Serves one application on one port within `limits`. An asynchronous context manager."""

    def __init__(
        self,
        app: web.Application,
        *,
        address: str,
        port: int,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        shutdown_timeout: float = 1.0,
    ) -> None:
        self._address = address
        self._port = port
        self._limits = limits
        self._context = context
        app.middlewares.insert(0, self._follow)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=shutdown_timeout,
            keepalive_timeout=limits.idle_timeout,
            lingering_time=1.0,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
            # A few bytes could unpack to gigabytes, and nobody who asks us packs.
            auto_decompress=False,
        )
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.BaseProtocol, _Connection] = {}
        """By aiohttp's protocol."""
        self._logged_at = -LOGGED_EVERY
        self._gone = 0
        """TLS connections since the last collection of garbage."""
        self.closed_for_others = 0
        """Connections that were closed because there were too many."""

    @property
    def port(self) -> int:
        """The port that is listened on, also where 0 was asked for."""
        assert self._socket is not None, "not listening"
        return int(self._socket.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._connections)

    def answering(self, request: web.Request) -> None:
        """The request is here in full: from now until it is answered its connection is not closed for others."""
        if (connection := self._connections.get(request.protocol)) is not None:
            connection.state = _State.ANSWERED

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
            is_dual = self._address == "::" and socket.has_dualstack_ipv6()
            self._socket = socket.create_server(
                (self._address, self._port), family=family, backlog=1024, dualstack_ipv6=is_dual
            )
        except BaseException:
            await self._runner.cleanup()
            raise
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket), name=f"accept on port {self.port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._socket is not None
        assert self._accepting is not None
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._socket.close()
        for connection in list(self._connections.values()):
            if connection.opening is not None and not connection.opening.done():
                connection.abort()
        await self._runner.cleanup()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                # A connection that was reset before it was accepted is the client's affair.
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._log_rate_limited(f"no connection can be accepted: {error.strerror}")
                    await asyncio.sleep(PAUSE)
                continue
            accepted.setblocking(False)
            if len(self._connections) >= self._limits.connections and not self._make_room():
                accepted.close()
                continue
            self._open(accepted, str(address[0]))

    def _open(self, accepted: socket.socket, address: str) -> None:
        server = self._runner.server
        assert server is not None
        connection = _Connection(address, server(), self._limits.header_timeout, self._forget)
        self._connections[connection.inner] = connection

        def opened(task: asyncio.Task[bool]) -> None:
            # Here and not in the task: one that is cancelled before its first step never begins.
            is_open = not task.cancelled() and task.exception() is None and task.result()
            if not is_open:
                accepted.close()
                self._forget(connection)

        connection.opening = asyncio.create_task(self._shake_hands(accepted, connection))
        connection.opening.add_done_callback(opened)

    async def _shake_hands(self, accepted: socket.socket, connection: _Connection) -> bool:
        """Whether the connection was made."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else self._limits.handshake_timeout,
            )
        except (OSError, TimeoutError) as error:
            logger.debug("A connection from %s was not made: %s", connection.address, error)
            return False
        return True

    def _make_room(self) -> bool:
        """Close a connection of the address with the most of them; whether there was one that may be closed."""
        self.closed_for_others += 1
        held = Counter(one.address for one in self._connections.values())
        self._log_rate_limited(
            f"all {self._limits.connections} connections are taken, by {len(held)} addresses: closing some"
        )
        closable = [one for one in self._connections.values() if one.state is not _State.ANSWERED]
        if not closable:
            return False
        chosen = min(closable, key=lambda one: (-held[one.address], one.state, one.since))
        self._forget(chosen)
        chosen.abort()
        return True

    def _forget(self, connection: _Connection) -> None:
        if self._connections.pop(connection.inner, None) is None or self._context is None:
            return
        self._gone += 1
        if self._gone >= COLLECT_AFTER:
            self._gone = 0
            gc.collect()

    def _log_rate_limited(self, message: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOGGED_EVERY:
            self._logged_at = now
            logger.warning("Port %d: %s", self.port, message)

    @web.middleware
    async def _follow(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Know what the connections are doing: here the headers are complete, and after it the answer is."""
        connection = self._connections.get(request.protocol)
        if connection is not None:
            connection.stop_timer()
        try:
            return await handler(request)
        finally:
            if connection is not None:
                connection.state = _State.IDLE
                connection.since = asyncio.get_running_loop().time()
