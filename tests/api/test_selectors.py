from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.meta import EVERYTHING, LabelSelector, contradiction, matches, selector_faults

KEYS, VALUES = ("a", "b"), ("x", "y")
WORLDS = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
    for values in product((None, "z", *VALUES), repeat=2)
]
"""Every object that selectors over KEYS and VALUES can tell apart."""

requirements = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
selectors = st.builds(
    lambda labels, expressions: selector(matchLabels=labels, matchExpressions=expressions),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.lists(requirements, max_size=4),
)


def selector(**fields: Any) -> LabelSelector:
    return LabelSelector.model_validate(fields)


@given(selectors, selectors)
def test_selectors_contradict_exactly_where_no_labels_satisfy_both(one: LabelSelector, other: LabelSelector) -> None:
    satisfied = any(matches(one, labels) and matches(other, labels) for labels in WORLDS)
    assert (contradiction(one, other) is None) == satisfied


def test_nothing_contradicts_the_empty_selector() -> None:
    assert contradiction(EVERYTHING) is None


@pytest.mark.parametrize(
    "key", ["team", "stoker.dev/team", "a.b_c-d", "kubernetes.io/metadata.name", "A" * 63, f"{'p' * 253}/x"]
)
@pytest.mark.parametrize("value", ["", "x", "a.b_c-D", "9" * 63])
def test_what_labels_may_be_is_no_fault(key: str, value: str) -> None:
    asked = {"key": key, "operator": "In", "values": [value]}
    assert list(selector_faults(selector(matchLabels={key: value}, matchExpressions=[asked]))) == []


@pytest.mark.parametrize("key", ["", "-team", "a b", "Stoker.dev/team", "/team", "a/", "a/b/c", "A" * 64, "t\u00e9am"])
def test_what_no_label_can_be_called_is_a_fault(key: str) -> None:
    assert [fault.field_path for fault in selector_faults(selector(matchLabels={key: "x"}))] == ["matchLabels"]


@pytest.mark.parametrize("value", ["-x", "a b", "x\n", "\u00e9"])
def test_what_no_label_can_be_set_to_is_a_fault(value: str) -> None:
    asked = {"key": "team", "operator": "NotIn", "values": ["fine", value]}
    found = selector_faults(selector(matchLabels={"team": value}, matchExpressions=[asked]))
    assert [fault.field_path for fault in found] == ["matchLabels[team]", "matchExpressions[0].values"]
