"""The schema of the chart's values: every value has a type, and another one is refused at its own path."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

CHART = Path(__file__).resolve().parents[2] / "charts" / "stoker"
VALIDATOR = Draft202012Validator(json.loads((CHART / "values.schema.json").read_text()))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value that is no section, by its path."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def laid(path: tuple[str, ...], value: Any) -> Any:
    """The defaults with another value, or one more, at this path: what helm judges."""
    values = deepcopy(VALUES)
    section = values
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return values


FREE = {("labels",), ("requests",), ("limits",)}
"""Maps whose keys their author chooses."""
LEAVES = [pytest.param(path, value, id=".".join(path)) for path, value in leaves(VALUES)]


def test_the_defaults_are_allowed() -> None:
    assert [error.message for error in VALIDATOR.iter_errors(VALUES)] == []


@pytest.mark.parametrize("path, value", LEAVES)
def test_a_value_of_another_type_is_refused_at_its_path(path: tuple[str, ...], value: Any) -> None:
    wrong = "text" if isinstance(value, list | dict) else [1]
    refused = {tuple(error.absolute_path) for error in VALIDATOR.iter_errors(laid(path, wrong))}
    assert path in refused


@pytest.mark.parametrize("path, value", LEAVES)
def test_a_misspelt_value_is_refused_by_its_name(path: tuple[str, ...], value: Any) -> None:
    misspelt = f"{path[-1]}x"
    messages = [error.message for error in VALIDATOR.iter_errors(laid((*path[:-1], misspelt), value))]
    is_free = path[-2:-1] in FREE
    assert (messages == []) if is_free else any(misspelt in message for message in messages)
