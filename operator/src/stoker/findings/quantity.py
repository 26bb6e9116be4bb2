"""Reads Kubernetes quantities ("500m", "64Gi"), which users write and nobody may trust: the one parser of them.

Used wherever a manifest's numbers are compared: lint.kinds, workload, controller.capacity. Whether the API server takes
a text for a quantity is another question, which api.structural answers with the server's own pattern.
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction

MAX_LENGTH = 64
"""Characters of a quantity that are read; a longer one is no quantity that people or Kubernetes write."""
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?")
_UNITS: Mapping[str, Fraction] = {
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", 1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}


def exact_quantity(value: object) -> Fraction | None:
    """A quantity such as 4, "500m", "1e3" or "64Gi" as a number (k8s.io/apimachinery, pkg/api/resource); None for what
    is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int) and value.bit_length() > MAX_LENGTH:
        return None  # Python refuses to write out integers of thousands of digits
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        return None
    number, exponent, unit = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent or 0)) * _UNITS.get(unit or "", Fraction(1))


def quantity(value: object) -> float | None:
    """The same as a float; None for what is no quantity, or too large for a float."""
    exact = exact_quantity(value)
    try:
        amount = None if exact is None else float(exact)
    except OverflowError:
        return None
    return amount if amount is not None and math.isfinite(amount) else None


def whole_quantity(value: object) -> int | None:
    """The same of what is counted, such as GPUs; None for what is no whole number from 0 to 10^9."""
    exact = exact_quantity(value)
    return int(exact) if exact is not None and exact.denominator == 1 and 0 <= exact <= 10**9 else None


def small_number(text: object) -> int | None:
    """A number in text, such as an index, that is at most 10^9 (exclusive); None for everything else."""
    written = str(text) if isinstance(text, int | str) and not isinstance(text, bool) else ""
    return int(written) if len(written) <= 9 and written.isascii() and written.isdecimal() else None
