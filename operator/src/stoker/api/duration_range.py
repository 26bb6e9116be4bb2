"""A field that holds a duration within two bounds."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stoker.api.duration import MAX_LENGTH, PATTERN, parse_duration
from stoker.api.schema import Validation, validations


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
