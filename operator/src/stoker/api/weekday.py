"""The days of the week, as policies name them."""

from typing import Literal

Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
WEEKDAYS: tuple[Weekday, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""In the order of `datetime.weekday()`."""

__all__ = ["WEEKDAYS", "Weekday"]
