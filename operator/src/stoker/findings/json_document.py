"""What all JSON documents that Stoker prints have in common: how they are written, and how numbers appear in them. Used
by the JSON formats of lint, diagnose, explain, report and replay.
"""

import json
import math
from collections.abc import Mapping
from typing import Any


def write_json(document: Mapping[str, Any]) -> str:
    """The document with an indent of two spaces, other alphabets unescaped, and a line break at its end.

    Raises ValueError for NaN and infinity, which JSON does not have: `rounded` makes null of them.
    """
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def rounded(value: float | None, decimals: int) -> float | None:
    """A number with so many decimals; null where it is not known, not a number or infinite."""
    return None if value is None or not math.isfinite(value) else round(value, decimals)


__all__ = ["rounded", "write_json"]
