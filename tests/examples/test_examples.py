"""The examples keep their word: a review answers what their comments announce, and their programs are programs."""

import ast
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.api.schema import violations
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action, ReclaimMode, ReviewOutcome
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN
from stoker.policy.resolution import resolve

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RIGHT = sorted(EXAMPLES.glob("*.yaml"))


def documents(path: Path, kind: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one["kind"] == kind]


def job(path: Path) -> DLJob:
    [document] = documents(path, "DLJob")
    return DLJob.model_validate(document)


def judged(path: Path) -> Verdict:
    verdict = review(job(path), BUILT_IN, now=NOW)
    assert verdict.unfinished == ()
    return verdict


def named(paths: list[Path]) -> list[Any]:
    return [pytest.param(path, id=str(path.relative_to(EXAMPLES))) for path in paths]


@pytest.mark.parametrize("path", named(sorted({*EXAMPLES.rglob("*.yaml")} - {*EXAMPLES.glob("policies/*")})))
def test_every_job_keeps_to_the_schema(path: Path) -> None:
    for document in documents(path, "DLJob"):
        assert violations(DLJob, document) == []


@pytest.mark.parametrize("path", named(RIGHT))
def test_the_right_examples_pass_without_a_word(path: Path) -> None:
    assert [finding.detail for finding in judged(path).findings] == []


WRONG: dict[str, tuple[ReviewOutcome, set[str]]] = {
    "image-reference": (ReviewOutcome.DENY, {"image-invalid"}),
    "latest-and-install": (ReviewOutcome.WARN, {"image-unpinned", "heavy-install"}),
    "launcher-too-few": (ReviewOutcome.DENY, {"launcher-too-few"}),
    "mpirun-too-few": (ReviewOutcome.WARN, {"launcher-too-few"}),
    "spark-on-gpus": (ReviewOutcome.DENY, {"non-dl-command", "image-without-framework"}),
    "trailing-sleep": (ReviewOutcome.WARN, {"trailing-sleep"}),
}


@pytest.mark.parametrize("path", named(sorted(EXAMPLES.glob("wrong/*.yaml"))))
def test_the_wrong_examples_get_what_their_comments_announce(path: Path) -> None:
    outcome, rules = WRONG[path.stem]
    verdict = judged(path)
    assert verdict.outcome is outcome
    assert {finding.rule for finding in verdict.denied + verdict.warned} == rules
    first_line = path.read_text().splitlines()[0]
    assert first_line.startswith("# Refused" if outcome is ReviewOutcome.DENY else "# Admitted with")


@pytest.mark.parametrize("path", named(RIGHT))
def test_programs_compile_and_scripts_parse(path: Path) -> None:
    for source in documents(path, "ConfigMap"):
        for name, text in source["data"].items():
            if name.endswith(".py"):
                ast.parse(text, name)
    script = job(path).spec.script
    if script is not None:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_what_a_job_mounts_as_sources_comes_with_it() -> None:
    for path in RIGHT:
        sources = job(path).spec.sources
        if sources is not None:
            assert [one["metadata"]["name"] for one in documents(path, "ConfigMap")] == [sources.config_map]


def test_the_policies_add_up_as_their_comments_say() -> None:
    policies = []
    for path in sorted(EXAMPLES.glob("policies/*.yaml")):
        [document] = documents(path, "UtilizationPolicy")
        assert violations(UtilizationPolicy, document) == []
        policies.append(UtilizationPolicy.model_validate(document))
    elsewhere = resolve(policies, "ads", {})
    assert elsewhere.reclaim.mode is ReclaimMode.OBSERVE
    assert not elsewhere.trusted_job_types
    research = resolve(policies, "vision", {"stoker.dev/tier": "research"})
    assert research.reclaim.mode is ReclaimMode.SUSPEND
    assert research.thresholds.min_coverage_percent == 90
    assert research.action("public-download", Action.WARN) is Action.DENY
    assert research.exemption("public-download", {"stoker.dev/team": "vision"}, NOW) is not None
    assert research.exemption("public-download", {"stoker.dev/team": "nlp"}, NOW) is None
