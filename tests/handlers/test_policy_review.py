from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer, Operation
from stoker.handlers.policy_review import PolicyReviewer
from stoker.models.policy import UtilizationPolicy

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def policy(name: str = "team", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": name},
        "spec": ({} if name == "default" else {"namespaceSelector": {}}) | spec,
    }


def request(
    new: dict[str, Any] | None, old: dict[str, Any] | None = None, operation: Operation = Operation.CREATE
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation=operation,
        group="stoker.dev",
        kind="UtilizationPolicy",
        resource="utilizationpolicies",
        subresource="",
        name="team",
        namespace=None,
        new_object=new,
        old_object=old,
        dry_run=False,
    )


async def review(new: dict[str, Any], old: dict[str, Any] | None = None, *others: dict[str, Any]) -> Answer:
    known = [UtilizationPolicy.model_validate(other) for other in others]
    reviewer = PolicyReviewer(known, ["launcher-too-few", "image-tag"], lambda: NOW)
    return await reviewer(request(new, old, Operation.UPDATE if old else Operation.CREATE))


@pytest.mark.parametrize("name", ["default", "team"])
async def test_an_empty_policy_is_allowed_in_silence(name: str) -> None:
    assert await review(policy(name)) == ALLOWED


@pytest.mark.parametrize(
    "spec, field, said",
    [
        ({"reclaim": {"idleAfter": "soon"}}, "spec.reclaim.idleAfter", "'soon' must be a duration such as 90s"),
        ({"reclaim": {"idleAfter": "5m"}}, "spec.reclaim.idleAfter", "from 10m to 168h"),
        ({"thresholds": {"lowPercent": 101}}, "spec.thresholds.lowPercent", "101"),
        ({"rules": {"image-tag": {"action": "Refuse"}}}, "spec.rules.image-tag.action", "'Deny'"),
        (
            {"exemptions": [{"reason": "old", "rules": ["*"]}]},
            "spec.exemptions[0]",
            "needs a namespaceSelector, a jobSelector",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "spec.namespaceSelector.matchExpressions[0].operator",
            "'In'",
        ),
        ({"namespaceSelector": None}, "spec.namespaceSelector", "required in every policy but default"),
    ],
)
async def test_a_policy_that_can_not_be_read_is_denied_with_the_field(
    spec: dict[str, Any], field: str, said: str
) -> None:
    answer = await review(policy(**spec))
    assert not answer.allowed
    assert [cause.field for cause in answer.causes] == [field]
    assert said in answer.causes[0].message
    assert answer.message == f"{field}: {answer.causes[0].message}"


async def test_every_fault_is_named_at_once() -> None:
    answer = await review(policy(thresholds={"lowPercent": -1}, reclaim={"window": "1s"}))
    assert {cause.field for cause in answer.causes} == {"spec.thresholds.lowPercent", "spec.reclaim.window"}


async def test_a_stored_policy_that_is_no_longer_valid_can_still_be_labelled_but_not_made_worse() -> None:
    stored = policy(reclaim={"window": "1s"})
    assert (await review(stored | {"metadata": {"name": "team", "labels": {"a": "b"}}}, stored)).allowed
    worse = await review(policy(reclaim={"window": "1s"}, thresholds={"lowPercent": -1}), stored)
    assert [cause.field for cause in worse.causes] == ["spec.thresholds.lowPercent"]


async def test_an_unknown_rule_is_warned_of_with_the_nearest_one() -> None:
    answer = await review(
        policy(
            rules={"launcher-to-few": {"action": "Warn"}, "image-tag": {"action": "Off"}},
            exemptions=[{"jobSelector": {}, "rules": ["*", "zzz"], "reason": "because"}],
        )
    )
    assert answer.allowed
    assert list(answer.warnings) == [
        "spec.rules[launcher-to-few]: there is no rule launcher-to-few; did you mean launcher-too-few?",
        "spec.exemptions[0].rules: there is no rule zzz: see `stoker rules list`",
    ]


async def test_an_exemption_of_the_past_is_warned_of() -> None:
    past = {"jobSelector": {}, "until": "2026-11-20T00:00:00Z", "reason": "because"}
    answer = await review(policy(exemptions=[past, past | {"until": "2026-11-22T00:00:00Z"}]))
    assert list(answer.warnings) == ["spec.exemptions[0].until: 2026-11-20T00:00:00+00:00 is past: it exempts nothing"]


async def test_equal_priorities_are_warned_of() -> None:
    others = [policy("default"), policy("alpha", priority=5), policy("beta"), policy("team", priority=5)]
    answer = await review(policy(priority=5), None, *others)
    assert list(answer.warnings) == ["spec.priority: 5 is also that of alpha; where both select, the first name wins"]
    assert (await review(policy(), None, policy("default"))).warnings == ()


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.CONNECT])
async def test_deletion_is_never_held_up(operation: Operation) -> None:
    reviewer = PolicyReviewer([], [], lambda: NOW)
    assert await reviewer(request(None, policy(reclaim={"window": "1s"}), operation)) == ALLOWED
