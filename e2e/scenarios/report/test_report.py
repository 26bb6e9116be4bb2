"""`stoker report` on a real Prometheus: GPU-hours of jobs that are gone, against what is known to have happened."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from e2e.cluster import binaries
from e2e.operator import CHART
from e2e.scenarios.metrics.recorded import RecordedPrometheus
from e2e.scenarios.report.cluster_past import HONOURED, RENAMED, Claim, Labels, PastJob, record
from stoker.cli import stoker

END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
HOSTILE = "<script>alert('team')</script>"
NEAR = 0.6
"""GPU-hours: a minute or two of a job's GPUs at its start and end. A recorded series ends without Prometheus' marker,
so that its last sample stands for four minutes more, which is half an hour of eight GPUs.
"""

JOBS = (
    PastJob(
        name="steady", namespace="nlp", gpus=4, start=48, end=0, utilization=lambda _: 75, team="nlp", owner="mina"
    ),
    # began 20 hours ago, was deleted 8 hours ago
    PastJob(
        name="small",
        namespace="nlp",
        gpus=8,
        start=20,
        end=8,
        utilization=lambda _: 25,
        team="nlp",
        owner="jonas",
        claims=(
            Claim(category="ImproperBatchSize", rule="small-batch", hours=lambda age: 8 * 0.75 * (20 - age) * 0.9),
        ),
        stages={"Active": lambda age: 8 * 0.75 * (20 - age)},
    ),
    # began in the period before, worked until 12 hours ago, and rests since
    PastJob(
        name="left",
        namespace="vision",
        gpus=2,
        start=30,
        end=0,
        utilization=lambda age: 100 if age > 12 else 0,
        team=HOSTILE,
        claims=(Claim(category="UnreleasedJob", rule="unreleased-job", hours=lambda age: 2 * max(12 - age, 0)),),
    ),
    # its GPUs were never sampled
    PastJob(name="blind", namespace="vision", gpus=2, start=10, end=0, utilization=lambda _: None, team="vision"),
)


@pytest.fixture(scope="module", params=[HONOURED, RENAMED], ids=["honoured labels", "renamed labels"])
def prometheus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    labels: Labels = request.param
    with RecordedPrometheus(tmp_path_factory.mktemp("prometheus"), record(END, JOBS, labels).lines()) as server:
        yield server.url


def report(url: str, *arguments: str, start: datetime = END - timedelta(days=1)) -> dict[str, Any]:
    period = ["--from", start.isoformat(), "--to", END.isoformat()]
    options = ["--prometheus", url, *period, "--format", "json", "--output", "-", *arguments]
    result = CliRunner().invoke(stoker, ["report", *options], env={"KUBECONFIG": "none"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("keeps", [False, True], ids=["in the log", "as a page"])
def test_the_command_of_the_charts_cron_job_writes_the_report(prometheus: str, tmp_path: Path, *, keeps: bool) -> None:
    """The arguments as they stand in the CronJob; the kubelet fills in the Job's name."""
    values = [f"--set=prometheus.url={prometheus}", "--set=report.enabled=true", "--set=report.since=2d"]
    if keeps:
        values.append("--set=report.volumeClaim=reports")
    argv = [str(binaries.resolve("helm")), "template", "stoker", str(CHART), "--show-only=templates/report.yaml"]
    rendered = subprocess.run([*argv, *values], capture_output=True, text=True, check=True).stdout
    [cron] = [one for one in yaml.safe_load_all(rendered) if one["kind"] == "CronJob"]
    [container] = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    arguments = [
        argument.replace("/reports/$(JOB_NAME)", f"{tmp_path}/stoker-report-29") for argument in container["args"]
    ]
    assert container["command"] == ["stoker"]
    result = CliRunner().invoke(stoker, arguments, env={"KUBECONFIG": "none"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "nlp" in result.stdout
    pages = [path.name for path in tmp_path.iterdir()]
    assert pages == (["stoker-report-29.html"] if keeps else [])


def test_the_balance_of_a_day_is_what_happened_deleted_jobs_and_unsampled_ones_included(prometheus: str) -> None:
    total = report(prometheus)["total"]
    assert total["gpuHoursUsed"] == pytest.approx(4 * 24 * 0.75 + 8 * 12 * 0.25 + 2 * 12 + 1, abs=NEAR)
    assert total["gpuHoursIdle"] == pytest.approx(4 * 24 * 0.25 + 8 * 12 * 0.75 + 2 * 12 + 1, abs=NEAR)
    assert total["gpuHoursUnknown"] == pytest.approx(20, abs=NEAR)
    assert total["gpuHoursRequested"] == pytest.approx(262, abs=NEAR)


def test_causes_have_what_they_lost_within_the_period(prometheus: str) -> None:
    document = report(prometheus)
    lost = {line["category"]: line["gpuHoursIdle"] for line in document["causes"]}
    assert lost == {
        "ImproperBatchSize": pytest.approx(8 * 0.75 * 12 * 0.9, abs=NEAR),
        "UnreleasedJob": pytest.approx(24, abs=NEAR),
    }
    assert document["total"]["gpuHoursUnexplained"] == pytest.approx(24 + 72 * 0.1 + 1, abs=2 * NEAR)
    stages = {line["stage"]: line["gpuHoursIdle"] for line in document["stages"]}
    assert stages["Active"] == pytest.approx(72, abs=NEAR)


def test_the_trend_is_against_the_day_before(prometheus: str) -> None:
    """The day before: `steady` throughout, `left` for its first six hours."""
    before = report(prometheus)["totalBefore"]
    assert before["gpuHoursUsed"] == pytest.approx(4 * 24 * 0.75 + 2 * 6, abs=NEAR)
    assert before["gpuHoursIdle"] == pytest.approx(4 * 24 * 0.25, abs=NEAR)
    assert before["gpuHoursUnknown"] == pytest.approx(0, abs=NEAR)


def test_teams_and_namespaces_come_from_the_operators_record_of_the_job(prometheus: str) -> None:
    document = report(prometheus)
    teams = {row["name"]: row["gpuHoursRequested"] for row in document["teams"]}
    assert teams == {
        "nlp": pytest.approx(96 + 96, abs=NEAR),
        HOSTILE: pytest.approx(48, abs=NEAR),
        "vision": pytest.approx(20, abs=NEAR),
        None: pytest.approx(2, abs=NEAR),
    }
    spaces = {row["name"]: row["gpuHoursRequested"] for row in document["namespaces"]}
    assert set(spaces) == {"nlp", "vision", "legacy"}
    assert "noRecord" in {one["key"] for one in document["assumptions"]}


def test_a_namespaces_report_has_its_jobs_only(prometheus: str) -> None:
    document = report(prometheus, "--namespace", "vision")
    assert {job["name"] for job in document["jobs"]} == {"left", "blind"}
    assert document["total"]["gpuHoursRequested"] == pytest.approx(68, abs=NEAR)


def test_without_the_operators_metrics_for_a_while_samples_count_and_the_gap_is_said(tmp_path: Path) -> None:
    away = record(END, JOBS, HONOURED, operator_away=lambda age: 14 < age <= 18)
    with RecordedPrometheus(tmp_path, away.lines()) as server:
        document = report(server.url)
    assert document["total"]["gpuHoursUsed"] == pytest.approx(72 + 24 + 24 + 1, abs=NEAR)
    (gap,) = (one["text"] for one in document["assumptions"] if one["key"] == "notRecorded")
    assert "for 4 h" in gap


def test_before_prometheus_began_nothing_is_filled_in(prometheus: str) -> None:
    """Three days back there is only half of the period, and nothing of the one before."""
    document = report(prometheus, start=END - timedelta(days=3))
    assert document["totalBefore"] is None
    keys = {one["key"] for one in document["assumptions"]}
    assert {"notWatched", "noComparison"} <= keys
    assert document["total"]["gpuHoursUsed"] == pytest.approx(4 * 48 * 0.75 + 24 + 2 * 18 + 1, abs=2 * NEAR)


def test_short_pods_that_follow_one_another_have_their_own_time_and_no_more(tmp_path: Path) -> None:
    """A sweep: thirty jobs of 657 seconds in turn on the same four GPUs, scraped every 15 seconds."""
    seconds, number = 657, 30
    hours = number * seconds / 3600
    sweep = tuple(
        PastJob(
            name=f"trial-{place}",
            namespace="nlp",
            gpus=4,
            start=hours - place * seconds / 3600,
            end=hours - (place + 1) * seconds / 3600,
            utilization=lambda _: 50,
        )
        for place in range(number)
    )
    with RecordedPrometheus(tmp_path, record(END, sweep, HONOURED, length=6 * 3600, step=15).lines()) as server:
        document = report(server.url, "--namespace", "nlp", start=END - timedelta(hours=6))
    total = document["total"]
    assert total["gpuHoursUsed"] == pytest.approx(4 * hours / 2, rel=0.03)
    assert total["gpuHoursIdle"] == pytest.approx(4 * hours / 2, rel=0.03)
    for job in document["jobs"]:
        assert job["gpuHoursUsed"] + job["gpuHoursIdle"] == pytest.approx(4 * seconds / 3600, abs=4 * 30 / 3600)
    for part in document["timeline"]:
        length = datetime.fromisoformat(part["end"]) - datetime.fromisoformat(part["start"])
        sampled = part["gpuHoursUsed"] + part["gpuHoursIdle"]
        assert sampled <= 4.05 * (length / timedelta(hours=1)), "more than there are"


def test_a_pod_that_never_had_a_node_has_held_nothing(tmp_path: Path) -> None:
    """Two pods of eight GPUs, of which only one was scheduled; then a job of which none was."""
    half = PastJob(name="half", namespace="nlp", gpus=16, held=8, start=20, end=0, utilization=lambda _: 0)
    none = PastJob(name="none", namespace="nlp", gpus=8, held=0, start=20, end=0, utilization=lambda _: None)
    with RecordedPrometheus(tmp_path, record(END, (half, none), HONOURED).lines()) as server:
        document = report(server.url, "--namespace", "nlp")
    requested = {job["name"]: job["gpuHoursRequested"] for job in document["jobs"]}
    assert requested.get("half") == pytest.approx(8 * 20, abs=NEAR)
    assert requested.get("none", 0) == 0
    assert document["total"]["gpuHoursUnknown"] == pytest.approx(0, abs=NEAR)


def test_a_prometheus_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    options = ["--prometheus", "http://127.0.0.1:1", "--format", "json", "--output", str(tmp_path / "report.json")]
    result = CliRunner().invoke(stoker, ["report", *options], env={"KUBECONFIG": "none"})
    assert result.exit_code == 2
    assert "can't be reached" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "report.json").exists()
