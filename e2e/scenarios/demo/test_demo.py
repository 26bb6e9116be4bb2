"""The demo checks each of its claims while it tells them; here it is held to them."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from e2e.browser import NoBrowserError, started
from e2e.cluster.provider import Cluster
from e2e.cluster.shell import commands_folder, tools_folder
from e2e.conftest import StartCluster
from e2e.demo.story import REPORT, tell
from e2e.operator import CHART
from hack import dashboard_pictures
from tests.examples.blocks import blocks, write_manifests

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def test_every_claim_of_the_demo_holds(start_cluster: StartCluster, tmp_path: Path) -> None:
    """The first claim that does not hold raises, with the claim in words. Its Prometheus, which scrapes both processes,
    then has data for every panel of the dashboards, whose pictures for the docs are drawn from it. What the quick start
    does in the cluster comes as it is shown.
    """
    cluster = start_cluster("demo-test")
    tell(cluster)
    silent = [panel for panel, promql in panel_queries() if not cluster.query(promql)]
    assert silent == []
    pictures = dashboard_pictures.write(cluster.prometheus_url, 5, tmp_path, end=time.time())
    assert {picture.name for picture in pictures} == {path.name for path in IMAGES.glob("dashboard-*.png")}
    follow("docs/quick-start.md", cluster, tmp_path)
    cluster.stop()


def follow(page: str, cluster: Cluster, folder: Path) -> None:
    """Run the page's commands for a cluster, in a folder with its manifests. Where the page shows an answer, it is that
    one; the other commands succeed.
    """
    tools = tools_folder(cluster.folder, cluster.programs)
    path = f"{tools}:{commands_folder()}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
    write_manifests(page, folder)
    followed = [block for block in blocks(page) if block.kind == "run in a cluster"]
    assert followed
    for block in followed:
        answers = block.text.startswith("$ ")
        command, _, shown = block.text.removeprefix("$ ").partition("\n") if answers else (block.text, "", "")
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == shown if answers else done.returncode == 0, f"{block}: {done.stdout}"


def panel_queries() -> Iterator[tuple[str, str]]:
    """Each query of the chart's dashboards, by dashboard and panel; a rate over the demo's last minute."""
    for path in sorted((CHART / "monitoring" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"].replace("$__rate_interval", "1m")


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
