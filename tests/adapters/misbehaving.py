"""Functions that a worker process is to survive, or to die of, alone."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def answers(value: int) -> Iterator[int]:
    """Ends as it should, with a second result that replaces the first."""
    yield 0
    yield value


def pid() -> Iterator[int]:
    """The process that it runs in."""
    yield os.getpid()


def holds_the_interpreter() -> Iterator[str]:
    """Never ends, and lets no other thread of its process run: as a regular expression does."""
    yield "the first result"
    re.match(r"(a|a)*b", "a" * 64)


def sleeps() -> Iterator[str]:
    """Never ends, and takes no processor time."""
    yield "the first result"
    time.sleep(3600)


def takes_all_memory() -> Iterator[str]:
    """Allocates without end."""
    yield "the first result"
    held = []
    while True:
        held.append(bytearray(1024 * 1024))


def exits() -> Iterator[str]:
    """Ends its process."""
    yield "the first result"
    os._exit(3)


def crashes() -> Iterator[str]:
    """As a fault in a library does."""
    yield "the first result"
    os.kill(os.getpid(), signal.SIGSEGV)


def fails() -> Iterator[str]:
    """Raises."""
    yield "the first result"
    raise ZeroDivisionError("on purpose")


def answers_too_much() -> Iterator[bytes]:
    """An answer that nobody can take."""
    yield b"x" * (64 * 1024 * 1024)


def ignores_signals_and_descriptors() -> Iterator[tuple[bool, list[str]]]:
    """Whether Ctrl-C is left to the parent, and the sockets that it has beside the one to its parent."""
    sockets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is closed by now
            sockets += [target for target in [str(descriptor.readlink())] if target.startswith("socket:")]
    yield signal.getsignal(signal.SIGINT) is signal.SIG_IGN, sockets
