"""A command imports what it needs, so that it starts fast: what must not be imported is named here, by command."""

import json
import subprocess
import sys

import pytest

from stoker.cli import COMMANDS

OTHERS_NEED = {"aiohttp", "apprise", "asyncio", "jinja2", "kopf", "kubernetes", "matplotlib", "numpy", "requests"} | {
    "prometheus_api_client",
    "prometheus_client",
    "cryptography",
}
"""What the processes and the commands that ask a cluster or Prometheus need, and `stoker lint` does not."""

HELP_NEEDS_NONE_OF = OTHERS_NEED | {"pydantic", "pydantic_core", "re2", "tree_sitter", "yaml"}
LINT_NEEDS_NONE_OF = OTHERS_NEED | {
    "logging",
    "stoker.admission",
    "stoker.api.policy",
    "stoker.certificates",
    "stoker.cluster",
    "stoker.controller",
    "stoker.diagnosis",
    "stoker.findings.diagnosis",
    "stoker.inspection",
    "stoker.lint.files.policies",
    "stoker.policy.checks",
    "stoker.policy.resolution",
    "stoker.reclaim",
    "stoker.replay",
    "stoker.report",
    "stoker.telemetry",
    "stoker.workload",
}

JOB = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata: {name: bert}
spec:
  image: pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime
  gpusPerNode: 8
  script: torchrun --nproc_per_node=4 train.py
"""


def imported(*arguments: str, given: str = "") -> tuple[int, set[str]]:
    """Run the command line in a process of its own: its exit code, and all modules that it has imported."""
    program = (
        "import json, sys\nfrom stoker.cli import stoker\ncode = 0\n"
        f"try: stoker({list(arguments)!r}, prog_name='stoker')\n"
        "except SystemExit as end: code = end.code\n"
        "print('', json.dumps([code, sorted(sys.modules)]), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        *([name] for name in COMMANDS),
        *(["run", part] for part in ("controller", "admission", "certificates")),
        *(["rules", part] for part in ("list", "show")),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_that_reads_or_decides(arguments: list[str]) -> None:
    code, modules = imported(*arguments, "--help")
    assert code == 0
    assert modules & HELP_NEEDS_NONE_OF == set()


def test_linting_imports_neither_the_processes_nor_what_reads_metrics() -> None:
    code, modules = imported("lint", "-", given=JOB)
    assert code == 1  # the rules had their say
    assert modules & LINT_NEEDS_NONE_OF == set()
