"""The machine's own Chromium or Chrome, headless, to look at pages with."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
"""As hack/packages.sh looks for them."""


class NoBrowserError(Exception):
    """There is none."""


@contextmanager
def started() -> Iterator[Browser]:
    """A browser; $CHROMIUM names one elsewhere. Raises NoBrowserError."""
    names = (os.environ.get("CHROMIUM", ""), *NAMES)
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        raise NoBrowserError("no Chromium or Chrome is installed: hack/packages.sh installs one, or says how")
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start for root.
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        try:
            yield browser
        finally:
            browser.close()


def main(page: str, picture: str) -> None:
    """Write the upper part of a page as a PNG of few colours."""
    from PIL import Image

    with started() as browser:
        tab = browser.new_page(viewport={"width": 1060, "height": 1310}, device_scale_factor=1.5, color_scheme="light")
        tab.goto(Path(page).resolve().as_uri())
        tab.screenshot(path=picture)
    with Image.open(picture) as whole:
        few = whole.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
