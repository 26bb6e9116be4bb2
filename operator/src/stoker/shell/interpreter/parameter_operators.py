"""The operators of `${...}` on what is known: patterns, replacement, substrings, slices of arrays, case."""

from collections.abc import Sequence

from stoker.shell.interpreter import glob
from stoker.shell.interpreter.values import Value


def transform(text: str, operator: str, operand: tuple[str, ...]) -> str:
    """Pattern removal, replacement, substring and case of known text. Raises ValueError for other forms."""
    if operator == ":":
        if not operand:
            raise ValueError(operator)
        numbers = [int(part) for part in operand]
        start = numbers[0] if numbers[0] >= 0 else max(len(text) + numbers[0], 0)
        if len(numbers) == 1:
            return text[start:]
        return text[start : start + numbers[1]] if numbers[1] >= 0 else text[start : len(text) + numbers[1]]
    if operator in ("%", "%%", "#", "##"):
        return glob.remove(operand[0], text, operator)
    if operator[0] == "/":
        return glob.replace(operand[0], operand[1] if len(operand) > 1 else "", text, operator)
    if operator in ("^^", ",,") and not operand[0]:
        return text.upper() if operator == "^^" else text.lower()
    raise ValueError(operator)


def sliced(items: tuple[Value, ...], numbers: Sequence[int | None], *, first: int) -> tuple[Value, ...] | None:
    """`${x[@]:offset:length}`, the first element's number being `first`; None if it can't be followed."""
    known = [number for number in numbers if number is not None]
    if not known or len(known) != len(numbers) or (first and known[0] == 0) or (len(known) > 1 and known[1] < 0):
        return None
    start = known[0] - first if known[0] >= 0 else len(items) + known[0]
    if start < 0:
        return ()
    return items[start : start + known[1]] if len(known) > 1 else items[start:]


__all__ = ["sliced", "transform"]
