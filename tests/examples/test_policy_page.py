"""What docs/policy.md shows is what holds."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.api.policy import UtilizationPolicy, UtilizationPolicySpec
from stoker.api.schema import violations
from stoker.catalogue import all_rules
from stoker.findings.vocabulary import Action
from stoker.policy.checks import ClusterSettings, PolicyReview, RemarkReason, review_policy
from stoker.policy.effective import BUILT_IN
from stoker.policy.resolution import resolve

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def blocks(title: str) -> Iterator[str]:
    """The YAML blocks that begin with a comment."""
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        if text.startswith(f"# {title}\n"):
            yield text


def policies(title: str) -> list[UtilizationPolicy]:
    (block,) = blocks(title)
    documents = list(yaml.safe_load_all(block))
    assert [violations(UtilizationPolicy, one) for one in documents] == [[]] * len(documents)
    return [UtilizationPolicy.model_validate(one) for one in documents]


def test_the_whole_object_spells_out_the_built_in_defaults() -> None:
    (default,) = policies("defaults")
    assert replace(resolve([default], "team", {}), sources=(), revisions=BUILT_IN.revisions) == BUILT_IN
    shown = {*default.spec.model_fields_set, "namespace_selector", "suppressible"}
    assert shown == set(UtilizationPolicySpec.model_fields)
    assert default.spec.reclaim is not None
    assert default.spec.reclaim.model_fields_set == {one.name for one in fields(BUILT_IN.reclaim)}


def test_the_layers_add_up_as_the_text_says() -> None:
    found = policies("layers")
    research = resolve(found, "lab", {"stoker.dev/tier": "research"})
    elsewhere = resolve(found, "lab", {})
    assert research.action("image-unpinned", Action.WARN) is Action.WARN
    assert research.action("trailing-sleep", Action.WARN) is Action.DENY
    assert research.parameters("trailing-sleep") == {"minimumSeconds": 300}
    assert (research.reclaim.mode, research.reclaim.idle_after.total_seconds()) == ("Suspend", 1800)
    assert elsewhere.action("image-unpinned", Action.WARN) is Action.DENY
    assert elsewhere.action("trailing-sleep", Action.WARN) is Action.WARN
    assert elsewhere.reclaim.idle_after.total_seconds() == 7200


@pytest.mark.parametrize("block", list(blocks("part of spec")))
def test_every_part_is_valid_and_draws_no_remark(block: str) -> None:
    document: dict[str, Any] = {"metadata": {"name": "default"}, "spec": yaml.safe_load(block)}
    assert violations(UtilizationPolicy, document) == []
    review = review_policy(UtilizationPolicy.model_validate(document), [], all_rules(), ClusterSettings(), NOW)
    assert review == PolicyReview()


def test_every_reason_is_listed() -> None:
    # Of these, Ready: Overridden tells the one, and the other is said to who applies the policy.
    for reason in set(RemarkReason) - {RemarkReason.OUTRANKED, RemarkReason.IRREVERSIBLE}:
        assert reason in PAGE
