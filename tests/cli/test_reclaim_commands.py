"""`stoker resume` and `stoker snooze`: what they write and say, in an API server of one's own. With a real one they are
tried end to end.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from stoker.adapters.kubernetes.client import DLJOBS, ForbiddenError, Kubernetes
from stoker.cli import stoker
from stoker.findings.finding import rfc3339
from stoker.inspection import owner_requests
from tests.controller.cluster import FakeApi
from tests.workload.building import dljob_object

RESUME, SNOOZE, REASON = "stoker.dev/resume", "stoker.dev/snooze-until", "stoker.dev/snooze-reason"


class Cluster(FakeApi):
    """Some DLJobs, and a controller that takes each word at once, if it answers at all."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = True
        self.longest = timedelta(hours=24)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def add(self, name: str = "bert", *, phase: str = "Running", suspend: bool | None = None, **record: Any) -> None:
        raw = dljob_object(name, status={"phase": phase, "reclaim": record})
        self.store(DLJOBS, "team", {**raw, "spec": {**raw["spec"], "suspend": suspend}})

    def annotations(self, name: str = "bert") -> dict[str, str]:
        found: dict[str, str] = self.objects[DLJOBS, "team", name]["metadata"].get("annotations", {})
        return found

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        patched = await super().patch(*args, **kwargs)
        if self.answers:
            found = patched["metadata"]["annotations"]
            record = patched["status"]["reclaim"]
            record |= {"handledResume": found.get(RESUME), "handledSnooze": found.get(SNOOZE)}
            if SNOOZE in found:
                record["snoozedUntil"] = min(found[SNOOZE], rfc3339(datetime.now(UTC) + self.longest))
            self.store(DLJOBS, "team", patched)
        return patched


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    async def connect(**_: object) -> Cluster:
        return cluster

    monkeypatch.setattr(Kubernetes, "connect", connect)
    monkeypatch.setattr(owner_requests, "PATIENCE", 0.0)
    return cluster


def run(*words: str) -> Result:
    answer = CliRunner().invoke(stoker, [*words, "-n", "team"])
    assert "Traceback" not in answer.output
    return answer


# ----------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize(
    "status, words",
    [
        (
            {"state": "Reclaimed", "action": "Suspend", "phase": "Reclaimed"},
            "resumes; its script starts from the beginning when",
        ),
        ({"state": "Reclaiming", "action": "Suspend"}, "resumes once its old pods have ended"),
        ({"state": "Reclaimed", "action": "Suspend", "suspend": True}, "spec.suspend"),
        ({"state": "Reclaiming", "action": "Delete"}, "unless its Job has already been deleted"),
        ({"state": "Warned", "action": "Suspend"}, "not be reclaimed before the policy's cooldown is over"),
        (
            {"state": "Unknown", "deadline": "2026-11-21T12:00:00Z"},
            "not be reclaimed before the policy's cooldown is over",
        ),
    ],
)
def test_resume_says_what_it_does(status: dict[str, Any], words: str, cluster: Cluster) -> None:
    cluster.add(**status)
    answer = run("resume", "bert")
    assert (answer.exit_code, words in answer.output) == (0, True), answer.output
    assert cluster.annotations()[RESUME]


@pytest.mark.parametrize("state", ["Active", "Idle", None])
def test_where_there_is_nothing_to_resume_nothing_is_written(state: str | None, cluster: Cluster) -> None:
    cluster.add(state=state)
    answer = run("resume", "bert")
    assert (answer.exit_code, answer.output) == (0, "dljob bert is not reclaimed: there is nothing to resume.\n")
    assert not cluster.annotations()


def test_a_job_of_a_queue_is_not_promised_a_start(cluster: Cluster) -> None:
    cluster.add(state="Reclaimed", action="Suspend", phase="Reclaimed")
    cluster.objects[DLJOBS, "team", "bert"]["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    assert "goes back to its queue research; its script starts from the beginning when the queue admits it" in (
        run("resume", "bert").output
    )


def test_of_a_queued_job_it_is_said_what_it_waits_for(cluster: Cluster) -> None:
    cluster.add(state="Active", phase="Queued")
    ready = {"type": "PodsReady", "status": "False", "message": "Kueue waits for quota: 8 more GPUs are needed"}
    cluster.objects[DLJOBS, "team", "bert"]["status"]["conditions"] = [ready]
    answer = run("resume", "bert")
    assert (
        answer.output == "dljob bert is not reclaimed; it is queued: Kueue waits for quota: 8 more GPUs are needed.\n"
    )
    assert not cluster.annotations()


def test_a_job_that_its_owner_has_suspended_is_started_by_its_spec(cluster: Cluster) -> None:
    cluster.add(state="Active", phase="Suspended", suspend=True)
    assert "not by Stoker: set spec.suspend to false" in run("resume", "bert").output
    assert not cluster.annotations()


def test_who_asks_twice_is_told_so_and_asks_once(cluster: Cluster) -> None:
    cluster.answers = False
    cluster.add(state="Reclaimed", action="Suspend")
    first = run("resume", "bert")
    assert "the controller has not answered yet" in first.output
    word = cluster.annotations()[RESUME]
    assert "already requested" in run("resume", "bert").output
    assert cluster.annotations()[RESUME] == word


@pytest.mark.parametrize(
    "status, words",
    [
        ({"state": "Reclaimed", "action": "Delete", "phase": "Reclaimed"}, "deleted for good"),
        ({"phase": "Failed", "state": "Reclaimed", "action": "Suspend"}, "it has failed"),
        ({"phase": "Succeeded"}, "it has succeeded"),
    ],
)
def test_what_does_not_come_back_is_an_error(status: dict[str, Any], words: str, cluster: Cluster) -> None:
    cluster.add(**status)
    answer = run("resume", "bert")
    assert (answer.exit_code, words in answer.stderr, "recreate" in answer.stderr) == (1, True, True)
    assert not cluster.annotations()


# ----------------------------------------------------------------------------------------------------------- snooze


def test_a_snooze_is_written_with_its_reason_in_one_line(cluster: Cluster) -> None:
    cluster.add(state="Idle")
    before = datetime.now(UTC).replace(microsecond=0)
    answer = run("snooze", "bert", "--for", "2h", "--reason", " a talk\n on\x1b[31m Monday ")
    until = datetime.fromisoformat(cluster.annotations()[SNOOZE])
    assert timedelta(hours=2) <= until - before <= timedelta(hours=2, minutes=1)
    assert cluster.annotations()[REASON] == "a talk on [31m Monday"
    assert answer.output == f"dljob bert will not be reclaimed before {rfc3339(until)}.\n"


def test_the_policys_bound_is_told_as_the_controller_says_it(cluster: Cluster) -> None:
    cluster.add(state="Idle")
    answer = run("snooze", "bert", "--for", "200h")
    assert "you asked for" in answer.output
    assert "allows no more" in answer.output


def test_a_policy_without_snoozes_promises_nothing(cluster: Cluster) -> None:
    cluster.longest = timedelta(0)
    cluster.add(state="Idle")
    answer = run("snooze", "bert", "--for", "2h")
    assert (answer.exit_code, answer.stdout, "reclaim.maxSnooze" in answer.stderr) == (1, "", True)


def test_without_the_controllers_answer_no_more_is_promised_than_is_known(cluster: Cluster) -> None:
    cluster.answers = False
    cluster.add("idle", state="Idle")
    cluster.add("going", state="Reclaiming", action="Suspend")
    answer = run("snooze", "idle", "going", "--for", "2h")
    assert "or for the policy's maxSnooze if that is shorter (the controller has not answered yet" in answer.output
    assert "if the snooze came too late, start it again with stoker resume going -n team" in answer.output


def test_a_later_snooze_replaces_the_earlier_with_its_reason(cluster: Cluster) -> None:
    cluster.add(state="Idle")
    run("snooze", "bert", "--for", "2h", "--reason", "a talk")
    run("snooze", "bert", "--for", "1h")
    assert REASON not in cluster.annotations()


def test_a_snooze_is_cancelled_once(cluster: Cluster) -> None:
    cluster.add(state="Idle")
    run("snooze", "bert", "--for", "2h", "--reason", "a talk")
    assert "is no longer snoozed" in run("snooze", "bert", "--cancel").output
    assert not cluster.annotations()
    assert "was not snoozed" in run("snooze", "bert", "--cancel").output


@pytest.mark.parametrize(
    "status, words",
    [({"state": "Reclaimed", "phase": "Reclaimed"}, "stoker resume bert -n team"), ({"phase": "Failed"}, "has failed")],
)
def test_what_can_not_be_put_off_is_an_error(status: dict[str, Any], words: str, cluster: Cluster) -> None:
    cluster.add(**status)
    answer = run("snooze", "bert", "--for", "2h")
    assert (answer.exit_code, words in answer.stderr) == (1, True)
    assert not cluster.annotations()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--for", "0s"], "longer than 0s"),
        (["--for", "2h", "--cancel"], "cannot be combined"),
        (["--reason", "x", "--cancel"], "cannot be combined"),
        (["--reason", "x"], "Give a duration"),
        ([], "Give a duration"),
        (["--for", "2h", "--reason", "x" * 257], "256"),
        (["--for", "2h", "--reason", " \n\x07"], "is empty"),
        *([["--for", duration], "1h30m"] for duration in ("", "4", "4 hours", "-1h", "1d")),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(options: list[str], words: str, cluster: Cluster) -> None:
    cluster.add(state="Idle")
    answer = run("snooze", "bert", *options)
    assert (answer.exit_code, words in answer.output) == (2, True), answer.output
    assert not cluster.requests


# --------------------------------------------------------------------------------------------------------- the jobs


def test_several_jobs_are_told_of_one_by_one_whatever_becomes_of_the_others(cluster: Cluster) -> None:
    for name in ("one", "two"):
        cluster.add(name, state="Reclaimed", action="Suspend")
    answer = run("resume", "one", "gone", "dljob/two", "dljob.stoker.dev/one")
    assert answer.exit_code == 1
    assert answer.stderr == 'Error: no dljob "gone" in namespace "team"\n'
    assert [line.split()[1] for line in answer.stdout.splitlines()] == ["one", "two"]
    assert cluster.requests.count("patch dljobs") == 2


@pytest.mark.parametrize("name", ["bert/status", "../x", "Bert", "pod/bert", "bert?x=1", ""])
def test_what_is_no_name_never_reaches_the_server(name: str, cluster: Cluster) -> None:
    answer = run("resume", name)
    assert (answer.exit_code, "not the name of a DLJob" in answer.output) == (2, True)
    assert not cluster.requests


def test_the_servers_refusal_is_told_in_its_own_words(cluster: Cluster) -> None:
    cluster.add(state="Reclaimed", action="Suspend")

    def refuse(_: str) -> None:
        raise ForbiddenError("patch", code=403, reason="Forbidden", answer='User "ann" cannot patch dljobs')

    cluster.before = refuse
    answer = run("resume", "bert")
    assert (answer.exit_code, answer.stderr) == (1, 'Error: dljob bert: User "ann" cannot patch dljobs\n')


@pytest.mark.parametrize("args", [["resume", "bert"], ["snooze", "bert", "--for", "4h"]])
def test_without_a_cluster_the_kubeconfig_is_named(args: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "config"
    answer = CliRunner().invoke(stoker, [*args, "--kubeconfig", str(missing)])
    assert answer.exit_code == 1
    assert str(missing) in answer.output
    assert "Traceback" not in answer.output


def test_the_controller_needs_to_know_where_the_metrics_are() -> None:
    answer = CliRunner().invoke(stoker, ["run", "controller"])
    assert answer.exit_code == 2
    assert "--prometheus-url" in answer.output
