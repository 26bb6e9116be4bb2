"""What a verdict says at `kubectl apply`: the refusal with its causes, and the warnings."""

from dataclasses import dataclass
from typing import Literal

from stoker.models.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One entry of a Status' `details.causes`; the API's names."""

    reason: Literal["FieldValueInvalid", "FieldValueRequired"]
    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refusal: `message` for clients that show nothing else, `causes` for those that do (kubectl)."""

    message: str
    causes: tuple[Cause, ...]


def denial(name: str, verdict: Verdict, *, kind: str = "DLJob") -> Denial:
    """The refusal of a denied verdict; several lines with the offending line of the script and the change."""
    raise NotImplementedError


def warnings(verdict: Verdict) -> list[str]:
    """At most three single lines of at most 240 characters, the most costly first, then how many more there are."""
    raise NotImplementedError


__all__ = ["Cause", "Denial", "denial", "warnings"]
