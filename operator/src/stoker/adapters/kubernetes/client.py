"""An asynchronous client of the Kubernetes API with objects as plain dictionaries. Used by all processes and the CLI.

Credentials are found as kubectl finds them. A service account's token is read again as the kubelet rotates it. Every
request has a timeout. An error's text has the verb, the object and the API's reason, but not the API's message: the
message of a refused update repeats the whole object with its environment, which must not reach a log, a status or an
event. controller/api_refusals.py decides which part may be repeated.
"""

import asyncio
import json
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from stoker.adapters.http_date import http_date
from stoker.adapters.kubernetes import bounded_json
from stoker.findings.finding import rfc3339

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
Object = dict[str, Any]
"""An object of the API as JSON."""
Objects = list[Object]
Warn = Callable[[str], object]
"""Called with each warning of the API server."""

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole request. Long enough for a page of 500 objects."""
CONNECT_TIMEOUT = 5.0
"""Seconds for opening a connection."""
CHUNK = 500
"""Objects in one page of a list (kubectl's default)."""
CONNECTIONS = 40
"""Connections to the API server: those of the workers, and some for the scan, events and the Lease."""
RETRY_AFTER = 1.0
"""Seconds until the next request after a 429 that says less or nothing (an API server says it of a single refusal)."""
PATIENCE = 30.0
"""Seconds of waiting after which a request is not sent again. Chosen so that what was decided is not written much later
than a request may take (REQUEST_TIMEOUT).
"""
LONGEST_WAIT = 60.0
"""Seconds that one Retry-After is waited for at most. Chosen above the 32 that an API server asks for at most."""
PARSED_AT_ONCE = 256 * 1024
"""Bytes. A larger response is parsed in a thread, so that watches and the Lease are served meanwhile."""

MERGE_PATCH = "application/merge-patch+json"
AS_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
AS_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media types by which the API server sends the metadata of objects alone."""
WATCH_TIMEOUT = 300
"""Seconds after which the API server ends a watch, which is then begun again."""
WATCH_SILENCE = 70.0
"""Seconds without a line after which a watch counts as broken. The API server sends a bookmark every minute."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API by its group, version and plural; the core group is empty."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of an object in the URL; of the collection if `name` is None; cluster-wide without a namespace.

        Raises NotFoundError for a name that no object can have. Names come from tenants' objects too, and the API
        server checks few references: a claim `../../other/pods` would be read with the operator's rights.
        """
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace:
            parts += ["namespaces", self._segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(self._segment(name))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def _segment(self, name: str) -> str:
        if name in {"", ".", ".."} or "/" in name or "%" in name:
            # The name is not repeated: its author chose it, and the error reaches logs.
            raise NotFoundError(self.plural, code=None, reason="no object can have the name that is referred to")
        return quote(name, safe="")


DLJOBS = Resource("stoker.dev", "v1alpha1", "dljobs")
GPU_WORKLOADS = Resource("stoker.dev", "v1alpha1", "gpuworkloads")
POLICIES = Resource("stoker.dev", "v1alpha1", "utilizationpolicies")
JOBS = Resource("batch", "v1", "jobs")
PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
NAMESPACES = Resource("", "v1", "namespaces")
NODES = Resource("", "v1", "nodes")
EVENTS = Resource("events.k8s.io", "v1", "events")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
WORKLOADS = tuple(Resource("kueue.x-k8s.io", version, "workloads") for version in ("v1beta2", "v1beta1"))
"""Kueue's Workload in the supported versions, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCause:
    """One entry of a Status' `details.causes`: a field and what is wrong with it."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The server's answer to a request for something other than an object. server_time: by its clock, in whole seconds;
    None where it does not say.
    """

    content: Object
    server_time: datetime | None


class ApiError(Exception):
    """A failed request. code: the HTTP status, None without a response. reason: the reason in the API's Status.

    answer, causes: the server's own message and its details. Show them only to a person at a terminal, or through
    controller/api_refusals.py.
    """

    def __init__(
        self, request: str, *, code: int | None, reason: str, answer: str = "", causes: tuple[ErrorCause, ...] = ()
    ) -> None:
        super().__init__(f"{request}: {reason}" if code is None else f"{request}: {code} {reason}")
        self.code = code
        self.reason = reason
        self.answer = answer
        self.causes = causes


class NotFoundError(ApiError):
    """The object, or its kind or namespace, does not exist."""


class AlreadyExistsError(ApiError):
    """An object of that name exists."""


class ConflictError(ApiError):
    """The object changed since it was read, or a precondition does not hold."""


class ForbiddenError(ApiError):
    """RBAC, admission or a quota refused the request."""


class InvalidError(ApiError):
    """Validation or admission refused the object as invalid."""


class TooLargeError(ApiError):
    """The object would be larger than etcd or the API server accepts."""


class UnavailableError(ApiError):
    """No response, or one that asks to try again later (429, 5xx)."""


class TooManyRequestsError(UnavailableError):
    """The API server refused to process the request now (429). retry_after: seconds to wait before the next one."""

    def __init__(self, request: str, *, retry_after: float, reason: str, answer: str = "") -> None:
        super().__init__(request, code=429, reason=reason, answer=answer)
        self.retry_after = retry_after


class CredentialsError(Exception):
    """No usable credentials for a cluster were found; the text says where they were searched."""


class KubernetesApi(Protocol):
    """The requests that the controller makes to the API server. Every method may raise ApiError."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Read one object from the API server. Raises NotFoundError."""
        ...

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        """Read all objects, page by page; also returns the list's resource version. `labels` and `fields` select."""
        ...

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        """Create an object and return it as stored. `warn` gets the server's warnings, also about unknown fields."""
        ...

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object:
        """Merge `body` into an object or its subresource (JSON merge patch, RFC 7386) and return it as stored. A
        metadata.resourceVersion in `body` is a precondition: if it differs, ConflictError is raised.
        """
        ...

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        """Replace an object or its subresource and return it as stored. A metadata.resourceVersion in `body` is a
        precondition: if it differs, ConflictError is raised. `timeout` is in seconds.
        """
        ...

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str, resource_version: str | None = None
    ) -> None:
        """Delete the object with that uid; the garbage collector deletes what it owns. Raises ConflictError if the uid
        or the resource version differs.
        """
        ...


class Kubernetes:
    """A client of one API server; implements KubernetesApi. Use as an asynchronous context manager."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._server = str(configuration.host).rstrip("/")
        self._server_name: str | None = configuration.tls_server_name
        self._proxy: str | None = configuration.proxy
        self._ssl = context
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, *, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Find credentials as kubectl does: the given kubeconfig, $KUBECONFIG, the pod's service account,
        ~/.kube/config.

        Raises CredentialsError when there are none.
        """
        return cls(await find_credentials(kubeconfig=kubeconfig, context=context))

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=self._ssl),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, connect=CONNECT_TIMEOUT),
            headers={"Accept": "application/json", "User-Agent": "stoker"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await patiently(lambda: self._request("GET", resource.path(namespace, name)))

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        items: list[Object] = []
        version = ""
        async for page in self._pages(resource, namespace, labels, fields):
            items += page["items"] or ()
            version = page["metadata"].get("resourceVersion", "")
        return items, version

    async def get_metadata(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Read the metadata of one object. Raises NotFoundError."""
        return await self._request("GET", resource.path(namespace, name), accept=AS_METADATA)

    async def list_metadata(self, resource: Resource, namespace: str | None, *, labels: str) -> tuple[Objects, str]:
        """Like `list`, but the metadata of the objects alone."""
        items: list[Object] = []
        version = ""
        async for page in self._pages(resource, namespace, labels, None, accept=AS_METADATA_LIST):
            items += page["items"] or ()
            version = page["metadata"].get("resourceVersion", "")
        return items, version

    async def watch_metadata(
        self, resource: Resource, namespace: str | None, *, labels: str, version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """The changes since a resource version: ADDED, MODIFIED, DELETED or BOOKMARK, with the object's metadata. It
        ends after WATCH_TIMEOUT seconds.

        Raises ApiError; one with the code 410 says that the version is too old, so that a list is needed.
        """
        query = {
            "watch": "1",
            "labelSelector": labels,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT),
        }
        path = resource.path(namespace)
        async with self._open("GET", path, query=query, accept=AS_METADATA, timeout=_endless()) as response:
            async for line in _lines(response.content):
                event: object = bounded_json.loads(line)
                if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
                    raise UnavailableError(f"WATCH {path}", code=None, reason="a line is no event")
                if event.get("type") == "ERROR":
                    status = event["object"]
                    raise error_of(f"WATCH {path}", int(status.get("code", 500)), json.dumps(status).encode())
                yield str(event.get("type")), event["object"]

    async def _pages(
        self,
        resource: Resource,
        namespace: str | None,
        labels: str | None,
        fields: str | None,
        *,
        accept: str | None = None,
    ) -> AsyncIterator[Object]:
        query = {"limit": str(CHUNK)}
        if labels is not None:
            query["labelSelector"] = labels
        if fields is not None:
            query["fieldSelector"] = fields
        while True:
            page = await patiently(lambda: self._request("GET", resource.path(namespace), query=query, accept=accept))
            yield page
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        # Unknown fields only cause warnings, because an older or newer server may know other fields.
        query = {"fieldValidation": "Warn"}
        return await self._request("POST", resource.path(namespace), query=query, body=body, warn=warn)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object:
        path = resource.path(namespace, name, subresource)
        return await self._request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        return await self._request("PUT", resource.path(namespace, name, subresource), body=body, timeout=timeout)

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str, resource_version: str | None = None
    ) -> None:
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        # Background, because a raw DELETE of a Job orphans its pods.
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        }
        await self._request("DELETE", resource.path(namespace, name), body=body)

    async def would_create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        """Ask how the API server would answer a creation, admission included; nothing is stored (dryRun=All). `warn`
        gets the server's warnings.
        """
        return await self._request("POST", resource.path(namespace), query={"dryRun": "All"}, body=body, warn=warn)

    async def read(self, path: str) -> Answer:
        """Read what is not an object, such as /version. Raises ApiError."""
        dates: list[str] = []
        content = await self._request("GET", path, dated=dates.append)
        return Answer(content=content, server_time=http_date(dates[0]))

    async def log(
        self, namespace: str, pod: str, *, container: str, since: datetime | None, limit: int, timeout: float
    ) -> bytes:
        """Read at most `limit` bytes of a container's log. Each line begins with its time; the oldest line comes first.

        The log begins at the second of `since`; None: at its start. `timeout` is in seconds. Raises ApiError, in
        particular InvalidError for a container that has not run.
        """
        query = {"container": container, "timestamps": "true", "limitBytes": str(limit)}
        if since is not None:
            query["sinceTime"] = rfc3339(since)
        path = PODS.path(namespace, pod, "log")
        return await self._exchange("GET", path, query=query, accept="text/plain, */*", limit=limit, timeout=timeout)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
        timeout: float | None = None,
        warn: Warn | None = None,
        dated: Callable[[str], object] | None = None,
    ) -> Object:
        content = await self._exchange(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=timeout,
            warn=warn,
            dated=dated,
        )
        try:
            answer: object = await parse(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UnavailableError(f"{method} {path}", code=None, reason="the answer is not JSON") from None
        return answer

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
        limit: int = -1,
        timeout: float | None = None,
        warn: Warn | None = None,
        dated: Callable[[str], object] | None = None,
    ) -> bytes:
        """Send a request and return the body of the response, at most `limit` bytes (-1: all). `dated` gets the header
        Date. Raises ApiError.
        """
        async with self._open(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=self._timeout(timeout),
        ) as response:
            if warn is not None:
                for header in response.headers.getall("Warning", []):
                    warn(warning_text(header))
            if dated is not None:
                dated(response.headers.get("Date", ""))
            return await response.read() if limit < 0 else await _at_most(response.content, limit)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give the response, whose body is still to be read. Raises ApiError for an error status and
        for a connection that fails while the body is read.
        """
        if self._session is None:
            msg = "the client is used outside its context"
            raise RuntimeError(msg)
        name = f"{method} {path}"
        headers = {} if accept is None else {"Accept": accept}
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            if token:
                headers["Authorization"] = token
            if body is not None:
                headers["Content-Type"] = content_type
            async with self._session.request(
                method,
                f"{self._server}{path}",
                params=query,
                data=None if body is None else _written(name, body),
                headers=headers,
                proxy=self._proxy,
                server_hostname=self._server_name,
                timeout=timeout,
            ) as response:
                if response.status >= 400:
                    wait = response.headers.get("Retry-After", "")
                    raise error_of(name, response.status, await response.read(), retry_after=wait)
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError, OSError, ConfigException) as error:
            raise UnavailableError(name, code=None, reason=type(error).__name__, answer=str(error)) from None

    @staticmethod
    def _timeout(total: float | None) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=REQUEST_TIMEOUT if total is None else total,
            connect=CONNECT_TIMEOUT if total is None else min(CONNECT_TIMEOUT, total),
        )


async def patiently(
    send: Callable[[], Awaitable[_T]], *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> _T:
    """Send a request, and again after each 429 when its Retry-After is over.

    The API server has not processed such a request, so it may be repeated, whatever it was. After PATIENCE the error is
    raised; its Retry-After is over then, too, so that a caller who tries again at once does not come too early.
    """
    waited = 0.0
    while True:
        try:
            return await send()
        except TooManyRequestsError as error:
            wait = min(error.retry_after, LONGEST_WAIT)
            await sleep(wait)
            waited += wait
            if waited >= PATIENCE:
                raise


def _endless() -> aiohttp.ClientTimeout:
    """Of a watch: as long as lines come."""
    return aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=WATCH_SILENCE)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, of whatever length: the stream's own iterator refuses long ones."""
    rest = b""
    async for chunk in stream.iter_any():
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield line


async def parse(content: bytes) -> Any:
    """Parse JSON of the API server, of any size and depth (bounded_json). Raises ValueError for invalid JSON."""
    if len(content) <= PARSED_AT_ONCE:
        return bounded_json.loads(content)
    return await asyncio.to_thread(bounded_json.loads, content)


def _written(request: str, body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except (RecursionError, ValueError, TypeError) as error:
        # The object itself can't be written, so a retry would fail in the same way.
        raise InvalidError(request, code=None, reason=f"the object can't be written as JSON: {error}") from None


async def _at_most(stream: aiohttp.StreamReader, limit: int) -> bytes:
    """Read a stream up to `limit` bytes, because the server may send more than was requested."""
    content = bytearray()
    while len(content) < limit and (chunk := await stream.read(limit - len(content))):
        content += chunk
    return bytes(content)


TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
"""Messages of etcd for an object that is too large. The API server passes them on with the status 500."""


def error_of(request: str, code: int, content: bytes, *, retry_after: str = "") -> ApiError:
    """The ApiError for a response with an error status. `content` need not be a Status: a proxy may have answered.
    `retry_after` is the header Retry-After.
    """
    try:
        status = bounded_json.loads(content)
        reason, answer = str(status["reason"]), str(status.get("message", ""))
        causes = tuple(
            ErrorCause(field=str(cause.get("field", "")), message=str(cause.get("message", "")))
            for cause in (status.get("details") or {}).get("causes") or ()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        reason, answer, causes = "", "", ()
    if code == 429:
        wait = max(float(retry_after) if re.fullmatch("[0-9]{1,9}", retry_after) else 0.0, RETRY_AFTER)
        return TooManyRequestsError(request, retry_after=wait, reason=reason or "no reason given", answer=answer)
    match code, reason:
        case 404, _:
            kind: type[ApiError] = NotFoundError
        case 409, "AlreadyExists":
            kind = AlreadyExistsError
        case 409, _:
            kind = ConflictError
        case ((401 | 403), _):
            kind = ForbiddenError
        case ((400 | 422), _):
            kind = InvalidError
        case _ if code == 413 or any(words in answer for words in TOO_LARGE):
            kind = TooLargeError
        case _ if code >= 500:
            kind = UnavailableError
        case _:
            kind = ApiError
    return kind(request, code=code, reason=reason or "no reason given", answer=answer, causes=causes)


def warning_text(header: str) -> str:
    """The text of a header `Warning: 299 - "text"` (RFC 7234, 5.5)."""
    _, _, rest = header.partition('"')
    return rest.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\")


async def find_credentials(*, kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """Find credentials as kubectl does; see Kubernetes.connect. Inside a pod the token is refreshed from its file.

    Raises CredentialsError.
    """
    configuration = Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG")
    inside = "KUBERNETES_SERVICE_HOST" in os.environ and path is None and context is None
    try:
        if inside:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            path = path or str(Path.home() / ".kube" / "config")
            if not _exists(path):
                msg = f"no credentials for a cluster: there is no kubeconfig {path}"
                raise CredentialsError(msg)
            await kubernetes_config.load_kube_config(
                config_file=path, context=context, client_configuration=configuration, persist_config=False
            )
    except ConfigException as error:
        where = "the pod's service account" if inside else f"kubeconfig {path}"
        msg = f"no credentials for a cluster in {where}: {error}"
        raise CredentialsError(msg) from error
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"{path} is not a kubeconfig: it has no clusters, users and contexts"
        raise CredentialsError(msg) from error
    except (OSError, ValueError, YAMLError) as error:
        msg = f"kubeconfig {path} can't be read: {error}"
        raise CredentialsError(msg) from error
    return configuration


async def default_namespace(*, kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace of the kubeconfig's context, otherwise `default`. Raises nothing: connecting reports a bad
    kubeconfig.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")

    def read() -> str:
        if not _exists(path):
            return "default"
        contexts, active = kubernetes_config.list_kube_config_contexts(path)
        chosen = active if context is None else next((one for one in contexts if one["name"] == context), {})
        return str(chosen["context"].get("namespace") or "default")

    try:
        return await asyncio.to_thread(read)
    except (ConfigException, OSError, KeyError, TypeError, AttributeError, YAMLError):
        return "default"


def _exists(kubeconfig: str) -> bool:
    """Whether one of the files exists. Checked here because the library would print its own message to the terminal."""
    return any(Path(path).expanduser().exists() for path in kubeconfig.split(os.pathsep) if path)
