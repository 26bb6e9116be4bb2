"""The automaton of a regular expression, and the texts in it that can be matched in ever more ways.

Python's `re` tries the ways to match one after the other. What that costs is the number of runs that the automaton has
on a text: it is linear in the text's length where each text has a bounded number of runs to each place, and only there.
It is not bounded if, and only if, there is a text `v` that leads

- from a place back to itself in two ways (the number of runs doubles with each `v`), or
- from one place back to itself, from there to another one, and from that back to itself (it grows as a polynomial).

(Weber and Seidl, On the degree of ambiguity of finite automata, 1991.) A search begins anew at each character: that is
one more place, which every character leads back to itself.

The automaton has at least the runs that `re` has: of what looks ahead or behind further than one character, and of
what never gives back what it took (`*+`, `(?>...)`), it knows nothing. Nor does it ask whether a text matches at once,
when no other way is tried. Its texts are therefore suspects, which are to be tried.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from re import _compiler as compiler  # type: ignore[attr-defined]  # neither it nor the parser has a public name
from re import _constants as constants  # type: ignore[attr-defined]  # as above
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT}
CHARACTERS = {constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN}
COPIED = 5
"""A group that is repeated at most as often is copied; one that may be repeated more often counts as a loop."""
SAMPLES = "a1_ \t\n\r-./:=,;'\"@#$%&*+?!~^`|\\()[]{}<>AZz09é\0\u2028\U0001f600"
ROUNDS = 4
"""Ways to go round one repetition that are tried, beside those that are suspect."""
ENDINGS = 4
START = 0
"""The place before an expression. A search begins anew at each character: any leads from it back to it."""
NOTHING = -1

State = tuple[int, ...]
Paths = dict[State, tuple[int, State]]
Condition = Callable[[str, str], bool]
"""Whether a place between two characters is as an expression demands (`\\b`, `$`, `(?!x)`); "" is the text's end."""
Step = tuple[int, tuple[Condition, ...]]


@dataclass(frozen=True, slots=True, order=True)
class Suspect:
    """A text that may be matched in ever more ways: `before`, and `again` any number of times."""

    before: str
    again: str


@dataclass
class Automaton:
    """An expression's places and how characters lead from one to the next. A place stands behind one character of the
    expression: it is entered by the characters of its set.

    sets: the characters (indices of `symbols`) that lead to a place. exits: the node behind it.
    """

    symbols: Sequence[str]
    sets: list[frozenset[int]] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    silent: list[list[tuple[int, Condition | None]]] = field(default_factory=list)
    entries: list[list[int]] = field(default_factory=list)
    groups: dict[int, Any] = field(default_factory=dict)
    conditional: bool = False
    follow: list[list[Step]] = field(default_factory=list)
    _steps: dict[tuple[int, int], dict[int, list[int]]] = field(default_factory=dict)
    _steps_in: dict[tuple[int, int, frozenset[int]], dict[int, list[int]]] = field(default_factory=dict)

    def node(self) -> int:
        self.silent.append([])
        self.entries.append([])
        return len(self.silent) - 1

    def place(self, begin: int, symbols: frozenset[int]) -> int:
        """A place that is entered from a node; its exit."""
        self.entries[begin].append(len(self.sets))
        self.sets.append(symbols)
        self.exits.append(self.node())
        return self.exits[-1]

    # ------------------------------------------------------------------------------------------------------- building

    def add(self, tree: Any, begin: int, flags: int) -> int:
        """The automaton of a sequence, from a node; the node at its end."""
        for operator, argument in tree:
            begin = self._one(operator, argument, begin, flags)
        return begin

    def _one(self, operator: Any, argument: Any, begin: int, flags: int) -> int:
        if operator in CHARACTERS:
            test = matcher([(operator, argument)], flags)
            symbols = frozenset(
                index for index, symbol in enumerate(self.symbols) if test.fullmatch(symbol) is not None
            )
            return self.place(begin, symbols)
        if operator in REPEATS:
            least, most, inner = argument
            return self._repeat(inner, least, most, begin, flags)
        match operator:
            case constants.SUBPATTERN:
                group, more, fewer, inner = argument
                self.groups[group] = inner
                return self.add(inner, begin, (flags | more) & ~fewer)
            case constants.ATOMIC_GROUP:
                return self.add(argument, begin, flags)
            case constants.GROUPREF:
                return self.add(self.groups[argument], begin, flags)
            case constants.BRANCH:
                end = self.node()
                for each in argument[1]:
                    self.silent[self.add(each, self._after(begin), flags)].append((end, None))
                return end
            case constants.AT:
                return self._after(begin, self._condition([(operator, argument)], flags))
            case constants.ASSERT | constants.ASSERT_NOT:
                return self._look(operator, argument, begin, flags)
        raise NotImplementedError(operator)

    def _repeat(self, inner: Any, least: int, most: Any, begin: int, flags: int) -> int:
        shortest, longest = inner.getwidth()
        if least > COPIED and shortest != longest:  # `(?:a?){30}`: what is bounded may still have many ways
            least, most = 1, constants.MAXREPEAT
        for _ in range(least):
            begin = self.add(inner, begin, flags)
        if most is not constants.MAXREPEAT and most - least <= COPIED:
            end = self.node()
            for _ in range(most - least):
                self.silent[begin].append((end, None))
                begin = self.add(inner, begin, flags)
            self.silent[begin].append((end, None))
            return end
        inside, end = self._after(begin), self.node()
        again = self.add(inner, inside, flags)
        self.silent[begin].append((end, None))
        self.silent[again] += [(inside, None), (end, None)]
        return end

    def _look(self, operator: Any, argument: Any, begin: int, flags: int) -> int:
        direction, inner = argument
        if inner.getwidth()[1] <= 1:
            return self._after(begin, self._condition([(operator, argument)], flags))
        if direction > 0:  # it is tried from here, and leads nowhere
            self.add(inner, self._after(begin), flags)
        return self._after(begin)

    def _after(self, begin: int, condition: Condition | None = None) -> int:
        node = self.node()
        self.silent[begin].append((node, condition))
        return node

    def _condition(self, tree: Any, flags: int) -> Condition:
        test, known = matcher(tree, flags), dict[tuple[str, str], bool]()
        self.conditional = True

        def holds(before: str, after: str) -> bool:
            if (before, after) not in known:
                known[before, after] = test.match(before + after, len(before)) is not None
            return known[before, after]

        return holds

    def finish(self, begin: int, *, searching: bool) -> None:
        """Work out which places follow which, without the nodes between them."""
        self.exits[START] = begin
        self.follow = [self._following(node) for node in self.exits]
        if searching:
            self.sets[START] = frozenset(range(len(self.symbols)))
            self.follow[START].append((START, ()))

    def _following(self, node: int) -> list[Step]:
        """Every silent way to a next place; one that goes in a circle is none, as in `re`."""
        found: list[Step] = []
        stack: list[tuple[int, tuple[Condition, ...], frozenset[int]]] = [(node, (), frozenset())]
        while stack:
            at, conditions, passed = stack.pop()
            found += [(place, conditions) for place in self.entries[at]]
            passed |= {at}
            for following, condition in self.silent[at]:
                if following not in passed:
                    stack.append((following, conditions if condition is None else (*conditions, condition), passed))
        return found

    # -------------------------------------------------------------------------------------------------------- walking

    def steps(self, place: int, before: int) -> dict[int, list[int]]:
        """Where each character that leads on from a place leads, twice where it leads there in two ways. NOTHING is
        before the text.
        """
        key = (place, before if self.conditional else NOTHING)
        if key not in self._steps:
            former = "" if before == NOTHING else self.symbols[before]
            ways: dict[int, list[int]] = {}
            for symbol, letter in enumerate(self.symbols):
                ways[symbol] = [
                    following
                    for following, conditions in self.follow[place]
                    if symbol in self.sets[following] and all(holds(former, letter) for holds in conditions)
                ]
            self._steps[key] = {symbol: found for symbol, found in ways.items() if found}
        return self._steps[key]

    def steps_in(self, place: int, before: int, circle: frozenset[int]) -> dict[int, list[int]]:
        """Those of the steps that stay within some places."""
        key = (place, before if self.conditional else NOTHING, circle)
        if key not in self._steps_in:
            ways = {
                symbol: [each for each in found if each in circle]
                for symbol, found in self.steps(place, before).items()
            }
            self._steps_in[key] = {symbol: found for symbol, found in ways.items() if found}
        return self._steps_in[key]

    def walk(self, begin: State, moves: Callable[[State], Iterator[tuple[int, State]]], goal: State | None) -> Paths:
        """Breadth first from a state, until a goal is reached (again): each state that is reached, and from where."""
        paths: Paths = {}
        queue = deque([begin])
        while queue and (goal is None or goal not in paths):
            state = queue.popleft()
            for symbol, following in moves(state):
                if following not in paths:
                    paths[following] = (symbol, state)
                    queue.append(following)
        return paths

    def word(self, paths: Paths, begin: State, end: State) -> str:
        """The text of the shortest way that a walk has found, of one character at least."""
        letters = []
        while True:
            symbol, end = paths[end]
            letters.append(self.symbols[symbol])
            if end == begin:
                return "".join(reversed(letters))

    def last(self, symbol: int) -> int:
        """A character as far as it matters to what follows it."""
        return symbol if self.conditional else NOTHING

    @cached_property
    def reach(self) -> list[set[int]]:
        """The places that may follow each, at any distance."""
        found = []
        for place in range(len(self.sets)):
            reached, stack = set[int](), [place]
            while stack:
                more = {following for following, _ in self.follow[stack.pop()]} - reached
                reached |= more
                stack += more
            found.append(reached)
        return found

    @cached_property
    def loops(self) -> list[int]:
        """The places that may follow themselves."""
        return [place for place, reached in enumerate(self.reach) if place in reached]

    @cached_property
    def circles(self) -> list[frozenset[int]]:
        """Of each place, the places that follow it and that it follows."""
        return [frozenset(one for one in reach if place in self.reach[one]) for place, reach in enumerate(self.reach)]

    def first(self) -> dict[int, str]:
        """The shortest text that leads to each place."""

        def moves(state: State) -> Iterator[tuple[int, State]]:
            place, before = state
            for symbol, found in self.steps(place, before).items():
                for following in found:
                    yield symbol, (following, self.last(symbol))

        begin = (START, NOTHING)
        paths = self.walk(begin, moves, None)
        found = {START: ""}
        for state in paths:
            if state[0] not in found:
                found[state[0]] = self.word(paths, begin, state)
        return found

    # ------------------------------------------------------------------------------------------------------- suspects

    def rounds(self, place: int, text: str) -> Iterator[str]:
        """Texts that lead from a place back to itself, after the text that led to it: the shortest with each first
        character.
        """
        circle = self.circles[place]
        begin = (place, self.last(self.symbols.index(text[-1])), 0)
        for symbol in range(len(self.symbols)):

            def moves(state: State, symbol: int = symbol) -> Iterator[tuple[int, State]]:
                at, last, started = state
                for letter, found in self.steps_in(at, last, circle).items():
                    if started or letter == symbol:
                        for following in found:
                            yield letter, (following, self.last(letter), 1)

            paths = self.walk(begin, moves, None)
            ends = [state for state in paths if state[0] == place]
            if ends:
                yield self.word(paths, begin, ends[0])

    def doubled(self, place: int) -> Iterator[str]:
        """Texts that lead from a place back to itself in two ways."""
        circle = self.circles[place]

        def moves(state: State) -> Iterator[tuple[int, State]]:
            one, other, last, parted = state
            others = self.steps_in(other, last, circle)
            for symbol, ways in self.steps_in(one, last, circle).items():
                for index, way in enumerate(ways):
                    for number, another in enumerate(others.get(symbol, ())):
                        apart = 1 if parted or one != other or index != number else 0
                        yield symbol, (way, another, self.last(symbol), apart)

        for before in self._lasts(self.sets[place]):
            start, goal = (place, place, before, 0), (place, place, before, 1)
            paths = self.walk(start, moves, goal)
            if goal in paths:
                yield self.word(paths, start, goal)

    def passed_on(self, place: int, other: int) -> Iterator[str]:
        """Texts that lead from a place back to itself, from there to another one, and from that back to itself."""
        circle, others = self.circles[place], self.circles[other]

        def moves(state: State) -> Iterator[tuple[int, State]]:
            one, between, two, last, _ = state
            on = self.steps(between, last)
            goes = self.steps_in(two, last, others)
            for symbol, stays in self.steps_in(one, last, circle).items():
                ends = goes.get(symbol)
                if not ends:
                    continue
                for way in on.get(symbol, ()):
                    if way == other or other in self.reach[way]:
                        for stay in stays:
                            for end in ends:
                                yield symbol, (stay, way, end, self.last(symbol), 1)

        for before in self._lasts(self.sets[place] & self.sets[other]):
            start, goal = (place, place, other, before, 0), (place, other, other, before, 1)
            paths = self.walk(start, moves, goal)
            if goal in paths:
                yield self.word(paths, start, goal)

    def _lasts(self, symbols: frozenset[int]) -> list[int]:
        return sorted({self.last(symbol) for symbol in symbols})

    def suspects(self) -> set[Suspect]:
        """Texts that may be matched in ever more ways."""
        first = self.first()
        found = set[Suspect]()
        for place in self.loops:
            if place not in first:
                continue
            found |= {Suspect(first[place], again) for again in self.doubled(place)}
            for other in self.loops:
                if other in self.reach[place] and place not in self.reach[other] and other in first:
                    found |= {Suspect(first[place], again) for again in self.passed_on(place, other)}
        return found

    def repetitions(self) -> set[Suspect]:
        """Texts that go round each repetition, in each way that it may begin."""
        first = self.first()
        found = set[Suspect]()
        for place in self.loops:
            if place != START and place in first:
                rounds = sorted(set(self.rounds(place, first[place])), key=lambda one: (len(one), one))
                found |= {Suspect(first[place], again) for again in rounds[:ROUNDS]}
        return found

    def endings(self) -> list[str]:
        """What makes a match fail most likely: the text's end, characters that the fewest repetitions take, lines."""
        taken = [sum(symbol in self.sets[place] for place in self.loops) for symbol in range(len(self.symbols))]
        fewest = sorted(range(len(self.symbols)), key=taken.__getitem__)[:ENDINGS]
        return ["", *(self.symbols[symbol] for symbol in fewest), "\n\nz"]


def matcher(tree: Any, flags: int) -> re.Pattern[Any]:
    """A piece of an expression as an expression."""
    state = parser.State()
    state.flags = flags
    return compiler.compile(parser.SubPattern(state, list(tree)), flags)  # type: ignore[no-any-return]  # private


def automaton(expression: str, flags: int, *, searching: bool) -> Automaton:
    """An expression's automaton; of a search's, it may begin at any character."""
    tree = parser.parse(expression, flags)
    flags = tree.state.flags
    built = Automaton(symbols=kinds(expression, tree, flags))
    built.sets.append(frozenset())
    built.exits.append(0)
    begin = built.node()
    built.add(tree, begin, flags)
    built.finish(begin, searching=searching)
    return built


def kinds(expression: str, tree: Any, flags: int) -> list[str]:
    """One character of each kind: those that no set of an expression tells apart are one kind."""
    tests = [matcher([one], now) for one, now in _sets(tree, flags)]
    samples = dict.fromkeys(f"{SAMPLES}{''.join(letters(tree))}{expression}")
    found: dict[tuple[bool, ...], str] = {}
    for sample in samples:
        found.setdefault(tuple(test.fullmatch(sample) is not None for test in tests), sample)
    return list(found.values())


def _sets(tree: Any, flags: int) -> Iterator[tuple[Any, int]]:
    """Every character and set of characters of an expression, and one of words for its edges."""
    yield (constants.IN, [(constants.CATEGORY, constants.CATEGORY_WORD)]), flags
    yield (constants.LITERAL, ord("\n")), flags
    for operator, argument in tree:
        if operator in CHARACTERS:
            yield (operator, argument), flags
        elif operator is constants.SUBPATTERN:
            yield from _sets(argument[3], (flags | argument[1]) & ~argument[2])
        else:
            for inner in _inner(operator, argument):
                yield from _sets(inner, flags)


def _inner(operator: Any, argument: Any) -> list[Any]:
    if operator in REPEATS:
        return [argument[2]]
    if operator is constants.ATOMIC_GROUP:
        return [argument]
    if operator is constants.BRANCH:
        return list(argument[1])
    return [argument[1]] if operator in (constants.ASSERT, constants.ASSERT_NOT) else []


def letters(tree: Any) -> Iterator[str]:
    """The characters that an expression names, the ends of its ranges, and their neighbours."""
    for (operator, argument), _ in _sets(tree, 0):
        items = argument if operator is constants.IN else [(operator, argument)]
        for kind, value in items:
            if kind in (constants.LITERAL, constants.NOT_LITERAL):
                yield chr(value)
            elif kind is constants.RANGE:
                yield from (chr(max(value[0] - 1, 0)), chr(value[0]), chr(value[1]), chr(min(value[1] + 1, 0x10FFFF)))
