import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.supervisor import Supervisor, SupervisorError
from e2e.cluster.waiting import wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    # the test's own folder has too long a name for a Unix socket on some machines
    link = Path(f"/tmp/{os.getpid()}-{abs(hash(tmp_path)) % 10**6}")
    link.symlink_to(tmp_path)
    supervisor = Supervisor(link)
    supervisor.start()
    yield supervisor
    supervisor.shut_down()
    link.unlink()


def spawn(supervisor: Supervisor, name: str, *argv: str, grace: float = 0) -> int:
    log = supervisor.folder / f"{name}.log"
    return supervisor.spawn(name, argv, env=dict(os.environ), cwd=Path("/"), log=log, grace=grace)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_exit_status_of_a_process_is_kept(supervisor: Supervisor) -> None:
    spawn(supervisor, "bad", "sh", "-c", "echo so sorry; exit 3")
    wait_for("its end", lambda: supervisor.status()["bad"].returncode == 3)
    assert (supervisor.folder / "bad.log").read_text() == "so sorry\n"


def test_a_missing_program_is_an_error(supervisor: Supervisor) -> None:
    with pytest.raises(SupervisorError, match="no-such-program"):
        spawn(supervisor, "x", "no-such-program")


def test_a_name_runs_once(supervisor: Supervisor) -> None:
    spawn(supervisor, "one", "sleep", "600")
    with pytest.raises(SupervisorError, match="one already runs"):
        spawn(supervisor, "one", "sleep", "600")


def test_shutting_down_ends_all_with_their_children(supervisor: Supervisor) -> None:
    spawn(supervisor, "stubborn", "sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait", grace=0.1)
    spawn(supervisor, "plain", "sleep", "600")
    log = supervisor.folder / "stubborn.log"
    child = int(wait_for("the child", lambda: log.exists() and log.read_text().strip()) or 0)
    pids = [status.pid for status in supervisor.status().values()] + [child]
    supervisor.shut_down()
    assert not [pid for pid in pids if alive(pid)]
    assert not supervisor.alive()
    supervisor.shut_down()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_starter_dies_all_processes_do(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""
import os, time
from pathlib import Path
from e2e.cluster.supervisor import Supervisor
folder = Path("/tmp/{os.getpid()}-{int(number)}")
folder.symlink_to({str(tmp_path)!r})
supervisor = Supervisor(folder)
supervisor.start()
pid = supervisor.spawn("x", ["sleep", "600"], env=dict(os.environ), cwd=Path("/"), log=folder / "x.log")
print(pid, (folder / "supervisor.pid").read_text().strip(), flush=True)
folder.unlink()
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        starter.send_signal(number)
    wait_for("both to end", lambda: not [pid for pid in pids if alive(pid)])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_when_the_supervisor_is_killed_its_processes_end(supervisor: Supervisor) -> None:
    pid = spawn(supervisor, "x", "sleep", "600")
    os.kill(int((supervisor.folder / "supervisor.pid").read_text()), signal.SIGKILL)
    wait_for("its end", lambda: not alive(pid))


def test_a_detached_cluster_outlives_its_starter(supervisor: Supervisor) -> None:
    pid = spawn(supervisor, "x", "sleep", "600")
    supervisor.detach()
    assert supervisor._lifeline is not None
    os.close(supervisor._lifeline)
    supervisor._lifeline = None
    again = Supervisor(supervisor.folder)
    # by the second answer its loop has been through everything that happened before the first request
    assert again.alive()
    assert again.status()["x"].returncode is None
    assert alive(pid)
    again.shut_down()
    wait_for("its end", lambda: not alive(pid))


def test_a_folder_with_too_long_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SupervisorError, match="choose a shorter folder"):
        Supervisor(tmp_path / ("x" * 120)).start()
