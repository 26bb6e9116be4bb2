"""`stoker explain`: what it says of jobs in an API server of one's own."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, PODS, POLICIES, ForbiddenError, Kubernetes
from stoker.api.meta import Condition
from stoker.cli import stoker
from stoker.controller.scan_results import idle_fact
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import UnknownReason
from stoker.inspection.reclaim_report import idleness_of_condition
from stoker.reclaim import GATES, GateGroup, Reads
from tests.controller.cluster import FakeApi
from tests.lint.test_formats import strict
from tests.workload.building import JOB_UID, WITH_VOLUME, dljob_object, job, pod

NOW = datetime.now(UTC).replace(microsecond=0)
SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/explain-v1.json").read_text())
IDLE: dict[str, Any] = {"type": "Idle", "status": "True", "reason": "AllGPUsIdle", "message": "8 GPUs idle since then"}
BUSY: dict[str, Any] = {
    "type": "Idle",
    "status": "False",
    "reason": "Active",
    "message": "GPU 0 of pod bert-0: util was over its idle level",
}
FINDING = {
    "category": "UnreleasedJob",
    "rule": "unreleased-job",
    "severity": "Warning",
    "confidence": "Likely",
    "detail": "All 8 GPUs have been idle for three hours",
    "sources": ["Metrics"],
}


def ago(minutes: float) -> str:
    return rfc3339(NOW - timedelta(minutes=minutes))


class Cluster(FakeApi):
    """One job with its Job and its pod, and the policy default."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def put(
        self, *, idle: dict[str, Any] | None = IDLE, finding: bool = True, mode: str = "Suspend", **record: Any
    ) -> None:
        conditions = [] if idle is None else [{**idle, "lastTransitionTime": ago(120)}]
        status = {
            "phase": "Running",
            "jobUID": JOB_UID,
            "conditions": conditions,
            "findings": [FINDING] if finding else [],
            **({"reclaim": record} if record else {}),
        }
        self.store(DLJOBS, "team", dljob_object(status=status, podTemplate=WITH_VOLUME))
        self.store(JOBS, "team", job())
        running = pod(started=ago(600))
        running["spec"]["terminationGracePeriodSeconds"] = 60
        self.store(PODS, "team", running)
        self.store(NAMESPACES, None, {"metadata": {"name": "team"}})
        self.policy(reclaim={"mode": mode})

    def policy(self, **spec: Any) -> None:
        kinds = {"apiVersion": "stoker.dev/v1alpha1", "kind": "UtilizationPolicy"}
        self.store(POLICIES, None, {**kinds, "metadata": {"name": "default", "generation": 3}, "spec": spec})


WARNED: dict[str, Any] = {
    "state": "Warned",
    "reason": "idle; will be reclaimed",
    "idleSince": ago(180),
    "warnedAt": ago(5),
    "deadline": ago(-10),
    "action": "Suspend",
    "jobUID": JOB_UID,
    "podUIDs": ["pod-0"],
    "history": [
        {"time": ago(5), "event": "ReclaimWarning", "reason": "UnreleasedJob", "policy": "default", "generation": 3}
    ],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    async def connect(**_: Any) -> Cluster:
        return made

    monkeypatch.setattr(Kubernetes, "connect", connect)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stoker, ["explain", "bert", "-n", "team", *arguments], env={"COLUMNS": "120"})


def document() -> dict[str, Any]:
    """The answer in JSON, which must be as published."""
    result = run("--format", "json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    Draft202012Validator(strict(SCHEMA)).validate(answer)
    return answer


def holds(answer: dict[str, Any]) -> dict[str, bool | None]:
    return {one["name"]: one["holds"] for one in answer["conditions"]}


def test_a_warned_job_shows_its_numbers_its_deadline_and_what_would_keep_it(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    answer = document()
    assert (answer["state"], answer["decisive"]) == ("Warned", "grace-over")
    assert (answer["nextDeadline"], answer["deadline"], answer["idle"]["since"]) == (ago(-10), ago(-10), ago(180))
    assert answer["cause"]["category"] == "UnreleasedJob"
    assert answer["policy"]["revisions"] == [{"name": "default", "generation": 3}]
    assert answer["history"] == WARNED["history"]
    assert (answer["policy"]["mode"], answer["policy"]["warningGrace"]) == ("Suspend", "15m")
    assert "snooze" in answer["change"]
    shown = run().stdout
    for words in (
        "team/bert  Warned",
        "idle; will be reclaimed",
        ago(-10),
        "default@3",
        "History",
        "warned: UnreleasedJob",
        "Is it due?",
    ):
        assert words in shown


def test_of_conditions_that_only_the_controller_can_ask_nothing_is_pretended(cluster: Cluster) -> None:
    cluster.put(**{**WARNED, "warnedAt": ago(30), "deadline": ago(10), "reason": "idle; five were reclaimed lately"})
    answer = document()
    assert answer["decisive"] is None
    unseen = {gate.name for gate in GATES if gate.reads & (Reads.CLUSTER | Reads.PROCESS)}
    assert {name for name, holds in holds(answer).items() if holds is None} == unseen
    assert answer["reason"] == "idle; five were reclaimed lately"


def test_the_deadline_is_the_controllers_whatever_floor_it_keeps_under_warnings(cluster: Cluster) -> None:
    # In an hour, so that the test may take its time.
    cluster.put(**{**WARNED, "warnedAt": ago(-60), "deadline": ago(-62)})
    cluster.policy(reclaim={"mode": "Suspend", "warningGrace": "2m"})
    assert document()["nextDeadline"] == ago(-62)


def test_it_says_when_the_controller_last_looked(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    cluster.objects[DLJOBS, "team", "bert"]["status"]["lookedAt"] = ago(0)
    answer = document()
    assert (answer["lookedAt"], answer["outOfDate"], answer["decisive"]) == (ago(0), False, "grace-over")
    assert f"last scan       {ago(0)} (" in run().stdout
    assert " ago)\n" in run().stdout


def test_what_stands_in_a_status_that_nobody_renews_is_not_taken_for_the_present(cluster: Cluster) -> None:
    down = {**BUSY, "status": "Unknown", "reason": "PrometheusUnavailable", "message": "connection refused"}
    for idle in (IDLE, down):
        cluster.put(idle=idle, **WARNED)
        cluster.objects[DLJOBS, "team", "bert"]["status"]["lookedAt"] = ago(25)
        answer = document()
        assert answer["outOfDate"] is True
        assert answer["decisive"] == ("scan-fresh" if idle is IDLE else "metrics-known")
        shown = " ".join(run().stdout.split())
        assert "no controller has scanned it since; what is shown may be out of date" in shown


def test_a_suspended_job_is_not_said_to_hold_gpus(cluster: Cluster) -> None:
    cluster.put(idle={**BUSY, "reason": "NotRunning", "message": "the job holds no GPUs"}, state="Active")
    cluster.objects[DLJOBS, "team", "bert"]["status"]["phase"] = "Suspended"
    cluster.objects[JOBS, "team", "bert"]["spec"]["suspend"] = True
    shown = run().stdout
    assert "requested, none held now" in shown
    assert "[ ] running: it is suspended" in shown
    assert "it holds GPUs" not in shown


def test_it_says_why_pods_are_not_there(cluster: Cluster) -> None:
    cluster.put()
    conditions = cluster.objects[DLJOBS, "team", "bert"]["status"]["conditions"]
    at = {"lastTransitionTime": ago(3)}
    conditions += [
        {"type": "PodsReady", "status": "False", "reason": "Queued", "message": "Kueue waits for quota", **at},
        {
            "type": "CreatedWithWarnings",
            "status": "True",
            "reason": "APIServerWarned",
            "message": "unknown field",
            **at,
        },
        {"type": "Analysed", "status": "False", "reason": "Budget", "message": "spec.script was not read", **at},
    ]
    shown = run().stdout
    for line in (
        "pods            Queued: Kueue waits for quota",
        "warnings        APIServerWarned: unknown field",
        "analysis        Budget: spec.script was not read",
    ):
        assert line in shown


def test_no_line_of_a_condition_denies_itself(cluster: Cluster) -> None:
    """A ticked box and an empty one stand before the same words, and a reason only behind an empty one."""
    cluster.put(**WARNED)
    lines = [line.strip() for line in run().stdout.splitlines()]
    assert "[x] owner warned" in lines
    assert any(line.startswith("[ ] grace period of the warning over: idle; will be reclaimed at") for line in lines)
    cluster.put(idle=BUSY, finding=False)
    lines = [line.strip() for line in run().stdout.splitlines()]
    assert "[ ] owner warned: not yet" in lines


def test_a_job_that_is_over_is_not_called_active(cluster: Cluster) -> None:
    cluster.put(state="Active", reason="its Job has ended")
    cluster.objects[DLJOBS, "team", "bert"]["status"]["phase"] = "Succeeded"
    assert run().stdout.startswith("team/bert  Succeeded\n")


def test_where_metrics_are_unknown_nothing_is_said_of_the_gpus(cluster: Cluster) -> None:
    cluster.put(idle={**BUSY, "status": "Unknown", "reason": "PrometheusUnavailable"}, **WARNED)
    answer = document()
    assert (answer["decisive"], answer["change"]) == ("metrics-known", None)
    assert (holds(answer)["pods-ready"], holds(answer)["all-idle"]) == (None, None)


def test_a_job_under_a_policy_that_observes_is_told_what_would_happen(cluster: Cluster) -> None:
    cluster.put(mode="Observe", state="Idle", action="Observe", idleSince=ago(180), reason="would be reclaimed")
    answer = document()
    assert (answer["decisive"], "Suspend" in answer["change"]) == ("mode", True)


def test_a_busy_job_says_which_gpu_works(cluster: Cluster) -> None:
    cluster.put(idle=BUSY, state="Active", reason="its GPUs are used")
    answer = document()
    assert (answer["decisive"], answer["idle"]["state"]) == ("all-idle", "Active")
    assert (answer["idle"]["message"], answer["change"]) == (BUSY["message"], None), "what is so is no advice"
    cause = next(one for one in answer["conditions"] if one["name"] == "cause")
    assert "idle" not in (cause["reason"] or ""), "of a busy job"
    assert holds(answer)["idle-long-enough"] is None


def test_a_job_that_nobody_has_looked_at_is_unknown_not_idle(cluster: Cluster) -> None:
    cluster.put(idle=None, finding=False)
    answer = document()
    assert (answer["state"], answer["decisive"], answer["idle"]["state"]) == (None, "metrics-known", "Unknown")
    assert "not scanned" in run().stdout


def test_a_reclaimed_job_says_how_to_bring_it_back(cluster: Cluster) -> None:
    cluster.put(**{**WARNED, "state": "Reclaimed", "reclaimedAt": ago(1)})
    assert document()["decisive"] is None
    assert "stoker resume bert -n team" in run().stdout
    cluster.put(**{**WARNED, "state": "Reclaimed", "reclaimedAt": ago(1), "action": "Delete"})
    assert "deleted for good" in run().stdout


def test_a_snooze_that_the_controller_has_not_taken_yet_is_heard(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    raw = cluster.objects[DLJOBS, "team", "bert"]
    raw["metadata"]["annotations"] = {"stoker.dev/snooze-until": ago(-60)}
    answer = document()
    assert (answer["decisive"], answer["nextDeadline"]) == ("not-snoozed", ago(-60))


def test_a_session_that_was_opened_is_seen(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    cluster.objects[DLJOBS, "team", "bert"]["status"]["lastSession"] = ago(1)
    assert document()["decisive"] == "unattended"


def test_a_brake_is_read_from_the_policy(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    brake = {"since": ago(2), "message": "40 of 60 GPUs turned idle at once"}
    cluster.objects[POLICIES, None, "default"]["status"] = {"brake": brake}
    answer = document()
    assert "release-brake" in answer["change"]
    assert answer["decisive"] == "brake-off"
    assert any("40 of 60" in (one["reason"] or "") for one in answer["conditions"])


@pytest.mark.parametrize("phase, words", [("Succeeded", "it has ended"), ("Suspended", "it has no Job")])
def test_a_job_without_a_job_is_out_of_reach(cluster: Cluster, phase: str, words: str) -> None:
    cluster.put(state="Active")
    del cluster.objects[JOBS, "team", "bert"]
    cluster.objects[DLJOBS, "team", "bert"]["status"]["phase"] = phase
    answer = document()
    assert answer["decisive"] == "touchable"
    assert words in next(one["reason"] for one in answer["conditions"] if one["name"] == "touchable")


def test_of_policies_that_may_not_be_read_nothing_is_pretended(cluster: Cluster) -> None:
    cluster.put(**WARNED)

    def refuse(request: str) -> None:
        if request == "list utilizationpolicies":
            raise ForbiddenError("list", code=403, reason="Forbidden")

    cluster.before = refuse
    cluster.put(**{**WARNED, "idleSince": ago(40)})  # less than the built-in idleAfter, which is not the policy's
    answer = document()
    assert (answer["decisive"], answer["nextDeadline"]) == ("grace-over", ago(-10)), "by what the record says"
    assert holds(answer)["idle-long-enough"] is None
    assert "you may not read it" in run().stdout
    consent = [one for one in answer["conditions"] if one["question"] == GateGroup.CONSENT]
    assert {(one["holds"], one["reason"]) for one in consent} == {(None, "you may not read the policies")}
    assert any("you may not read the policies" in note for note in answer["notes"])


def test_a_namespace_that_may_not_be_read_is_said_to_have_no_labels(cluster: Cluster) -> None:
    cluster.put(**WARNED)
    del cluster.objects[NAMESPACES, None, "team"]
    assert document()["notes"] == [
        "the labels of namespace team may not be read: policies are selected as if it had none"
    ]


def test_what_is_not_there_and_what_can_not_be_read_are_errors_in_one_line(cluster: Cluster) -> None:
    missing = run()
    assert (missing.exit_code, missing.output) == (1, 'Error: no dljob "bert" in namespace "team"\n')
    cluster.put()
    cluster.objects[DLJOBS, "team", "bert"]["spec"]["gpusPerNode"] = "eight"
    unreadable = run()
    assert (unreadable.exit_code, "spec.gpusPerNode" in unreadable.output) == (1, True)
    assert "Traceback" not in unreadable.output


@pytest.mark.parametrize(
    "seen",
    [
        Idleness(state=IdlenessState.IDLE, observed_at=NOW, since=NOW),
        Idleness(state=IdlenessState.ACTIVE, observed_at=NOW),
        Idleness(state=IdlenessState.WAITING, observed_at=NOW),
        *(Idleness(state=IdlenessState.UNKNOWN, observed_at=NOW, reason=reason) for reason in UnknownReason),
    ],
)
def test_the_condition_idle_is_read_as_the_controller_writes_it(seen: Idleness) -> None:
    fact = idle_fact(seen)
    raw = {"type": fact.type, "status": fact.status, "reason": fact.reason, "lastTransitionTime": rfc3339(NOW)}
    read = idleness_of_condition(Condition.model_validate(raw), None, frozenset(), NOW)
    assert (read.state, read.reason, read.since) == (seen.state, seen.reason, seen.since)
