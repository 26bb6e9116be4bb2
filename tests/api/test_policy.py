from typing import Any

import pytest
from pydantic import ValidationError

from stoker.api.policy import UtilizationPolicy
from stoker.api.schema import violations


def policy(name: str, **spec: Any) -> UtilizationPolicy:
    return UtilizationPolicy.model_validate({"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    "name, spec, path",
    [
        ("default", {"reclaim": {"warningGrace": "59s"}}, "spec.reclaim.warningGrace"),
        ("default", {"reclaim": {"idleAfter": "9m"}}, "spec.reclaim.idleAfter"),
        ("default", {"reclaim": {"mode": "Kill"}}, "spec.reclaim.mode"),
        ("default", {"reclaim": {"maxGPUPercentPerWindow": 0}}, "spec.reclaim.maxGPUPercentPerWindow"),
        ("default", {"thresholds": {"idlePercent": 50}}, "spec.thresholds.idlePercent"),
        ("default", {"thresholds": {"minCoveragePercent": 49}}, "spec.thresholds.minCoveragePercent"),
        ("default", {"exemptions": [{"reason": "r"}]}, "spec.exemptions[0]"),
        ("default", {"exemptions": [{"jobSelector": {}}]}, "spec.exemptions[0].reason"),
        (
            "default",
            {"exemptions": [{"jobSelector": {}, "reason": "r", "until": "tomorrow"}]},
            "spec.exemptions[0].until",
        ),
        ("default", {"rules": {"a": {"action": "Refuse"}}}, "spec.rules.a.action"),
        ("default", {"reclaim": {"schedule": [{"start": "8:00", "end": "09:00"}]}}, "spec.reclaim.schedule[0].start"),
        (
            "default",
            {"reclaim": {"schedule": [{"start": "08:00", "end": "09:00", "timeZone": "Mars/Base"}]}},
            "spec.reclaim.schedule[0].timeZone",
        ),
        ("default", {"priorty": 1}, "spec.priorty"),
    ],
)
def test_a_wrong_policy_is_refused_by_field(name: str, spec: dict[str, Any], path: str) -> None:
    found = violations(UtilizationPolicy, {"metadata": {"name": name}, "spec": spec})
    assert [violation.field_path for violation in found] == [path]


def test_a_time_of_day_is_explained_by_an_example_not_by_a_pattern() -> None:
    document = {"metadata": {"name": "default"}, "spec": {"reclaim": {"schedule": [{"start": "7:00", "end": "08:00"}]}}}
    (violation,) = violations(UtilizationPolicy, document)
    assert str(violation) == (
        "spec.reclaim.schedule[0].start: '7:00': must be a time of day such as 08:30, from 00:00 to 23:59"
    )


def test_what_yaml_makes_of_a_bare_off_is_explained() -> None:
    document = {"metadata": {"name": "default"}, "spec": {"rules": {"a": {"action": False}}}}
    (violation,) = violations(UtilizationPolicy, document)
    assert str(violation) == 'spec.rules.a.action: write "Off" in quotes: YAML reads a bare Off as false'


@pytest.mark.parametrize("name, spec", [("default", {"namespaceSelector": {}}), ("other", {})])
def test_the_base_selects_nothing_and_overrides_must_select(name: str, spec: dict[str, Any]) -> None:
    [violation] = violations(UtilizationPolicy, {"metadata": {"name": name}, "spec": spec})
    assert "spec.namespaceSelector" in str(violation)


def test_an_exemption_needs_an_aware_time() -> None:
    spec = {"exemptions": [{"jobSelector": {}, "reason": "r", "until": "2026-11-21T12:00:00"}]}
    [violation] = violations(UtilizationPolicy, {"metadata": {"name": "default"}, "spec": spec})
    assert violation.field_path == "spec.exemptions[0].until"


@pytest.mark.parametrize("change", [{"kind": "gpu"}, {"repositories": []}, {"framework": "Caffe"}])
def test_an_image_family_that_says_something_else_is_refused(change: dict[str, Any]) -> None:
    family = {"name": "Ours", "kind": "framework", "repositories": ["registry.example.com/ml/*"], **change}
    with pytest.raises(ValidationError):
        policy("default", images=[family])


@pytest.mark.parametrize(
    "until", ["8", "1e9", "2026-11-22", 8, 1.5, "2026-11-22 12:00", "tomorrow", "2026-13-01T00:00:00Z"]
)
def test_a_time_is_written_with_its_zone_as_the_api_server_has_it(until: Any) -> None:
    exemption = {"jobSelector": {}, "reason": "r", "until": until}
    document = {"metadata": {"name": "default"}, "spec": {"exemptions": [exemption]}}
    assert "spec.exemptions[0].until" in [one.field_path for one in violations(UtilizationPolicy, document)]
