"""Why a script, or a job, was not read to its end."""

from enum import StrEnum


class Shortfall(StrEnum):
    """Why a job could not be analysed, or not to its end."""

    OVER_BUDGET = "OverBudget"
    """It takes more processor time, memory, steps or nesting than a review may."""
    TOO_LARGE = "TooLarge"
    """Its scripts together are longer than what is read."""
    UNREADABLE = "Unreadable"
    """Its script has characters that no script can hold."""
    BUSY = "Busy"
    """Others' reviews took all the time that there was for it."""
    FAULT = "Fault"
    """A fault of Stoker's."""
