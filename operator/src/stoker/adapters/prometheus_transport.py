"""The wire below prometheus-api-client, with its holes closed.

As of 0.7.2 the client waits for ever by default, sends the query in the URL even by POST, drops the warnings by which
Prometheus says that an answer is partial, and parses with `json`, which holds the interpreter for half a second on
large answers. `Transport` stands where it expects a requests.Session and does these four things right: a deadline for
the whole exchange, a form in the body, `Rows` that carry the warnings through the client to its caller, and orjson.
"""

import time
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson
import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from stoker.models.screen import MetricsUnavailable
from stoker.models.vocabulary import UnknownReason

CONNECT_SECONDS = 3.05
BODY_LIMIT = 128 * 1024 * 1024
"""bytes; the largest answer that the queries here ask for is some 50 MB."""
CHUNK = 256 * 1024


class Rows(list[dict[str, Any]]):
    """The rows of an answer, with what its envelope says of them."""

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

    def __init__(self, *, timeout: float, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        """`timeout` is in seconds, for one whole exchange.

        The token is read anew for each request: the kubelet rotates it.
        """
        self.verify: bool | str = str(ca_file) if ca_file is not None else True
        self._timeout = timeout
        self._token_file = token_file
        self._session = requests.Session()
        # A netrc or a proxy of the environment must not decide who gets the token.
        self._session.trust_env = False

    def mount(self, prefix: str, adapter: object) -> None:
        """The client's retries are not wanted: the next tick asks again, and a deadline is a deadline."""

    def close(self) -> None:
        self._session.close()

    def request(self, *, method: str, url: str, params: Mapping[str, Any], **_: object) -> Reply:
        """One query. Raises MetricsUnavailable for whatever isn't a whole answer of Prometheus."""
        deadline = time.monotonic() + self._timeout
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        try:
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}"
            with self._session.request(
                method,
                url,
                data={**params, "timeout": f"{self._timeout:g}s"},
                headers=headers,
                verify=self.verify,
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
            raise _unavailable(f"{url} can't be reached: {_cause(error)}") from error
        except OSError as error:
            raise _unavailable(f"the token for {url} can't be read: {error}") from error


def _rows(url: str, status: int, body: bytes, date: str | None) -> Rows:
    try:
        envelope = orjson.loads(body)
    except orjson.JSONDecodeError:
        envelope = None
    if not isinstance(envelope, dict):
        raise _unavailable(f"{url} answered {status} with something that isn't Prometheus'")
    if status != 200 or envelope.get("status") != "success":
        kind, error = envelope.get("errorType", "error"), envelope.get("error", "no reason given")
        raise _unavailable(f"{url} answered {status}, {kind}: {error}")
    rows = envelope["data"].get("result") if isinstance(envelope.get("data"), dict) else None
    if not isinstance(rows, list):
        raise _unavailable(f"{url} answered without a result")
    # `infos` only remark on the query's style; `warnings` say that something could not be read.
    return Rows(rows, tuple(map(str, envelope.get("warnings") or ())), _date(date))


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


def _cause(error: BaseException) -> str:
    """The innermost reason: what is around it is the library's own story."""
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__ or next((a for a in seen.args if isinstance(a, BaseException)), None)
        if inner is None:
            return str(seen) or type(seen).__name__
        seen = inner


def _unavailable(message: str) -> MetricsUnavailable:
    return MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, message)
