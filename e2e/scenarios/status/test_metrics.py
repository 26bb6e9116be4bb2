"""The metrics page, as the real promtool judges it and the real Prometheus scrapes it."""

import re
import subprocess
from datetime import UTC, datetime

import pytest

from e2e.cluster import binaries
from e2e.cluster.waiting import wait_for
from e2e.operator import ADMISSION, CONTROLLER, Operator
from e2e.scenarios.alerts.rules import rules
from e2e.scenarios.status.observer import Observer
from e2e.scenarios.status.slow_jobs import SlowJobs

SPOKEN_UNIT = 'use base unit "seconds" instead of "hours"'
"""GPU-hours are what people plan, pay and speak in: the one advice of promtool's that is not followed."""


@pytest.mark.parametrize("process", [CONTROLLER, ADMISSION])
def test_promtool_finds_the_page_well_formed(jobs: SlowJobs, operator: Operator, process: str) -> None:
    jobs.start("half")
    jobs.wait_found("half", "GPUOversubscription")
    page = operator.metrics_page(process)
    assert "stoker_" in page
    checked = subprocess.run(
        [binaries.resolve("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    advice = [line for line in checked.stderr.splitlines() if line and not line.endswith(SPOKEN_UNIT)]
    assert advice == [], checked.stderr
    assert checked.returncode in {0, 3}, checked.stderr  # 3: advice, and no error


def test_the_past_of_a_job_can_be_asked_for_when_it_is_gone(jobs: SlowJobs, observer: Observer) -> None:
    jobs.start("gone", labels={"stoker.dev/owner": "ada", "stoker.dev/team": "nlp"}, nodes=2)
    jobs.wait_found("gone", "GPUOversubscription")
    uid = jobs.get("gone")["metadata"]["uid"]
    own = f'{{uid="{uid}"}}'

    def scraped() -> bool:
        claims = observer.query(f"stoker_dljob_finding_idle_gpu_hours{own}")
        assert [one["metric"]["category"] for one in claims] == ["GPUOversubscription"]
        return True

    wait_for("the finding to be scraped", scraped, timeout=60)
    [info] = observer.query(f"stoker_dljob_info{own}")
    who = {"name": "gone", "namespace": jobs.namespace, "owner": "ada", "team": "nlp", "gpus": "16"}
    assert who.items() <= info["metric"].items()
    assert info["metric"]["job_type"] == "Training"
    [phase] = observer.query(f"stoker_dljob_phase{own}")
    assert (phase["metric"]["phase"], phase["value"][1]) == ("Running", "1")
    hours = {one["metric"]["state"]: float(one["value"][1]) for one in observer.query(f"stoker_dljob_gpu_hours{own}")}
    assert set(hours) == {"used", "idle", "unknown"}
    assert abs(sum(hours.values()) - 48) < 2
    before = datetime.now(UTC)
    jobs.delete("gone")
    wait_for("its series to end", lambda: observer.query(f"stoker_dljob_info{own}") == [], timeout=30)
    [past] = observer.query(f"stoker_dljob_info{own}", at=before)
    assert past["metric"]["name"] == "gone"
    [lost] = observer.query(f"last_over_time(stoker_dljob_finding_idle_gpu_hours{own}[1h])")
    assert float(lost["value"][1]) > 20


def test_gpu_hours_of_a_namespace_are_counted_once_whatever_restarts(jobs: SlowJobs, observer: Observer) -> None:
    jobs.start("counted")
    jobs.wait_found("counted", "GPUOversubscription")
    mine = f'stoker_gpu_hours_total{{namespace="{jobs.namespace}"}}'

    wait_for("the counters to be scraped", lambda: observer.query(f"sum({mine}) > 20"), timeout=30)
    jobs.operator.crash()
    wait_for("some ticks", lambda: jobs.ticks() >= 5, timeout=60)
    wait_for("the new counters to be scraped", lambda: observer.query(f"sum({mine}) < 5"), timeout=30)
    counters = observer.query(f"sum by (state) ({mine})")
    assert {one["metric"]["state"] for one in counters} == {"used", "idle", "unknown"}
    assert all(float(one["value"][1]) < 5 for one in counters), "what the status had counts as counted"


def test_the_controllers_own_work_is_seen(jobs: SlowJobs, observer: Observer) -> None:
    jobs.start("half")
    jobs.wait_found("half", "GPUOversubscription")

    def seen() -> bool:
        kinds = {one["metric"]["kind"] for one in observer.query("stoker_prometheus_query_seconds_count > 0")}
        assert kinds == {"screen", "examination"}
        for metric in ("stoker_scan_ticks_total", "stoker_examinations_total", "stoker_status_writes_total"):
            assert observer.query(f'{metric}{{result="done"}} > 0'), metric
        assert observer.query("stoker_controller_leading == 1")
        assert observer.query('stoker_dljobs{phase="Running"} >= 1')
        return True

    wait_for("the controller's work to be scraped", seen, timeout=60)


def test_the_chart_asks_for_metrics_that_there_are(jobs: SlowJobs, operator: Operator) -> None:
    jobs.start("half")
    jobs.wait_found("half", "GPUOversubscription")
    pages = operator.metrics_page(CONTROLLER) + operator.metrics_page(ADMISSION)
    expressions = [rule["expr"] for group in rules()["groups"] for rule in group["rules"]]
    # What a recording rule makes has a colon before the metric's name.
    asked = set(re.findall(r"(?<![:\w])stoker_\w+", " ".join(expressions)))
    assert asked
    assert {metric for metric in asked if metric.removesuffix("_total") not in pages} == set()
