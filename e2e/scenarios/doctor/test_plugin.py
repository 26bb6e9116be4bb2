"""`kubectl stoker`: kubectl finds the wheel's own program on PATH, and it works on kubectl's cluster."""

import json
import os
import subprocess
from pathlib import Path

from e2e.scenarios.doctor.patient import Patient
from e2e.wheel import build_wheel, install


def test_kubectl_finds_the_plugin_of_a_sound_installation_and_runs_it(patient: Patient, tmp_path: Path) -> None:
    programs = install(build_wheel(tmp_path / "wheel"), tmp_path / "environment", "runtime")
    environment = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "PATH": f"{programs}:/usr/bin:/bin",
        "KUBECONFIG": str(patient.cluster.kubeconfig),
    }

    def kubectl(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(patient.cluster.programs["kubectl"]), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert str(programs / "kubectl-stoker") in kubectl("plugin", "list").stdout.split()
    assert kubectl("stoker", "--help").stdout.startswith("Usage: kubectl stoker ")
    done = kubectl("stoker", "doctor", "-o", "json")
    found = {one["name"]: one["status"] for one in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["api-server"], found["prometheus"]) == (0, "Ok", "NotChecked"), done
