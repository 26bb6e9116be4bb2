"""The webhook is down: failurePolicy decides about new jobs, and nothing else waits for it."""

import json
import signal
from threading import Thread

import pytest

from e2e.operator import ADMISSION, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually

pytestmark = pytest.mark.e2e

RULE = "launcher-too-few"


def test_with_fail_new_jobs_are_refused_in_clear_words_and_all_else_goes_on(
    operator: Operator, submitter: Submitter
) -> None:
    cluster = operator.cluster
    assert submitter.create(dljob("bert")).returncode == 0
    cluster.kill(ADMISSION)
    try:
        refused = submitter.create(dljob("gpt"))
        assert refused.returncode == 1
        assert 'failed calling webhook "dljobs.stoker.dev"' in refused.stderr
        assert "connection refused" in refused.stderr
        changed = submitter.kubectl("patch", "dljob", "bert", "--type=merge", '--patch={"spec":{"suspend":true}}')
        assert changed.returncode == 1

        assert submitter.kubectl("label", "dljob", "bert", "stoker.dev/owner=ann").returncode == 0
        assert submitter.kubectl("annotate", "dljob", "bert", "stoker.dev/resume=now").returncode == 0
        status = json.dumps({"status": {"phase": "Pending"}})
        patched = submitter.kubectl("patch", "dljob", "bert", "--subresource=status", "--type=merge", f"-p={status}")
        assert patched.returncode == 0, patched.stderr
        finalizer = json.dumps({"metadata": {"finalizers": ["e2e.stoker.dev/wait"]}})
        assert submitter.kubectl("patch", "dljob", "bert", "--type=merge", f"-p={finalizer}").returncode == 0
        assert submitter.kubectl("delete", "dljob", "bert", "--wait=false").returncode == 0
        released = submitter.kubectl("patch", "dljob", "bert", "--type=merge", '-p={"metadata":{"finalizers":null}}')
        assert released.returncode == 0, released.stderr
        eventually(lambda: submitter.kubectl("get", "dljobs", "-o", "name").stdout == "")
    finally:
        cluster.restart(ADMISSION)
    assert not submitter.refused(dljob("gpt"))


def test_with_ignore_new_jobs_pass_until_the_webhook_is_back(
    operator: Operator, submitter: Submitter, webhook: Webhook
) -> None:
    cluster, job = operator.cluster, dljob("bert", TOO_FEW)
    webhook.set_failure_policy("Ignore")
    try:
        assert submitter.refused(job)
        cluster.kill(ADMISSION)
        eventually(lambda: not submitter.refused(job))
        assert submitter.create(job).returncode == 0
        cluster.restart(ADMISSION)
        eventually(lambda: submitter.refused(dljob("other", TOO_FEW)))
    finally:
        webhook.set_failure_policy("Fail")
        if not cluster.running(ADMISSION):
            cluster.restart(ADMISSION)


def test_a_stopping_process_goes_on_answering_and_ends_in_peace(operator: Operator, submitter: Submitter) -> None:
    """Until its Service leaves it out; then the connections are closed one by one, none in the middle of a review."""
    cluster, job = operator.cluster, dljob("bert", TOO_FEW)
    before = cluster.log(ADMISSION)
    stopping = Thread(target=cluster.kill, args=(ADMISSION, signal.SIGTERM))
    stopping.start()
    try:
        eventually(lambda: "Stopping: requests are answered" in cluster.log(ADMISSION).removeprefix(before))
        assert RULE in submitter.create(job, "--dry-run=server").stderr
        stopping.join(60)
        assert not cluster.running(ADMISSION)
        assert "Traceback" not in cluster.log(ADMISSION).removeprefix(before)
    finally:
        stopping.join()
        cluster.restart(ADMISSION)
