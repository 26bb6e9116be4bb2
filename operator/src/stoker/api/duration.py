"""Durations as Kubernetes users write them: `90s`, `60m`, `1h30m`."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stoker.api.schema import Validation, validations

PATTERN = r"^(?:[0-9]{1,6}h)?(?:[0-9]{1,6}m)?(?:[0-9]{1,6}s)?$"
_PARTS = re.compile(r"^(?:(?P<hours>[0-9]{1,6})h)?(?:(?P<minutes>[0-9]{1,6})m)?(?:(?P<seconds>[0-9]{1,6})s)?$")
MAX_LENGTH = 24


def parse_duration(text: str) -> timedelta:
    """Read `60m`, `1h30m`, `90s`. Raises ValueError for anything else, an empty text included."""
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        msg = f"{text!r} is no duration: write 90s, 60m or 1h30m"
        raise ValueError(msg)
    return timedelta(**{unit: int(amount) for unit, amount in match.groupdict(default="0").items()})


def format_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it, whole seconds, the largest units first: `1h30m`, `0s`."""
    seconds = int(duration.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


@dataclass(frozen=True, slots=True)
class Between:
    """Marks a string as a duration within two bounds, both included: in Python by a validator, in the cluster by a CEL
    rule.
    """

    shortest: str
    longest: str

    def _message(self) -> str:
        return f"must be a duration such as 90s, 60m or 1h30m, from {self.shortest} to {self.longest}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        rule = Validation(
            rule=(
                f"size(self) > 0 && self.matches('{PATTERN}') && duration(self) >= duration('{self.shortest}')"
                f" && duration(self) <= duration('{self.longest}')"
            ),
            message=self._message(),
        )
        return {**handler(schema), "maxLength": MAX_LENGTH, **validations(rule)}

    def _check(self, text: str) -> str:
        try:
            inside = parse_duration(self.shortest) <= parse_duration(text) <= parse_duration(self.longest)
        except ValueError:
            inside = False
        if not inside:
            raise PydanticCustomError("duration", "{message}", {"message": f"{text!r} {self._message()}"})
        return text
