"""Processes whose clock is off, by Debian's libfaketime."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
"""As hack/packages.sh looks for them."""


def off_by(minutes: int) -> dict[str, str]:
    """The environment of a process whose clock is so many minutes ahead; its steady clock stays as it is.

    Skips the test where there is no libfaketime, and fails it on CI.
    """
    require_libfaketime()
    return {"LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME": f"{minutes:+d}m", "DONT_FAKE_MONOTONIC": "1"}


def require_libfaketime() -> None:
    """Skip the test where there is no libfaketime, and fail it on CI."""
    if not LIBRARIES:
        missing = "libfaketime is not installed: hack/packages.sh installs it, or says how"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


@dataclass(frozen=True, slots=True)
class SteppedClock:
    """The clock of processes, which steps while they run; right where there is no libfaketime."""

    file: Path

    def environment(self) -> dict[str, str]:
        """Of the processes; their steady clock stays as it is."""
        if not LIBRARIES:
            return {}
        self.step(0)
        return {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: int) -> None:
        """Within a second or two their clock is so many seconds ahead."""
        unfinished = self.file.with_suffix(".unfinished")
        unfinished.write_text(f"{seconds:+d}\n")
        unfinished.replace(self.file)
