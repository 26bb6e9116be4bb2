"""The wire below prometheus-api-client, with its holes closed.

As of 0.7.2 the client waits for ever by default, sends the query in the URL even by POST, drops the warnings by which
Prometheus says that an answer is partial, and parses with `json`, which holds the interpreter for half a second on
large answers. `Transport` stands where it expects a requests.Session and does these four things right: a deadline for
the whole exchange, a form in the body, `Rows` that carry the warnings through the client to its caller, and orjson,
which gets the samples of a range not as objects: the garbage collector would go through each of them again and again.
"""

import base64
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from stoker.adapters.http_date import http_date
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.findings.finding import single_line
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.readings import parsed
from stoker.telemetry.screen import MetricsUnavailable
from stoker.telemetry.series import FloatArray

CONNECT_SECONDS = 3.05
"""Seconds until the connection stands: a little over 3, the first retransmission of TCP."""
BODY_LIMIT = 128 * 1024 * 1024
"""bytes; the largest answer that the queries here ask for is some 50 MB."""
CHUNK = 256 * 1024
"""Bytes that are read at a time; the body's limit is checked after each."""
MAX_WORDS = 400
"""Characters of a server's error or warning that are repeated in logs and conditions."""

_SAMPLES, _SAMPLES_END = b'"values":[[', b"]]"
"""Around a row's samples, as servers write them. No string in JSON looks like that: its quotes are escaped."""
_LIMIT = re.compile(
    r"too many (samples|points|chunks|series)|maximum (resolution|number)|limit.{0,20}(exceeded|violated)"
    r"|exceed(s|ed) .{0,40}limit|err-mimir-max|-search\.max",
    re.IGNORECASE,
)
"""How Prometheus, Thanos, Mimir and VictoriaMetrics say that a query asks for more than they give."""


class Rows(list[dict[str, Any]]):
    """The rows of an answer, with what its envelope says of them. A range's row has its samples under `values`, as an
    array of shape (samples, 2): seconds since the epoch, and values.
    """

    def __init__(self, rows: list[dict[str, Any]], warnings: tuple[str, ...], server_time: datetime | None) -> None:
        super().__init__(rows)
        self.warnings = warnings
        self.server_time = server_time


class Reply:
    """What prometheus-api-client reads of a requests.Response."""

    status_code = 200

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def json(self) -> dict[str, Any]:
        return {"data": {"result": self._rows}}


class Transport:
    """A connection pool that prometheus-api-client takes for its session. Safe to use from several threads."""

    cert = None

    def __init__(self, access: PrometheusAccess) -> None:
        self.verify: bool | str = True
        self._access = access
        self._timeout = access.timeout.total_seconds()
        self._session = _session()
        self._certificates = _stamps(access)
        self._lock = threading.Lock()

    def mount(self, prefix: str, adapter: object) -> None:
        """The client's retries are not wanted: the next tick asks again, and a deadline is a deadline."""

    def close(self) -> None:
        self._session.close()

    def request(self, *, method: str, url: str, params: Mapping[str, Any], **_: object) -> Reply:
        """One query. Raises MetricsUnavailable for whatever isn't a whole answer of Prometheus."""
        deadline = time.monotonic() + self._timeout
        access = self._access
        verify = str(access.ca_file) if access.ca_file is not None else True
        cert = None if access.cert_file is None else str(access.cert_file)
        pair = (cert, str(access.key_file)) if cert is not None and access.key_file is not None else cert
        try:
            headers = {**access.headers, "Accept": "application/json", "Accept-Encoding": "gzip"}
            authorization = _authorization(access)
            if authorization is not None:
                headers["Authorization"] = authorization
            with self._current().request(
                method,
                url,
                data={**params, "timeout": f"{self._timeout:g}s"},
                headers=headers,
                verify=verify,
                cert=pair,
                timeout=(min(CONNECT_SECONDS, self._timeout), self._timeout),
                allow_redirects=False,
                stream=True,
            ) as response:
                body = bytearray()
                # One read of the socket at a time: a full chunk may never come from a server that trickles.
                while chunk := response.raw.read1(CHUNK, decode_content=True):
                    body += chunk
                    if len(body) > BODY_LIMIT:
                        raise _unavailable(f"the answer of {url} is larger than {BODY_LIMIT >> 20} MiB")
                    if time.monotonic() > deadline:
                        raise _unavailable(f"{url} did not answer within {self._timeout:g} s")
                return Reply(_rows(url, response.status_code, bytes(body), response.headers.get("Date")))
        except (requests.Timeout, ReadTimeoutError) as error:
            raise _unavailable(f"{url} did not answer within {self._timeout:g} s") from error
        except (requests.RequestException, HTTPError) as error:
            cause = _cause(error)
            said = str(cause) or type(cause).__name__
            if _may_want_a_certificate(cause) and url.startswith("https:") and access.cert_file is None:
                said += " (does it require a client certificate?)"
            raise _unavailable(f"{url} can't be reached: {said}") from error
        except PrometheusCredentialsError as error:
            raise _unavailable(f"{url} was not asked: {error}") from error
        except OSError as error:
            # requests checks that the files of certificates exist, and raises this itself.
            raise _unavailable(f"{url} was not asked: {error}") from error

    def _current(self) -> requests.Session:
        """The connections; new ones where a certificate has changed, for an open one keeps the old."""
        stamps = _stamps(self._access)
        with self._lock:
            if stamps != self._certificates:
                # Not closed: another thread may be asking; the pool closes its connections with its last user.
                self._session, self._certificates = _session(), stamps
            return self._session


class LimitExceeded(MetricsUnavailable):
    """The server refuses the query for its size: a coarser one may pass."""


class PrometheusCredentialsError(Exception):
    """A file that lets us in can't be used; the message names it."""


def _may_want_a_certificate(cause: BaseException) -> bool:
    """Whether a server that wants a client certificate ends a connection so: by an alert, which may be overtaken by the
    end of the connection.
    """
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return "CERTIFICATE_REQUIRED" in (cause.reason or "")
    return isinstance(cause, ConnectionError | ssl.SSLEOFError) and not isinstance(cause, ConnectionRefusedError)


def _session() -> requests.Session:
    session = requests.Session()
    # A netrc or a proxy of the environment must not decide who gets the credentials.
    session.trust_env = False
    return session


def _stamps(access: PrometheusAccess) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes when a certificate does; a file that is missing has none."""
    found: list[tuple[int, int, int] | None] = []
    for path in (access.ca_file, access.cert_file, access.key_file):
        try:
            stat = path.stat() if path is not None else None
        except OSError:
            stat = None
        found.append(None if stat is None else (stat.st_mtime_ns, stat.st_ino, stat.st_size))
    return tuple(found)


def _authorization(access: PrometheusAccess) -> str | None:
    """Read anew for each request: the kubelet rotates tokens, people passwords."""
    if access.token_file is not None:
        token = _secret(access.token_file, "token")
        if not token.isascii():
            raise PrometheusCredentialsError(
                f"{access.token_file} holds no token: it has characters that a header can't carry"
            )
        return f"Bearer {token}"
    if access.username is not None and access.password_file is not None:
        pair = f"{access.username}:{_secret(access.password_file, 'password')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    return None


def _secret(path: Path, what: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PrometheusCredentialsError(f"the {what} in {path} can't be read: {error}") from error
    if not text or not text.isprintable():
        raise PrometheusCredentialsError(f"{path} holds no {what}: it must be one line of text")
    return text


def _rows(url: str, status: int, body: bytes, date: str | None) -> Rows:
    rest, samples = _without_samples(body)
    try:
        envelope = orjson.loads(rest)
    except orjson.JSONDecodeError:
        envelope = None
    if status in (401, 403):
        raise _unavailable(f"{url} answered {status}: it refuses these credentials")
    if not isinstance(envelope, dict):
        raise _unavailable(f"{url} answered {status} with something other than a Prometheus response")
    if status != 200 or envelope.get("status") != "success":
        kind, error = envelope.get("errorType", "error"), str(envelope.get("error", "no reason given"))
        words = _words(f"{kind}: {error}")
        message = f"{url} answered {status}, {words}"
        if _LIMIT.search(error):
            raise LimitExceeded(UnknownReason.PROMETHEUS_UNAVAILABLE, message)
        raise _unavailable(message)
    rows = envelope["data"].get("result") if isinstance(envelope.get("data"), dict) else None
    if not isinstance(rows, list):
        raise _unavailable(f"{url} answered without a result")
    try:
        for row in rows:
            if "values" in row:
                row["values"] = _parsed(row["values"], samples)
    except (IndexError, TypeError, ValueError) as error:
        raise _unavailable(f"{url} answered with samples that can't be read: {single_line(str(error))}") from error
    # `infos` only remark on the query's style, and before 2.54 they came with the warnings; warnings say that something
    # could not be read. VictoriaMetrics has a field for that.
    said = map(str, envelope.get("warnings") or ())
    warnings = [_words(text) for text in said if not text.startswith("PromQL info:")]
    if envelope.get("isPartial") is True:
        warnings.append("isPartial: a storage node did not answer")
    return Rows(rows, tuple(warnings), http_date(date))


def _without_samples(body: bytes) -> tuple[bytes, list[bytes]]:
    """The JSON with the number of a row's samples in their place, and the samples of all rows."""
    first, *others = body.split(_SAMPLES)
    samples: list[bytes] = []
    rest = [first]
    for number, part in enumerate(others):
        written, _, after = part.partition(_SAMPLES_END)
        samples.append(written)
        rest.append(b'"values":%d%s' % (number, after))
    return b"".join(rest), samples


def _parsed(values: object, samples: Sequence[bytes]) -> FloatArray:
    """A row's samples: those of that number, or those of a server that writes JSON with spaces, or that has none."""
    return parsed(samples[values] if isinstance(values, int) else orjson.dumps(values))


def _words(text: str) -> str:
    """What a server says, on one line that a terminal and a log can hold, without its middle where it is long:
    VictoriaMetrics repeats the query, then says why.
    """
    half = MAX_WORDS // 2
    short = text if len(text) <= MAX_WORDS else f"{text[:half]} ... {text[-half:]}"
    return single_line(short)


def _cause(error: BaseException) -> BaseException:
    """The innermost reason: what is around it is the library's own story."""
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__ or next((a for a in seen.args if isinstance(a, BaseException)), None)
        if inner is None:
            return seen
        seen = inner


def _unavailable(message: str) -> MetricsUnavailable:
    return MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, message)
