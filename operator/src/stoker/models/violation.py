"""What pydantic found wrong with an object, in the words and field paths of Kubernetes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LEADING_PATH = re.compile(r"(?P<path>(?:spec|metadata|status)(?:[.\[][^\s:]*)?): (?P<message>.+)", re.DOTALL)
_TYPE_OF_UNION = re.compile(r"(int|str|float|bool|constrained-\w+|function-.*|is-instance.*|tagged-union.*|literal.*)")
MAX_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One field that is not as the schema has it. `is_missing`: the field is required and absent."""

    field: str
    message: str
    is_missing: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def violations(error: ValidationError) -> tuple[Violation, ...]:
    """What is wrong, in the order of the fields, each field once."""
    found = {violation.field: violation for violation in reversed(list(_violations(error)))}
    return tuple(reversed(found.values()))


def _violations(error: ValidationError) -> Iterator[Violation]:
    for detail in error.errors(include_url=False):
        field, message, given = _path(detail["loc"]), str(detail["msg"]), detail["input"]
        if detail["type"] == "missing":
            yield Violation(field=field, message="Required value", is_missing=True)
            continue
        # A rule about several fields stands at none of them; its message then begins with the path.
        if named := _LEADING_PATH.fullmatch(message):
            yield Violation(field=named["path"], message=named["message"])
            continue
        yield Violation(field=field, message=f"Invalid value{_shown(given)}: {_lowered(message)}")


def _path(location: tuple[int | str, ...]) -> str:
    """The field path: members by dot, list indices and keys of maps in brackets; pydantic's names of types left out."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _IDENTIFIER.fullmatch(step) and not (path and _TYPE_OF_UNION.fullmatch(step)):
            path += f".{step}" if path else step
        elif not _TYPE_OF_UNION.fullmatch(step):
            path += f"[{step}]"
    return path or "<object>"


def _shown(value: Any) -> str:
    """The value, if it says something at a glance."""
    if isinstance(value, dict | list | tuple) and value:
        return ""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return f": {text}" if len(text) <= MAX_SHOWN else ""


def _lowered(message: str) -> str:
    """Without the capital letter that begins pydantic's own sentences."""
    return message[0].lower() + message[1:] if message[:2].istitle() else message
