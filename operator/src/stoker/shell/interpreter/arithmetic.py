"""Shell arithmetic on known text: `$((...))`, `((...))`, `let`, array indices."""

from collections.abc import Callable

MAX_LENGTH = 1_024
"""Characters of an expression; chosen because nobody writes a longer one."""
MAX_DEPTH = 40
"""Parentheses and signs within one another: each takes some of Python's own stack."""
LIMIT = 1 << 63
"""Shells calculate with 64 bits; what overflows is not followed."""


class ArithmeticUnknownError(ValueError):
    """The expression is not one that can be followed; its value is unknown."""


_BINARY = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, ">": 4, "<=": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
    "**": 7,
}  # fmt: skip
"""Operators of two operands by how tightly they bind. Others, of bits and choices, are not followed."""
_ASSIGNMENTS = ("+=", "-=", "*=", "/=", "%=", "=")
_TOKENS = sorted({*_BINARY, *_ASSIGNMENTS, "++", "--", "(", ")", "!"}, key=len, reverse=True)


class _ArithmeticParser:
    def __init__(self, text: str, lookup: Callable[[str], int], assign: Callable[[str, int], None]) -> None:
        if len(text) > MAX_LENGTH:
            raise ArithmeticUnknownError
        self.tokens = _tokens(text)
        self.position = 0
        self.depth = 0
        self.lookup = lookup
        self.assign = assign

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def assignment(self) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ArithmeticUnknownError
        try:
            name = self.peek()
            following = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else ""
            if _is_name(name) and following in _ASSIGNMENTS:
                self.position += 2
                value = self.assignment()
                if following != "=":
                    value = _apply(following[:-1], self.lookup(name), value)
                self.assign(name, value)
                return value
            return self.binary(1)
        finally:
            self.depth -= 1

    def binary(self, level: int) -> int:
        left = self.unary()
        while (operator := self.peek()) in _BINARY and _BINARY[operator] >= level:
            self.take()
            right = self.binary(_BINARY[operator] + (operator != "**"))
            left = _apply(operator, left, right)
        return left

    def unary(self) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ArithmeticUnknownError
        try:
            return self._unary()
        finally:
            self.depth -= 1

    def _unary(self) -> int:
        token = self.take()
        if token == "(":
            value = self.assignment()
            if self.take() != ")":
                raise ArithmeticUnknownError
            return value
        if token in ("!", "-", "+"):
            value = self.unary()
            return {"!": int(not value), "-": -value, "+": value}[token]
        if token in ("++", "--"):
            name = self.take()
            if not _is_name(name):
                raise ArithmeticUnknownError
            value = self.lookup(name) + (1 if token == "++" else -1)
            self.assign(name, value)
            return value
        if _is_name(token):
            value = self.lookup(token)
            if self.peek() in ("++", "--"):
                self.assign(token, value + (1 if self.take() == "++" else -1))
            return value
        return number(token)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    index = 0
    while index < len(text):
        character = text[index]
        if character.isspace():
            index += 1
        elif character.isascii() and (character.isalnum() or character == "_"):
            end = index
            while end < len(text) and text[end].isascii() and (text[end].isalnum() or text[end] == "_"):
                end += 1
            tokens.append(text[index:end])
            index = end
        else:
            token = next((token for token in _TOKENS if text.startswith(token, index)), None)
            if token is None:
                raise ArithmeticUnknownError
            tokens.append(token)
            index += len(token)
    return tokens


def _is_name(token: str) -> bool:
    return bool(token) and (token[0].isalpha() or token[0] == "_") and token.isidentifier()


def number(text: str) -> int:
    """A decimal integer. Raises ArithmeticUnknownError for others: `010` is octal, `0x10` has a base."""
    if not text.isdecimal() or (len(text) > 1 and text[0] == "0"):
        raise ArithmeticUnknownError
    return int(text)


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise ArithmeticUnknownError
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    if operator == "**":
        if not 0 <= right < 64:
            raise ArithmeticUnknownError
        value = int(left**right)
    else:
        value = {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "==": int(left == right),
            "!=": int(left != right),
            "<": int(left < right),
            ">": int(left > right),
            "<=": int(left <= right),
            ">=": int(left >= right),
            "&&": int(bool(left) and bool(right)),
            "||": int(bool(left) or bool(right)),
        }[operator]
    if not -LIMIT <= value < LIMIT:
        raise ArithmeticUnknownError
    return value


def evaluate(text: str, lookup: Callable[[str], int], assign: Callable[[str, int], None]) -> int:
    """The value of an expression whose `$` expansions are done.

    lookup: a variable's integer; raises ArithmeticUnknownError if it is not known. assign: `x = 1`, `x++`, `x += 1`.
    Raises ArithmeticUnknownError for everything that isn't plain integer arithmetic. Both sides of `&&` and `||` are
    evaluated, so assignments within them make the result unreliable: they are refused.
    """
    if any(token in text for token in ("&&", "||")):

        def refuse(_name: str, _value: int) -> None:
            raise ArithmeticUnknownError

        assign = refuse
    parser = _ArithmeticParser(text, lookup, assign)
    if not parser.tokens:
        return 0
    value = parser.assignment()
    if parser.position != len(parser.tokens):
        raise ArithmeticUnknownError
    return value
