"""Options of one letter, several of which may stand in one word: `-xzf`."""

import re

_LETTERS = re.compile(r"-[A-Za-z]+")


def has_short_option(word: str, letters: str) -> bool:
    """Whether a word is options of one letter, and one of these among them."""
    return _LETTERS.fullmatch(word) is not None and any(letter in word for letter in letters)


__all__ = ["has_short_option"]
