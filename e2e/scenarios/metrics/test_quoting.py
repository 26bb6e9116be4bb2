"""No name or label ends a text of a query: a real Prometheus reads each as the one value that it is."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.scenarios.metrics.recorded import RecordedPrometheus
from stoker.adapters.prometheus.access import LabelMatcher
from stoker.adapters.prometheus.promql import Selectors, any_of

BACKSLASH = "\\"
TEXTS = (
    "bert-0",
    '"',
    "\\",
    '\\"',
    '"} or up{job="',
    "a\nb",
    "a\r\tb",
    "`",
    "'",
    "{}",
    "}",
    "$1 ${name}",
    "#",
    "a|b",
    ".*",
    "(a+)+$",
    "[",
    "\\Q.*",
    "\x00\x1b[2J",
    "é\U0001f600\u202e",
    "a" * 5000,
)


def queried(url: str, query: str) -> list[dict[str, str]]:
    """The labels of each row of an instant query. Raises urllib.error.HTTPError for one that can't be parsed."""
    body = urllib.parse.urlencode({"query": query}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=body, timeout=30) as answer:
        rows: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return [row["metric"] for row in rows]


NAMES = ("bert.0", "bertx0", "a|b", "a", "b", ".*", "(a+)+$", "[x]", "x", "^", "a\\b", "{2}", "aa")
"""Of pods with a sample each: as regular expressions some would match others."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a Prometheus that has a sample of each of NAMES."""
    samples = (f'held{{pod="{name.replace(BACKSLASH, 2 * BACKSLASH)}"}} 1 1760000000' for name in NAMES)
    lines = ["# TYPE held gauge", *samples, "# EOF"]
    with RecordedPrometheus(tmp_path_factory.mktemp("quoting"), lines) as prometheus:
        yield prometheus.url


def test_every_text_is_one_label_value(url: str) -> None:
    """absent() answers with the labels that a selector asks for."""
    for text in TEXTS:
        assert queried(url, f"absent({Selectors()('nothing', {'pod': text})})") == [{"pod": text}]
        believed = Selectors([LabelMatcher(label="job", operator="=", value=text)])
        assert queried(url, f"absent({believed('nothing', {'pod': 'a'})})") == [{"pod": "a", "job": text}]
        assert queried(url, Selectors()("nothing", {"pod": any_of([text, "x"])})) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_regular_expression_matches_itself_alone(url: str, name: str) -> None:
    query = f"last_over_time({Selectors()('held', {'pod': any_of([name])})}[60s] @ 1760000010)"
    assert [row["pod"] for row in queried(url, query)] == [name]
