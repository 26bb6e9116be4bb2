"""The admission server: an aiohttp server of our own, run by kopf in place of its own one.

kopf accepts any server as `settings.admission.server`, starts it once the cluster's resources are known and stops it
on SIGTERM. That is what it is used for. Its dispatcher, the function it hands to the server, is not called:

- a path or resource that no handler matches is answered with `allowed: true`, a silent bypass; here it is a 404;
- an exception in a handler is answered as a denial, even where the webhook's failurePolicy is Ignore; here it is a
  500, which leaves the decision to failurePolicy, and what may fail in a review is caught earlier, by the reviewers;
- one message can be sent, no causes, so kubectl could not print a refusal as it prints those of the API server;
- every review copies the whole body and remembers the object's uid for ever.

So the paths are ours, each with one reviewer. What cannot be read as an AdmissionReview is an HTTP error with a plain
sentence.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

import kopf
from aiohttp import web

from stoker.handlers.admission_review import AdmissionRequest, Answer, NotAReviewError, refuse_unread
from stoker.handlers.certificate import Certificate

logger = logging.getLogger(__name__)

Reviewer = Callable[[AdmissionRequest], Awaitable[Answer]]
"""Answers one review. What it raises is a fault of ours, logged and answered with HTTP 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the reviews of one resource are answered, and by whom."""

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
    max_body: int = 8 * 1024 * 1024
    """The API server takes 3 MiB of object, which a review may hold beside the stored one of 1.5 MiB."""
    read_timeout: float = 10.0
    drain_delay: float = 5.0
    """How long a stopping server keeps answering, until the Service sends it nothing any more."""
    shutdown_timeout: float = 10.0


class AdmissionServer:
    """Serves AdmissionReviews over TLS.

    An asynchronous context manager: serving inside, and on leaving first drained. It is also what kopf expects of a
    server: a callable that yields its client configuration and then runs until cancelled.
    """

    def __init__(self, settings: ServerSettings, routes: Sequence[Route]) -> None:
        self._settings = settings
        self._certificate = Certificate(settings.certificate_folder)
        self._draining = False
        self._runner: web.AppRunner | None = None
        self._follower: asyncio.Task[None] | None = None
        self._paths = ", ".join(f"POST {route.path}" for route in routes)
        self._app = web.Application(middlewares=[self._frame])
        for route in routes:
            self._app.router.add_post(route.path, self._handler(route))

    @property
    def port(self) -> int:
        """The port that is listened on, also where the settings said 0."""
        assert self._runner is not None, "the server is not started"
        return int(self._runner.addresses[0][1])

    def not_ready(self) -> str | None:
        """Why no review should be sent here now, or None."""
        if self._draining:
            return "stopping"
        if self._certificate.problem is not None:
            return self._certificate.problem
        return None if self._runner is not None else "not listening yet"

    async def __aenter__(self) -> Self:
        await self._certificate.available(self._settings.certificate_interval)
        runner = web.AppRunner(
            self._app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=self._settings.shutdown_timeout,
            lingering_time=1.0,
            # Longer than the API server keeps an idle connection (90 s): who closes first must not be us, or a review
            # that is just being sent is lost.
            keepalive_timeout=600.0,
        )
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._settings.address, self._settings.port, ssl_context=self._certificate.context, backlog=1024
            )
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._follower = asyncio.create_task(
            self._certificate.follow(self._settings.certificate_interval), name="certificate follower"
        )
        logger.info("Answering reviews at https://%s:%d: %s.", self._settings.address, self.port, self._paths)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        assert self._follower is not None
        self._draining = True
        logger.info("Stopping: no new connections are wanted; still answering for %g s.", self._settings.drain_delay)
        try:
            await asyncio.sleep(self._settings.drain_delay)
        finally:
            self._follower.cancel()
            await self._runner.cleanup()

    async def __call__(self, dispatch: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """The protocol of kopf. What is yielded goes nowhere: the chart ships the webhook's configuration."""
        del dispatch
        yield kopf.WebhookClientConfig()
        await asyncio.Event().wait()

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if request.content_type != "application/json":
                return _refused(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                    f"Content-Type: must be application/json, not {request.content_type!r}",
                )
            try:
                async with asyncio.timeout(self._settings.read_timeout):
                    body, is_whole = await self._read(request)
            except TimeoutError:
                return _refused(
                    HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._settings.read_timeout:g} s"
                )
            if not is_whole:
                return self._too_large(body)
            try:
                review = AdmissionRequest.read(body)
            except NotAReviewError as error:
                return _refused(HTTPStatus.BAD_REQUEST, str(error))
            if (review.group, review.resource) != (route.group, route.resource):
                return _refused(
                    HTTPStatus.BAD_REQUEST,
                    f"request.resource: {route.path} reviews {route.resource}.{route.group} and nothing else",
                )
            answer = await route.reviewer(review)
            return web.Response(body=answer.write(review), content_type="application/json")

        return handle

    async def _read(self, request: web.Request) -> tuple[bytes, bool]:
        """The body, and whether that is all of it.

        What exceeds the limit is read and thrown away: a client that still sends does not listen.
        """
        body = bytearray()
        is_whole = True
        async for chunk in request.content.iter_any():
            if is_whole:
                body += chunk
                is_whole = len(body) <= self._settings.max_body
        return bytes(body), is_whole

    def _too_large(self, start: bytes) -> web.Response:
        """Denied, if the review's uid can be found: as an HTTP error it would pass where failurePolicy is Ignore."""
        message = (
            f"the object is too large to be reviewed: the AdmissionReview has more than {self._settings.max_body} bytes"
        )
        denial = refuse_unread(start, message)
        if denial is None:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        logger.warning("Denied a review: %s", message)
        return web.Response(body=denial, content_type="application/json")

    @web.middleware
    async def _frame(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """For every request: errors in our words, no traceback to the client, no reuse of connections at the end."""
        response: web.StreamResponse
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = _refused(
                HTTPStatus.NOT_FOUND, f"there is nothing at {request.path!r}; this server answers {self._paths}"
            )
        except web.HTTPMethodNotAllowed as error:
            response = _refused(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{error.method} is not answered here; this server answers {self._paths}"
            )
            response.headers["Allow"] = "POST"
        except web.HTTPException as error:
            response = _refused(HTTPStatus(error.status), error.reason)
        except ConnectionResetError:
            raise
        except Exception:
            logger.exception("A review at %s failed.", request.path)
            response = _refused(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the review failed by a fault of Stoker's; its log has the details"
            )
        if self._draining:
            response.force_close()
        return response


def _refused(status: HTTPStatus, message: str) -> web.Response:
    """An HTTP error with a Status as its body: of it, unlike of plain text, the API server tells its client."""
    logger.warning("Refused a request with HTTP %d: %s", status, message)
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": f"stoker: {message}"}
    return web.json_response(body, status=status)
