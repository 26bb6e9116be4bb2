"""What people are told beyond the cluster: the words of a message, and where a policy may change them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Formatter

PLACEHOLDERS = ("job", "namespace", "owner", "team", "gpus", "idleSince", "deadline", "cause", "policy", "command")
"""What stands in braces in a policy's templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one message says; `alarms`: something is going to happen, or has happened, to somebody's job."""

    title: str
    body: str
    alarms: bool = False


def template_faults(template: str) -> Iterator[str]:
    """What is wrong with a template: it is text with PLACEHOLDERS in braces, and nothing of `str.format` beyond."""
    try:
        fields = [field for field in Formatter().parse(template) if field[1] is not None]
    except ValueError as error:
        yield f"{error}; write {{{{ and }}}} for literal braces"
        return
    for _, name, form, conversion in fields:
        if name not in PLACEHOLDERS:
            yield f"{{{name}}} is unknown: write {', '.join(f'{{{one}}}' for one in PLACEHOLDERS)}"
        elif form or conversion:
            yield f"{{{name}}} must be alone in its braces, without a format or conversion"


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template without faults with the values in it; what has none becomes empty. Nothing is looked up in a value."""
    return "".join(text + values.get(name or "", "") for text, name, _, _ in Formatter().parse(template))
