"""What a status says, how rarely it is written, and that nothing is lost or told twice when the controller restarts."""

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.status.slow_jobs import LEFT, SlowJobs
from stoker.workload import pod_facts

TICKS = 15


def test_a_slow_jobs_status_says_how_much_where_and_why(jobs: SlowJobs) -> None:
    jobs.start("half", nodes=2)
    status = jobs.wait_found("half", "GPUOversubscription")
    used = status["utilization"]
    assert 38 <= used["averagePercent"] <= 46
    assert used["coveragePercent"] >= 97
    assert abs(float(used["gpuHours"]) - 2 * 8 * 3) < 1
    assert abs(float(used["gpuHoursIdle"]) - float(used["gpuHours"]) * (1 - used["averagePercent"] / 100)) < 1
    assert used["stages"][0]["stage"] == "Initialization"
    for rank, entry in enumerate(sorted(used["nodes"], key=itemgetter("pod"))):
        assert (entry["pod"], bool(entry["node"])) == (f"half-{rank}", True)
        assert [percent < 5 for row in entry["gpuPercents"] for percent in row] == [False] * 4 + [True] * 4
    [finding] = [one for one in status["findings"] if one["category"] == "GPUOversubscription"]
    assert "Metrics" in finding["sources"]
    assert finding["evidence"]
    assert abs(float(finding["gpuHoursIdle"]) - 2 * 4 * 3) < 2
    assert len(status["pods"]) == 2
    condition = jobs.wait_condition("half", "LowUtilization", "True", "LowUtilization")
    assert f"{used['averagePercent']} %" in condition["message"]
    jobs.wait_condition("half", "Idle", "False", "Active")


def test_a_steady_job_is_looked_at_again_and_again_and_its_status_stays_as_it_is(jobs: SlowJobs) -> None:
    jobs.start("steady")
    jobs.start("idle", LEFT, hours=4)
    jobs.wait_found("steady", "GPUOversubscription")
    jobs.wait_found("idle", "UnreleasedJob")

    def unchanged() -> tuple[dict[str, str], float, float]:
        """The versions, once no status is written over some ticks; with the writes and the ticks so far."""
        versions = {name: jobs.settled(name) for name in ("steady", "idle")}
        writes, ticks = jobs.writes(), jobs.ticks()
        wait_for("some ticks", lambda: jobs.ticks() >= ticks + 2, timeout=60)
        assert jobs.writes() == writes, "still written"
        return versions, writes, ticks

    versions, writes, ticks = wait_for("the statuses to settle", unchanged, timeout=60)
    wait_for(f"{TICKS} ticks", lambda: jobs.ticks() >= ticks + TICKS, timeout=90)
    assert {name: jobs.get(name)["metadata"]["resourceVersion"] for name in versions} == versions
    assert jobs.writes() == writes


def test_a_restart_of_the_controller_tells_nothing_twice_and_forgets_nothing(jobs: SlowJobs) -> None:
    jobs.start("watched")
    jobs.wait_found("watched", "GPUOversubscription")
    wait_for("the event", lambda: jobs.events("watched", "GPUOversubscription"))
    jobs.settled("watched")
    before = jobs.status("watched")
    jobs.operator.crash()
    wait_for("some ticks", lambda: jobs.ticks() >= 5, timeout=60)
    jobs.settled("watched")
    after = jobs.status("watched")
    assert after["pods"] == before["pods"]
    assert [(one["rule"], one["since"]) for one in after["findings"]] == [
        (one["rule"], one["since"]) for one in before["findings"]
    ]
    (event,) = jobs.events("watched", "GPUOversubscription")
    assert event.get("series") is None, "told once"


def test_a_finished_jobs_final_diagnosis_is_over_its_whole_life_and_stays(jobs: SlowJobs) -> None:
    jobs.start("left", LEFT, hours=2)
    jobs.wait_found("left", "UnreleasedJob")
    jobs.end("left")
    jobs.wait_phase("left", "Succeeded")
    end = datetime.fromisoformat(jobs.status("left")["completionTime"])

    def final() -> bool:
        return datetime.fromisoformat(jobs.status("left")["utilization"]["asOf"]) >= end

    wait_for("the final look", final, timeout=60)
    status = jobs.status("left")
    assert [one["category"] for one in status["findings"]] == ["UnreleasedJob"]
    assert abs(float(status["utilization"]["gpuHours"]) - 16) < 1
    assert 65 <= status["utilization"]["averagePercent"] <= 73
    jobs.wait_condition("left", "LowUtilization", "False", "NotLow")
    jobs.wait_condition("left", "Idle", "False", "NotRunning")
    jobs.operator.crash()
    wait_for("some ticks", lambda: jobs.ticks() >= 3, timeout=60)
    assert jobs.status("left")["findingsSummary"] == status["findingsSummary"]


def test_a_job_that_ended_while_nobody_looked_gets_its_final_diagnosis_though_its_pods_are_gone(
    jobs: SlowJobs,
) -> None:
    jobs.start("alone", LEFT, hours=2, nodes=2)
    wait_for("its pods to be remembered", lambda: len(jobs.status("alone").get("pods", [])) == 2)
    jobs.operator.kill_controller()
    jobs.end("alone")
    ended = datetime.now(UTC)
    jobs.cluster.kubectl("delete", "pods", "--all", "-n", jobs.namespace, "--force", "--grace-period=0")
    jobs.cluster.restart(CONTROLLER)
    jobs.wait_phase("alone", "Succeeded")

    def final() -> bool:
        used = jobs.status("alone").get("utilization", {})
        return "asOf" in used and datetime.fromisoformat(used["asOf"]) >= ended - timedelta(seconds=1)

    wait_for("the final look", final, timeout=60)
    jobs.wait_found("alone", "UnreleasedJob")
    assert jobs.pods("alone") == []
    jobs.settled("alone")
    status = jobs.status("alone")
    assert abs(float(status["utilization"]["gpuHours"]) - 32) < 2
    assert all("until" in run for run in status["pods"])


def test_what_pods_did_before_a_suspension_belongs_to_the_jobs_life(jobs: SlowJobs) -> None:
    jobs.start("paused")
    wait_for("its pod to be remembered", lambda: len(jobs.status("paused").get("pods", [])) == 1)
    jobs.patch("paused", {"spec": {"suspend": True}})
    jobs.wait_phase("paused", "Suspended")
    wait_for("its pod to be gone", lambda: not jobs.pods("paused"))

    def ended() -> dict[str, Any]:
        run: dict[str, Any]
        [run] = jobs.status("paused")["pods"]
        assert "until" in run, run
        return run

    run = wait_for("the end of its run to be remembered", ended)
    jobs.patch("paused", {"spec": {"suspend": False}})
    jobs.wait_phase("paused", "Running")

    def both() -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = jobs.status("paused")["pods"]
        assert len(runs) == 2, runs
        return runs

    runs = wait_for("both runs", both)
    assert runs[0] == run

    def counted() -> bool:
        used = jobs.status("paused").get("utilization", {})
        # The pod of now was started three hours ago, too, as its annotation has it: twice eight GPUs for three hours.
        assert float(used["gpuHours"]) > 40, used
        return True

    wait_for("the earlier run to be counted", counted, timeout=60)


def test_what_the_kubelet_says_of_a_pod_becomes_its_facts(jobs: SlowJobs) -> None:
    jobs.create("again", play={"restart_after": "1s"})
    jobs.create("waits", play={"waiting_reason": "ImagePullBackOff"})

    jobs.wait_phase("again", "Running")

    def restarted() -> bool:
        [pod] = jobs.pods("again")
        return bool(pod_facts(pod, "nvidia.com/gpu").restarts)

    wait_for("the restart", restarted)
    [pod] = jobs.pods("again")
    facts = pod_facts(pod, "nvidia.com/gpu")
    [attempt] = facts.attempts
    assert facts.started_at is not None
    assert attempt.started_at <= attempt.finished_at <= facts.started_at
    assert facts.scheduled_at is not None
    assert facts.scheduled_at <= attempt.started_at + timedelta(seconds=1)

    def waiting() -> bool:
        held = next(iter(jobs.pods("waits")), None)
        assert held is not None
        found = pod_facts(held, "nvidia.com/gpu")
        assert (found.waiting_for, found.started_at, found.attempts) == ("ImagePullBackOff", None, ())
        assert found.scheduled_at is not None
        return True

    wait_for("the pod to wait for its image", waiting)
