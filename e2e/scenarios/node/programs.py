"""DLJobs that run small Python programs on a real node."""

from textwrap import dedent

from e2e.node.debian import PYTHON_IMAGE
from e2e.scenarios.lifecycle.workload import DLJobs


def run(jobs: DLJobs, name: str, program: str, **spec: object) -> None:
    """Submit a DLJob of one GPU a node whose script is this Python program."""
    script = f"python3 - <<'END'\n{dedent(program)}\nEND\n"
    jobs.create_admitted(name, gpusPerNode=1, image=PYTHON_IMAGE, script=script, pod_template={}, grace=10, **spec)


def log_of(jobs: DLJobs, name: str) -> str:
    """What the pods of a DLJob have printed, by way of the API server and kubelet."""
    selector = f"--selector=batch.kubernetes.io/job-name={name}"
    return jobs.cluster.kubectl("logs", "-n", jobs.namespace, selector, "--all-containers", "--tail=-1")


def is_phase(jobs: DLJobs, name: str, phase: str) -> bool:
    """Whether a DLJob is in that phase."""
    return bool(jobs.status(name).get("phase") == phase)
