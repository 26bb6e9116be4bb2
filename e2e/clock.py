"""Processes whose clock is off, by Debian's libfaketime."""

import os
from pathlib import Path

import pytest

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
"""As hack/packages.sh looks for them."""


def off_by(minutes: int) -> dict[str, str]:
    """The environment of a process whose clock is so many minutes ahead; its steady clock stays as it is.

    Skips the test where there is no libfaketime, and fails it on CI.
    """
    if not LIBRARIES:
        missing = "libfaketime is not installed: hack/packages.sh installs it, or says how"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return {"LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME": f"{minutes:+d}m", "DONT_FAKE_MONOTONIC": "1"}
