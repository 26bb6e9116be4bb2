"""The init, run for real: as process 1 of a PID namespace where that is allowed, and as a plain process everywhere."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stoker.workload.manifest import INIT

PYTHON = os.path.realpath(sys.executable)

SAVES_ON_TERM = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.write(1, b"ready\\n")
signal.sigwait({signal.SIGTERM})
os.write(1, b"saving\\n")
time.sleep(0.3)
os.write(1, b"saved\\n")
"""


def can_unshare() -> bool:
    """Whether this user may make a PID namespace."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["plain", "process 1"])
def wrap(request: pytest.FixtureRequest) -> list[str]:
    """What a command is started through. Without the right to make a namespace the second one runs plainly, too: the
    signal then meets a process that has other defaults, but everything asserted must hold all the same.
    """
    return ["unshare", "-pf", "--kill-child"] if request.param == "process 1" and can_unshare() else []


@pytest.fixture(params=["bash", "sh and setsid", "sh alone"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A PATH as images have it."""
    if request.param == "bash":
        if shutil.which("bash") is None:
            pytest.skip("needs bash on this machine")
        yield os.environ["PATH"]
        return
    for tool in ("sh", "sleep", "cat", *(["setsid"] if request.param == "sh and setsid" else [])):
        found = shutil.which(tool)
        if found is None:
            pytest.skip(f"needs {tool} on this machine")
        (tmp_path / tool).symlink_to(os.path.realpath(found))
    yield str(tmp_path)


@contextmanager
def start(script: str, path: str, wrap: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The init with a script; what is left of its session afterwards is killed."""
    process = subprocess.Popen(
        [*(shutil.which(word) or word for word in wrap[:1]), *wrap[1:], "/bin/sh", "-c", INIT, "stoker", script],
        env={"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(script: str, path: str) -> subprocess.CompletedProcess[str]:
    with start(script, path, []) as process:
        out, err = process.communicate(timeout=20)
    return subprocess.CompletedProcess(script, process.returncode, out, err)


def terminate(process: subprocess.Popen[str], wrap: list[str], number: int = signal.SIGTERM) -> None:
    """Send a signal to the init as the kubelet's runtime does: from outside, to that process alone."""
    target = process.pid
    if wrap:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        target = int(children.read_text().split()[0])
    os.kill(target, number)


@pytest.mark.parametrize(
    "script, code",
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("false; exit 0", 0),
        ("false", 1),
        ("no-such-program-anywhere", 127),
        ("/dev/null", 126),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("exit 143", 143),
    ],
)
def test_the_exit_code_is_the_scripts(script: str, code: int, path: str) -> None:
    assert run(script, path).returncode == code


def test_a_failing_command_does_not_end_the_script(path: str) -> None:
    """There is no implicit -e."""
    assert run("false\necho after", path).stdout == "after\n"


def test_the_script_ends_though_something_runs_in_the_background(path: str) -> None:
    assert run("sleep 300 > /dev/null 2>&1 & echo done", path).returncode == 0  # or it runs into the time limit


def test_bash_runs_the_script_where_there_is_one(path: str) -> None:
    has_bash = shutil.which("bash", path=path) is not None
    assert run('echo "${BASH_VERSION:+bash}"', path).stdout.strip() == ("bash" if has_bash else "")


def test_quotes_newlines_and_dollars_arrive_as_they_are(path: str) -> None:
    assert run("x='a b'\nprintf '%s|' \"$x\" '$(NAME)' \"it's\"", path).stdout == "a b|$(NAME)|it's|"


def test_sigterm_reaches_the_training_and_the_container_waits_for_its_checkpoint(path: str, wrap: list[str]) -> None:
    """The shell between the init and the training dies at once; the training is still saving."""
    if shutil.which("setsid", path=path) is None:
        script = (
            f"exec {PYTHON} -c '{SAVES_ON_TERM}'"  # without process groups only the script's own process is reached
        )
    else:
        script = f"{PYTHON} -c '{SAVES_ON_TERM}'; echo never"
    with start(script, path, wrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap)
        out, _ = process.communicate(timeout=20)
        assert out == "saving\nsaved\n"
        assert process.returncode in {0, 143}


def test_a_program_that_ignores_sigterm_is_waited_for(path: str, wrap: list[str]) -> None:
    """The grace period is the kubelet's to end, not ours."""
    with start("trap '' TERM; echo ready; read line < /dev/null; sleep 1; echo still; exit 5", path, wrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap)
        out, _ = process.communicate(timeout=20)
        assert out == "still\n"
        assert process.returncode == 5


def test_other_signals_are_passed_on_as_they_are(path: str, wrap: list[str]) -> None:
    with start(
        "trap 'echo got; exit 7' USR1; sleep 30 > /dev/null 2>&1 & echo ready; wait; exit 1", path, wrap
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap, signal.SIGUSR1)
        out, _ = process.communicate(timeout=20)
        assert "got" in out
        assert process.returncode == 7


def test_a_signal_right_after_the_start_is_not_lost(path: str, wrap: list[str]) -> None:
    """The script's first act lets its parent, the init, have one: the init must be ready before the script is."""
    script = "trap 'exit 7' USR1; kill -USR1 $PPID; for second in 1 2 3 4 5 6 7 8 9; do sleep 1 & wait; done; exit 1"
    for _ in range(15):
        with start(script, path, wrap) as process:
            assert process.wait(timeout=20) == 7
