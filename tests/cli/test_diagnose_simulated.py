"""Whatever a simulated job does, its answer is as published, and its picture fits the screen."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from simulator import CASES, Tier, record, simulate
from stoker.adapters.terminal import Terminal
from stoker.findings.vocabulary import UnknownReason
from stoker.inspection import json as as_json
from stoker.inspection import text as as_text
from stoker.inspection.look import Looker, ReadPeriod
from stoker.inspection.picture import MAX_COLUMNS, MIN_COLUMNS, room
from stoker.inspection.workload import Workload
from stoker.telemetry.screen import MetricsUnavailable, Screen, ScreenRequest
from stoker.telemetry.series import JobFacts, JobSeries
from tests.lint.test_formats import strict

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/diagnose-v1.json").read_text())
SEED = 90_210
TERMINALS = (Terminal(width=110), Terminal(width=60, unicode=False), Terminal(width=200, colour=True))


@dataclass(frozen=True)
class Recorded:
    """A metrics' source with one job's series; it answers no screen."""

    kept: JobSeries

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        return self.kept

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> Sequence[Screen]:
        raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "no answer")


@pytest.mark.parametrize("case", sorted(CASES)[::9])
@pytest.mark.parametrize("tier", [Tier.UTIL_ONLY, Tier.DEFAULTS])
async def test_every_answer_is_as_published(case: str, tier: Tier) -> None:
    job = simulate(case, SEED)
    facts, series, now = record(job, tier)
    for screen in TERMINALS:
        looker = Looker(source=Recorded(series), period=ReadPeriod(now=now), columns=room(screen))
        (looked,) = await looker.look_at([Workload(facts=facts, static_findings=tuple(job.static_findings))])
        assert looked.error is None
        shown = as_text.render([looked], screen).splitlines()
        assert looked.picture is not None
        assert MIN_COLUMNS <= looked.picture.columns <= MAX_COLUMNS
        if not screen.colour:
            too_wide = [line for line in shown if len(line) > screen.width and "https://" not in line]
            assert too_wide == []  # an address is never broken
    answer = json.loads(as_json.render([looked]))
    Draft202012Validator(strict(SCHEMA)).validate(answer)
    assert answer["jobs"][0]["reclaim"]["eligible"] is False  # no screen, no reclaim


async def test_the_answer_shows_how_every_cause_was_weighed() -> None:
    job = simulate("staged-samples", SEED)
    facts, series, now = record(job, Tier.DEFAULTS)
    looker = Looker(source=Recorded(series), period=ReadPeriod(now=now), columns=room(TERMINALS[0]))
    (looked,) = await looker.look_at([Workload(facts=facts, static_findings=())])
    (finding,) = json.loads(as_json.render([looked]))["jobs"][0]["findings"]
    weighed = finding["weighedCauses"]
    assert weighed[0]["category"] == finding["category"] == "InefficientHostGPUTransfer"
    assert "copied to each GPU" in weighed[0]["evidence"]
    assert [one["share"] for one in weighed] == sorted((one["share"] for one in weighed), reverse=True)
    assert sum(one["share"] for one in weighed) <= 1.01
