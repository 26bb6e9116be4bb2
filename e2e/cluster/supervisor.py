"""The process that owns a cluster's processes, and the client that talks to it.

Whoever starts a cluster may end in any way: by Ctrl-C, by a crash, by `kill -9`. So the programs are not its children
but those of a supervisor in a session of its own, which holds one end of a pipe ("lifeline") to it. When the pipe
closes, or on the request to shut down, the supervisor ends every process it has started, with its process group, by
pid. A cluster that shall stay up is detached: its supervisor then lets go of the pipe. On Linux children also die with
the supervisor (PR_SET_PDEATHSIG), and grandchildren that outlive their parent become its own (PR_SET_CHILD_SUBREAPER)
and end with the rest.

The supervisor uses the standard library only and runs as a script (`python -I supervisor.py FOLDER`). It answers on the
Unix socket FOLDER/supervisor.sock: one JSON object in a line, one in return. With `--temporary` it removes the folder
when its starter is gone; whoever shuts it down in good order sees to the folder himself.
"""

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

SOCKET = "supervisor.sock"
PID_FILE = "supervisor.pid"
_LONGEST_SOCKET_PATH = 100  # sun_path has 104 bytes on macOS, 108 on Linux
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class SupervisorError(Exception):
    """The supervisor could not do what was asked, or is gone."""


# ----------------------------------------------------------------------------------------------------------- the client


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """A process of the supervisor: `returncode` is None while it runs, negative after a signal."""

    pid: int
    returncode: int | None


class Supervisor:
    """A handle on the supervisor of the cluster in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lifeline: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> Path:
        return self.folder / SOCKET

    def start(self, *, keep_open: Sequence[int] = (), temporary: bool = False) -> None:
        """Start the supervisor; it ends with this process, and removes a `temporary` folder if nobody else does.

        `keep_open` are file descriptors that it inherits (locks that shall live as long as the cluster).
        Raises SupervisorError when it does not come up.
        """
        if len(str(self.path)) > _LONGEST_SOCKET_PATH:
            raise SupervisorError(f"{self.path} is too long for a Unix socket: choose a shorter folder")
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        read, write = os.pipe()
        try:
            with (logs / "supervisor.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", __file__, str(self.folder), *(["--temporary"] if temporary else [])],
                    stdin=read,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=tuple(keep_open),
                    cwd="/",
                )
        finally:
            os.close(read)
            self._lifeline = write
        (self.folder / PID_FILE).write_text(f"{self._process.pid}\n")
        deadline = time.monotonic() + 10
        while not self.alive():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SupervisorError(f"the supervisor did not start: see {logs / 'supervisor.log'}")
            time.sleep(0.005)

    def detach(self) -> None:
        """Leave it up when this process ends."""
        self.request(do="detach")

    def alive(self) -> bool:
        """Whether it answers."""
        try:
            self.request(do="status")
        except SupervisorError:
            return False
        return True

    def spawn(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, grace: float = 0.0
    ) -> int:
        """Start a process; return its pid. `grace`: seconds from SIGTERM to SIGKILL when all is shut down."""
        answer = self.request(
            do="spawn", name=name, argv=list(argv), env=dict(env), cwd=str(cwd), log=str(log), grace=grace
        )
        return cast("int", answer["pid"])

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process' group; nothing happens when it has ended."""
        self.request(do="signal", name=name, signal=int(number))

    def status(self) -> dict[str, ProcessStatus]:
        """Every process ever started, by name (a restarted one by its newest start)."""
        answer = self.request(do="status")
        return {name: ProcessStatus(**status) for name, status in answer["processes"].items()}

    def shut_down(self, timeout: float = 30.0) -> None:
        """End every process and the supervisor; return when all are gone. Safe to call when it is gone already."""
        with contextlib.suppress(SupervisorError):
            self.request(timeout=timeout, do="shutdown")
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._process is not None:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()  # its children follow: PR_SET_PDEATHSIG
                self._process.wait()
            self._process = None

    def request(self, *, timeout: float = 10.0, **request: Any) -> dict[str, Any]:
        """Send one request, return the answer. Raises SupervisorError when it is gone or refuses."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(timeout)
                connection.connect(str(self.path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as stream:
                    line = stream.readline()
        except OSError as error:
            raise SupervisorError(f"the supervisor of {self.folder} does not answer: {error}") from error
        if not line:
            raise SupervisorError(f"the supervisor of {self.folder} ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SupervisorError(answer["error"])
        return answer


# ---------------------------------------------------------------------------------------------------------- the process


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


@dataclass(slots=True)
class _Child:
    pid: int
    grace: float
    returncode: int | None = None


class _Server:
    """The supervisor's loop: one thread, because PR_SET_PDEATHSIG is bound to the thread that forks."""

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        self._folder, self._temporary = folder, temporary
        self._path = folder / SOCKET
        self._children: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._stopping = self._abandoned = False
        # the write end is non-blocking, as signal.set_wakeup_fd demands
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._listener.bind(str(self._path))
        self._listener.listen(16)
        self._selector.register(self._listener, selectors.EVENT_READ, "client")
        self._selector.register(self._wake_read, selectors.EVENT_READ, "signal")
        self._selector.register(0, selectors.EVENT_READ, "lifeline")

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def run(self) -> None:
        try:
            while not self._stopping:
                for key, _ in self._selector.select():
                    if key.data == "lifeline":
                        self._stopping = self._abandoned = True
                    elif key.data == "client":
                        self._serve()
                    else:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._wake_read, 4096)
                self._reap()
        finally:
            self._end_all()
            with contextlib.suppress(OSError):
                self._path.unlink()
            if self._abandoned and self._temporary:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            with connection.makefile("rb") as stream:
                line = stream.readline()
            if not line:
                return
            try:
                answer = self._answer(json.loads(line))
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self._reap()
        match request["do"]:
            case "spawn":
                return {"pid": self._spawn(request)}
            case "signal":
                child = self._children[request["name"]]
                if child.returncode is None:
                    self._kill(child.pid, request["signal"])
                return {}
            case "status":
                children = self._children.items()
                return {"processes": {name: {"pid": c.pid, "returncode": c.returncode} for name, c in children}}
            case "detach":
                with contextlib.suppress(KeyError):
                    self._selector.unregister(0)
                return {}
            case "shutdown":
                self._end_all()
                self._stopping = True
                return {}
            case other:
                return {"error": f"unknown request {other!r}"}

    def _spawn(self, request: dict[str, Any]) -> int:
        name = request["name"]
        old = self._children.get(name)
        if old is not None and old.returncode is None:
            raise ValueError(f"{name} already runs")
        supervisor = os.getpid()

        def die_with_supervisor() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:  # it was gone before the line above
                os._exit(1)

        with Path(request["log"]).open("ab") as log:
            process = subprocess.Popen(
                request["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=request["env"],
                cwd=request["cwd"],
                start_new_session=True,
                preexec_fn=die_with_supervisor if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread
            )
        process.returncode = 0  # Popen's own waiting is not used: _reap waits for all children alike
        self._children[name] = _Child(pid=process.pid, grace=float(request["grace"]))
        return process.pid

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for child in self._children.values():
                    if child.pid == pid:
                        child.returncode = os.waitstatus_to_exitcode(status)

    @staticmethod
    def _kill(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)

    def _running(self) -> list[_Child]:
        self._reap()
        return [child for child in self._children.values() if child.returncode is None]

    def _end_all(self) -> None:
        start = time.monotonic()
        for child in self._running():
            self._kill(child.pid, signal.SIGTERM if child.grace else signal.SIGKILL)
        while running := self._running():
            for child in running:
                if time.monotonic() - start >= child.grace:
                    self._kill(child.pid, signal.SIGKILL)
            time.sleep(0.01)
        for child in self._children.values():  # what was left in a group whose leader had ended
            self._kill(child.pid, signal.SIGKILL)
        for pid in _orphans():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _orphans() -> list[int]:
    """Pids of this process' remaining children: grandchildren that became its own (Linux)."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def main() -> None:
    """Supervise until told to stop, signalled, or (unless detached) until stdin closes."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _Server(Path(sys.argv[1]), temporary="--temporary" in sys.argv).run()


if __name__ == "__main__":
    main()
