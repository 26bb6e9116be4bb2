from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation
from stoker.admission.policy_review import PolicyReviewer
from stoker.api.policy import UtilizationPolicy
from stoker.catalogue import diagnosis_rules
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Maturity, Severity
from stoker.policy.checks import ClusterSettings

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


def _silent(_: object, **__: object) -> tuple[()]:
    return ()


def rule(name: str, *parameters: Parameter, maturity: Maturity = Maturity.STABLE) -> Rule[Any]:
    return Rule(
        id="A999",
        name=name,
        category=Category.STARTUP_HOLD,
        severity=Severity.WARNING,
        summary="",
        fix="",
        check=_silent,
        parameters=parameters,
        maturity=maturity,
    )


RULES = [
    rule("launcher-too-few"),
    rule("image-tag", maturity=Maturity.PREVIEW),
    rule(
        "long-sleep",
        Parameter(name="minimumSeconds", default=60, description="", maximum=3600),
        Parameter(name="programs", default=("sleep",), description=""),
    ),
]
NAMESPACES = [
    {"metadata": {"name": tier, "labels": {"tier": tier, "kubernetes.io/metadata.name": tier}}}
    for tier in ("dev", "prod")
]
EVERY_MINUTE = ClusterSettings(scrape_interval=timedelta(minutes=1), minimum_warning_grace=timedelta(minutes=5))


async def review(
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    *others: dict[str, Any],
    surroundings: ClusterSettings = EVERY_MINUTE,
) -> AdmissionResponse:
    known = [UtilizationPolicy.model_validate(other) for other in others]
    reviewer = PolicyReviewer(known, NAMESPACES, RULES, surroundings, lambda: NOW)
    return await reviewer(request(new, old, Operation.UPDATE if old else Operation.CREATE))


def exemption(**fields: Any) -> dict[str, Any]:
    return {"exemptions": [{"reason": "because", **fields}]}


def template(event: str, words: str) -> dict[str, Any]:
    return {"notification": {"templates": {event: words}}}


@pytest.mark.parametrize("name", ["default", "team"])
async def test_an_empty_policy_is_allowed_in_silence(name: str) -> None:
    assert await review(policy(name)) == ALLOWED


@pytest.mark.parametrize(
    "spec, field, said",
    [
        ({"reclaim": {"idleAfter": "soon"}}, "spec.reclaim.idleAfter", "'soon' must be a duration such as 90s"),
        ({"reclaim": {"idleAfter": "5m"}}, "spec.reclaim.idleAfter", "from 10m to 168h"),
        ({"thresholds": {"lowPercent": 101}}, "spec.thresholds.lowPercent", "101"),
        ({"rules": {"image-tag": {"action": "Refuse"}}}, "spec.rules[image-tag].action", "'Deny'"),
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


@pytest.mark.parametrize(
    "spec, field, said",
    [
        (
            {"rules": {"long-sleep": {"parameters": {"seconds": 5}}}},
            "spec.rules[long-sleep].parameters.seconds",
            "unknown parameter: allowed: minimumSeconds, programs",
        ),
        (
            {"rules": {"launcher-too-few": {"parameters": {"seconds": 5}}}},
            "spec.rules[launcher-too-few].parameters.seconds",
            "the rule has no parameters",
        ),
        (
            {"rules": {"long-sleep": {"parameters": {"minimumSeconds": "5m"}}}},
            "spec.rules[long-sleep].parameters.minimumSeconds",
            "'5m' is not allowed: give a number from 0 to 3600",
        ),
        (
            {"rules": {"long-sleep": {"parameters": {"programs": "sleep"}}}},
            "spec.rules[long-sleep].parameters.programs",
            "give a list of texts",
        ),
        (
            {"thresholds": {"idlePercent": 5, "lowPercent": 3}},
            "spec.thresholds.idlePercent",
            "idlePercent, 5 %, must not exceed lowPercent, 3 %",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.namespaceSelector.matchExpressions[0].values",
            "at least one value is required with operator In",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            "spec.namespaceSelector.matchExpressions[0].values",
            "must be empty with operator Exists",
        ),
        (
            {"namespaceSelector": {"matchLabels": {"tier": "deep learning"}}},
            "spec.namespaceSelector.matchLabels[tier]",
            "'deep learning': must be a label's value",
        ),
        (
            {"trustedJobTypes": {"namespaceSelector": {"matchLabels": {"the tier": "a"}}}},
            "spec.trustedJobTypes.namespaceSelector.matchLabels",
            "'the tier': must be a label's name",
        ),
        (
            exemption(
                jobSelector={
                    "matchLabels": {"tier": "a"},
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "c"]}],
                }
            ),
            "spec.exemptions[0].jobSelector",
            "can select nothing: its requirements on the label tier contradict",
        ),
        (
            {
                "reclaim": {
                    "classes": [{"name": "a", "jobSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]
                }
            },
            "spec.reclaim.classes[0].jobSelector.matchExpressions[0].values",
            "",
        ),
        (
            {"images": [{"name": "ours", "kind": "cuda", "repositories": ["hub:5000/ml/*", "hub/ml/torch:2.9"]}]},
            "spec.images[0].repositories[1]",
            "'hub/ml/torch:2.9': must be a repository without scheme, tag or digest",
        ),
        (
            {"namespaceSelector": {"matchLabels": {"tier": "dev"}}}
            | exemption(namespaceSelector={"matchLabels": {"tier": "prod"}}),
            "spec.exemptions[0].namespaceSelector",
            "can select none of the policy's namespaces: spec.namespaceSelector contradicts it on the label tier",
        ),
        (
            template("warned", "{job.metadata}"),
            "spec.notification.templates.warned",
            "{job.metadata} is unknown: write {job}",
        ),
        (template("warned", "{}"), "spec.notification.templates.warned", "{} is unknown: write {job}"),
        (template("reclaimed", "{job!r}"), "spec.notification.templates.reclaimed", "must be alone in its braces"),
        (template("reclaimed", "{gpus:>9}"), "spec.notification.templates.reclaimed", "must be alone in its braces"),
        (template("warned", "{job"), "spec.notification.templates.warned", "expected '}' before end of string"),
    ],
)
async def test_a_contradiction_is_denied_with_the_field(spec: dict[str, Any], field: str, said: str) -> None:
    answer = await review(policy(**spec))
    assert not answer.allowed
    assert [cause.field for cause in answer.causes] == [field]
    assert said in answer.causes[0].message


async def test_parameters_that_a_rule_has_pass() -> None:
    parameters = {"minimumSeconds": 600, "programs": ["sleep", "tail"]}
    assert await review(policy(rules={"long-sleep": {"parameters": parameters}})) == ALLOWED


async def test_a_threshold_may_contradict_the_one_of_the_policy_default() -> None:
    base = policy("default", thresholds={"lowPercent": 3})
    answer = await review(policy(thresholds={"idlePercent": 5}), None, base)
    assert [cause.field for cause in answer.causes] == ["spec.thresholds.idlePercent"]
    assert await review(policy(thresholds={"idlePercent": 5}), None, policy("default")) == ALLOWED


async def test_an_idle_time_that_holds_less_than_two_scrapes_is_denied() -> None:
    rarely = ClusterSettings(scrape_interval=timedelta(minutes=6))
    answer = await review(policy(reclaim={"idleAfter": "10m"}), surroundings=rarely)
    assert answer.message == (
        "spec.reclaim.idleAfter: '10m': must be at least 12m, since the GPU metrics are scraped every 6m"
    )
    assert await review(policy(reclaim={"idleAfter": "12m"}), surroundings=rarely) == ALLOWED


async def test_a_contradiction_that_is_stored_is_warned_of_and_does_not_lock_the_policy() -> None:
    stored = policy(**exemption(jobSelector={"matchLabels": {"a": "no value"}}))
    answer = await review({**stored, "spec": {**stored["spec"], "priority": 3}}, stored)
    assert answer.allowed
    assert [line.partition(": ")[0] for line in answer.warnings] == ["spec.exemptions[0].jobSelector.matchLabels[a]"]


@pytest.mark.parametrize(
    "spec, said",
    [
        (
            {"rules": {"image-tag": {"action": "Deny"}}},
            "spec.rules[image-tag].action: the rule is in preview: it warns and never denies",
        ),
        (
            exemption(jobSelector={}),
            "spec.exemptions[0]: exempts every job from every rule: the rest of the policy has no effect",
        ),
        (
            {"reclaim": {"warningGrace": "2m"}},
            "spec.reclaim.warningGrace: '2m' is less than the operator allows: 5m applies",
        ),
        (
            {"reclaim": {"classes": [{"name": "a", "jobTypes": ["Training"], "warningGrace": "1m"}]}},
            "spec.reclaim.classes[0].warningGrace: '1m' is less than the operator allows: 5m applies",
        ),
        (
            {
                "reclaim": {
                    "classes": [
                        {"name": "most", "jobTypes": ["Training", "Interactive"]},
                        {"name": "low", "jobTypes": ["Training"], "priorityClasses": ["batch-low"]},
                    ]
                }
            },
            "spec.reclaim.classes[1]: 'most' comes first and matches all of its jobs: 'low' has no effect",
        ),
        (
            {"reclaim": {"mode": "Suspend", "massIdleBrake": {"minJobs": 2}}},
            (
                "spec.reclaim.massIdleBrake.minJobs: 2 jobs that turn idle within 1h may be chance: the brake may "
                "stop reclaims without need"
            ),
        ),
        (
            {"reclaim": {"mode": "Delete"}},
            "spec.reclaim.mode: Delete is for good: only jobs that were suspended can be resumed",
        ),
        (
            {"reclaim": {"classes": [{"name": "night", "jobTypes": ["Training"], "mode": "Delete"}]}},
            "spec.reclaim.classes[0].mode: Delete is for good: only jobs that were suspended can be resumed",
        ),
        (
            {"reclaim": {"mode": "Suspend", "window": "12h"}},
            (
                "spec.reclaim.window: '12h': the brake uses it too, and within more than 6h many jobs may turn idle "
                "by chance"
            ),
        ),
        (
            {"reclaim": {"mode": "Suspend", "massIdleBrake": {"gpuPercent": 100}}},
            "spec.reclaim.massIdleBrake.gpuPercent: the share can never exceed 100 %: the brake never stops reclaims",
        ),
    ],
)
async def test_what_does_less_than_it_says_is_warned_of(spec: dict[str, Any], said: str) -> None:
    answer = await review(policy(**spec))
    assert answer.allowed
    assert list(answer.warnings) == [said]


@pytest.mark.parametrize("action, warned", [("Deny", True), ("Audit", True), ("Warn", False), ("Off", False)])
async def test_a_rule_that_looks_at_running_jobs_can_not_deny(action: str, warned: bool) -> None:
    runtime = diagnosis_rules()[0].name
    warnings = (await review(policy(rules={runtime: {"action": action}}))).warnings
    said = f"spec.rules[{runtime}].action: {action} has the effect of Warn"
    assert [line.startswith(said) for line in warnings] == ([True] if warned else [])


async def test_a_selector_that_no_namespace_fits_now_is_warned_of() -> None:
    (warning,) = (await review(policy(namespaceSelector={"matchLabels": {"tier": "porducion"}}))).warnings
    assert warning == "spec.namespaceSelector: no namespace has these labels now: the policy is in force nowhere"


async def test_a_priority_of_the_base_is_warned_of() -> None:
    (warning,) = (await review(policy("default", priority=5))).warnings
    assert warning == "spec.priority: the policy default has no priority: every other policy overrides it"


async def test_more_than_eight_warnings_are_counted() -> None:
    answer = await review(policy(rules={f"no-{number}": {"action": "Off"} for number in range(20)}))
    assert len(answer.warnings) == 9
    assert answer.warnings[-1] == "and 12 more (see status.conditions)"


async def test_an_unknown_rule_is_warned_of_with_the_nearest_one() -> None:
    answer = await review(
        policy(
            rules={"launcher-to-few": {"action": "Deny"}, "image-tag": {"action": "Off"}},
            exemptions=[{"jobSelector": {}, "rules": ["zzz"], "reason": "because"}],
            suppressible=["*", "imagetag"],
        )
    )
    assert answer.allowed
    assert list(answer.warnings) == [
        (
            "spec.rules[launcher-to-few]: there is no rule launcher-to-few, so its Deny has no effect; did you mean"
            " launcher-too-few?"
        ),
        "spec.exemptions[0].rules: there is no rule zzz: see `stoker rules list`",
        "spec.suppressible: there is no rule imagetag; did you mean image-tag?",
    ]


async def test_an_exemption_of_the_past_is_warned_of() -> None:
    past = {"jobSelector": {"matchLabels": {"team": "nlp"}}, "until": "2026-11-20T00:00:00Z", "reason": "because"}
    answer = await review(policy(exemptions=[past, past | {"until": "2026-11-22T00:00:00Z"}]))
    assert list(answer.warnings) == [
        "spec.exemptions[0].until: 2026-11-20T00:00:00Z is in the past: the exemption has no effect"
    ]


async def test_equal_priorities_are_warned_of() -> None:
    alpha = policy("alpha", priority=5, namespaceSelector={"matchLabels": {"tier": "prod"}})
    others = [policy("default"), alpha, policy("beta"), policy("team", priority=5)]
    answer = await review(policy(priority=5), None, *others)
    assert list(answer.warnings) == [
        "spec.priority: 5 is also the priority of alpha; if both select a namespace, the first name wins"
    ]
    assert (await review(policy(), None, policy("default"))).warnings == ()


async def test_equal_priorities_of_policies_that_never_meet_are_no_news() -> None:
    other = policy("other", namespaceSelector={"matchLabels": {"tier": "prod"}})
    assert (await review(policy(namespaceSelector={"matchLabels": {"tier": "dev"}}), None, other)).warnings == ()


async def test_a_policy_that_another_one_covers_everywhere_is_warned_of() -> None:
    other = policy("all", priority=9)
    (warning,) = (await review(policy(priority=5), None, other)).warnings
    assert warning == (
        "spec.priority: all selects every namespace and has precedence over 5: this policy is in force nowhere"
    )


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.CONNECT])
async def test_deletion_is_never_held_up(operation: Operation) -> None:
    reviewer = PolicyReviewer([], [], [], EVERY_MINUTE, lambda: NOW)
    assert await reviewer(request(None, policy(reclaim={"window": "1s"}), operation)) == ALLOWED
