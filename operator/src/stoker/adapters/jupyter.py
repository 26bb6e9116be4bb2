"""What a Jupyter server says of its use, by its own REST API (GET /api/status and /api/kernels).

The server belongs to a user and may answer with anything. It is asked by its pod's address alone: no redirect is
followed, no name resolved, no cookie kept, no proxy used, nothing decompressed; time and size are bounded. What is not
understood raises Unreadable, whose text holds nothing that the server sent, and no token.

API: https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Self

import aiohttp
from yarl import URL

TIMEOUT = 3.0
"""Seconds for both questions."""
CONNECT_TIMEOUT = 1.0
"""Seconds until the connection stands: pods are in the same cluster."""
MAX_ANSWER = 256 * 1024
"""Bytes of one answer: a kernel takes some 200."""
MAX_SKEW = timedelta(minutes=1)
"""Clocks further apart make no time of the server's mean anything."""
RESTS = frozenset({"idle", "dead"})
"""A kernel's states in which it does nothing; in every other one it may."""


class Unreadable(Exception):  # noqa: N818 - it states a condition
    """The server's use is not known; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a server answers. `base` is its base URL's path without a slash at the end, `token` what is shown to it,
    `started` when its container did.
    """

    address: IPv4Address | IPv6Address
    port: int
    base: str
    token: str | None = field(default=None, repr=False)
    started: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a server is used: `busy` says what goes on in it right now, `last_activity` when something did last."""

    last_activity: datetime
    busy: str | None = None


class Jupyter:
    """Asks Jupyter servers. An asynchronous context manager."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT, connect=CONNECT_TIMEOUT),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "stoker"},
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def use(self, server: Server, now: datetime) -> Use:
        """Ask a server. Raises Unreadable."""
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._get(server, "/api/status", now)
                # Asking counts as use of the server, unless it is told otherwise.
                kernels = await self._get(server, "/api/kernels?no_track_activity=1", now)
        except TimeoutError:
            raise Unreadable("it does not answer in time") from None
        try:
            return _use(status, kernels, server.started, now)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Unreadable("its answer is not from Jupyter") from None

    async def _get(self, server: Server, path: str, now: datetime) -> Any:
        assert self._session is not None, "used outside its context"
        headers = {"Authorization": f"token {server.token}"} if server.token else {}
        origin = URL.build(scheme="http", host=str(server.address), port=server.port)
        url = origin.join(URL(server.base + path, encoded=True))
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status in {401, 403}:
                    raise Unreadable(f"it requires a token that Stoker does not have (HTTP {response.status})")
                if response.status != 200:
                    raise Unreadable(f"it answers with HTTP {response.status}")
                _check_clock(response.headers, now)
                content = await response.content.read(MAX_ANSWER + 1)
                while len(content) <= MAX_ANSWER and (more := await response.content.read(MAX_ANSWER)):
                    content += more
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreadable(f"it can't be asked ({type(error).__name__})") from None
        if len(content) > MAX_ANSWER:
            raise Unreadable("its answer is too long")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise Unreadable("its answer is not from Jupyter") from None


def _check_clock(headers: Mapping[str, str], now: datetime) -> None:
    """Raises Unreadable where the server's clock is not ours, or not told."""
    try:
        told = parsedate_to_datetime(headers["Date"])
        apart = abs(told - now)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Unreadable("it does not report its time") from None
    if apart > MAX_SKEW:
        raise Unreadable("its clock is off")


def _use(status: Any, kernels: Any, started: datetime, now: datetime) -> Use:
    """Raises KeyError, TypeError, ValueError or OverflowError for what Jupyter would not say, Unreadable for times that
    can't be.
    """
    times = [_time(status["last_activity"])]
    connections = _count(status["connections"])
    busy = False
    if not isinstance(kernels, list):
        raise TypeError
    for kernel in kernels:
        times.append(_time(kernel["last_activity"]))
        connections += _count(kernel["connections"])
        state = kernel["execution_state"]
        if not isinstance(state, str):
            raise TypeError
        busy |= state not in RESTS
    if any(not started - MAX_SKEW <= time <= now + MAX_SKEW for time in times):
        raise Unreadable("it reports a time before its start or in the future")
    what = "a kernel of its Jupyter is at work" if busy else "a notebook is open" if connections else None
    return Use(last_activity=max(times), busy=what)


def _time(text: Any) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError
    return time.astimezone(UTC)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value
