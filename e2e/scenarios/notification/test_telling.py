"""Who is told, of what, and how often, on a job's way from its warning to its GPUs' return and back."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.cluster.provider import Cluster, CommandError
from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.notification.webhook import Webhook, listening
from e2e.scenarios.reclaim.idling import Idling

SECRET = "hk-s3cr3t-f00"
"""A part of every address, as a token is."""
POLICY = ("utilizationpolicies", "default")


def policy(**notification: Any) -> dict[str, Any]:
    reclaim: dict[str, Any] = {"mode": "Suspend", "idleAfter": "30m", "startupGrace": "10m", "warningGrace": "1m"}
    reclaim |= {"minTerminationGrace": "0s", "trainingWithoutVolume": True}
    spec = {"reclaim": reclaim, "notification": {"secretKey": "ops", **notification}}
    metadata = {"name": "default"}
    return {"apiVersion": "stoker.dev/v1alpha1", "kind": "UtilizationPolicy", "metadata": metadata, "spec": spec}


def audit(operator: Operator) -> list[dict[str, Any]]:
    """The audit's lines of all controllers so far."""
    return [json.loads(line) for line in operator.cluster.log(CONTROLLER).splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Iterator[Cluster]:
    cluster = start_cluster("notification")
    cluster.add_nodes(2)
    cluster.start_prometheus()
    yield cluster
    cluster.stop()


def test_owner_and_team_are_told_once_each_though_the_controller_is_killed_and_their_server_fails(
    cluster: Cluster,
) -> None:
    folder = cluster.folder / "notification"
    folder.mkdir()
    operator = Operator(cluster)
    with listening() as webhook:
        (folder / "ops").write_text(
            f"# the owner, and the room\njson://127.0.0.1:{webhook.port}/{SECRET}/{{owner}}\n"
            f"json://127.0.0.1:{webhook.port}/{SECRET}/{{namespace}}/of-nobody/{{team}}\n"
            f"json://127.0.0.1:{webhook.port}/{SECRET}/room\n"
        )
        environment = {"STOKER_NOTIFICATION_FOLDER": str(folder)}
        operator.start(scan_interval="1s", minimum_warning_grace="1m", environment=environment)
        refuse_a_template_that_is_none(operator)
        idling = Idling(operator, cluster, cluster.create_namespace("telling"))
        idling.start("idle", labels={"stoker.dev/owner": "ada"})
        idling.remember()
        webhook.refusals = 3
        now = datetime.now(UTC)
        words = {"warned": "{owner}: {job} until {deadline}"}
        cluster.apply(policy(digest={"at": (now + timedelta(hours=12)).strftime("%H:%M")}, templates=words))
        # A digest begins after the second in which the last one ended; the warning may come in this one.
        begun = json.dumps({"status": {"lastDigest": (now - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")}})
        cluster.kubectl("patch", *POLICY, "--subresource=status", "--type=merge", f"--patch={begun}")

        wait_until_notified(idling, webhook, "Warned")
        operator.crash()
        wait_for("it to be reclaimed", lambda: idling.status("idle").get("phase") == "Reclaimed", timeout=150)
        wait_until_notified(idling, webhook, "Reclaimed")
        # Only now, so that the digest tells of all that came before, however long it took.
        due = (datetime.now(UTC) + timedelta(minutes=1)).replace(second=0, microsecond=0)
        cluster.apply(policy(digest={"at": due.strftime("%H:%M")}, templates=words))
        operator.crash()
        wait_for("the digest", lambda: len(webhook.titles(f"/{SECRET}/room")) == 3, timeout=left(due) + 60)
        wait_for("its note", lambda: last_digest(operator) == due.strftime("%Y-%m-%dT%H:%M:00Z"))
        idling.settled("idle")

        name = f"{idling.namespace}/idle"
        (digest,) = (title for title in webhook.titles(f"/{SECRET}/room") if title.startswith("Policy "))
        warned, reclaimed = (title for title in webhook.titles(f"/{SECRET}/room") if title != digest)
        assert webhook.titles(f"/{SECRET}/ada") == [warned, reclaimed], "a digest is about nobody's job"
        assert warned.startswith(f"{name} will be suspended at ")
        assert reclaimed == f"{name} was suspended: its GPUs were idle"
        assert digest.startswith("Policy default: 1 warned")
        assert len(webhook.taken) == 5, webhook.taken
        assert webhook.taken[0][1]["message"].startswith("ada: idle until 20")
        nothing_is_given_away(operator, idling)
        each_event_is_audited_once(operator, idling)


def wait_until_notified(idling: Idling, webhook: Webhook, event: str) -> None:
    """Wait until a message has reached everybody and that is noted."""

    def noted() -> bool:
        notified = idling.status("idle").get("reclaim", {}).get("notified", [])
        results = [(entry["event"], entry["result"]) for entry in notified]
        assert (event, "Sent") in results, (notified, webhook.taken)
        return True

    wait_for(f"the message {event}", noted, timeout=90)
    # An address that has failed is tried again by itself.
    times = 1 if event == "Warned" else 2
    wait_for("the owner", lambda: len(webhook.titles(f"/{SECRET}/ada")) == times, timeout=30)


def left(until: datetime) -> float:
    """Seconds until then; 0 when it is over."""
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)


def last_digest(operator: Operator) -> str:
    return operator.cluster.kubectl("get", *POLICY, "-o", "jsonpath={.status.lastDigest}")


def refuse_a_template_that_is_none(operator: Operator) -> None:
    with pytest.raises(CommandError) as refused:
        operator.cluster.apply(policy(templates={"warned": "{job.metadata}"}))
    assert "spec.notification.templates.warned: {job.metadata} is unknown" in str(refused.value)


def nothing_is_given_away(operator: Operator, idling: Idling) -> None:
    cluster = operator.cluster
    public = [
        cluster.log(CONTROLLER),
        operator.metrics_page(),
        cluster.kubectl("get", "events,dljobs,jobs,pods", "-n", idling.namespace, "-o", "yaml"),
        cluster.kubectl("get", "utilizationpolicies", "-o", "yaml"),
    ]
    assert all(SECRET not in text for text in public)


def each_event_is_audited_once(operator: Operator, idling: Idling) -> None:
    lines = [line for line in audit(operator) if line.get("job") == "idle"]
    events = Counter(line["event"] for line in lines)
    assert (events["ReclaimWarning"], events["Reclaimed"]) == (1, 1), lines
    (warning,) = [line for line in lines if line["event"] == "ReclaimWarning"]
    record = idling.status("idle")["reclaim"]
    assert warning["deadline"] == record["deadline"]
    gpus = idling.status("idle")["gpus"]
    assert (warning["namespace"], warning["owner"], warning["gpus"]) == (idling.namespace, "ada", gpus)
    assert warning["policies"] == record["policies"] == [{"name": "default", "generation": 1}]
    assert warning["coveragePercent"] >= 90
    warnings = [entry for entry in record["history"] if entry["event"] == "ReclaimWarning"]
    assert any((entry["policy"], entry["generation"]) == ("default", 1) for entry in warnings)
