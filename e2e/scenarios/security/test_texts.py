"""Tenants' texts stay text in logs, statuses and terminals; secrets reach none of them, at the level debug either."""

import json
import re
from collections.abc import Iterator
from typing import Any

from e2e.cluster.waiting import wait_for
from e2e.operator import ADMISSION, CONTROLLER, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, dljob
from e2e.scenarios.lifecycle.workload import MERGE
from e2e.scenarios.security.conftest import PASSWORD
from e2e.scenarios.security.people import DLJOBS, TEXTS, Person, stoker

SECRET = "s3cr3t-value"
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000 [A-Z]+ [\w.]+: |\{\"time\": )")


def logs(operator: Operator) -> Iterator[str]:
    for process in (ADMISSION, CONTROLLER):
        yield from (operator.cluster.logs / f"{process}.log").read_text().splitlines()


def texts(value: Any) -> Iterator[str]:
    """All texts of an object, but for the copies by which an annotation is known to have been answered."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in {"handledSnooze", "handledResume"}:
                yield from texts(one)


def test_no_text_of_a_tenant_commands_a_terminal_or_looks_like_a_line_of_the_log(
    operator: Operator, tenant: Person
) -> None:
    wrong = dljob("wrong", f"echo '{TEXTS}'\n{TOO_FEW}")
    refused = tenant.kubectl("create", "-f", "-", manifest=json.dumps(wrong))
    assert "launcher-too-few" in refused.stderr
    assert not COMMANDS.search(refused.stderr)

    annotations = {"stoker.dev/snooze-until": TEXTS, "stoker.dev/snooze-reason": TEXTS, "stoker.dev/resume": TEXTS}
    tenant.jobs.create("bert", annotations={**annotations, "stoker.dev/jupyter": TEXTS}, script=f"python '{TEXTS}.py'")
    tenant.jobs.wait_phase("bert", "Running")
    tenant.request(
        "PATCH", f"{DLJOBS}/bert", {"metadata": {"annotations": {"stoker.dev/snooze-until": f"1{TEXTS}"}}}, MERGE
    )
    wait_for("the snooze to be answered", lambda: tenant.jobs.events("bert", "SnoozeIgnored"))
    told = list(texts([tenant.jobs.get("bert")["status"], tenant.jobs.events("bert")]))
    assert len(told) > 20
    assert [text for text in told if COMMANDS.search(text)] == []
    assert [line for line in logs(operator) if COMMANDS.search(line) or not LINE.match(line)] == []
    for command in (("explain", "bert"), ("diagnose", "bert")):
        done = stoker(tenant, *command)
        assert done
        assert not COMMANDS.search(done), done


def test_no_secret_is_logged_or_stands_in_a_status(operator: Operator, tenant: Person) -> None:
    """Values of a job's environment, also where it fails, and the password for Prometheus, which is not there."""
    env = [{"name": "TOKEN", "value": SECRET}]
    tenant.jobs.create("bert", env=env)
    tenant.jobs.create("broken", env=env, pod_template={"serviceAccountName": "nobody"})
    wrong = dljob("wrong", TOO_FEW, env=env)
    assert SECRET not in tenant.kubectl("create", "-f", "-", manifest=json.dumps(wrong)).stderr
    tenant.jobs.wait_phase("bert", "Running")
    tenant.jobs.wait_condition("broken", "PodsReady", "False", "PodsNotCreated")
    tenant.refusal("PATCH", f"{DLJOBS}/bert", {"spec": {"env": [{"name": "TOKEN", "value": f"{SECRET}-2"}]}}, MERGE)
    tenant.jobs.wait_condition("bert", "Idle", "Unknown")
    said = json.dumps([tenant.jobs.get(name)["status"] for name in ("bert", "broken")])
    said += json.dumps([tenant.jobs.events(name) for name in ("bert", "broken")])
    said += "".join(logs(operator)) + operator.metrics_page() + operator.metrics_page(ADMISSION)
    assert "DEBUG" in said
    assert SECRET not in said
    assert PASSWORD not in said
