"""Ctrl-C ends a command at once, whatever it waits for."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli import EXIT_INTERRUPTED


@pytest.mark.parametrize("arguments", [["report", "--format", "json"], ["diagnose", "--jobs", "jobs.yaml"]])
def test_ctrl_c_does_not_wait_for_a_server_that_says_nothing(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "jobs.yaml").write_text("- {namespace: nlp, pods: [bert-0], gpusPerNode: 1}\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [sys.executable, "-m", "stoker", *arguments, "--prometheus", url, "--prometheus-timeout", "1h"],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(tmp_path / "none")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with silent.accept()[0]:
                waiting.send_signal(signal.SIGINT)
                out, err = waiting.communicate(timeout=60)
        finally:
            waiting.kill()
    assert (waiting.returncode, out, err) == (EXIT_INTERRUPTED, "", "")


def test_ctrl_c_leaves_no_file_that_is_removed_at_exit() -> None:
    """The Kubernetes client writes a kubeconfig's private key to a file, and removes it at exit."""
    program = (
        "import atexit\nimport stoker.__main__ as program\n"
        "atexit.register(print, 'removed')\n"
        "def interrupted(**_): raise SystemExit(130)\n"
        "program.stoker = interrupted\nprogram.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_INTERRUPTED, "removed\n", "")
