"""Reads a launcher's command line: its own options, until the name of the program begins.

Used by the readers in lint.launch.launchers, each with its `Grammar`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.lint.launch.model import Count, CountSource
from stoker.shell.model import Word


@dataclass(frozen=True, slots=True)
class Grammar:
    """A launcher's options, spelled with underscores and without leading dashes.

    valued: take one value. flags: take none. double: take two values (`-mca key value`). short: one-dash and other
    spellings -> canonical name. attached: one-letter options may carry their value (`-n8`). prefixes: unambiguous
    abbreviations are accepted, as argparse does. single: long options may have one dash (`-np`, `-hostfile`).
    """

    valued: frozenset[str]
    flags: frozenset[str] = frozenset()
    double: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict)
    attached: bool = False
    prefixes: bool = True
    single: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One occurrence: the value word (None of a flag) and the words to underline."""

    name: str
    value: Word | None
    words: tuple[Word, ...]
    position: int


@dataclass(slots=True)
class Options:
    """What was read before the program. unclear: position of the last word that may stand for any options, else -1."""

    found: list[Option] = field(default_factory=list)
    rest: tuple[Word, ...] = ()
    unclear: int = -1

    def last(self, *names: str) -> Option | None:
        """The occurrence that wins."""
        return next((option for option in reversed(self.found) if option.name in names), None)

    def has(self, *names: str) -> bool:
        return any(option.name in names for option in self.found)

    def doubtful(self, *names: str) -> bool:
        """An unknown word may hold the option, or override what was found."""
        option = self.last(*names)
        return self.unclear >= 0 and (option is None or option.position < self.unclear)


def _canonical(name: str, grammar: Grammar) -> str | None:
    """The option that a long name means, None if it is none of them."""
    key = name.replace("-", "_")
    known = grammar.valued | grammar.flags | grammar.double
    if key in known:
        return key
    if grammar.prefixes and len(key) > 1:
        matching = [each for each in known if each.startswith(key)]
        if len(matching) == 1:
            return matching[0]
    return None


def _looks_like_program(word: Word) -> bool:
    text = word.text if word.text is not None else word.prefix
    return text.endswith((".py", ".sh")) or "/" in text or text in ("python", "python3", "bash", "-m")


def read(words: Sequence[Word], grammar: Grammar, *, stop: Collection[str] = ()) -> Options:
    """Read options up to the first word that isn't one.

    stop: flags after which the program begins at once (`-m` of `python -m`, where it belongs to the program).
    """
    options = Options()
    position = 0
    while position < len(words):
        word = words[position]
        head = word.text if word.text is not None else word.prefix
        if word.many:
            options.unclear = position
            position += 1
            continue
        if head == "--":
            position += 1
            break
        if not head.startswith("-") or head == "-":
            break
        name, equals, _ = head.partition("=")
        if word.text is None and not equals:
            # `--$NAME`: any option, with or without a value.
            options.unclear = position
            position += 1
            continue
        canonical = grammar.short.get(name)
        if canonical is None and (name.startswith("--") or grammar.single):
            canonical = _canonical(name.lstrip("-"), grammar)
        if canonical is None and grammar.attached and not name.startswith("--") and len(name) > 2:
            letter = grammar.short.get(name[:2])
            if letter is not None and word.text is not None:
                value = Word.known(word.text[2:], word.span, word.origin)
                options.found.append(Option(letter, value, (word,), position))
                position += 1
                continue
        if canonical is not None and canonical in stop:
            options.found.append(Option(canonical, None, (word,), position))
            break
        if equals:
            options.found.append(
                Option(canonical or name.lstrip("-").replace("-", "_"), tail(word, len(name) + 1), (word,), position)
            )
            position += 1
            continue
        if canonical is None:
            options.found.append(Option(name.lstrip("-").replace("-", "_"), None, (word,), position))
            following = words[position + 1] if position + 1 < len(words) else None
            takes = (
                following is not None and not following.prefix.startswith("-") and not _looks_like_program(following)
            )
            position += 2 if takes else 1
            continue
        if canonical in grammar.flags:
            options.found.append(Option(canonical, None, (word,), position))
            position += 1
            continue
        count = 2 if canonical in grammar.double else 1
        values = words[position + 1 : position + 1 + count]
        if any(value.many for value in values[:1]):
            # `--nproc_per_node $N` with N unknown: most likely one word, its value unknown.
            values = [Word.unknown(values[0].span, values[0].names), *values[1:]]
        value_word = values[0] if values else Word.unknown(word.span)
        options.found.append(Option(canonical, value_word, (word, *values), position))
        position += 1 + count
    options.rest = tuple(words[position:])
    return options


def tail(word: Word, offset: int) -> Word:
    """The word without its first characters, which are known."""
    if word.text is not None:
        return Word.known(word.text[offset:], word.span, word.origin)
    possible = frozenset(text[offset:] for text in word.possible)
    return Word(
        text=None, possible=possible, prefix=word.prefix[offset:], span=word.span, origin=word.origin, names=word.names
    )


Interpretation = Callable[[str], frozenset[int] | None]


def integer(text: str) -> frozenset[int] | None:
    """A plain count."""
    text = text.strip()
    return frozenset({int(text)}) if text.isascii() and text.isdigit() and len(text) < 8 else None


def count_of(
    word: Word,
    words: tuple[Word, ...],
    source: CountSource,
    *,
    meaning: Interpretation = integer,
    variable: str | None = None,
) -> Count:
    """The count that a word gives; unknown where a text means no number."""
    texts = word.possible or (frozenset({word.text}) if word.text is not None else frozenset())
    numbers: set[int] = set()
    for text in texts:
        meant = meaning(text)
        if meant is None:
            return Count(possible=None, source=source, words=words, variable=variable)
        numbers |= meant
    return Count(possible=frozenset(numbers) if numbers else None, source=source, words=words, variable=variable)
