"""The admission server: an aiohttp server that kopf runs in place of its own. Used by the admission process.

kopf accepts any server as `settings.admission.server`, starts it once the cluster's resources are known and stops it
on SIGTERM. kopf's dispatcher, the function that it passes to the server, is not used, for these reasons:

- It answers a path or resource without a handler with `allowed: true`, a silent bypass. This server answers 404.
- It answers an exception in a handler with a denial, even if the webhook's failurePolicy is Ignore. This server answers
  500, so that failurePolicy decides; the reviewers catch expected failures earlier.
- It sends one message and no causes, so that kubectl can't print a denial like one of the API server.
- It copies the whole body of each review and keeps the object's uid for ever.

Each path has one reviewer. A body that is not an AdmissionReview gets an HTTP error with a sentence that says why.

Memory is bounded, whoever connects: the number of connections (adapters/http/listener.py), the size of a body, the
number of bodies larger than `small_body` that are read and reviewed at a time, and the number of running reviews. A
request over a bound gets HTTP 503 with Retry-After. The API server repeats it after that time, within the webhook's
timeoutSeconds; then failurePolicy decides.
"""

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import kopf
from aiohttp import web

from stoker.adapters.http.certificate import Certificate
from stoker.adapters.http.listener import Limits, Listener
from stoker.admission.admission_review import (
    AdmissionRequest,
    AdmissionResponse,
    NotAReviewError,
    TooDeepError,
    refuse_unread,
)
from stoker.admission.overload import OverloadLog
from stoker.findings.finding import rfc3339

logger = logging.getLogger(__name__)

Reviewer = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]
"""Answers one review. An exception that it raises is an internal error: it is logged and answered with HTTP 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The path for the reviews of one resource, and its reviewer."""

    path: str
    group: str
    resource: str
    reviewer: Reviewer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How the server listens. Times in seconds, sizes in bytes."""

    address: str = "0.0.0.0"  # noqa: S104 -- a pod's address is not known beforehand
    port: int = 9443
    certificate_folder: Path
    certificate_interval: float = 2.0
    client_ca: Path | None = None
    """A PEM file of authorities. If given, only clients with a certificate signed by one of them are answered."""
    client_names: frozenset[str] = frozenset()
    """The common names that a client's certificate may have; empty: any name."""
    limits: Limits = field(default_factory=Limits)
    max_body: int = 4 * 1024 * 1024
    """Bytes. etcd accepts objects of up to 1.5 MiB, and a review contains the object twice (object and oldObject). The
    rest of the 4 MiB is for what the API server adds.
    """
    small_body: int = 256 * 1024
    """Bytes. A body up to this size is read without waiting. There is at most one for each connection."""
    large_bodies: int = 8
    """Bodies larger than small_body that are read and reviewed at the same time."""
    max_reviews: int = 64
    """Reviews that run or wait for a worker at the same time."""
    read_timeout: float = 3.0
    """Seconds for a whole body. The API server has it in memory and sends it at once."""
    room_timeout: float = 1.0
    """Seconds that a large body waits until another one is finished."""
    drain_delay: float = 5.0
    """Seconds that a stopping server keeps answering at least, until the Service no longer sends it requests."""
    drain_quiet: float = 1.0
    """Seconds without a request after which the Service is taken to lead elsewhere. On a busy node kube-proxy learns
    late that a replica ends.
    """
    drain_longest: float = 12.0
    """Seconds that a stopping server keeps answering at most."""
    shutdown_timeout: float = 10.0


KEPT_OF_TOO_LARGE = 4096
"""Bytes kept of a body that is too large. The review's uid is within the first few hundred."""
LOGGED_A_MINUTE = 1000
"""Warnings that the log takes in a minute. Bounded because any client can cause any number of refused requests."""
RETRY_AFTER = 1
"""Seconds after which the API server repeats the request, if the webhook's timeoutSeconds allows it."""


class _BusyError(Exception):
    """A bound on parallel requests is reached."""


class AdmissionServer:
    """Serves AdmissionReviews over TLS.

    An asynchronous context manager that serves while entered and drains on leaving. It also implements kopf's protocol
    of a server: a callable that yields its client configuration and then runs until cancelled.
    """

    def __init__(
        self, settings: ServerSettings, routes: Sequence[Route], on_overload: Callable[[], None] = lambda: None
    ) -> None:
        """`on_overload` is called for each request that is refused because of a bound."""
        self._settings = settings
        self._certificate = Certificate(settings.certificate_folder, client_ca=settings.client_ca)
        self._draining = False
        self._asked = -math.inf
        """When the last request came, in the event loop's time."""
        self._listening = False
        self._follower: asyncio.Task[None] | None = None
        self._large = asyncio.Semaphore(settings.large_bodies)
        self._reviews = 0
        self._overload = OverloadLog()
        self._on_overload = on_overload
        self._paths = ", ".join(f"POST {route.path}" for route in routes)
        app = web.Application(middlewares=[self._frame])
        for route in routes:
            app.router.add_post(route.path, self._handler(route))
        self._listener = Listener(
            app,
            address=settings.address,
            port=settings.port,
            limits=settings.limits,
            context=self._certificate.context,
            shutdown_timeout=settings.shutdown_timeout,
        )

    @property
    def port(self) -> int:
        """The port that it listens on; with port 0 in the settings the one that the system chose."""
        return self._listener.port

    @property
    def certificate(self) -> Certificate:
        """The serving certificate."""
        return self._certificate

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._listener.connections

    def not_ready(self) -> str | None:
        """For the readiness probe: why this server can't answer reviews, or None."""
        if self._draining:
            return "stopping"
        if self._certificate.problem is not None:
            return self._certificate.problem
        ended = self._certificate.expires
        if ended is not None and ended <= datetime.now(UTC):
            return f"the certificate ended at {rfc3339(ended)}: the API server refuses it"
        return None if self._listening else "not listening yet"

    async def __aenter__(self) -> Self:
        await self._certificate.available(self._settings.certificate_interval)
        await self._listener.__aenter__()
        self._listening = True
        self._follower = asyncio.create_task(
            self._certificate.follow(self._settings.certificate_interval), name="certificate follower"
        )
        logger.info("Answering reviews at https://%s:%d: %s.", self._settings.address, self.port, self._paths)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._follower is not None
        self._draining = True
        logger.info(
            "Stopping: requests are answered for %g s, and on until none has come for %g s.",
            self._settings.drain_delay,
            self._settings.drain_quiet,
        )
        try:
            await self._drain()
        finally:
            self._follower.cancel()
            await self._listener.__aexit__(*error)

    async def _drain(self) -> None:
        """Answer until the Service leads elsewhere. Each answer closes its connection."""
        loop, settings = asyncio.get_running_loop(), self._settings
        began = loop.time()
        await asyncio.sleep(settings.drain_delay)
        while (quiet := loop.time() - self._asked) < settings.drain_quiet:
            if loop.time() - began >= settings.drain_longest:
                logger.warning("Requests still come after %g s: they will fail.", settings.drain_longest)
                return
            await asyncio.sleep(settings.drain_quiet - quiet)

    async def __call__(self, dispatch: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Implement kopf's protocol of a server. The yielded configuration is unused, because the chart ships the
        webhook configuration.
        """
        del dispatch
        yield kopf.WebhookClientConfig()
        await asyncio.Event().wait()

    def _stranger(self, request: web.Request) -> str | None:
        """Why this client is refused, or None. The TLS handshake has already verified its certificate."""
        if self._settings.client_ca is None or not self._settings.client_names:
            return None
        name = _common_name(request.get_extra_info("peercert") or {})
        if name in self._settings.client_names:
            return None
        return f"the client's certificate is that of {name!r}, who is not allowed to send reviews"

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if request.content_type != "application/json":
                return _refused(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                    f"Content-Type: must be application/json, not {request.content_type!r}",
                )
            if request.content_length is None:
                return _refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length: is required, as the API server sends it")
            async with AsyncExitStack() as held:
                await self._room(request.content_length, held)
                return await self._review(route, request)

        return handle

    async def _review(self, route: Route, request: web.Request) -> web.Response:
        deadline = _deadline(request, asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self._settings.read_timeout):
                body, is_whole = await self._read(request)
        except TimeoutError:
            return _refused(
                HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._settings.read_timeout:g} s"
            )
        if not is_whole:
            return self._too_large(body)
        self._listener.answering(request)
        with self._at_work():
            try:
                review = AdmissionRequest.read(body)
            except NotAReviewError as error:
                return _refused(HTTPStatus.BAD_REQUEST, str(error))
            except TooDeepError as error:
                return _denied_unread(body, str(error), HTTPStatus.BAD_REQUEST, "BadRequest")
            del body
            if (review.group, review.resource) != (route.group, route.resource):
                return _refused(
                    HTTPStatus.BAD_REQUEST,
                    f"request.resource: {route.path} reviews {route.resource}.{route.group} and nothing else",
                )
            answer = await route.reviewer(replace(review, deadline=deadline))
            return web.Response(body=answer.write(review), content_type="application/json")

    async def _room(self, length: int, held: AsyncExitStack) -> None:
        """Reserve room for a body of `length` bytes until `held` is closed. Raises _BusyError."""
        if length <= self._settings.small_body:
            return
        try:
            async with asyncio.timeout(self._settings.room_timeout):
                await self._large.acquire()
        except TimeoutError:
            raise _BusyError(f"{self._settings.large_bodies} large objects are already being reviewed") from None
        held.callback(self._large.release)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Count a running review while inside. Raises _BusyError when max_reviews run already."""
        if self._reviews >= self._settings.max_reviews:
            raise _BusyError(f"{self._reviews} reviews are already running")
        self._reviews += 1
        try:
            yield
        finally:
            self._reviews -= 1

    async def _read(self, request: web.Request) -> tuple[bytearray, bool]:
        """Read the body. Returns its kept bytes, and whether the body is complete.

        Bytes over the limit are read and discarded, because a client reads the response only after it has sent its
        body. Of a body whose Content-Length is too large, the start is kept: it has the uid for the response.
        """
        assert request.content_length is not None
        is_whole = request.content_length <= self._settings.max_body
        kept = self._settings.max_body if is_whole else KEPT_OF_TOO_LARGE
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk[: kept - len(body)]
        return body, is_whole

    def _too_large(self, start: bytearray) -> web.Response:
        message = (
            f"the object is too large to be reviewed: the AdmissionReview has more than {self._settings.max_body} bytes"
        )
        return _denied_unread(start, message, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge")

    @web.middleware
    async def _frame(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Wrap every request: turn errors into responses without tracebacks, and close connections while the server
        stops.
        """
        response: web.StreamResponse
        self._asked = asyncio.get_running_loop().time()
        try:
            stranger = self._stranger(request)
            response = await handler(request) if stranger is None else _refused(HTTPStatus.FORBIDDEN, stranger)
        except web.HTTPNotFound:
            response = _refused(
                HTTPStatus.NOT_FOUND, f"unknown path {request.path!r}; this server serves {self._paths}"
            )
        except web.HTTPMethodNotAllowed as error:
            response = _refused(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{error.method} is not allowed; this server serves {self._paths}"
            )
            response.headers["Allow"] = "POST"
        except web.HTTPException as error:
            response = _refused(HTTPStatus(error.status), error.reason)
        except _BusyError as error:
            message = f"{error}: ask again later"
            self._overload.refused(message)
            self._on_overload()
            response = _status(HTTPStatus.SERVICE_UNAVAILABLE, message)
            response.headers["Retry-After"] = str(RETRY_AFTER)
            if not request.content.at_eof():
                response.force_close()
        except ConnectionError:
            # The client has closed the connection; nobody reads this response.
            response = web.Response(status=HTTPStatus.BAD_REQUEST)
            response.force_close()
        except Exception:
            logger.exception("A review at %s failed.", request.path)
            response = _refused(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "the review failed because of an internal error in Stoker; see its log",
            )
        if self._draining:
            response.force_close()
        return response


def _common_name(certificate: Mapping[str, Any]) -> str:
    """The common name in a peer's certificate, as the ssl module returns it; empty if it has none."""
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def _denied_unread(start: bytes | bytearray, message: str, status: HTTPStatus, reason: str) -> web.Response:
    """Deny a review that could not be read, if its uid is in `start`. An HTTP error, the answer without a uid, would
    admit the object where failurePolicy is Ignore.
    """
    denial = refuse_unread(start, message, code=status, reason=reason)
    if denial is None:
        return _refused(status, message)
    logger.warning("Denied a review: %s", message)
    return web.Response(body=denial, content_type="application/json")


_TIMEOUT = re.compile(r"(\d{1,2})s")


def _deadline(request: web.Request, arrived: float) -> float | None:
    """When the API server stops waiting for the response, in the event loop's time. It sends the webhook's
    timeoutSeconds in the query (`?timeout=10s`). None without it.
    """
    told = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
    return None if told is None else arrived + int(told[1])


class _FewLines(logging.Filter):
    """Passes at most LOGGED_A_MINUTE warnings a minute. The last one says that further ones are not logged."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        if (minute := int(record.created // 60)) != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        if self._lines == LOGGED_A_MINUTE:
            record.msg, record.args = "Many requests are refused; further ones are not logged in this minute.", ()
        return self._lines <= LOGGED_A_MINUTE


logger.addFilter(_FewLines())


def _refused(status: HTTPStatus, message: str) -> web.Response:
    """An HTTP error with a Status as its body. The API server passes its message on, but not a plain text."""
    logger.warning("Refused a request with HTTP %d: %s", status, message)
    return _status(status, message)


def _status(status: HTTPStatus, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": f"stoker: {message}"}
    return web.json_response(body, status=status)
