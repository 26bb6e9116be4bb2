"""Policies change what is refused while the process runs."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from e2e.cluster.waiting import slowness
from e2e.operator import ADMISSION, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, action, dljob, eventually, policy

pytestmark = pytest.mark.e2e

RULE = "launcher-too-few"


def test_an_action_changes_live_from_deny_to_warn_to_off_and_back(submitter: Submitter) -> None:
    job = dljob("bert", TOO_FEW)
    assert submitter.refused(job)
    submitter.cluster.apply(policy(**action(RULE, "Warn")))
    eventually(lambda: not submitter.refused(job))
    assert f"Warning: {RULE}: spec.script" in submitter.create(job, "--dry-run=server").stderr
    submitter.cluster.apply(policy(**action(RULE, "Off")))
    eventually(lambda: submitter.create(job, "--dry-run=server").stderr == "")
    submitter.cluster.apply(policy(**action(RULE, "Deny")))
    eventually(lambda: submitter.refused(job))


def test_an_audited_rule_passes_in_silence_and_is_counted(operator: Operator, submitter: Submitter) -> None:
    job = dljob("bert", TOO_FEW)
    submitter.cluster.apply(policy(**action(RULE, "Audit")))
    eventually(lambda: not submitter.refused(job))
    before = operator.metric("stoker_admission_findings_total", rule=RULE, action="Audit")
    passed = submitter.create(job, "--dry-run=server")
    assert (passed.returncode, passed.stderr) == (0, "")
    assert operator.metric("stoker_admission_findings_total", rule=RULE, action="Audit") == before + 1
    assert operator.metric("stoker_admission_reviews_total", kind="DLJob", verdict="deny") > 0


def test_an_author_suppresses_what_the_policy_lets_them_and_lint_agrees(submitter: Submitter) -> None:
    few = dljob("bert", TOO_FEW.replace("\n", "  # stoker: ignore[launcher-too-few] the rest is for evaluation\n"))
    latest = dljob("bert", image="registry.example.com/nlp/bert:latest")
    latest["metadata"]["annotations"] = {"ignore.stoker.dev/image-unpinned": "tags are immutable here"}
    passed = submitter.create(latest, "--dry-run=server")
    assert (passed.returncode, passed.stderr) == (0, "")
    assert linted(submitter, latest) == "allow"

    refused = submitter.create(few, "--dry-run=server")
    assert refused.returncode == 1
    assert 'spec.script:1: "# stoker: ignore[launcher-too-few]" has no effect' in refused.stderr
    assert linted(submitter, few) == "deny"

    submitter.cluster.apply(policy(suppressible=["*"]))
    eventually(lambda: not submitter.refused(few))
    assert submitter.create(few, "--dry-run=server").stderr == ""
    assert linted(submitter, few) == "allow"


def linted(submitter: Submitter, job: dict[str, Any]) -> str:
    """The verdict of `stoker lint` by the cluster's own policies."""
    held = submitter.cluster.kubectl("get", "utilizationpolicies,namespaces", "-o", "json")
    with NamedTemporaryFile("w", suffix=".json") as policies:
        policies.write(held)
        policies.flush()
        given = ["--policy", policies.name] if '"UtilizationPolicy"' in held else []
        command = [sys.executable, "-m", "stoker", "lint", "-", "--format", "json", "-n", submitter.namespace, *given]
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    (file,) = json.loads(done.stdout)["files"]
    verdict: str = file["verdict"]
    return verdict


def test_an_exemption_ends_by_itself(submitter: Submitter) -> None:
    job = dljob("bert", TOO_FEW)
    until = (datetime.now(UTC) + timedelta(seconds=8 * slowness())).isoformat()
    exempt = {"jobSelector": {"matchLabels": {}}, "rules": [RULE], "until": until, "reason": "for a moment"}
    submitter.cluster.apply(policy(exemptions=[exempt]))
    eventually(lambda: not submitter.refused(job), within=7)
    eventually(lambda: submitter.refused(job), within=20)


def test_a_stricter_policy_denies_what_was_warned_of(submitter: Submitter) -> None:
    job = dljob("bert", image="registry.example.com/nlp/bert:latest")
    assert not submitter.refused(job)
    submitter.cluster.apply(policy(**action("image-unpinned", "Deny")))
    eventually(lambda: submitter.refused(job))


def test_a_policy_for_some_namespaces_counts_in_them_alone_and_follows_their_labels(submitter: Submitter) -> None:
    job = dljob("bert", TOO_FEW)
    cluster = submitter.cluster
    submitter.cluster.apply(
        policy("lenient", namespaceSelector={"matchLabels": {"e2e.stoker.dev/tier": "play"}}, **action(RULE, "Warn"))
    )
    playground = Submitter(cluster, cluster.create_namespace("play", {"e2e.stoker.dev/tier": "play"}))
    eventually(lambda: not playground.refused(job))
    assert submitter.refused(job)
    cluster.kubectl("label", "namespace", playground.namespace, "e2e.stoker.dev/tier-")
    eventually(lambda: playground.refused(job))


def test_an_exemption_lets_the_jobs_it_selects_pass(submitter: Submitter) -> None:
    exempt = {"matchLabels": {"stoker.dev/team": "compilers"}}
    submitter.cluster.apply(
        policy(exemptions=[{"jobSelector": exempt, "rules": [RULE], "reason": "drives 8 GPUs from 4 processes"}])
    )
    eventually(lambda: not submitter.refused(dljob("bert", TOO_FEW, labels={"stoker.dev/team": "compilers"})))
    assert submitter.refused(dljob("bert", TOO_FEW, labels={"stoker.dev/team": "nlp"}))


def test_an_update_is_refused_only_for_what_it_introduces(submitter: Submitter) -> None:
    """A policy made stricter does not lock the jobs that are there; the same update may not bring in a new fault."""
    submitter.cluster.apply(
        policy(exemptions=[{"jobSelector": {"matchLabels": {"exempt": "yes"}}, "reason": "on trial"}])
    )
    job = dljob("bert", TOO_FEW, labels={"exempt": "yes"})
    eventually(lambda: not submitter.refused(job))
    assert submitter.create(job).returncode == 0
    suspend = json.dumps({"metadata": {"labels": {"exempt": "no"}}, "spec": {"suspend": True}})
    refused = submitter.kubectl("patch", "dljob", "bert", "--type=merge", f"--patch={suspend}")
    assert refused.returncode == 1
    assert RULE in refused.stderr

    submitter.cluster.kubectl("delete", "utilizationpolicy", "default")
    eventually(lambda: submitter.refused(dljob("other", TOO_FEW, labels={"exempt": "yes"})))
    for change in ({"suspend": True}, {"suspend": False}, {"ttlSecondsAfterFinished": 3600}):
        patch = json.dumps({"spec": change})
        changed = submitter.kubectl("patch", "dljob", "bert", "--type=merge", f"--patch={patch}")
        assert changed.returncode == 0, changed.stderr


@pytest.mark.parametrize(
    "spec, field",
    [
        ({"reclaim": {"idleAfter": "soon"}}, "spec.reclaim.idleAfter"),
        ({"rules": {RULE: {"action": "Refuse"}}}, f"spec.rules[{RULE}].action"),
        ({"thresholds": {"lowPercent": 101}}, "spec.thresholds.lowPercent"),
        ({"thresholds": {"lowPercent": 3, "idlePercent": 5}}, "spec.thresholds.idlePercent: idlePercent"),
        ({"rules": {RULE: {"parameters": {"most": 3}}}}, f"spec.rules[{RULE}].parameters.most: unknown"),
        ({"reclaim": {"idleAfter": "10m"}}, "spec.reclaim.idleAfter: '10m': must be at least 12m"),
        (
            {"exemptions": [{"reason": "r", "jobSelector": {"matchLabels": {"team": "deep learning"}}}]},
            "spec.exemptions[0].jobSelector.matchLabels[team]: 'deep learning': must be a label's value",
        ),
    ],
)
def test_an_invalid_policy_is_refused_and_the_one_before_stays_in_force(
    spec: dict[str, Any], field: str, submitter: Submitter
) -> None:
    job = dljob("bert", TOO_FEW)
    submitter.cluster.apply(policy(**action(RULE, "Warn")))
    eventually(lambda: not submitter.refused(job))
    refused = submitter.kubectl("apply", "-f", "-", manifest=policy(**spec))
    assert refused.returncode == 1
    assert field in refused.stderr.replace(f".{RULE}", f"[{RULE}]").replace('\\"', '"')
    assert not submitter.refused(job)


def test_an_unknown_field_in_a_policy_is_refused_by_name(submitter: Submitter) -> None:
    refused = submitter.kubectl("apply", "-f", "-", manifest=policy(exemption=[]))
    assert refused.returncode == 1
    assert 'unknown field "spec.exemption"' in refused.stderr


def test_what_the_policy_default_makes_contradict_is_refused_in_the_override(submitter: Submitter) -> None:
    submitter.cluster.apply(policy(thresholds={"lowPercent": 3}))
    other = policy("other", namespaceSelector={}, thresholds={"idlePercent": 5})
    eventually(lambda: submitter.kubectl("apply", "--dry-run=server", "-f", "-", manifest=other).returncode == 1)


def test_an_unknown_rule_in_a_policy_is_warned_of(submitter: Submitter) -> None:
    created = submitter.kubectl("apply", "-f", "-", manifest=policy(**action("launcher-to-few", "Warn")))
    assert created.returncode == 0
    assert (
        "Warning: spec.rules[launcher-to-few]: there is no rule launcher-to-few, so its Warn has no effect;"
        " did you mean launcher-too-few?" in created.stderr.splitlines()
    )


def test_an_invalid_policy_that_came_past_the_webhook_leaves_the_last_good_one_in_force(
    submitter: Submitter, webhook: Webhook
) -> None:
    cluster, job = submitter.cluster, dljob("bert", TOO_FEW)
    cluster.apply(policy(**action(RULE, "Warn")))
    eventually(lambda: not submitter.refused(job))
    invalid = policy(reclaim={"schedule": [{"start": "18:00", "end": "08:00", "timeZone": "Mars/Olympus"}]})
    assert "spec.reclaim.schedule[0].timeZone" in submitter.kubectl("apply", "-f", "-", manifest=invalid).stderr
    with webhook.removed():
        eventually(lambda: submitter.kubectl("apply", "-f", "-", manifest=invalid).returncode == 0)
    eventually(lambda: "default is invalid, the last valid one stays in force" in cluster.log(ADMISSION))
    eventually(lambda: f"Warning: {RULE}" in submitter.create(job, "--dry-run=server").stderr)
    assert not submitter.refused(job)
