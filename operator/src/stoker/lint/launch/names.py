"""The whole words of names: of programs, options and jobs. A part of a word says nothing: `latest` is no test.

Used wherever a rule goes by what something is called.
"""

import re
from collections.abc import Iterator

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_JOINED = re.compile(r"\b(fine|pre)[-_]?(?=tun|train|process)", re.IGNORECASE)
"""Written as one word or as two."""
_SUFFIX = re.compile(r"\.(?:py|sh|pyc|ipynb|ya?ml|json|toml)\Z")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a program's name, path or module, in lower case: `tools/runEval_v2.py` gives run, eval and v."""
    return next(parts_of(name), ())


def parts_of(name: str) -> Iterator[tuple[str, ...]]:
    """The words of each part of a path or module, the last part first."""
    parts = re.split(r"[/.]+", _SUFFIX.sub("", name))
    for part in filter(None, reversed(parts)):
        yield tuple(word.lower() for word in _WORD.findall(_JOINED.sub(lambda found: found[1].lower(), part)))


def has_word(text: str, *stems: str) -> bool:
    """Whether a word of the text, wherever it stands, begins with one of the stems."""
    return any(word.startswith(stems) for part in parts_of(text) for word in part)


__all__ = ["has_word", "parts_of", "words_of"]
