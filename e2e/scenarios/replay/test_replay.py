"""`stoker replay` on a real Prometheus: what is known to have happened, against what it says would have followed."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from e2e.scenarios.metrics.recorded import RecordedPrometheus
from e2e.scenarios.replay.cluster_past import PastJob, pause, record, work_until
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.past import PrometheusPast
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.cli import stoker
from stoker.diagnosis.idleness import idleness, screen_request
from stoker.findings.diagnosis import IdlenessState
from stoker.findings.vocabulary import UnknownReason
from stoker.replay.screens import Screens
from stoker.telemetry.screen import ScreenRequest

END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/replay-v1.json").read_text())
NEAR = 0.4
"""GPU-hours: a minute or two of four GPUs, at a reclaim, and at an end, which the last sample outlasts."""
POLICY = """
apiVersion: stoker.dev/v1alpha1
kind: UtilizationPolicy
metadata: {name: draft}
spec:
  namespaceSelector: {}
  reclaim: {mode: Suspend, maxGPUPercentPerWindow: 50, trainingWithoutVolume: true}
"""
"""It accepts that training jobs write to no volume: which they had was not recorded."""
CAUTIOUS = POLICY.replace(", trainingWithoutVolume: true", "")
"""By default what writes to no volume is only observed."""
JOBS = (
    # worked for eight hours, was forgotten, and was deleted two hours ago
    PastJob(name="forgotten", gpus=4, start=20, end=2, utilization=work_until(12)),
    PastJob(name="steady", gpus=4, start=30, end=0, utilization=lambda _: 80.0, owner="jonas"),
    # rests for five hours, and goes on
    PastJob(name="back", gpus=2, start=22, end=0, utilization=pause(15, 10)),
    # goes on within the warning's grace
    PastJob(name="saved", gpus=2, start=22, end=0, utilization=pause(15, 13.9)),
    # its GPUs rest, and it uploads
    PastJob(name="upload", gpus=2, start=20, end=0, utilization=work_until(12), sends=5e6),
    PastJob(name="notebook", gpus=1, start=20, end=0, utilization=work_until(19.9), job_type="Interactive"),
    # was not sampled while it rested
    PastJob(name="blind", gpus=2, start=20, end=0, utilization=lambda age: 90.0 if age > 12 else None),
    # copies to its GPUs all the time
    PastJob(
        name="streams",
        gpus=1,
        start=20,
        end=0,
        utilization=work_until(18.5),
        also=(("DCGM_FI_PROF_PCIE_RX_BYTES", lambda _: 2e9), ("DCGM_FI_DEV_POWER_USAGE", lambda _: 90.0)),
    ),
    # some of its samples are no values
    PastJob(
        name="odd",
        gpus=1,
        start=20,
        end=0,
        utilization=lambda age: 90.0 if age > 17 else math.nan if age % 1 < 0.1 else 0.0,
    ),
    # shares its GPU
    PastJob(name="lends", gpus=1, start=20, end=0, utilization=work_until(16), lends=True),
)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RecordedPrometheus(tmp_path_factory.mktemp("prometheus"), record(END, JOBS, hours=32).lines()) as server:
        yield server.url


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture(scope="module")
def document(prometheus: str, policy: Path) -> dict[str, Any]:
    return replay(prometheus, policy)


def run(url: str, policy: Path, *arguments: str) -> Result:
    period = ["--since", (END - timedelta(days=1)).isoformat(), "--to", END.isoformat()]
    options = ["--prometheus", url, "--policy", str(policy), *period, *arguments]
    return CliRunner().invoke(stoker, ["replay", *options], catch_exceptions=False)


def replay(url: str, policy: Path, *arguments: str) -> dict[str, Any]:
    result = run(url, policy, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    return document


def test_a_forgotten_job_is_reclaimed_and_one_that_worked_again_is_a_regret(document: dict[str, Any]) -> None:
    reclaims = {one["job"]["name"]: one for one in document["reclaims"]}
    assert set(reclaims) == {"forgotten", "back"}
    forgotten, back = reclaims["forgotten"], reclaims["back"]
    assert forgotten["rule"] == "unreleased-job"
    assert forgotten["gpuHoursGivenBack"] == pytest.approx(4 * (12 - 1.25 - 2), abs=NEAR)
    assert forgotten["returnedAt"] is None
    assert back["gpuHoursGivenBack"] == pytest.approx(2 * (5 - 1.25), abs=NEAR)
    assert back["returnedAfterSeconds"] == pytest.approx(3600 * (5 - 1.25), abs=90)
    assert back["gpuHoursInterrupted"] == pytest.approx(2 * 10, abs=NEAR)
    assert document["total"]["regrets"] == 1
    assert document["total"]["gpuHoursGivenBack"] == pytest.approx(42.5, abs=2 * NEAR)
    assert document["total"]["jobsSeen"] == len(JOBS)


def test_a_job_that_went_on_within_the_grace_was_saved_by_its_warning(document: dict[str, Any]) -> None:
    (saved,) = (one for one in document["warnings"] if one["job"]["name"] == "saved")
    assert saved["endedBy"] == "all-idle"
    assert document["total"]["saved"] == 1


def test_what_was_left_alone_is_counted_by_the_condition_that_did_not_hold(document: dict[str, Any]) -> None:
    held = {line["gate"]: line["gpuHours"] for line in document["heldBack"]}
    assert held["cause"] == pytest.approx(2 * 11, abs=NEAR)
    assert held["nothing-lost"] == pytest.approx(18.4, abs=NEAR)


def test_nothing_is_reclaimed_where_neither_the_policy_nor_an_option_says_that_no_result_is_lost(
    prometheus: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(CAUTIOUS)
    document = replay(prometheus, path)
    assert document["reclaims"] == []
    held = {line["gate"]: line["gpuHours"] for line in document["heldBack"]}
    # What the other policy gives back or warns of, and the notebook.
    assert held["nothing-lost"] >= 42.5 + 18.4 - 3 * NEAR
    (volumes,) = (one for one in document["assumptions"] if one["key"] == "volumes")
    assert volumes["gpuHours"] == pytest.approx(held["nothing-lost"])
    assumed = replay(prometheus, path, "--assume-volumes")
    assert {one["job"]["name"] for one in assumed["reclaims"]} == {"forgotten", "back", "notebook"}


def test_assumed_volumes_make_a_forgotten_notebook_reclaimable(prometheus: str, policy: Path) -> None:
    document = replay(prometheus, policy, "--assume-volumes")
    (notebook,) = (one for one in document["reclaims"] if one["job"]["name"] == "notebook")
    assert notebook["rule"] == "interactive-job"


def test_the_page_has_the_figures_and_loads_nothing(prometheus: str, policy: Path, tmp_path: Path) -> None:
    path = tmp_path / "replay.html"
    result = run(prometheus, policy, "--format", "html", "--output", str(path))
    assert result.exit_code == 0, result.output
    page = path.read_text()
    assert "1 job worked again afterwards" in page
    assert "<script" not in page
    assert "<svg" in page
    assert "2 reclaims would have given back" in result.stdout


def test_other_namespaces_are_left_out_and_nothing_in_range_is_said(prometheus: str, policy: Path) -> None:
    result = run(prometheus, policy, "--namespace", "nowhere")
    assert result.exit_code == 2
    assert "no DLJob held GPUs in nowhere" in result.stderr


def test_the_controllers_absence_is_no_time_in_which_anything_is_decided(tmp_path: Path, policy: Path) -> None:
    away = record(END, JOBS[:1], hours=32, operator_away=(12, 5))
    with RecordedPrometheus(tmp_path, away.lines()) as server:
        (reclaim,) = replay(server.url, policy)["reclaims"]
    assert datetime.fromisoformat(reclaim["warnedAt"]) >= END - timedelta(hours=5)


def test_a_prometheus_that_is_not_there_is_an_error_in_one_line(policy: Path) -> None:
    result = run("http://127.0.0.1:1", policy)
    assert result.exit_code == 2
    assert "can't be reached" in result.stderr
    assert len(result.stderr.splitlines()) == 1


async def test_a_job_looks_at_any_time_of_the_past_as_it_looked_to_the_controller(prometheus: str) -> None:
    """The screens made of the recorded past, against the controller's own requests as of the same times."""
    access = PrometheusAccess(url=prometheus)
    window, step = timedelta(hours=1), timedelta(seconds=30)
    # Where no pod of the cluster speaks, the controller looks at none.
    somebody = ScreenRequest(pods=(("research", "steady-0-x7k2p"),), window=window, detailed=False)
    seen: set[tuple[IdlenessState, UnknownReason | None]] = set()
    async with PrometheusPast(access) as past, PrometheusSource(access, max_skew=None) as source:
        outlines = await past.outlines(END - timedelta(days=1), END)
        for outline in outlines.jobs:
            screens = Screens(await past.job(outline, END - timedelta(hours=16), END, step), idle_percent=0)
            for place in range(150, screens.grid.size, 47):
                now, facts = screens.grid.time(place), screens.facts(place)
                live, _ = await source.screen([screen_request(facts, window=window, now=now), somebody], now)
                ours, theirs = (
                    idleness(facts, screen, window=window, min_coverage_percent=90, now=now)
                    for screen in (screens.screen(facts, place, window), live)
                )
                assert ours.state is theirs.state, (outline.identity.name, now, ours, theirs)
                if ours.state is IdlenessState.IDLE:
                    assert ours.since is not None
                    assert theirs.since is not None
                    # The controller looks back in steps of five minutes, and here nobody beyond what was read.
                    assert theirs.since - ours.since <= timedelta(minutes=6)
                    assert ours.since <= theirs.since or ours.since < screens.grid.start
                seen.add((ours.state, ours.reason))
    assert {IdlenessState.IDLE, IdlenessState.ACTIVE, IdlenessState.UNKNOWN} <= {state for state, _ in seen}
