"""/metrics on a port of its own: it names jobs, owners and teams, which the kubelet's probes need not see.

Whoever asks shows the token of a ServiceAccount, as Prometheus does; the API server says whose it is (TokenReview) and
whether that account may `get` the path /metrics (SubjectAccessReview). Tokens are shown over TLS only.
"""

import asyncio
import hashlib
import logging
import ssl
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Self

from aiohttp import web

from stoker.adapters.certificates import issue
from stoker.adapters.clock import Clock, SystemClock
from stoker.adapters.http.certificate import CERTIFICATE_FILE, KEY_FILE, Certificate, server_context
from stoker.adapters.http.health import Page
from stoker.adapters.http.listener import Handler, Limits, Listener
from stoker.adapters.kubernetes.client import ApiError, KubernetesApi, Resource

logger = logging.getLogger(__name__)

PATH = "/metrics"
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
LIMITS = Limits(connections=32, idle_timeout=120.0)
KEPT = 60.0
"""Seconds that an answer about a token is used again."""
REMEMBERED = 200
"""Tokens whose answer is kept."""
AT_ONCE = 4
"""Tokens that the API server is asked about at a time."""
CERTIFICATE_INTERVAL = 10.0
"""Seconds between two looks at the certificate's files."""
OWN_VALID = timedelta(days=3650)
"""Of a certificate that exists in one process' memory alone and that nobody can verify."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """How /metrics is served. `authentication`: to whom may read it alone, over TLS, else to everybody, over HTTP.
    `certificate_folder` has tls.crt and tls.key; without, the process makes a certificate that can't be verified.
    """

    address: str = "0.0.0.0"  # noqa: S104 - Prometheus comes from outside the pod
    port: int = 8443
    authentication: bool = True
    certificate_folder: Path | None = None


class Readers:
    """Asks the API server who may read the metrics."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[bytes, tuple[HTTPStatus, float]] = {}
        """By the token's hash: the answer, and when it was given by the steady clock."""
        self._places = asyncio.Semaphore(AT_ONCE)

    async def check(self, token: str) -> HTTPStatus:
        """OK, UNAUTHORIZED for a token of nobody, or FORBIDDEN. Raises ApiError."""
        key = hashlib.sha256(token.encode()).digest()
        async with self._places:
            answer, at = self._known.get(key, (HTTPStatus.OK, float("-inf")))
            if self._clock.monotonic() - at < KEPT:
                return answer
            answer = await self._ask(token)
            self._known.pop(key, None)
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = answer, self._clock.monotonic()
            return answer

    async def _ask(self, token: str) -> HTTPStatus:
        review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._api.create(TOKEN_REVIEWS, None, review)).get("status", {})
        if not status.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user = status.get("user", {})
        access = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "uid": user.get("uid", ""),
                "groups": user.get("groups", []),
                "extra": user.get("extra", {}),
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            },
        }
        answer = await self._api.create(ACCESS_REVIEWS, None, access)
        return HTTPStatus.OK if answer.get("status", {}).get("allowed") else HTTPStatus.FORBIDDEN


class MetricsServer:
    """Serves one page at /metrics. An asynchronous context manager."""

    def __init__(self, page: Page, settings: MetricsSettings, api: KubernetesApi, clock: Clock | None = None) -> None:
        self._readers = Readers(api, clock or SystemClock()) if settings.authentication else None
        folder = settings.certificate_folder
        self._certificate = Certificate(folder) if folder is not None else None
        context: ssl.SSLContext | None = None
        if self._certificate is not None:
            context = self._certificate.context
        elif settings.authentication:
            context = _own_context()
        app = web.Application()
        app.router.add_get(PATH, self._guarded(page))
        self._scheme = "http" if context is None else "https"
        self._listener = Listener(app, address=settings.address, port=settings.port, limits=LIMITS, context=context)
        self._held = AsyncExitStack()

    @property
    def port(self) -> int:
        """The port that is listened on, also where 0 was asked for."""
        return self._listener.port

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as held:
            if self._certificate is not None:
                self._certificate.refresh()
                follower = asyncio.create_task(self._certificate.follow(CERTIFICATE_INTERVAL))
                held.callback(follower.cancel)
            await held.enter_async_context(self._listener)
            self._held = held.pop_all()
        who = "all clients" if self._readers is None else f"accounts that may get {PATH}"
        logger.info("Serving metrics on port %d (%s) to %s.", self.port, self._scheme, who)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._held.aclose()

    def _guarded(self, page: Page) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            status = await self._may_read(request)
            return await page(request) if status is HTTPStatus.OK else web.Response(status=status, text=SAID[status])

        return answer

    async def _may_read(self, request: web.Request) -> HTTPStatus:
        if self._readers is None:
            return HTTPStatus.OK
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return HTTPStatus.UNAUTHORIZED
        try:
            return await self._readers.check(token.strip())
        except ApiError as error:
            logger.warning("Can't authorize readers of the metrics: %s", error)
            return HTTPStatus.SERVICE_UNAVAILABLE


SAID = {
    HTTPStatus.UNAUTHORIZED: "send the token of a ServiceAccount: Authorization: Bearer TOKEN\n",
    HTTPStatus.FORBIDDEN: "this account may not get /metrics: it needs a ClusterRole with nonResourceURLs [/metrics]\n",
    HTTPStatus.SERVICE_UNAVAILABLE: "the API server could not authenticate the token: try again later\n",
}


def _own_context() -> ssl.SSLContext:
    """TLS with a certificate of this process alone: nobody listens in, though nobody can tell who answers."""
    made = issue(["stoker-metrics"], now=datetime.now(UTC), valid=OWN_VALID)
    context = server_context()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / CERTIFICATE_FILE, Path(folder) / KEY_FILE
        key.touch(mode=0o600)
        key.write_text(made.key)
        certificate.write_text(made.certificate)
        context.load_cert_chain(certificate, key)
    return context


__all__ = ["MetricsServer", "MetricsSettings", "Readers"]
