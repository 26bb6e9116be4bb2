"""The init, run for real: as process 1 of a PID namespace where that is allowed, and as a plain process everywhere."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
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
    return subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["plain", "process 1"])
def wrap(request: pytest.FixtureRequest) -> list[str]:
    """What a command is started through. Without the right to make a namespace the second one runs plainly, too: the
    signal then meets a process that has other defaults, but everything asserted must hold all the same.
    """
    return as_process_1() if request.param == "process 1" else []


def as_process_1() -> list[str]:
    """What starts a command as a container's first process; nothing without the right to."""
    return ["unshare", "-pf", "--mount-proc", "--kill-child"] if can_unshare() else []


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
        out, err = process.communicate(timeout=120)
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
        out, _ = process.communicate(timeout=120)
        assert out == "saving\nsaved\n"
        assert process.returncode in {0, 143}


def test_a_program_that_ignores_sigterm_is_waited_for(path: str, wrap: list[str]) -> None:
    """The grace period is the kubelet's to end, not ours."""
    with start("trap '' TERM; echo ready; read line < /dev/null; sleep 1; echo still; exit 5", path, wrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap)
        out, _ = process.communicate(timeout=120)
        assert out == "still\n"
        assert process.returncode == 5


def test_other_signals_are_passed_on_as_they_are(path: str, wrap: list[str]) -> None:
    with start(
        "trap 'echo got; exit 7' USR1; sleep 30 > /dev/null 2>&1 & echo ready; wait; exit 1", path, wrap
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap, signal.SIGUSR1)
        out, _ = process.communicate(timeout=120)
        assert "got" in out
        assert process.returncode == 7


def test_a_signal_right_after_the_start_is_not_lost(path: str, wrap: list[str]) -> None:
    """The script's first act lets its parent, the init, have one: the init must be ready before the script is."""
    script = "trap 'exit 7' USR1; kill -USR1 $PPID; for second in 1 2 3 4 5 6 7 8 9; do sleep 1 & wait; done; exit 1"
    for _ in range(15):
        with start(script, path, wrap) as process:
            assert process.wait(timeout=120) == 7


# ------------------------------------------------------------------------------------------ a training's process tree

TREE = """
import os, signal, sys, time
folder, apart = sys.argv[1], sys.argv[2:] == ["apart"]

def work(name, workers):
    children = []
    for index, below in enumerate(workers):
        child = os.fork()
        if child == 0:
            if apart:
                os.setsid()
            work(f"{name}.{index}", below)
        children.append(child)

    def save(number, frame):
        signal.signal(number, signal.SIG_DFL)  # a second one ends it, before it has saved
        time.sleep(0.3)
        with open(os.path.join(folder, name), "w") as file:
            file.write("whole")

    signal.signal(signal.SIGTERM, save)
    open(os.path.join(folder, f"{name}.ready"), "w").close()
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.02)
    for child in children:
        if apart:
            os.killpg(child, signal.SIGTERM)  # as launchers do with workers in sessions of their own
        os.waitpid(child, 0)
    os._exit(3)

work("launcher", [[[]], [[]], [[]]])
"""
"""A launcher with three workers, each with a process of its own; every one saves when it is told to end, once."""
NAMES = ["launcher", *(f"launcher.{index}{more}" for index in range(3) for more in ("", ".0"))]


@dataclass
class Training:
    """The tree, started by a script that says `TREE` where its command belongs."""

    script: str
    folder: Path
    process: subprocess.Popen[str]

    def wait_until_ready(self) -> None:
        while sum(1 for _ in self.folder.glob("*.ready")) < len(NAMES):
            assert self.process.poll() is None, (self.script, self.process.communicate())
            time.sleep(0.02)

    def saved(self) -> list[str]:
        return sorted(
            file.name for file in self.folder.glob("launcher*") if file.suffix != ".ready" and file.read_text()
        )


def stop_trainings(scripts: Sequence[str], path: str, wrap: list[str], folder: Path) -> dict[str, int | list[str]]:
    """Start all, end all at once; each one's exit code, or what was saved where that is not all."""
    source = folder / "tree.py"
    source.write_text(TREE)
    with ExitStack() as stack:
        trainings = []
        for number, script in enumerate(scripts):
            own = folder / str(number)
            own.mkdir()
            words = script.replace("TREE", f"{PYTHON} -I -S {source} {own}")
            trainings.append(Training(script, own, stack.enter_context(start(words, path, wrap))))
        for training in trainings:
            training.wait_until_ready()
        for training in trainings:
            terminate(training.process, wrap)
        for training in trainings:
            training.process.communicate(timeout=120)
        return {
            training.script: training.process.returncode if training.saved() == NAMES else training.saved()
            for training in trainings
        }


SCRIPTS = {
    "TREE; echo never": 143,
    "exec TREE": 3,
    "( TREE ); echo never": 143,
    "TREE & wait": 143,
    "TREE | cat": 143,
    "trap : TERM; TREE; exit $?": 3,
    "trap 'wait $!; exit 7' TERM; TREE & wait $!": 7,
    "nohup TREE > /dev/null & wait": 143,
}
OWN_SESSIONS = {"TREE apart; echo never": 143, "TREE apart & wait": 143, "exec TREE apart": 3}
LEFT = {"setsid TREE apart & wait": 143, "sh -c 'setsid TREE apart &'; sleep 60": 143}
"""Scripts that put their training out of reach of the group's signals."""


def test_every_process_of_a_training_saves_before_the_container_ends(path: str, tmp_path: Path) -> None:
    """Each one is told exactly once: a second signal would end it before it has saved."""
    wrap = as_process_1()
    has_groups = shutil.which("setsid", path=path) is not None
    expected = {**(SCRIPTS if has_groups else {}), **(OWN_SESSIONS if has_groups or wrap else {})}
    # Only process 1 gets the orphans, and can tell them.
    expected |= LEFT if has_groups and wrap else {}
    if shutil.which("nohup", path=path) is None:
        expected = {script: code for script, code in expected.items() if "nohup" not in script}
    assert stop_trainings([*expected], path, wrap, tmp_path) == expected


@pytest.mark.parametrize("path", ["bash", "sh and setsid"], indirect=True)
def test_a_training_that_is_piped_to_tee_can_still_write(path: str, tmp_path: Path) -> None:
    """Were tee told to end, too, the first word about the checkpoint would break the pipe. Without process groups the
    signal does not reach it.
    """
    wrap = as_process_1()
    log = tmp_path / "log"
    tee = os.path.realpath(shutil.which("tee") or "tee")
    with start(f"{PYTHON} -c '{SAVES_ON_TERM}' 2>&1 | {tee} {log}", path, wrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        terminate(process, wrap)
        out, _ = process.communicate(timeout=120)
        assert out == "saving\nsaved\n"
        assert log.read_text() == "ready\nsaving\nsaved\n"
