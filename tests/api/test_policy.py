from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stoker.api.image import ImageKind
from stoker.api.policy import (
    BUILT_IN,
    WEEKDAYS,
    EffectiveReclaim,
    JobTraits,
    ScheduleWindow,
    UtilizationPolicy,
    Weekday,
    resolve,
)
from stoker.api.schema import violations
from stoker.findings.vocabulary import Action, JobType, ReclaimMode
from stoker.lint.kinds.image_reference import classify, parse

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


@pytest.mark.parametrize(
    "window, at, inside",
    [
        ({"start": "08:00", "end": "18:00"}, "2026-11-20T08:00:00+00:00", True),
        ({"start": "08:00", "end": "18:00"}, "2026-11-20T18:00:00+00:00", False),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-20T23:00:00+00:00", True),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-21T06:59:00+00:00", True),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-21T19:00:00+00:00", False),
        ({"start": "00:00", "end": "00:00", "days": ["Sat"]}, "2026-11-21T23:59:00+00:00", True),
        ({"start": "00:00", "end": "00:00", "days": ["Sat"]}, "2026-11-22T00:00:00+00:00", False),
        ({"start": "19:00", "end": "20:00", "timeZone": "Europe/Berlin"}, "2026-11-20T18:30:00+00:00", True),
        ({"start": "19:00", "end": "20:00", "timeZone": "Europe/Berlin"}, "2026-07-20T18:30:00+00:00", False),
    ],
)
def test_a_window_is_read_in_its_own_time_zone(window: dict[str, Any], at: str, inside: bool) -> None:
    reclaim = resolve([policy("default", reclaim={"schedule": [window]})], "ns", {}).reclaim
    assert reclaim.open_at(datetime.fromisoformat(at), JobType.TRAINING) is inside


def test_a_window_binds_only_the_job_types_it_names() -> None:
    window = {"start": "08:00", "end": "09:00", "jobTypes": ["Interactive"]}
    reclaim = resolve([policy("default", reclaim={"schedule": [window]})], "ns", {}).reclaim
    assert reclaim.open_at(NOW, JobType.TRAINING)
    assert not reclaim.open_at(NOW, JobType.INTERACTIVE)


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


def test_a_window_without_a_time_zone_is_in_utc() -> None:
    reclaim = resolve([policy("default", reclaim={"schedule": [{"start": "11:00", "end": "12:01"}]})], "n", {}).reclaim
    assert reclaim.open_at(NOW, JobType.TRAINING)


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


@pytest.mark.parametrize("change", [{"kind": "gpu"}, {"repositories": []}, {"framework": "Caffe"}])
def test_an_image_family_that_says_something_else_is_refused(change: dict[str, Any]) -> None:
    family = {"name": "Ours", "kind": "framework", "repositories": ["registry.example.com/ml/*"], **change}
    with pytest.raises(ValidationError):
        policy("default", images=[family])


# ------------------------------------------------------------------------------------------- when a schedule opens next


def window(start: str, end: str, zone: str = "Europe/Berlin", **more: Any) -> ScheduleWindow:
    return ScheduleWindow(start=start, end=end, time_zone=zone, **more)


@pytest.mark.parametrize(
    "now, opened, opens",
    [
        ("2026-11-21T12:00Z", window("18:00", "08:00"), "2026-11-21T17:00Z"),
        ("2026-11-21T20:00Z", window("08:00", "18:00"), "2026-11-22T07:00Z"),
        ("2026-11-21T12:00Z", window("18:00", "08:00", days=("Mon",)), "2026-11-23T17:00Z"),
        # 2026-03-29: the clocks go from 02:00 to 03:00.
        ("2026-03-28T12:00Z", window("04:00", "05:00"), "2026-03-29T02:00Z"),
        ("2026-03-28T12:00Z", window("02:30", "04:00"), "2026-03-29T01:00Z"),
        ("2026-03-28T12:00Z", window("02:15", "02:45"), "2026-03-30T00:15Z"),
        ("2026-03-28T12:00Z", window("02:15", "02:45", days=("Sun",)), "2026-04-05T00:15Z"),
        # 2026-10-25: the clocks go back from 03:00 to 02:00.
        ("2026-10-24T12:00Z", window("02:15", "02:45"), "2026-10-25T00:15Z"),
        ("2026-10-25T00:50Z", window("02:15", "02:45"), "2026-10-25T01:15Z"),
        ("2026-10-25T00:45Z", window("01:00", "02:30"), "2026-10-25T01:00Z"),
        # Midnight is left out: 2026-09-06 begins at 01:00 in Santiago.
        ("2026-09-05T12:00Z", window("00:00", "06:00", "America/Santiago"), "2026-09-06T04:00Z"),
    ],
)
def test_a_window_opens_when_the_clocks_of_its_zone_first_show_a_time_within(
    now: str, opened: ScheduleWindow, opens: str
) -> None:
    assert opened.next_opening(datetime.fromisoformat(now)) == datetime.fromisoformat(opens)


@given(
    quarter=st.integers(0, 365 * 96),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    start=st.integers(0, 95),
    length=st.integers(1, 95),
    days=st.sets(st.sampled_from(WEEKDAYS), max_size=3),
)
@settings(max_examples=60)
def test_a_closed_window_stays_closed_until_it_opens(
    quarter: int, zone: str, start: int, length: int, days: set[Weekday]
) -> None:
    """By the quarter of an hour, of which all times of the windows, and all changes of clocks, are multiples."""
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * quarter)
    times = [f"{number % 96 // 4:02}:{number % 4 * 15:02}" for number in (start, start + length)]
    opened = window(times[0], times[1], zone, days=tuple(days))
    opens = opened.next_opening(now)
    assert opens is not None
    assert opened.contains(opens)
    was_open = opened.contains(now)
    moment = now + timedelta(minutes=15)
    while moment < opens:
        is_open = opened.contains(moment)
        assert was_open or not is_open, moment
        was_open, moment = is_open, moment + timedelta(minutes=15)


def test_the_earliest_window_for_the_type_opens_the_schedule() -> None:
    windows = (window("20:00", "21:00"), window("19:00", "21:00", job_types=(JobType.INTERACTIVE,)))
    reclaim = EffectiveReclaim(schedule=windows)
    assert reclaim.opens_after(NOW, JobType.INTERACTIVE) == NOW.replace(hour=18)
    assert reclaim.opens_after(NOW, JobType.TRAINING) == NOW.replace(hour=19)


def test_what_a_job_says_of_itself_decides_about_its_class_only_where_it_is_trusted() -> None:
    notebooks = {"name": "notebooks", "jobTypes": ["Interactive"], "idleAfter": "12h"}
    effective = resolve([policy("default", reclaim={"classes": [notebooks]})], "nlp", {})
    says = JobTraits(job_type=JobType.INTERACTIVE)
    assert effective.reclaim_of(says).idle_after == timedelta(hours=12)
    assert replace(effective, trusted_job_types=False).reclaim_of(says).idle_after == timedelta(hours=1)


@pytest.mark.parametrize(
    "until", ["8", "1e9", "2026-11-22", 8, 1.5, "2026-11-22 12:00", "tomorrow", "2026-13-01T00:00:00Z"]
)
def test_a_time_is_written_with_its_zone_as_the_api_server_has_it(until: Any) -> None:
    exemption = {"jobSelector": {}, "reason": "r", "until": until}
    document = {"metadata": {"name": "default"}, "spec": {"exemptions": [exemption]}}
    assert "spec.exemptions[0].until" in [one.field_path for one in violations(UtilizationPolicy, document)]
