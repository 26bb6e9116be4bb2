"""What a policy's parameters change: the same fixture is judged with the default and with another value."""

from typing import Any

import pytest
import yaml

from stoker.api.dljob import DLJob
from stoker.catalogue import admission_rules
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.kinds.registry import submissions
from stoker.lint.submission import Submission
from tests.rules.fixtures import find

RULES = {rule.name: rule for rule in admission_rules()}


def submission(name: str) -> Submission:
    document = yaml.safe_load(find("admission", name).manifest)
    if document["kind"] == "DLJob":
        return read_dljob(DLJob.model_validate(document))
    (only,) = submissions(document)
    return only


SILENCING: list[tuple[str, dict[str, Any]]] = [
    ("cpu-starved/bad_processes", {"workersPerCpu": 4}),
    ("heavy-install/bad_flash_attn", {"lightPackages": ["flash-attn"]}),
    ("public-download/bad_wget", {"allowedSites": ["zenodo.org"]}),
    ("shm-small/bad_pod", {"largestSmallMebibytes": 63}),
    ("trailing-sleep/bad_after_training", {"minimumSeconds": 601}),
]


@pytest.mark.parametrize("fixture, parameters", SILENCING)
def test_a_parameter_silences_what_the_default_reports(fixture: str, parameters: dict[str, Any]) -> None:
    rule, subject = RULES[fixture.partition("/")[0]], submission(fixture)
    assert list(rule.findings(subject))
    assert not list(rule.findings(subject, parameters))


@pytest.mark.parametrize(
    "fixture, parameters",
    [("cpu-starved/good_half_more", {"workersPerCpu": 1}), ("trailing-sleep/good_short", {"minimumSeconds": 10})],
)
def test_a_parameter_reports_what_the_default_lets_pass(fixture: str, parameters: dict[str, Any]) -> None:
    rule, subject = RULES[fixture.partition("/")[0]], submission(fixture)
    assert not list(rule.findings(subject))
    assert list(rule.findings(subject, parameters))


def test_every_parameter_is_tried() -> None:
    """A parameter without a case above is one that nobody has seen work."""
    tried = {(fixture.partition("/")[0], parameter) for fixture, given in SILENCING for parameter in given}
    assert tried == {(rule.name, parameter.name) for rule in RULES.values() for parameter in rule.parameters}
