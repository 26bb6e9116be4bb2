"""Whatever is asked of Prometheus, no series is read that the label matchers do not believe."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.prometheus.access import LabelMatcher, PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection
from stoker.adapters.prometheus.metric_profile import Factors, profile_of, profiles
from stoker.adapters.prometheus.past import PrometheusPast
from stoker.adapters.prometheus.promql import ORIGIN, Selectors
from stoker.adapters.prometheus.screen import Screening
from stoker.adapters.prometheus.series import SeriesReader
from stoker.adapters.prometheus.transport import Rows
from stoker.adapters.prometheus.usage import PrometheusUsage
from stoker.telemetry.past import JobOutline, PastPod
from stoker.telemetry.screen import ScreenRequest
from stoker.telemetry.series import JobFacts, PodFacts
from stoker.telemetry.usage import JobIdentity

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MATCHERS = (LabelMatcher.parse('believed=~"dcgm|kubelet"'),)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
EXPORTED = "|".join(metric.name for name in profiles() for metric in profile_of(name).metrics)
METRIC = re.compile(rf"\b(?:{EXPORTED}|container_\w+|stoker_dljob_\w+|stoker_controller_\w+)\b")
UTIL, ENERGY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def test_a_selector_has_the_matchers_beside_its_own_labels() -> None:
    select = Selectors(MATCHERS)
    assert select("up") == 'up{believed=~"dcgm|kubelet"}'
    assert select("up", {"pod": "a"}) == 'up{pod="a",believed=~"dcgm|kubelet"}'
    hostile = Selectors([LabelMatcher(label="job", operator="=", value='a"} or up{x="')])
    assert hostile("up") == 'up{job="a\\"} or up{x=\\""}'


class Recorder:
    """A PrometheusConnection that remembers what is asked, and has rows for the first instant requests."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.selector = Selectors(MATCHERS)
        self.answers = list(answers)
        self.asked: list[str] = []

    async def instant(self, query: str, now: datetime) -> Rows:
        self.asked.append(query)
        return Rows(self.answers.pop(0) if self.answers else [], (), now)

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        del start, end, step
        self.asked.append(query)
        return Rows([], (), NOW)

    async def off_loop(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def unbelieving(self) -> list[str]:
        """Every selector of every query that lacks the matcher."""
        found: list[str] = []
        for query in self.asked:
            bare = STRING.sub('""', query)
            for metric in METRIC.finditer(bare):
                selected = re.match(r"\{[^}]*\}", bare[metric.end() :])
                if selected is None or 'believed=~""' not in selected[0]:
                    found.append(bare[metric.start() : metric.end() + 60])
        return found


def row(origin: str, value: str, **labels: str) -> dict[str, Any]:
    own = {"UUID": "GPU-1", "gpu": "0", "namespace": "team", "pod": "bert-0", "modelName": "NVIDIA H200", **labels}
    return {"metric": {ORIGIN: origin, **own}, "value": [NOW.timestamp(), value]}


@pytest.mark.parametrize("exporter", ["nvidia", "amd"])
async def test_a_screen_with_all_its_queries(exporter: str) -> None:
    summary = [row(UTIL, "0") | {"metric": {ORIGIN: UTIL, "namespace": "team", "pod": "bert-0"}}]
    told = [(f"{UTIL}/3600", "0"), ("coverage/3600", "100"), ("gapless/3600", "60"), (f"low/3600/{ENERGY}", "8e4")]
    close = [row(origin, value, gpu_id=origin) for origin, value in [*told, (f"last/{UTIL}", str(NOW.timestamp()))]]
    # A second exporter, which knows no pods.
    close.append({"metric": {ORIGIN: f"last/{UTIL}", "UUID": "GPU-1"}, "value": [0, str(NOW.timestamp())]})
    connection: Any = Recorder(summary, close) if exporter == "nvidia" else Recorder()
    screening = Screening(connection, profile_of(exporter), Factors(), resolution=timedelta(minutes=1))
    await screening.read([ScreenRequest(pods=(("team", "bert-0"),), window=HOUR)], NOW)
    # Summary, detailed check, the second exporter, and since when.
    assert len(connection.asked) == (4 if exporter == "nvidia" else 1)
    assert connection.unbelieving() == []


async def test_an_examination() -> None:
    connection: Any = Recorder()
    reader = SeriesReader(connection, profile_of("nvidia"), Factors(), resolution=timedelta(minutes=1))
    pod = PodFacts(name="bert-0", uid="u", rank=0, gpus=1, started_at=NOW - HOUR)
    facts = JobFacts(namespace="team", name="bert", uid="j", nodes=1, gpus_per_node=1, pods=(pod,))
    await reader.read(facts, NOW - HOUR, NOW, timedelta(seconds=30))
    assert len(connection.asked) == 2
    assert connection.unbelieving() == []


async def test_the_past_and_the_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    for name in ("range", "instant", "off_loop"):
        monkeypatch.setattr(PrometheusConnection, name, getattr(recorder, name))
    access = PrometheusAccess(url="http://127.0.0.1:9", matchers=MATCHERS)
    async with PrometheusPast(access) as past:
        await past.outlines(NOW - timedelta(days=2), NOW)
        identity = JobIdentity(
            uid="j", namespace="team", name="bert", job_type="", owner="", team="", product="", priority="", gpus=1
        )
        pods = (PastPod(name="bert-0-abcde", rank=0, first_seen=NOW - HOUR, last_seen=NOW),)
        outline = JobOutline(
            identity=identity, held=None, peak=None, used=None, sampled=None, pods=pods  # type: ignore[arg-type]  # not read
        )  # fmt: skip
        await past.job(outline, NOW - HOUR, NOW, timedelta(minutes=1))
    async with PrometheusUsage(access) as usage:
        await usage.read(NOW - timedelta(days=1), NOW)
    assert len(recorder.asked) > 10
    assert recorder.unbelieving() == []
