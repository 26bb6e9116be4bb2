"""The release workflow, as far as its form shows: it runs on GitHub alone."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_commit(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_exists(workflow: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {one for step in steps(workflow) for one in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))}
    assert called <= targets


def test_a_release_gives_each_job_only_the_rights_that_it_needs() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    assert release["permissions"] == {}
    assert release["jobs"]["packages"]["permissions"] == {"contents": "write"}
    assert release["jobs"]["compiled"]["permissions"] == {"contents": "write"}
    assert release["jobs"]["image"]["permissions"] == {"contents": "read", "id-token": "write"}


def test_a_release_has_compiled_wheels_that_were_tested() -> None:
    (script,) = (
        step["run"]
        for step in steps(ROOT / ".github/workflows/release.yaml")
        if "STOKER_MYPYC=1" in step.get("run", "")
    )
    assert script.split("\n")[:2] == ["STOKER_MYPYC=1 make wheel", "make test-compiled"]
    assert "STOKER_MYPYC" in (ROOT / "operator/src/hatch_build.py").read_text()


def test_a_release_has_the_image_for_both_architectures_signed_by_digest() -> None:
    (script,) = (
        step["run"] for step in steps(ROOT / ".github/workflows/release.yaml") if "cosign" in step.get("run", "")
    )
    assert "PLATFORMS=linux/amd64,linux/arm64" in script
    assert "containerimage.digest" in script
    assert "--metadata-file build/image.json" in (ROOT / "Makefile").read_text()
