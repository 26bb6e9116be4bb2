"""Arbitrary values by a structural schema: most as it wants them, some odd. The same for the same seed."""

import random
from collections.abc import Mapping
from typing import Any

from stoker.api.schema import INT_OR_STRING
from stoker.api.structural import PRESERVE_UNKNOWN

ODD: tuple[Any, ...] = (
    None,
    "",
    " ",
    "x" * 300,
    "../../etc/passwd",
    "a\x1b[31mb\n\tc\u202e",
    "\U0001f600",
    "^(a+)+$",
    "{0.__class__}%s${x}",
    "8X",
    "1e999",
    0,
    -1,
    2**31,
    2**63 - 1,
    True,
    [],
    [None],
    {},
    {"": ""},
    [[[[]]]],
)
TEXTS = ("a", "name-1", "Training", "8", "500m", "64Gi", "60m", "24h", "08:30", "UTC", "a/b:1", "2026-11-22T12:00:00Z")
PLAIN = (0, 1, 2, 8, 50, 100)


class Arbitrary:
    """Makes values; `oddness` is the share of them that need not fit."""

    def __init__(self, seed: int, oddness: float = 0.03) -> None:
        self._random = random.Random(seed)
        self._oddness = oddness

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value for a schema of a CustomResourceDefinition."""
        chance = self._random
        if chance.random() < self._oddness:
            return chance.choice(ODD)
        if INT_OR_STRING in schema:
            return chance.choice((*PLAIN, "8", "500m", "64Gi"))
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.value(schema["items"], depth + 1) for _ in range(chance.randrange(3))]
            case "integer":
                return min(max(chance.choice(PLAIN), schema.get("minimum", 0)), schema.get("maximum", 2**31 - 1))
            case "boolean":
                return chance.random() < 0.5
            case _:
                return chance.choice(TEXTS)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        chance = self._random
        if "additionalProperties" in schema:
            return {
                chance.choice(TEXTS): self.value(schema["additionalProperties"], depth + 1)
                for _ in range(chance.randrange(3))
            }
        if schema.get(PRESERVE_UNKNOWN):
            return {chance.choice(TEXTS): chance.choice((*ODD, *PLAIN)) for _ in range(chance.randrange(3))}
        required = schema.get("required", ())
        share = 0.5 if depth < 3 else 0.25
        return {
            name: self.value(child, depth + 1)
            for name, child in schema.get("properties", {}).items()
            if name in required or chance.random() < share
        }
