"""What can't work when Prometheus is reached is refused by the field's name, before anything is asked."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.adapters.prometheus.access import MAX_MATCHER, LabelMatcher, PrometheusAccess

FILE = Path("/etc/secret")
HTTPS = "https://prometheus"


@pytest.mark.parametrize("url", ["http://prometheus:9090", "https://[::1]:9090/", "https://mimir/prometheus"])
def test_an_address_with_or_without_a_path_is_taken(url: str) -> None:
    assert PrometheusAccess(url=url).url == url


@pytest.mark.parametrize(
    "given, said",
    [
        ({"url": "prometheus:9090"}, "url"),
        ({"url": "ftp://prometheus"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://prometheus:port"}, "url"),
        ({"url": "http://prometheus/?token=secret"}, "more than a path"),
        ({"url": "https://user:secret@prometheus"}, "password_file"),
        ({"url": "https://user:s:secret@prometheus"}, "password_file"),
        ({"url": "user:secret@prometheus:9090"}, "password_file"),
        ({"url": "https://user:secret@[::1"}, "password_file"),
        ({"token_file": FILE, "username": "stoker", "password_file": FILE}, "give one"),
        ({"username": "stoker"}, "password_file"),
        ({"password_file": FILE}, "username"),
        ({"username": "a:b", "password_file": FILE}, "colon"),
        ({"key_file": FILE}, "cert_file"),
        ({"url": "http://prometheus", "ca_file": FILE}, "https"),
        ({"url": "http://prometheus", "cert_file": FILE}, "https"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"metric_prefix": "1st"}, "metric_prefix"),
        ({"headers": {"X Scope": "a"}}, "headers"),
        ({"headers": {"authorization": "Bearer a"}}, "headers"),
        ({"headers": {"X-Scope-OrgID": "a\r\nHost: b"}}, "headers"),
    ],
)
def test_what_can_not_work_is_refused_by_its_field(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        PrometheusAccess(**{"url": HTTPS} | given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text, read",
    [
        ('job="dcgm-exporter"', ("job", "=", "dcgm-exporter")),
        ("job=dcgm-exporter", ("job", "=", "dcgm-exporter")),
        (' cluster=~"a|b" ', ("cluster", "=~", "a|b")),
        ('job!=""', ("job", "!=", "")),
        ("job!~tenant/.*", ("job", "!~", "tenant/.*")),
        ('job="a=b"', ("job", "=", "a=b")),
    ],
)
def test_a_label_matcher_is_written_as_in_promql(text: str, read: tuple[str, str, str]) -> None:
    matcher = LabelMatcher.parse(text)
    assert (matcher.label, matcher.operator, matcher.value) == read


@pytest.mark.parametrize(
    "text",
    [
        *("", "job", "1job=a", 'job="a"b"', '{job="a"}', 'job="a",cluster="b"', '__name__="up"', "job=a\nb"),
        "job=" + "a" * (MAX_MATCHER + 1),
    ],
)
def test_what_is_no_label_matcher_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"matcher|quotation|names|characters"):
        LabelMatcher.parse(text)
