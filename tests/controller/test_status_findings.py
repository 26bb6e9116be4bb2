from dataclasses import replace
from datetime import UTC, datetime

from stoker.controller.status_findings import final_summary, holding, merged, opened, recorded, summary
from stoker.findings.finding import Finding, Location
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from tests.workload.building import dljob

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EARLIER = datetime(2026, 11, 21, 11, tzinfo=UTC)


def finding(rule: str, hours: float | None = None, source: Source = Source.METRICS) -> Finding:
    return Finding(
        rule=rule,
        category=Category.UNRELEASED_JOB if rule == "tail" else Category.IMPROPER_BATCH_SIZE,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        detail="d",
        evidence="e",
        fix="f",
        docs="https://example.com",
        sources=(source,),
        gpu_hours_idle=hours,
    )


def test_the_most_idle_hours_come_first_and_closed_ones_last() -> None:
    closed = replace(finding("old", 99), until=EARLIER)
    found = merged([closed], [finding("a", 1), finding("tail", 5), finding("b")], NOW)
    assert [one.rule for one in found] == ["tail", "a", "b", "old"]
    assert summary(found) == "3: UnreleasedJob +2"


def test_what_the_metrics_no_longer_show_is_closed_not_deleted() -> None:
    (found,) = merged([finding("a", 1)], [], NOW)
    assert found.until == NOW
    assert summary([found]) is None
    (again,) = merged([found], [finding("a", 2)], NOW)
    assert again.is_open


def test_what_closes_keeps_the_hours_that_no_other_cause_explains_now() -> None:
    before = [replace(finding("old", 2), until=EARLIER), finding("moved", 6), finding("stays", 3)]
    found = merged(before, [finding("stays", 4), finding("new", 5)], NOW, idle=12)
    assert {one.rule: one.gpu_hours_idle for one in found} == {"new": 5, "stays": 4, "old": 2, "moved": 1}
    assert merged(found, [finding("stays", 4), finding("new", 5)], NOW, idle=12) == found


def test_what_only_the_manifest_shows_goes_when_it_is_no_longer_said() -> None:
    assert merged([finding("a", source=Source.SCRIPT)], [], NOW) == ()


def test_all_that_one_rule_says_of_a_manifest_is_kept() -> None:
    lines = [
        replace(finding("a", source=Source.SCRIPT), location=Location(field_path="spec.script", line=line))
        for line in (3, 14)
    ]
    said = merged([], lines, NOW)
    assert [one.location for one in said] == [one.location for one in lines]
    assert merged(said, lines, NOW) == said


def test_what_the_manifest_says_of_a_cause_that_the_metrics_confirm_is_not_said_twice() -> None:
    static = [finding("tail", source=Source.SCRIPT), finding("a", source=Source.SCRIPT)]
    confirmed = replace(finding("b", 3), category=Category.UNRELEASED_JOB)
    assert [one.rule for one in holding([], [confirmed, *static], static)] == ["b", "a"]
    assert [one.rule for one in holding([confirmed], None, static)] == ["b", "a"]


def test_without_an_examination_what_the_metrics_showed_stands_and_the_manifest_is_read_anew() -> None:
    closed = replace(finding("old", 9), until=EARLIER)
    before = [finding("b", 3), finding("gone", source=Source.SCRIPT), closed]
    new = [finding("tail", source=Source.MANIFEST)]
    found = merged(before, holding(before, None, new), NOW)
    assert [(one.rule, one.is_open) for one in found] == [("b", True), ("tail", True), ("old", False)]
    assert found[2].until == EARLIER


def test_a_finding_keeps_the_time_since_which_it_is_known() -> None:
    before = replace(finding("a"), since=EARLIER)
    (found,) = merged([before], [finding("a")], NOW)
    assert found.since == EARLIER
    (newer,) = merged([before], [replace(finding("a"), since=NOW)], NOW)
    assert newer.since == NOW


def test_only_what_was_not_open_before_is_new_and_what_was_over_when_it_was_found() -> None:
    closed, over = replace(finding("c"), until=EARLIER), replace(finding("d"), until=NOW)
    after = [finding("a"), finding("b"), finding("c"), over]
    assert [one.rule for one in opened([finding("a"), closed], after)] == ["b", "c", "d"]
    assert [one.rule for one in opened([closed, over], [closed, over])] == []


def test_what_the_final_diagnosis_shows_counts_though_it_has_ceased() -> None:
    over, closed = replace(finding("tail", 5), until=NOW), replace(finding("a", 9), until=EARLIER)
    assert summary([over, closed]) is None
    assert final_summary([over, closed], [over]) == "1: UnreleasedJob"


def test_at_most_32_are_kept_and_the_cheapest_closed_ones_go_first() -> None:
    closed = [replace(finding(f"closed-{hours}", hours), until=EARLIER) for hours in range(20)]
    found = merged(closed, [finding(f"open-{number}", 0) for number in range(20)], NOW)
    assert len(found) == 32
    assert all(one.is_open for one in found[:20])
    assert [one.rule for one in found[20:]] == [f"closed-{hours}" for hours in range(19, 7, -1)]


def test_findings_survive_their_being_written() -> None:
    one = replace(finding("a", 1.5), since=EARLIER, alternatives=(Category.API_MISUSE,))
    other = replace(finding("a", 1.5), location=Location(field_path="spec.script", line=3))
    third = replace(finding("a", 1.5), location=Location(field_path="spec.env[0].value"))
    written = [each.to_status() for each in (one, other, third)]
    assert [entry.get("location") for entry in written] == [
        None,
        {"fieldPath": "spec.script", "line": 3},
        {"fieldPath": "spec.env[0].value"},
    ]
    assert recorded(dljob(status={"findings": written})) == (one, other, third)
