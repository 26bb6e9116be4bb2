"""`test`, `[ ]` and `[[ ]]` on values that may be unknown: true, false or undecided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stoker.shell.interpreter import arithmetic, glob, regex, values
from stoker.shell.interpreter.arithmetic import ArithmeticUnknownError
from stoker.shell.interpreter.glob import PatternTooLargeError
from stoker.shell.interpreter.regex import RegexUnknownError
from stoker.shell.interpreter.values import NO_NAMES, Text, Value

MAX_TOKENS = 256
"""Words of a test: combining more would take Python's own stack and time for what nobody writes."""

BINARY = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~", "<", ">", "-nt", "-ot", "-ef"})
UNARY = frozenset(f"-{letter}" for letter in "abcdefghkprstuwxGLNOSzn")
_INTEGER: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


@dataclass(frozen=True, slots=True)
class Token:
    """An operator as written, or an operand's value (None value: it is an operator or parenthesis)."""

    operator: str
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """True, False, or None with the names that it hangs on; assumed: variables taken for unset.

    groups: what `=~` matched, and its groups; None if unknown.
    """

    truth: bool | None
    names: frozenset[str] = NO_NAMES
    assumed: frozenset[str] = NO_NAMES
    groups: tuple[str, ...] | None = None


_UNKNOWN = TestResult(None)


def evaluate(tokens: Sequence[Token], *, patterns: bool) -> TestResult:
    """patterns: the right side of `==` and `!=` is a pattern, as in `[[ ]]`."""
    if len(tokens) > MAX_TOKENS:
        return _UNKNOWN
    reader = _TestParser(tokens, patterns=patterns)
    try:
        result = reader.either(0)
    except _NotUnderstoodError:
        return TestResult(None, _names(tokens))
    if reader.position != len(tokens):
        return TestResult(None, _names(tokens))
    return replace(result, groups=reader.groups)


def _names(tokens: Sequence[Token]) -> frozenset[str]:
    return frozenset().union(*(values.names(token.value) for token in tokens if token.value is not None))


class _NotUnderstoodError(Exception):
    pass


class _TestParser:
    def __init__(self, tokens: Sequence[Token], *, patterns: bool) -> None:
        self.tokens = tokens
        self.patterns = patterns
        self.position = 0
        self.groups: tuple[str, ...] | None = None

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def operator(self, ahead: int = 0) -> str:
        token = self.peek(ahead)
        return token.operator if token is not None else ""

    def either(self, depth: int) -> TestResult:
        result = self.both(depth)
        while self.operator() in ("||", "-o"):
            self.position += 1
            result = _combine(result, self.both(depth), decisive=True)
        return result

    def both(self, depth: int) -> TestResult:
        result = self.primary(depth)
        while self.operator() in ("&&", "-a"):
            self.position += 1
            result = _combine(result, self.primary(depth), decisive=False)
        return result

    def primary(self, depth: int) -> TestResult:
        if depth > 20:
            raise _NotUnderstoodError
        token = self.peek()
        if token is None:
            raise _NotUnderstoodError
        if self.operator(1) in BINARY and self.peek(2) is not None:
            return self.comparison()
        if token.operator == "!":
            self.position += 1
            result = self.primary(depth + 1)
            return TestResult(None if result.truth is None else not result.truth, result.names, result.assumed)
        if token.operator == "(":
            self.position += 1
            result = self.either(depth + 1)
            if self.operator() != ")":
                raise _NotUnderstoodError
            self.position += 1
            return result
        if token.operator in UNARY and (operand := self.peek(1)) is not None and operand.value is not None:
            self.position += 2
            if token.operator == "-n" and not self.patterns and not any(map(_stays, operand.value)):
                return TestResult(truth=True)  # without its operand, `[ -n ]` asks whether "-n" is empty
            return _unary(token.operator, operand.value)
        self.position += 1
        if token.value is None:
            raise _NotUnderstoodError
        return _unary("-n", token.value)

    def comparison(self) -> TestResult:
        left, operator, right = self.peek(), self.operator(1), self.peek(2)
        assert left is not None
        assert right is not None
        self.position += 3
        names = _names([left, right])
        lefts = values.possible(left.value) if left.value is not None else frozenset({left.operator})
        rights = values.possible(right.value) if right.value is not None else frozenset({right.operator})
        if lefts is None or rights is None:
            return TestResult(None, names)
        results: set[bool] = set()
        for one in lefts:
            for other in rights:
                truth = self._compare(one, operator, other, right)
                if truth is None:
                    return TestResult(None, names)
                results.add(truth)
        if len(lefts) * len(rights) != 1:
            self.groups = None
        return TestResult(next(iter(results)) if len(results) == 1 else None, names)

    def _compare(self, left: str, operator: str, right: str, token: Token) -> bool | None:
        if operator in _INTEGER:
            try:
                return _INTEGER[operator](_integer(left), _integer(right))
            except ArithmeticUnknownError:
                return None
        if operator in ("=", "==", "!="):
            quoted = token.value is None or all(fragment.quoted for text in token.value for fragment in text)
            if self.patterns and not quoted:
                try:
                    equal = glob.matches(right, left)
                except PatternTooLargeError:
                    return None
            else:
                equal = left == right
            return equal != (operator == "!=")
        if operator in ("<", ">"):
            return left < right if operator == "<" else left > right
        if operator == "=~":
            return self._search(left, right, token)
        return None

    def _search(self, text: str, expression: str, token: Token) -> bool | None:
        """`text =~ expression`; what is quoted in the expression stands for itself."""
        self.groups = None
        quoted = token.value is not None and any(
            fragment.quoted for alternative in token.value for fragment in alternative
        )
        if quoted and token.value is not None:
            if not all(fragment.quoted for alternative in token.value for fragment in alternative):
                return None
            self.groups = (expression,) if expression in text else ()
            return expression in text
        try:
            matched, self.groups = regex.search(expression, text)
        except RegexUnknownError:
            return None
        return matched


def _integer(text: str) -> int:
    text = text.strip()
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if not digits.isdecimal():
        raise ArithmeticUnknownError
    return sign * arithmetic.number(digits.lstrip("0") or "0")


def _stays(text: Text) -> bool:
    """Whether an operand is a word even when it is empty, or may be two."""
    return any(fragment.quoted or fragment.text or (fragment.text is None and not fragment.absent) for fragment in text)


def _unary(operator: str, value: Value) -> TestResult:
    names = values.names(value)
    if operator not in ("-z", "-n"):
        return TestResult(None, names)
    results: set[bool] = set()
    assumed: set[str] = set()
    for text in value:
        known = values.known_text(text)
        if known is not None:
            results.add(bool(known))
        elif any(fragment.text for fragment in text):
            results.add(True)
        elif all(fragment.absent for fragment in text if fragment.text is None):
            assumed |= values.names((text,))
            results.add(False)
        else:
            return TestResult(None, names)
    if len(results) != 1:
        return TestResult(None, names)
    return TestResult(next(iter(results)) == (operator == "-n"), names, frozenset(assumed))


def _combine(left: TestResult, right: TestResult, *, decisive: bool) -> TestResult:
    """`or` (decisive True) and `and` (decisive False) of three-valued results."""
    names, assumed = left.names | right.names, left.assumed | right.assumed
    if decisive in (left.truth, right.truth):
        return TestResult(decisive, names, assumed)
    return TestResult(None if None in (left.truth, right.truth) else not decisive, names, assumed)
