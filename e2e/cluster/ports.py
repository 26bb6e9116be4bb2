"""Loopback ports for a cluster that no other cluster of this harness takes meanwhile."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below the ports that systems give to outgoing connections (32768 and up on Linux, 49152 and up on macOS), so that a
# port is not taken between its reservation and its use, or while its process restarts.
_FIRST, _LAST = 20000, 32000


class PortReservations:
    """Ports reserved by this process, for as long as it or a process that inherits `descriptors` lives.

    A reservation is an flock on a file named after the port, in a folder that all clusters of this user share.
    """

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._folder = Path(tempfile.gettempdir()) / f"stoker-ports-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def reserve(self) -> int:
        """A port that is free now and that nobody else reserves. Raises OSError when there is none."""
        for port in random.sample(range(_FIRST, _LAST), 1000):
            descriptor = os.open(self._folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                os.close(descriptor)
                continue
            self.descriptors.append(descriptor)
            return port
        raise OSError(f"no free port on 127.0.0.1 between {_FIRST} and {_LAST}")

    def release(self) -> None:
        """Give all ports back. The files stay: removing one would let two processes lock the same name."""
        for descriptor in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.descriptors.clear()
