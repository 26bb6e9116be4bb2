"""Whatever stands in a policy, its review ends, soon, with an answer."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse, Operation
from stoker.admission.policy_review import PolicyReviewer
from stoker.api.bounds import MAX_SPEC_BYTES
from stoker.api.policy import UtilizationPolicy, UtilizationPolicySpec
from stoker.api.schema import structural_schema
from stoker.catalogue import all_rules
from stoker.policy.checks import ClusterSettings
from tests.api.arbitrary import ODD, Arbitrary

SCHEMA = structural_schema(UtilizationPolicySpec)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAMESPACES = [{"metadata": {"name": f"team-{n}", "labels": {"tier": str(n % 3), "a": "a"}}} for n in range(200)]
SECONDS = 5.0
"""CPU time that no review may take; the worst takes a fifth of it on the machine that this was written on."""


async def review(spec: Any, name: str = "other", beside: tuple[UtilizationPolicy, ...] = ()) -> AdmissionResponse:
    document = {"metadata": {"name": name}, "spec": spec}
    request = AdmissionRequest(
        uid="1",
        operation=Operation.CREATE,
        group="stoker.dev",
        kind="UtilizationPolicy",
        resource="utilizationpolicies",
        subresource="",
        name=name,
        namespace=None,
        new_object=document,
        old_object=None,
        dry_run=False,
    )
    reviewer = PolicyReviewer(
        beside, NAMESPACES, all_rules(), ClusterSettings(scrape_interval=timedelta(seconds=30)), lambda: NOW
    )
    start = time.thread_time()
    answer = await reviewer(request)
    assert time.thread_time() - start < SECONDS
    assert all(len(line.encode()) <= 256 and line.isprintable() for line in answer.warnings)
    return answer


@pytest.mark.parametrize("seed", range(150))
async def test_an_arbitrary_policy_is_answered(seed: int) -> None:
    spec = Arbitrary(seed, oddness=0.02 if seed % 3 else 0.0).value(SCHEMA)
    await review(spec)


@pytest.mark.parametrize(
    "zone",
    ["../../etc/passwd", "/etc/passwd", "Europe", "\0", "UTC\0", "x" * 64, "..", ".", "posix/../UTC", "é"],
)
async def test_a_time_zone_is_no_file_of_the_machine(zone: str) -> None:
    window = {"start": "18:00", "end": "08:00", "timeZone": zone}
    answer = await review({"namespaceSelector": {}, "reclaim": {"schedule": [window]}})
    assert not answer.allowed
    assert "is not a time zone" in answer.message


LONG = "a" * 63
SELECTOR = {
    "matchExpressions": [
        {"key": f"k{n}", "operator": "NotIn", "values": [f"v{m}" for m in range(64)]} for n in range(64)
    ]
}


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": {f"{LONG[:55]}-{n}": {"action": "Deny"} for n in range(2000)}},
        {"rules": {"trailing-sleep": {"parameters": {str(n): "x" * 100 for n in range(1500)}}}},
        {"suppressible": [f"{LONG[:50]}-{n}" for n in range(128)]},
        {"exemptions": [{"jobSelector": SELECTOR, "namespaceSelector": SELECTOR, "reason": "r"}] * 2},
        {"reclaim": {"classes": [{"name": f"c{n}", "jobSelector": SELECTOR} for n in range(4)]}},
        {"reclaim": {"classes": [{"name": f"c{n}", "gpuProducts": [f"p{m}" for m in range(32)]} for n in range(64)]}},
        {"images": [{"name": "i", "kind": "generic", "repositories": ["*a" * 100 + "b"] * 16}] * 8},
        {"notification": {"secretKey": "k", "namespaceKeys": ["*" * 200] * 16}},
        {"notification": {"secretKey": "k", "templates": {"warned": "{a" * 1000}}},
        {"notification": {"secretKey": "k", "templates": {"warned": "{0.__class__.__mro__}"}}},
    ],
    ids=[
        "rules",
        "parameters",
        "suppressible",
        "selectors",
        "classes",
        "products",
        "images",
        "keys",
        "braces",
        "format",
    ],
)
async def test_a_large_policy_is_answered(spec: dict[str, Any]) -> None:
    await review({"namespaceSelector": SELECTOR, **spec})


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", list(SCHEMA["properties"]))
async def test_an_odd_value_of_any_field_is_answered(name: str, odd: Any) -> None:
    await review({"namespaceSelector": {}, name: odd})


async def test_a_policy_may_have_256_kib() -> None:
    spec = {"namespaceSelector": {}, "rules": {f"rule-{n}": {"parameters": {"a": "x" * 4000}} for n in range(70)}}
    assert len(json.dumps(spec)) > MAX_SPEC_BYTES
    answer = await review(spec)
    assert not answer.allowed
    assert "of them in rules; at most 262144 are allowed" in answer.message
