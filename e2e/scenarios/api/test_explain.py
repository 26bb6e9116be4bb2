"""`stoker explain` on the API server, for an administrator and for somebody who may only view one namespace."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from e2e.cluster.waiting import wait_for
from e2e.scenarios.api.applying import Applier, dljob, policy
from stoker.findings.finding import rfc3339

pytestmark = pytest.mark.e2e

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/explain-v1.json").read_text())
NOW = datetime.now(UTC)
DEADLINE = rfc3339(NOW + timedelta(hours=2))


def explain(applier: Applier, name: str, kubeconfig: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "stoker", "explain", name, "-n", applier.namespace, "--format", "json"]
    env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(answer)
    return answer


@pytest.fixture
def warned(applier: Applier) -> str:
    """A job that bears a warning. No controller runs here: what it would have written is written by hand."""
    applier.create(policy(reclaim={"mode": "Suspend", "warningGrace": "1h"}))
    applier.create(dljob("bert", script="torchrun train.py; sleep infinity"))
    since = rfc3339(NOW - timedelta(hours=3))
    idle = {"type": "Idle", "status": "True", "reason": "AllGPUsIdle", "message": "8 GPUs", "lastTransitionTime": since}
    record = {"state": "Warned", "reason": "idle", "idleSince": since, "warnedAt": rfc3339(NOW), "deadline": DEADLINE}
    status = {"phase": "Running", "conditions": [idle], "reclaim": {**record, "action": "Suspend"}}
    done = applier.run(
        "patch", "dljob", "bert", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )
    assert done.returncode == 0, done.stderr
    return "bert"


def test_an_administrator_sees_every_condition_with_the_policys_numbers(applier: Applier, warned: str) -> None:
    answer = explain(applier, warned, applier.cluster.kubeconfig)
    assert (answer["state"], answer["deadline"], answer["policy"]["warningGrace"]) == ("Warned", DEADLINE, "1h")
    assert (answer["decisive"], answer["notes"]) == ("touchable", [])
    reasons = {one["name"]: one["reason"] for one in answer["conditions"]}
    assert reasons["touchable"] == "it has no Job"
    assert answer["idle"]["state"] == "Idle"


def test_who_may_view_the_namespace_alone_is_told_what_is_not_seen(applier: Applier, warned: str) -> None:
    cluster, namespace = applier.cluster, applier.namespace
    cluster.kubectl("create", "serviceaccount", "viewer", "-n", namespace)
    account = f"--serviceaccount={namespace}:viewer"
    cluster.kubectl("create", "rolebinding", "viewer", "--clusterrole=view", account, "-n", namespace)
    viewer = cluster.service_account_kubeconfig(namespace, "viewer")
    answer = explain(applier, warned, viewer)
    assert (answer["state"], answer["deadline"], answer["policy"]["mode"]) == ("Warned", DEADLINE, "Suspend")
    assert any("you may not read" in note for note in answer["notes"])
    assert {one["holds"] for one in answer["conditions"] if one["name"] in {"mode", "checkpoint-grace"}} == {None}
    page = (Path(__file__).parents[3] / "docs/reclaim.md").read_text()
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("kubectl create clusterrole")]
    for command in commands:
        cluster.kubectl(*command)
    try:
        seen = wait_for("the role to take effect", lambda: _without_notes(explain(applier, warned, viewer)))
        assert seen["policy"]["warningGrace"] == "1h"
    finally:
        for _, kind, name, *_ in commands:
            cluster.kubectl("delete", kind, name)


def _without_notes(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["notes"] == []
    return answer
