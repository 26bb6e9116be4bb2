"""Jobs that are never reclaimed, whatever the numbers say: each on the real control plane, at rest beside a twin that
is reclaimed.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pytest
import yaml

from e2e.cluster.waiting import wait_for
from e2e.operator import CHART, NAMESPACE
from e2e.scenarios.never_reclaimed.cast import OTHERS, RECLAIMED, SESSIONS, TYPISTS, Cast
from e2e.scenarios.reclaim.idling import happened

SPARED = {
    "serving": "^Exempt: a service is never reclaimed",
    "vllm": r"^Exempt: a service is never reclaimed \(its program serves a model\)",
    "triton": r"^Exempt: a service is never reclaimed \(its program serves a model\)",
    "listening": r"^Exempt: a service is never reclaimed \(its container declares port 8000\)",
    "without-volume": "^Idle: would be reclaimed .* results may be lost",
    "scratch-only": "^Idle: would be reclaimed .* results may be lost",
    "slow-upload": "^Idle: idle, but only reported: the finding UnreleasedJob is only possible",
    "stalled": "^Active: a GPU was used within idleAfter",
    "shared": r"^Unknown: .*Idle=Unknown Partial: GPU \d of pod shared-0-\w+ is shared by several pods",
    "partitioned": r"^Unknown: .*Idle=Unknown NoSamples: utilization samples for 0 of 1 GPU of pod partitioned",
    "pulling": r"Idle=False WaitingForPods: the trainer of pod pulling-0-\w+ has not started",
    "initializing": r"Idle=False WaitingForPods: the trainer of pod initializing-0-\w+ has not started",
    "not-ready": r"Idle=False WaitingForPods: pod not-ready-0-\w+ is not ready",
    "waiting": r"Idle=False WaitingForPods: the trainer of pod waiting-[01]-\w+ has not started",
    "terminating": r"Idle=False WaitingForPods: pod terminating-0-\w+ is terminating",
    "deleted": "",
    "deleted-job": "^Active: its Job is being deleted",
    "succeeding": "^Active: its Job has ended",
    "failing": "^Active: its Job has ended",
    "sidecar": r"Idle=False WaitingForPods: the trainer of pod sidecar-0-\w+ has ended",
    "interactive": "^Idle: would be reclaimed .* an interactive job that writes to no volume .* only observed",
    "attended": "^Active: somebody works in it: a session was opened at ",
    "typing": "^Active: somebody works in it: its CPUs were busy at ",
    "notebook": r"^Unknown: it is unknown whether somebody works in it: its Jupyter in pod notebook-0-\w+: ",
}
"""What the status says of each, as `Cast.why` puts it; what is being deleted is written to no more."""


@pytest.mark.parametrize("name", RECLAIMED)
def test_a_job_at_rest_is_reclaimed_beside_them(cast: Cast, name: str) -> None:
    assert cast.of(name).is_suspended(name)
    assert cast.busiest(name) == 0


@pytest.mark.parametrize("name", SPARED)
def test_it_is_neither_warned_nor_suspended_though_its_gpus_rest(cast: Cast, name: str) -> None:
    home = cast.of(name)
    assert not home.is_suspended(name), cast.why(name)
    assert "suspended-by" not in str(home.job(name)["metadata"].get("annotations")), cast.why(name)
    assert not home.events(name, "ReclaimWarning"), cast.why(name)
    assert "ReclaimWarning" not in happened(home.record(name)), cast.why(name)

    def is_explained() -> bool:
        """The controller writes it at its next look."""
        assert re.search(SPARED[name], cast.why(name)), cast.why(name)
        return True

    wait_for(f"the status to say why {name} is spared", is_explained)
    if name != "stalled":
        assert cast.busiest(name) == 0, "its metrics say nothing against it"


def test_nobody_is_left_out() -> None:
    assert {*OTHERS, *TYPISTS} - {*RECLAIMED} == {*SPARED}


def test_a_job_that_hangs_is_reported(cast: Cast) -> None:
    def reported() -> bool:
        findings = cast.main.status("stalled").get("findings", [])
        assert "Stalled" in {finding["category"] for finding in findings}, findings
        return True

    wait_for("the finding", reported)


def test_a_session_stands_in_the_status_beside_what_the_controller_writes(cast: Cast) -> None:
    status = cast.main.status("attended")
    assert datetime.fromisoformat(status["lastSession"]) >= cast.opened_at
    assert status["phase"] == "Running"
    assert cast.operator.metric("stoker_admission_sessions_total", result="noted") == 1
    assert cast.operator.metric("stoker_admission_reviews_total", kind="Session", verdict="allow") >= 1


# ------------------------------------------------------------------------------------------------ the chart's webhook


def rendered(cast: Cast, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all(cast.operator.cluster.helm_template(CHART, namespace=NAMESPACE, values=values))
    return [document for document in documents if document]


def rights(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules of the admission account."""
    [role] = [
        one for one in documents if one["kind"] == "ClusterRole" and one["metadata"]["name"].endswith("admission")
    ]
    rules: list[dict[str, Any]] = role["rules"]
    return rules


def webhooks(documents: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    [found] = [one for one in documents if one["kind"] == "ValidatingWebhookConfiguration"]
    return {webhook["name"]: webhook for webhook in found["webhooks"]}


def test_sessions_are_told_of_only_where_the_chart_is_asked_to_and_never_in_the_way(cast: Cast) -> None:
    """Out of the box neither the webhook is there nor the rights that noting a session takes."""
    off, on = rendered(cast, {}), rendered(cast, {"admission": {**SESSIONS["admission"], "failurePolicy": "Fail"}})
    assert "sessions.stoker.dev" not in webhooks(off)
    webhook = webhooks(on)["sessions.stoker.dev"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    excluded = webhook["namespaceSelector"]["matchExpressions"][0]
    assert (excluded["operator"], set(excluded["values"])) == ("NotIn", {"kube-system", NAMESPACE})
    assert [rule["operations"] for rule in webhook["rules"]] == [["CONNECT"]]
    more = [rule for rule in rights(on) if rule not in rights(off)]
    assert more == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["stoker.dev"], "resources": ["dljobs/status"], "verbs": ["patch"]},
    ]


def test_an_object_selector_would_see_no_session_at_all(cast: Cast) -> None:
    """Which is why the webhook has none: what is connected to has no labels, whatever its pod has."""
    home = cast.main
    pod = home.pods("attended")[0]["metadata"]["name"]
    assert "stoker.dev/dljob" in home.pods("attended")[0]["metadata"]["labels"]
    hook: dict[str, Any] = {
        "name": "closed.e2e.stoker.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    by_label = {"objectSelector": {"matchExpressions": [{"key": "stoker.dev/dljob", "operator": "Exists"}]}}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

    def asks_the_webhook() -> bool:
        answer = home.cluster.run_kubectl("exec", pod, f"--namespace={home.namespace}", "--", "ls")
        return "failed calling webhook" in answer.stderr

    home.cluster.api("POST", path, {"metadata": {"name": "e2e-all"}, "webhooks": [hook]})
    wait_for("the webhook to be asked", asks_the_webhook)
    closed = {"webhooks": [{**hook, **by_label}]}
    home.cluster.api("PATCH", f"{path}/e2e-all", closed, "application/merge-patch+json")
    wait_for("sessions to be open again", lambda: not asks_the_webhook())
    home.cluster.api("DELETE", f"{path}/e2e-all")
