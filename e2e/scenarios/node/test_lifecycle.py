"""The release is installed, upgraded, rolled back, removed and installed again: no running job is touched."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.waiting import wait_for
from e2e.installed import InstalledOperator
from e2e.operator import NAMESPACE
from e2e.revision import earlier
from e2e.scenarios.lifecycle.workload import DLJobs
from e2e.scenarios.node.programs import is_phase, run

EARLIER = "earlier"
"""The tag of the earlier revision's image."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRAINING = """\
    import pathlib, time
    while not pathlib.Path("/tmp/end").exists():
        time.sleep(0.1)
    """
"""Ends when it is told to."""


def written(found: dict[str, Any]) -> list[Any]:
    """What is another one when anybody has written more of an object than its status."""
    metadata = found["metadata"]
    fields = [entry for entry in metadata["managedFields"] if entry.get("subresource") != "status"]
    return [metadata["uid"], metadata.get("generation"), fields]


def traces(jobs: DLJobs, name: str) -> list[Any]:
    """A running job: its DLJob, its Job, its pods, and when their containers were started."""
    pods = jobs.pods(name)
    containers = [status for pod in pods for status in pod["status"]["containerStatuses"]]
    starts = [(one["containerID"], one["restartCount"], one["state"]["running"]["startedAt"]) for one in containers]
    return [*map(written, (jobs.get(name), jobs.job(name), *pods)), starts, jobs.job(name)["status"]["startTime"]]


def images(operator: InstalledOperator) -> set[str]:
    """Of the release's pods, without those that are ending."""
    pods = operator.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    staying = [
        pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"
    ]
    return {container["image"] for pod in staying for container in pod["spec"]["containers"]}


def kinds(operator: InstalledOperator) -> dict[str, str]:
    """The definitions of the project's kinds, with their uids."""
    items = operator.cluster.api("GET", CRDS)["items"]
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in items if one["spec"]["group"] == "stoker.dev"}


def wrong_job_is_refused(jobs: DLJobs) -> None:
    """The webhook answers, after its certificate has come to it and to the API server."""

    def refused() -> bool:
        with pytest.raises(ApiError, match="launcher-too-few"):
            jobs.create("wrong", script="torchrun --standalone --nproc_per_node=4 train.py")
        return True

    wait_for("a wrong job to be refused", refused, timeout=60, quiet=True)


def is_running(jobs: DLJobs, name: str) -> bool:
    """The DLJob says so, and its container has started."""
    pods = jobs.pods(name)
    return is_phase(jobs, name, "Running") and all(
        "running" in status["state"] for pod in pods for status in pod["status"]["containerStatuses"]
    )


@pytest.mark.long
def test_upgrade_rollback_removal_and_another_installation_touch_no_running_job(
    operator: InstalledOperator, jobs: DLJobs, report: Callable[[str], object], tmp_path: Path
) -> None:
    before = earlier(tmp_path)
    report(f"upgrading from {before.name}")
    operator.cluster.import_operator(source=before.folder, name=f"docker.io/library/stoker:{EARLIER}")
    operator.uninstall()
    operator.install(before.chart, values={"image": {"tag": EARLIER}})
    assert images(operator) == {f"stoker:{EARLIER}"}
    run(jobs, "first", TRAINING)
    wait_for("the first job to run", partial(is_running, jobs, "first"), timeout=60)
    first = traces(jobs, "first")

    report("upgrade to this working tree")
    operator.install()
    assert f"stoker:{EARLIER}" not in images(operator)
    wrong_job_is_refused(jobs)
    run(jobs, "second", TRAINING)
    wait_for("the second job to run", partial(is_running, jobs, "second"), timeout=60)
    assert traces(jobs, "first") == first
    running = first, traces(jobs, "second")

    report("rollback")
    operator.rollback()
    assert images(operator) == {f"stoker:{EARLIER}"}
    wrong_job_is_refused(jobs)
    assert (traces(jobs, "first"), traces(jobs, "second")) == running

    report("uninstall")
    definitions = kinds(operator)
    operator.uninstall()
    assert len(definitions) == 2
    assert kinds(operator) == definitions
    run(jobs, "third", TRAINING)  # nobody reviews it, and nothing becomes of it yet
    assert (traces(jobs, "first"), traces(jobs, "second")) == running

    report("install again")
    operator.install()
    wrong_job_is_refused(jobs)
    wait_for("the third job to be taken up", partial(is_running, jobs, "third"), timeout=60)
    assert kinds(operator) == definitions
    assert (traces(jobs, "first"), traces(jobs, "second")) == running

    for name in ("first", "second", "third"):
        pod = jobs.pods(name)[0]["metadata"]["name"]
        jobs.cluster.kubectl("exec", "-n", jobs.namespace, pod, "--", "touch", "/tmp/end")
        wait_for(f"{name} to succeed", partial(is_phase, jobs, name, "Succeeded"), timeout=60)
