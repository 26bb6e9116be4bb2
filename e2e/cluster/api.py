"""A small blocking client of the Kubernetes API, for tests: raw paths, raw JSON, warnings and refusals as they come."""

import base64
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer below 400: `body` is decoded JSON (text where it is not JSON), `warnings` those for users."""

    status: int
    body: Any
    warnings: list[str] = field(default_factory=list)


class ApiError(Exception):
    """An answer of 400 and above.

    `body` is the decoded Status (text where it is not JSON); `reason` and `message` are the Status' own.
    """

    def __init__(self, method: str, path: str, status: int, body: Any, warnings: list[str]) -> None:
        self.status, self.body, self.warnings = status, body, warnings
        self.reason: str = body.get("reason", "") if isinstance(body, dict) else ""
        self.message: str = body.get("message", "") if isinstance(body, dict) else str(body)
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class ApiClient:
    """Requests as the user of a kubeconfig's current context; one kept-alive connection for each thread."""

    def __init__(self, kubeconfig: Path, *, timeout: float = 30.0) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        current = config["current-context"]
        context = next(entry["context"] for entry in config["contexts"] if entry["name"] == current)
        cluster = next(entry["cluster"] for entry in config["clusters"] if entry["name"] == context["cluster"])
        user = next(entry["user"] for entry in config["users"] if entry["name"] == context["user"])
        server = urlsplit(cluster["server"])
        self._host, self._port = server.hostname or "127.0.0.1", server.port or 443
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "stoker-e2e"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        ca = _pem(cluster, "certificate-authority")
        self._ssl = ssl.create_default_context(cadata=ca)
        if "client-certificate" in user or "client-certificate-data" in user:
            self._load_client_certificate(kubeconfig, _pem(user, "client-certificate"), _pem(user, "client-key"))
        self._local = threading.local()
        self._open: list[http.client.HTTPSConnection] = []

    def _load_client_certificate(self, kubeconfig: Path, certificate: str, key: str) -> None:
        # ssl takes files only; the pair lies beside the kubeconfig, as private as that
        pair = kubeconfig.with_name(kubeconfig.name + ".client.pem")
        if not pair.exists() or pair.read_text() != certificate + key:
            pair.touch(mode=0o600)
            pair.write_text(certificate + key)
        self._ssl.load_cert_chain(pair)

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Response:
        """One request. Raises ApiError for 4xx and 5xx, OSError when the server can't be reached."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": content_type} if data is not None else {})
        for attempt in (1, 2):
            fresh = getattr(self._local, "connection", None) is None
            connection = self._connection()
            try:
                connection.request(method, path, body=data, headers=headers)
                answer = connection.getresponse()
                text = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                # a kept-alive connection that the server had closed meanwhile: the request was not served
                self._drop()
                if fresh or attempt == 2:
                    raise
            except BaseException:
                self._drop()
                raise
        decoded = _decode(text, answer.headers.get_content_type())
        warnings = [_warning_text(header) for header in answer.headers.get_all("Warning") or []]
        if answer.status >= 400:
            raise ApiError(method, path, answer.status, decoded, warnings)
        return Response(status=answer.status, body=decoded, warnings=warnings)

    def get(self, path: str) -> Any:
        """The body of a GET."""
        return self.request("GET", path).body

    def watch(self, path: str, *, timeout: float = 300.0) -> Iterator[dict[str, Any]]:
        """Events of a watch (`path` with its query), until the server ends it after `timeout` seconds.

        Raises ApiError, also for an ERROR event such as 410 Gone, and OSError when the connection breaks.
        """
        path = f"{path}{'&' if '?' in path else '?'}watch=true&allowWatchBookmarks=true&timeoutSeconds={timeout:.0f}"
        connection = self._new_connection(timeout + 10)
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError("GET", path, answer.status, _decode(answer.read(), "application/json"), [])
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError("GET", path, event["object"].get("code", 500), event["object"], [])
                yield event
        finally:
            connection.close()

    @contextlib.contextmanager
    def unfinished(self, path: str) -> Iterator[None]:
        """A POST whose body does not come: the API server is occupied with it meanwhile, a minute at the most."""
        connection = self._new_connection(self._timeout)
        try:
            connection.putrequest("POST", path)
            for name, value in {**self._headers, "Content-Type": "application/json", "Content-Length": "2"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            yield
        finally:
            connection.close()

    def close(self) -> None:
        """Close all threads' connections; the next request opens a new one."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = threading.local()

    def _drop(self) -> None:
        """Close this thread's connection."""
        connection = self._local.connection
        connection.close()
        self._open.remove(connection)
        self._local.connection = None

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._new_connection(self._timeout)
            self._open.append(connection)
        return connection

    def _new_connection(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._ssl)


def kubeconfig_text(
    *, server: str, ca: Path, certificate: Path | None = None, key: Path | None = None, token: str | None = None
) -> str:
    """A kubeconfig for one user: with a client certificate and its key, or with a token."""
    user: dict[str, str] = {"token": token} if token is not None else {}
    if certificate is not None:
        user |= {"client-certificate": str(certificate), "client-key": str(key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    return yaml.safe_dump(config, sort_keys=False)


def _pem(entry: dict[str, str], key: str) -> str:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"]).decode()
    return Path(entry[key]).read_text()


def _decode(text: bytes, content_type: str) -> Any:
    if content_type == "application/json":
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return text.decode(errors="replace")


def _warning_text(header: str) -> str:
    """The text of `299 - "text"`, unquoted."""
    quoted = header.split(" ", 2)[-1]
    return quoted[1:-1].replace('\\"', '"').replace("\\\\", "\\") if quoted.startswith('"') else quoted
