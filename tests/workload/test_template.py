from typing import Any

import pytest

from stoker.workload.template import merge


@pytest.mark.parametrize(
    "base, patch, merged",
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"y": 3}}, {"m": {"x": 1, "y": 3}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"args": ["a"]}, {"args": "odd"}, {"args": "odd"}),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
        ),
        ({"env": [{"name": "A"}]}, {"env": ["odd"]}, {"env": [{"name": "A"}, "odd"]}),
        (
            {"tolerations": [{"key": "gpu"}]},
            {"tolerations": [{"key": "gpu"}, {"key": "spot"}]},
            {"tolerations": [{"key": "gpu"}, {"key": "spot"}]},
        ),
    ],
)
def test_the_patch_is_laid_over_the_base(base: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge(base, patch) == merged


def test_neither_side_is_changed() -> None:
    base: dict[str, Any] = {"containers": [{"name": "a", "env": []}]}
    patch: dict[str, Any] = {"containers": [{"name": "a", "env": [{"name": "X"}]}]}
    merge(base, patch)["containers"][0]["env"].append("more")
    assert base == {"containers": [{"name": "a", "env": []}]}
    assert patch == {"containers": [{"name": "a", "env": [{"name": "X"}]}]}
