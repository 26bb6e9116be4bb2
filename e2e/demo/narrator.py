"""Tells a story on a terminal: what happens, the command that does it, its output, and whether it came as promised."""

import os
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from e2e.cluster.waiting import slowness

WIDTH = 118


class ExpectationError(Exception):
    """Something did not come as the story says; the message is one line."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed and how it ended."""

    text: str
    """stdout and stderr as they came, mixed as on a terminal."""
    code: int


class Narrator:
    """Prints as it goes. Colour only on a terminal that wants it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **environment}
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._began = time.monotonic()
        self._step = 0

    def chapter(self, title: str) -> None:
        """A numbered heading with the time that has passed."""
        self._step += 1
        elapsed = time.monotonic() - self._began
        print(f"\n{self._paint('1', f'{self._step}. {title}')}  {self._paint('2', f'[{elapsed:.0f} s]')}", flush=True)

    def say(self, text: str) -> None:
        """A paragraph."""
        print(textwrap.fill(" ".join(text.split()), WIDTH), flush=True)

    def run(self, command: str, *, show: Callable[[str], str] | None = None) -> Output:
        """Print the command, run it (without a shell), print what it prints; `show` cuts long outputs for the eye."""
        print(self._paint("36", f"$ {command}"), flush=True)
        output = self.quietly(command)
        for line in (show(output.text) if show else output.text).splitlines():
            print(f"  {line}", flush=True)
        return output

    def quietly(self, command: str) -> Output:
        """Run a command without printing anything."""
        done = subprocess.run(
            shlex.split(command),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return Output(done.stdout, done.returncode)

    def expect(self, holds: bool, claim: str) -> None:
        """State a claim of the story; raises ExpectationError where it does not hold."""
        print(self._paint("32" if holds else "31", f"  {'✓' if holds else '✗'} {claim}"), flush=True)
        if not holds:
            raise ExpectationError(claim)

    def wait(self, claim: str, holds: Callable[[], bool], *, timeout: float) -> None:
        """Wait until a claim holds, at most `timeout` seconds, then state it."""
        started = time.monotonic()
        while not (held := holds()) and time.monotonic() - started < timeout * slowness():
            time.sleep(0.3)
        self.expect(held, claim)

    def _paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text
