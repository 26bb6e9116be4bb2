"""How a Prometheus, or what speaks its API, is reached, and as whom."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

QUERY_TIMEOUT = timedelta(seconds=6)
"""Of one query. A screen asks at most six, and the controller looks each 30 s."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110, "token")."""
_MATCHER = re.compile(r"(?P<label>[a-zA-Z_][a-zA-Z0-9_]*)(?P<operator>=~|!~|!=|=)(?P<value>.*)", re.DOTALL)
MAX_MATCHER = 1024
"""Characters: each query has the matchers once for each of some twenty metrics."""
_OURS = frozenset({"accept", "accept-encoding", "authorization", "content-length", "content-type", "host"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatcher:
    """What a label of every series that is read must be, as PromQL has it: `operator` is =, !=, =~ or !~."""

    label: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `job="dcgm-exporter"` or `job=dcgm-exporter`; within the quotes nothing is escaped.

        Raises ValueError.
        """
        found = _MATCHER.fullmatch(text.strip())
        if found is None:
            raise ValueError(f'{text!r} is not a label matcher such as job="dcgm-exporter" or cluster=~"a|b"')
        label, operator, value = found["label"], found["operator"], found["value"]
        if label == "__name__":
            raise ValueError(f"{text!r}: it must not select metric names")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if '"' in value or not value.isprintable():
            raise ValueError(f"{text!r}: the value has a quotation mark or a character that can't be printed")
        if len(value) > MAX_MATCHER:
            raise ValueError(f"{text!r:.80}...: the value is longer than {MAX_MATCHER} characters")
        return cls(label=label, operator=operator, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAccess:
    """Where metrics are, which exporter's they are, and how to be let in.

    Secrets are files, read anew when they change, so that rotated ones are taken up. Raises ValueError for a
    combination that can't work; the message names the field.
    """

    url: str
    """http or https, with the path under which the API's `/api/v1` is, if any (Mimir: `/prometheus`)."""
    profile: str = "nvidia"
    """Names and units of the GPU metrics: a name in metric_profiles.toml."""
    metric_prefix: str = ""
    """What the exporter was configured to put before every metric's name."""
    matchers: tuple[LabelMatcher, ...] = ()
    """Of every series in every query. Whoever can have something scraped can publish samples under any job's name: only
    these series are believed.
    """
    token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    """PEM authorities that sign the server's certificate, in place of the system's."""
    cert_file: Path | None = None
    """Our own certificate for mutual TLS, PEM, and its key beside it or in `key_file`."""
    key_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with each query, such as the tenant's `X-Scope-OrgID`. Not for secrets."""
    timeout: timedelta = QUERY_TIMEOUT

    def __post_init__(self) -> None:
        if "@" in self.url:
            # Before anything else, so that no message repeats it.
            raise ValueError("url: a password in an address ends up in logs; give username and password_file")
        try:
            address = urlsplit(self.url)
            host, _ = address.hostname, address.port
        except ValueError as error:
            raise ValueError(f"url: {self.url!r} is not an address: {error}") from None
        if address.scheme not in ("http", "https") or not host:
            raise ValueError(f"url: {self.url!r} is not an address such as http://prometheus.monitoring.svc:9090")
        if address.query or address.fragment:
            raise ValueError("url: has more than a path; the query is added to it")
        if self.token_file is not None and self.username is not None:
            raise ValueError("token_file and username cannot be combined; give one")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and ":" in self.username:
            raise ValueError(f"username: {self.username!r} has a colon, which basic authentication can't send")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is the key of a cert_file, which is missing")
        if address.scheme == "http" and (self.cert_file or self.ca_file):
            raise ValueError("url: ca_file and cert_file need https")
        if self.timeout <= timedelta(0):
            raise ValueError("timeout: must be longer than 0s")
        if self.metric_prefix and not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", self.metric_prefix):
            raise ValueError(f"metric_prefix: {self.metric_prefix!r} can't begin a metric's name")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"headers: {name!r} is not a header's name")
            if name.lower() in _OURS:
                raise ValueError(f"headers: {name} is set by the client itself")
            if not value.isprintable() or not value.isascii() or value != value.strip():
                raise ValueError(f"headers: the value of {name} has characters that a header can't carry")
