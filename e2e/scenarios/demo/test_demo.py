"""The demo checks each of its claims while it tells them; here it is held to them."""

import os

import pytest
from playwright.sync_api import expect

from e2e.browser import NoBrowserError, started
from e2e.conftest import StartCluster
from e2e.demo.story import REPORT, tell


def test_every_claim_of_the_demo_holds(start_cluster: StartCluster) -> None:
    """The first claim that does not hold raises, with the claim in words."""
    cluster = start_cluster("demo-test")
    tell(cluster)
    cluster.stop()


def test_the_demos_report_shows_its_jobs_in_a_browser() -> None:
    """The page that the demo has left: pictures, and the jobs with what to change."""
    if not REPORT.exists():
        pytest.fail("the demo has left no report: it must have run before")
    try:
        with started() as browser:
            page = browser.new_page()
            complaints: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            page.goto(REPORT.as_uri())
            expect(page.locator("figure svg")).to_have_count(4)
            rows = page.locator("#jobs ~ div tbody tr")
            expect(rows.filter(has_text="gpt-small")).to_contain_text("Raise --batch-size from 32")
            expect(rows.filter(has_text="llama-sft")).to_contain_text("No finding claims these hours.")
            assert complaints == []
    except NoBrowserError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
