from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.api.image import ImageKind
from stoker.api.policy import UtilizationPolicy
from stoker.findings.vocabulary import Action, JobType, ReclaimMode
from stoker.lint.kinds.image_reference import classify, parse
from stoker.policy.effective import BUILT_IN, JobTraits
from stoker.policy.resolution import resolve

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


EVERYWHERE: dict[str, Any] = {}


def policy(name: str, **spec: Any) -> UtilizationPolicy:
    return UtilizationPolicy.model_validate({"metadata": {"name": name}, "spec": spec})


def override(name: str, **spec: Any) -> UtilizationPolicy:
    return policy(name, **{"namespaceSelector": EVERYWHERE, **spec})


def test_without_policies_the_built_in_defaults_hold() -> None:
    effective = resolve([], "ns", {})
    assert effective == BUILT_IN
    assert effective.reclaim.mode is ReclaimMode.OBSERVE
    assert effective.reclaim.idle_after == timedelta(minutes=60)
    assert effective.reclaim.warning_grace == timedelta(minutes=15)
    assert effective.reclaim.max_gpu_percent_per_window == 10
    assert effective.thresholds.min_coverage_percent == 90
    assert effective.trusted_job_types


def test_an_override_is_laid_over_the_base_field_by_field_into_nested_objects() -> None:
    base = policy(
        "default",
        thresholds={"lowPercent": 40, "minCoveragePercent": 95},
        reclaim={"mode": "Suspend", "idleAfter": "2h", "massIdleBrake": {"minJobs": 7}, "maxGPUPercentPerWindow": 20},
    )
    over = override(
        "o", thresholds={"lowPercent": 30}, reclaim={"idleAfter": "30m", "massIdleBrake": {"gpuPercent": 9}}
    )
    effective = resolve([over, base], "ns", {})
    assert (effective.thresholds.low_percent, effective.thresholds.min_coverage_percent) == (30, 95)
    assert effective.thresholds.idle_percent == 0
    assert effective.reclaim.mode is ReclaimMode.SUSPEND
    assert effective.reclaim.idle_after == timedelta(minutes=30)
    assert (effective.reclaim.mass_idle_brake.min_jobs, effective.reclaim.mass_idle_brake.gpu_percent) == (7, 9)
    assert effective.reclaim.max_gpu_percent_per_window == 20
    assert effective.reclaim.startup_grace == timedelta(minutes=30)
    assert effective.sources == ("default", "o")


def test_a_value_equal_to_the_built_in_default_still_covers_the_base() -> None:
    base = policy("default", thresholds={"lowPercent": 40}, reclaim={"onPressureOnly": True})
    over = override("o", thresholds={"lowPercent": 50}, reclaim={"onPressureOnly": False})
    effective = resolve([base, over], "ns", {})
    assert effective.thresholds.low_percent == 50
    assert effective.reclaim.on_pressure_only is False


def test_null_is_as_good_as_absent() -> None:
    base = policy("default", reclaim={"idleAfter": "2h"})
    over = override("o", reclaim={"idleAfter": None, "mode": "Suspend"})
    assert resolve([base, over], "ns", {}).reclaim.idle_after == timedelta(hours=2)


def test_lists_are_replaced_whole_and_may_be_emptied() -> None:
    window = {"start": "08:00", "end": "18:00"}
    exempt = {"jobSelector": {}, "reason": "r"}
    base = policy("default", exemptions=[exempt, exempt], reclaim={"schedule": [window]})
    assert len(resolve([base], "ns", {}).exemptions) == 2
    over = override("o", exemptions=[exempt], reclaim={"schedule": []})
    effective = resolve([base, over], "ns", {})
    assert len(effective.exemptions) == 1
    assert effective.reclaim.schedule == ()


def test_rules_add_up_by_name_and_their_parameters_by_key() -> None:
    base = policy("default", rules={"a": {"action": "Deny", "parameters": {"x": 1, "y": 1}}, "b": {"action": "Off"}})
    over = override("o", rules={"a": {"parameters": {"y": 2}}, "c": {"action": "Audit"}})
    effective = resolve([base, over], "ns", {})
    assert effective.action("a", Action.WARN) is Action.DENY
    assert effective.parameters("a") == {"x": 1, "y": 2}
    assert effective.action("b", Action.WARN) is Action.OFF
    assert effective.action("c", Action.WARN) is Action.AUDIT
    assert effective.action("d", Action.WARN) is Action.WARN
    assert effective.parameters("d") == {}


def test_a_selector_is_replaced_whole() -> None:
    base = policy("default", trustedJobTypes={"namespaceSelector": {"matchLabels": {"a": "1"}}})
    over = override("o", trustedJobTypes={"namespaceSelector": {"matchLabels": {"b": "1"}}})
    assert resolve([base, over], "ns", {"b": "1"}).trusted_job_types
    assert not resolve([base, over], "ns", {"a": "1"}).trusted_job_types


def test_only_the_override_of_highest_priority_counts() -> None:
    low = override("a", priority=1, thresholds={"lowPercent": 10, "idlePercent": 1})
    high = override("b", priority=2, thresholds={"lowPercent": 20})
    effective = resolve([low, high], "ns", {})
    assert (effective.thresholds.low_percent, effective.thresholds.idle_percent) == (20, 0)
    assert effective.sources == ("b",)


def test_of_equal_priorities_the_first_name_counts_whatever_the_order() -> None:
    a, b = override("a", thresholds={"lowPercent": 10}), override("b", thresholds={"lowPercent": 20})
    for order in ([a, b], [b, a]):
        assert resolve(order, "ns", {}).sources == ("a",)


def test_an_absent_priority_is_zero() -> None:
    assert resolve([override("a"), override("b", priority=-1)], "ns", {}).sources == ("a",)
    assert resolve([override("a"), override("b", priority=1)], "ns", {}).sources == ("b",)


@pytest.mark.parametrize(
    "selector, labels, selected",
    [
        ({}, {}, True),
        ({"matchLabels": {"t": "r"}}, {"t": "r", "x": "y"}, True),
        ({"matchLabels": {"t": "r"}}, {"t": "s"}, False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "ns"}}, {}, True),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}]}, {"t": "b"}, True),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["a"]}]}, {"t": "a"}, False),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}]}, {"t": ""}, True),
        ({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}, {"t": ""}, False),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "t", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
)
def test_overrides_select_namespaces_as_kubernetes_does(
    selector: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    effective = resolve([override("o", namespaceSelector=selector)], "ns", labels)
    assert effective.sources == (("o",) if selected else ())


def test_an_exemption_ends_when_it_says() -> None:
    exemption = {"jobSelector": {"matchLabels": {"team": "v"}}, "rules": ["a"], "until": NOW.isoformat(), "reason": "r"}
    effective = resolve([policy("default", exemptions=[exemption])], "ns", {})
    before = NOW - timedelta(seconds=1)
    assert effective.exemption("a", {"team": "v"}, before) is not None
    assert effective.exemption("a", {"team": "v"}, NOW) is None
    assert effective.exemption("b", {"team": "v"}, before) is None
    assert effective.exemption("a", {"team": "w"}, before) is None


def test_only_an_exemption_from_all_rules_is_one_from_everything() -> None:
    effective = resolve([policy("default", exemptions=[{"jobSelector": {}, "rules": ["a"], "reason": "r"}])], "ns", {})
    assert effective.exemption("*", {}, NOW) is None
    effective = resolve([policy("default", exemptions=[{"jobSelector": {}, "reason": "r"}])], "ns", {})
    assert effective.exemption("*", {}, NOW) is not None
    assert effective.exemption("a", {}, NOW) is not None


def test_by_default_whatever_does_not_deny_may_be_suppressed() -> None:
    effective = resolve([], "ns", {})
    assert effective.may_suppress("a", Action.WARN)
    assert effective.may_suppress("a", Action.AUDIT)
    assert not effective.may_suppress("a", Action.DENY)


@pytest.mark.parametrize("named, may", [(["a"], {"a"}), (["*"], {"a", "b"}), (["b", "*"], {"a", "b"}), ([], set())])
def test_a_policy_says_which_rules_may_be_suppressed_whatever_they_do(named: list[str], may: set[str]) -> None:
    effective = resolve([policy("default", suppressible=["c"]), override("o", suppressible=named)], "ns", {})
    for action in (Action.WARN, Action.DENY):
        assert {rule for rule in "ab" if effective.may_suppress(rule, action)} == may


def test_an_exemption_of_other_namespaces_is_left_out() -> None:
    exemption = {"namespaceSelector": {"matchLabels": {"a": "1"}}, "reason": "r"}
    base = policy("default", exemptions=[exemption])
    assert resolve([base], "ns", {}).exemptions == ()
    assert len(resolve([base], "ns", {"a": "1"}).exemptions) == 1


def test_image_families_of_the_policy_come_first() -> None:
    family = {
        "name": "Ours",
        "kind": "framework",
        "framework": "PyTorch",
        "repositories": ["registry.example.com/ml/*"],
    }
    (pattern,) = resolve([policy("default", images=[family])], "nlp", {}).images
    image = classify(parse("registry.example.com/ml/train:1"), [pattern])
    assert (image.name, image.kind, image.framework) == ("Ours", ImageKind.FRAMEWORK, "PyTorch")


def test_what_a_job_says_of_itself_decides_about_its_class_only_where_it_is_trusted() -> None:
    notebooks = {"name": "notebooks", "jobTypes": ["Interactive"], "idleAfter": "12h"}
    effective = resolve([policy("default", reclaim={"classes": [notebooks]})], "nlp", {})
    says = JobTraits(job_type=JobType.INTERACTIVE)
    assert effective.reclaim_of(says).idle_after == timedelta(hours=12)
    assert replace(effective, trusted_job_types=False).reclaim_of(says).idle_after == timedelta(hours=1)
