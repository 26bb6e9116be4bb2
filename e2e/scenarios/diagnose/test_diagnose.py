"""Jobs of a cluster, anybody's pods, jobs whose objects are gone; and a Prometheus that does not answer."""

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from e2e.cluster.waiting import wait_for
from e2e.operator import CHART, CONTROLLER, NAMESPACE
from e2e.scenarios.diagnose.story import INSTALLING, Story

SCHEMA = Path(__file__).parents[3] / "docs/schemas/diagnose-v1.json"


def categories(job: dict[str, Any]) -> list[str]:
    return [finding["category"] for finding in job["findings"] if "Metrics" in finding["sources"]]


def test_the_jobs_of_a_namespace_end_in_the_causes_that_they_play(story: Story) -> None:
    found = story.in_cluster(story.dljobs.namespace)
    assert {name: (job["kind"], categories(job)[:1]) for name, job in found.items()} == {
        "left": ("DLJob", ["UnreleasedJob"]),
        "few": ("Job", ["GPUOversubscription"]),
    }
    left = found["left"]
    assert (left["low"], left["idle"]["allGPUs"], left["error"]) == (True, True, None)
    assert left["utilization"]["coveragePercent"] > 95
    assert left["utilization"]["averagePercent"] == pytest.approx(91 * 120 / 240, abs=2)
    began = datetime.fromisoformat(left["since"])
    assert abs(began - story.started) < timedelta(seconds=1)


def test_source_and_series_join_and_what_would_be_lost_is_not_reclaimed(story: Story) -> None:
    left = story.in_cluster(story.dljobs.namespace, "--job=left")["left"]
    (finding,) = (one for one in left["findings"] if one["category"] == "UnreleasedJob")
    assert (finding["confidence"], set(finding["sources"])) == ("Certain", {"Script", "Metrics"})
    assert finding["location"] == {"fieldPath": "spec.script", "line": 2}
    assert (left["reclaim"]["eligible"], "no volume that outlives its pods" in left["reclaim"]["why"]) == (False, True)


def test_pods_that_no_dljob_owns_are_a_job_by_their_owner(story: Story) -> None:
    found = story.in_cluster(story.dljobs.namespace, "--selector=batch.kubernetes.io/job-name=few")
    assert list(found) == ["few"]
    few = found["few"]
    assert (few["kind"], few["gpus"], len(few["utilization"]["gpus"])) == ("Job", 8, 8)
    assert {gpu["node"] for gpu in few["utilization"]["gpus"]} != {None}
    assert [gpu["averagePercent"] == 0 for gpu in few["utilization"]["gpus"]] == [False] * 4 + [True] * 4
    assert few["reclaim"]["eligible"] is False


def test_the_busy_leader_of_a_jobset_is_not_taken_for_the_former_self_of_its_idle_workers(story: Story) -> None:
    """Each child Job numbers its pods from 0."""
    for chosen in ("js", "js-worker-0"):
        found = story.in_cluster(story.sets.namespace, chosen)
        assert list(found) == ["js"]
        job = found["js"]
        assert (job["kind"], job["gpus"], job["error"]) == ("JobSet", 3, None)
        use = {gpu["rank"]: gpu["averagePercent"] for gpu in job["utilization"]["gpus"]}
        assert (sorted(use), use[0] > 80, max(use[1], use[2]) < 20) == ([0, 1, 2], True, True)
        assert (job["idle"]["allGPUs"], job["reclaim"]["eligible"]) == (False, False)


def test_a_window_cuts_the_life(story: Story) -> None:
    left = story.in_cluster(story.dljobs.namespace, "--job=left", "--from=-3h", "--to=-2h30m")["left"]
    assert left["utilization"]["averagePercent"] == pytest.approx(91, abs=2)
    assert left["utilization"]["gpuHours"] == pytest.approx(4, abs=0.1)
    assert categories(left) == []
    assert any("diagnosed from" in note for note in left["notes"])


def test_the_text_is_for_people_and_the_exit_code_for_scripts(story: Story) -> None:
    where = (f"--kubeconfig={story.cluster.kubeconfig}", f"--namespace={story.dljobs.namespace}")
    result = story.diagnose(*where, "--job=left")
    assert result.returncode == 1
    assert "[1] warning[unreleased-job] UnreleasedJob, certain: " in result.stdout
    assert "\x1b[" not in result.stdout
    nothing = story.diagnose(*where, "--job=other")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert 'no DLJob "other" and no other workload of this name' in nothing.stderr
    assert f'in namespace "{story.dljobs.namespace}"' in nothing.stderr


def test_the_json_is_as_published(story: Story) -> None:
    where = (f"--kubeconfig={story.cluster.kubeconfig}", "--all-namespaces", "--format=json")
    document = json.loads(story.diagnose(*where).stdout)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert len(document["jobs"]) == 4


def test_what_a_job_logs_makes_certain_what_its_series_only_suggest(story: Story) -> None:
    silent = story.in_cluster(story.logged.namespace)["installs"]
    told = story.in_cluster(story.logged.namespace, "--logs")["installs"]
    before, after = (next(iter(job["findings"]), None) for job in (silent, told))
    assert after is not None
    assert (after["category"], "Logs" in after["sources"]) == ("LongLibraryInstallation", True)
    assert before is None or "Logs" not in before["sources"]
    assert datetime.fromisoformat(after["until"]) - story.started < INSTALLING + timedelta(minutes=2)
    assert "Passw0rd" not in json.dumps(told)


def test_the_controller_reads_logs_where_the_policy_says_so(story: Story) -> None:
    def is_reported() -> bool:
        findings = story.logged.status("installs").get("findings", [])
        assert any("Logs" in finding["sources"] for finding in findings), findings
        return True

    wait_for("the log to reach the status", is_reported, timeout=60)
    assert "Passw0rd" not in json.dumps(story.logged.get("installs"))
    left = story.dljobs.status("left").get("findings", [])
    assert not any("Logs" in finding["sources"] for finding in left)


def test_the_chart_grants_logs_only_where_it_is_told_to(story: Story) -> None:
    may = ("auth", "can-i", "get", "pods", "--subresource=log", f"--namespace={story.logged.namespace}")
    account = story.cluster.service_account_kubeconfig(NAMESPACE, CONTROLLER)
    assert story.cluster.kubectl(*may, kubeconfig=account).strip() == "yes"
    assert "pods/log" not in story.cluster.helm_template(CHART)


def test_a_prometheus_that_refuses_or_is_not_there_is_said_once(story: Story) -> None:
    proxy = story.cluster.start_prometheus_proxy()
    where = (f"--kubeconfig={story.cluster.kubeconfig}", f"--namespace={story.dljobs.namespace}")
    story.cluster.set_prometheus_fault("error", status=401)
    try:
        refused = story.diagnose(*where, url=proxy)
    finally:
        story.cluster.set_prometheus_fault("none")
    assert refused.returncode == 2
    assert "401" in refused.stderr
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        wrong = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for url, said in ((wrong, "can't be reached"), (f"{story.cluster.prometheus_url}/graph", "404")):
            result = story.diagnose(*where, "--format=json", url=url)
            assert (result.returncode, said in result.stderr) == (2, True), result.stderr
            jobs = json.loads(result.stdout)["jobs"]
            assert [(job["low"], job["findings"], job["reclaim"]["eligible"]) for job in jobs] == [
                (None, [], False)
            ] * 2
            assert all(job["error"] for job in jobs)


def test_recorded_series_need_no_cluster(story: Story, tmp_path: Path) -> None:
    """The last one: the objects are gone after it."""
    now = datetime.now(UTC).replace(microsecond=0)
    before = story.in_cluster(story.dljobs.namespace)
    pods = {name: [pod["metadata"]["name"] for pod in story.dljobs.pods(name)] for name in ("left", "few")}
    story.cluster.kubectl(
        "delete", "dljobs,jobs,pods", "--all", "-n", story.dljobs.namespace, "--force", "--grace-period=0"
    )
    wait_for("the pods to be gone", lambda: not story.dljobs.pods("left") and not story.dljobs.pods("few"))
    file = tmp_path / "jobs.json"
    known = {"namespace": story.dljobs.namespace, "nodes": 1, "gpusPerNode": 8}
    start = story.started.isoformat()
    script = "torchrun train.py\nsleep 1d\n"
    file.write_text(
        json.dumps(
            [
                {
                    **known,
                    "name": "left",
                    "pods": pods["left"],
                    "start": start,
                    "end": None,
                    "script": script,
                    "persistentVolume": True,
                },
                {**known, "name": "few", "pods": pods["few"]},
            ]
        )
    )
    result = story.diagnose(f"--jobs={file}", f"--to={now.isoformat()}", "--format=json", env={"PATH": "/nowhere"})
    assert result.returncode == 1, result.stderr
    after = {job["name"]: job for job in json.loads(result.stdout)["jobs"]}
    for name, job in after.items():
        assert categories(job) == categories(before[name])
        average = before[name]["utilization"]["averagePercent"]
        assert job["utilization"]["averagePercent"] == pytest.approx(average, abs=1)
    assert after["left"]["reclaim"]["eligible"] is True
    assert abs(datetime.fromisoformat(after["few"]["since"]) - story.started) < timedelta(minutes=2)
    assert "its start is not recorded; it is assumed at its first sample" in after["few"]["notes"][0]
