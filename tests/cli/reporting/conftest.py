"""Reports of a week made by hand, and a browser to read them in."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
"""As hack/browser.sh looks for them."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium or Chrome of this machine. Without one the test is skipped; on CI it fails."""
    names = (os.environ.get("CHROMIUM", ""), *BROWSERS)
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        missing = "no Chromium or Chrome is installed: hack/browser.sh installs one, or says how"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start for root.
        chromium = playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        yield chromium
        chromium.close()
