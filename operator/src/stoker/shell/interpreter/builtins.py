"""Commands that act on the shell itself: exit, set, eval, source, read, trap, ..."""

import posixpath
import re
from collections.abc import Sequence

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.loops import Loops
from stoker.shell.interpreter.state import (
    EXPECTED,
    FAILURE,
    SUCCESS,
    UNDECIDED,
    Outcome,
    State,
    Variable,
    decided,
    join,
)
from stoker.shell.interpreter.values import EMPTY, NotFollowedError, Text, Value
from stoker.shell.interpreter.walk import Run

# Sourcing these changes search paths, not the script's own variables.
_BENIGN_SOURCES = re.compile(
    r"(^|/)(activate|conda\.sh|mamba\.sh|profile|\.profile|\.bashrc|bash\.bashrc|\.bash_profile|setvars\.sh|"
    r"environment|modules?(\.sh)?|init/(bash|sh)|nvm\.sh|lmod\.sh)$"
)


class Builtins(Loops):
    """The shell's own commands."""

    def _builtin(
        self, name: str, fields: list[Field], prefix: list[tuple[str, Variable]], state: State
    ) -> tuple[Outcome, State | None] | None:
        """Commands that act on the shell itself; None for all others."""
        arguments = fields[1:]
        match name:
            case ":" | "true":
                return SUCCESS, state
            case "false":
                return FAILURE, state
            case "test":
                return self._test_words(arguments, state), state
            case "[":
                return self._test_words(arguments[:-1], state), state
            case "exit":
                return self._exit(arguments, state)
            case "return":
                return self._return(arguments, state)
            case "break" | "continue":
                return self._jump(name, arguments, state)
            case "shift":
                count = self._expander.integer(arguments[0].text or "?", state) if arguments else 1
                if state.positional is None or count is None:
                    state.positional = None
                    return UNDECIDED, state
                if not 0 <= count <= len(state.positional):
                    return FAILURE, state
                state.positional = state.positional[count:]
                return SUCCESS, state
            case "set":
                self._set(arguments, state)
                return SUCCESS, state
            case "eval":
                return self._eval(fields, state)
            case "source" | ".":
                return self._sourced(fields, state)
            case "read":
                return self._read(arguments, dict(prefix).get("IFS") or state.variables.get("IFS"), state), state
            case "mapfile" | "readarray":
                self._read_lines(arguments, state)
                return SUCCESS, state
            case "getopts":
                return self._getopts(arguments, state), state
            case "coproc":
                raise NotFollowedError
            case "let":
                outcome = SUCCESS
                for each in arguments:
                    outcome = self._truth_of(self._expander.calculate(each.value, state))
                return outcome, state
            case "trap":
                self._trap(arguments, state)
                return SUCCESS, state
            case "unset" | "export" | "declare" | "typeset" | "local" | "readonly":
                # Where the grammar does not tell them from programs: `command export A=1`.
                state.forget()
                return SUCCESS, state
            case "printf" if arguments and (arguments[0].text or "").startswith("-v"):
                state.forget()
                return SUCCESS, state
            case "shopt" | "umask" | "ulimit" | "alias" | "unalias":
                return SUCCESS, state
            case _:
                return None

    def _exit(self, arguments: Sequence[Field], state: State) -> tuple[Outcome, State | None]:
        code = arguments[0].text if arguments else None
        last = not arguments or (code is None and values.names(arguments[0].value) <= {EXPECTED.ending.value})
        if last:
            outcome = FAILURE if state.how.after_failure else EXPECTED
        else:
            outcome = UNDECIDED if code is None or not code.isdecimal() else SUCCESS if not code.strip("0") else FAILURE
        if outcome is not FAILURE:
            self._ends += 1
        self._exits[-1].append((outcome, state))
        return outcome, None

    def _return(self, arguments: Sequence[Field], state: State) -> tuple[Outcome, State | None]:
        code = arguments[0].text if arguments else None
        outcome = EXPECTED if not arguments else UNDECIDED if code is None else decided(code == "0")
        self._ends += 1
        (self._calls[-1] if self._calls else self._exits[-1]).append((outcome, state))
        return outcome, None

    def _jump(self, name: str, arguments: Sequence[Field], state: State) -> tuple[Outcome, State | None]:
        if not self._loops:
            return SUCCESS, state
        level = self._expander.integer(arguments[0].text or "?", state) if arguments else 1
        loop = self._loops[-min(max(level or 1, 1), len(self._loops))]
        (loop.breaks if name == "break" else loop.continues).append(state)
        self._ends += 1
        return SUCCESS, None

    def _set(self, arguments: Sequence[Field], state: State) -> None:
        for index, each in enumerate(arguments):
            text = each.text
            if text == "--" or text is None or not text.startswith(("-", "+")):
                rest = arguments[index + 1 :] if text == "--" else arguments[index:]
                previous = arguments[index - 1].text if index else ""
                if text in ("errexit", "pipefail", "nounset", "xtrace", "posix", "monitor") and (
                    previous or ""
                ).endswith("o"):
                    if text == "errexit":
                        state.errexit = (previous or "").startswith("-")
                    continue
                state.positional = self._positional(rest)
                return
            if "e" in text[1:] and not text.startswith("--"):
                state.errexit = text.startswith("-")

    def _eval(self, fields: list[Field], state: State) -> tuple[Outcome, State | None]:
        parts: list[Value] = []
        for each in fields[1:]:
            if each.many:
                parts = [values.hole(many=True)]
                break
            parts.extend([values.literal(" "), each.value] if parts else [each.value])
        value = values.concatenate(parts) if parts else EMPTY
        if len(value) > 1:
            runs = [self._evaluated(text, fields) for text in value]
            return self._arms(state, runs, values.NO_NAMES, None)
        return self._evaluated(value[0], fields)(state)

    def _evaluated(self, text: Text, fields: list[Field]) -> Run:
        def run(state: State) -> tuple[Outcome, State | None]:
            if text and all(piece.text is None or not piece.text.strip() for piece in text):
                self._record(fields, [], state)
                if not all("conda" in name or "hook" in name for piece in text for name in piece.names) or not any(
                    piece.names for piece in text
                ):
                    state.forget()
                return EXPECTED, state
            followed = self._nested(text, state, fields[-1].site, own=False)
            if followed is None:
                self._record(fields, [], state)
                state.forget()
                return EXPECTED, state
            return followed

        return run

    def _sourced(self, fields: list[Field], state: State) -> tuple[Outcome, State | None]:
        path = fields[1].text if len(fields) > 1 else None
        content = state.files.get(posixpath.normpath(path)) if path else None
        if content is not None:
            positional = state.positional
            if len(fields) > 2:
                state.positional = self._positional(fields[2:])
            self._calls.append([])
            try:
                followed = self._nested(content, state, fields[1].site, own=False)
            finally:
                returns = self._calls.pop()
            if followed is not None:
                after = join([each for each in (followed[1], *(end for _, end in returns)) if each is not None])
                if after is not None:
                    after.positional = positional
                return followed[0], after
        self._record(fields, [], state)
        if path is None or not _BENIGN_SOURCES.search(path):
            state.forget()
        return EXPECTED, state

    def _input(self) -> str | None:
        """What is left to read from standard input, if that is known."""
        return values.single(self._stdin) if self._stdin is not None else None

    def _read(self, arguments: Sequence[Field], separator: Variable | None, state: State) -> Outcome:
        """`read`: takes one line of a known here-string, heredoc, file or pipe."""
        flags, targets, delimiter = _read_options(arguments, "pdnNtui")
        if flags is None:
            state.forget()
            return UNDECIDED
        text = self._input()
        ifs = values.single(separator.scalar()) if separator is not None else " \t\n"
        state.forget_names(targets or ["REPLY"])
        if (
            text is None
            or ifs is None
            or flags & set("nNu")
            or len(ifs.strip()) > 1
            or ("\\" in text and "r" not in flags)
        ):
            self._stdin = None if self._stdin is None else values.hole(["<"])
            return UNDECIDED
        if delimiter is not None:
            line, rest = (text, "") if delimiter == "" else (None, "")
        else:
            line, _, rest = text.partition("\n")
        self._stdin = values.literal(rest)
        if line is None:
            return UNDECIDED
        if "a" in flags:
            items = tuple(values.literal(word) for word in _cut(line, ifs, None)[:1_024])
            state.assign((targets or ["REPLY"])[0], Variable(items=items))
        else:
            words = _cut(line, ifs, len(targets)) if targets else [line]
            for index, target in enumerate(targets or ["REPLY"]):
                word = words[index] if index < len(words) else ""
                state.assign(target, Variable(value=values.literal(word)))
        if delimiter is not None:
            return UNDECIDED  # the end of the text comes before its delimiter
        return SUCCESS if text else FAILURE

    def _read_lines(self, arguments: Sequence[Field], state: State) -> None:
        """`mapfile`, `readarray`: the array is not known."""
        flags, targets, _ = _read_options(arguments, "dnOsuCc")
        if flags is None:
            state.forget()
        else:
            state.forget_names(targets or ["MAPFILE"])
        self._stdin = None if self._stdin is None else values.hole(["<"])

    def _getopts(self, arguments: Sequence[Field], state: State) -> Outcome:
        """`getopts`: no options are left where no parameters are; what others are is not followed."""
        texts = [each.text for each in arguments]
        if len(texts) != 2 or texts[1] is None or not texts[1].isidentifier():
            state.forget()
            return UNDECIDED
        if state.positional == ():
            state.forget_names(["OPTARG"])
            state.assign("OPTIND", Variable(value=values.literal("1")))
            return FAILURE
        state.forget_names([texts[1], "OPTARG", "OPTIND"])
        return UNDECIDED

    def _trap(self, arguments: Sequence[Field], state: State) -> None:
        signals = {each.text for each in arguments[1:]}
        if not arguments:
            return
        value = arguments[0].value
        known = len(value) == 1 and values.plain(value[0]) not in (None, "", "-")
        handler = value[0] if known else None
        if signals & {"EXIT", "0"}:
            state.exit_traps = (handler,)
        if "ERR" in signals:
            state.failure_trap = handler


def _read_options(arguments: Sequence[Field], valued: str) -> tuple[set[str] | None, list[str], str | None]:
    """The letters of the options, the variables and the delimiter of `read` and `mapfile`; None if unknown.

    valued: letters whose option takes a value. An array's name (`-a NAME`) is one of the variables.
    """
    flags: set[str] = set()
    targets: list[str] = []
    delimiter: str | None = None
    words = [each.text for each in arguments]
    while words:
        word = words.pop(0)
        if word is None or (not word.startswith("-") and not word.isidentifier()):
            return None, [], None
        if not word.startswith("-"):
            targets.append(word)
            continue
        for index, letter in enumerate(word[1:], start=2):
            flags.add(letter)
            if letter in valued:
                value = word[index:] or (words.pop(0) if words else None)
                delimiter = value if letter == "d" else delimiter
                break
    return flags, targets, delimiter


def _cut(line: str, separators: str, most: int | None) -> list[str]:
    """A line in at most so many words, as `read` splits it: blanks in a row are one, other separators are not."""
    if not separators:
        return [line]
    separator = separators.strip()
    if not separator:
        return line.strip(separators).split(None, -1 if most is None else most - 1)
    blank = separators.replace(separator, "")
    words = line.strip(blank).split(separator, -1 if most is None else most - 1) if line else []
    words = [word.strip(blank) for word in words] if blank else words
    return words[:-1] if most is None and words and words[-1] == "" else words
