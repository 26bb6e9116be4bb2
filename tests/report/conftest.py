"""A browser to read reports in."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from e2e.browser import NoBrowserError, started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium or Chrome of this machine. Without one the test is skipped; on CI it fails.

    No longer than for a module: while it is there an event loop runs, and no other can be started.
    """
    try:
        with started() as browser:
            yield browser
    except NoBrowserError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
