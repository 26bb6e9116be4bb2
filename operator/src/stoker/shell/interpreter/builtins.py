"""Commands that act on the shell itself: exit, set, eval, source, read, trap, ..."""

import posixpath
import re
from collections.abc import Sequence

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Ended, Frame
from stoker.shell.interpreter.state import (
    EXPECTED,
    FAILURE,
    SUCCESS,
    UNDECIDED,
    ExitStatus,
    ShellState,
    Variable,
    decided,
    join,
)
from stoker.shell.interpreter.tests import Tests
from stoker.shell.interpreter.values import EMPTY, NotFollowedError, Text, Value
from stoker.shell.interpreter.walk import Result, Run, Walk, as_positional

# Sourcing these changes search paths, not the script's own variables.
_BENIGN_SOURCES = re.compile(
    r"(^|/)(activate|conda\.sh|mamba\.sh|profile|\.profile|\.bashrc|bash\.bashrc|\.bash_profile|setvars\.sh|"
    r"environment|modules?(\.sh)?|init/(bash|sh)|nvm\.sh|lmod\.sh)$"
)

NAMES = frozenset(
    {
        ".", ":", "[", "alias", "break", "continue", "coproc", "declare", "eval", "exit", "export", "false", "getopts",
        "let", "local", "mapfile", "printf", "read", "readarray", "readonly", "return", "set", "shift", "shopt",
        "source", "test", "trap", "true", "typeset", "ulimit", "umask", "unalias", "unset",
    }
)  # fmt: skip
"""The shell's own commands that are followed; others of them, such as `cd`, are recorded like programs."""


class Builtins:
    """The shell's own commands."""

    def __init__(self, walk: Walk, tests: Tests) -> None:
        self._walk = walk
        self._tests = tests

    def run(
        self, name: str, fields: list[Field], prefix: list[tuple[str, Variable]], state: ShellState, frame: Frame
    ) -> Result | None:
        """Commands that act on the shell itself; None for all others."""
        arguments = fields[1:]
        match name:
            case ":" | "true":
                return SUCCESS, state
            case "false":
                return FAILURE, state
            case "test":
                return self._tests.test_words(arguments, state), state
            case "[":
                return self._tests.test_words(arguments[:-1], state), state
            case "exit":
                return self._exit(arguments, state, frame)
            case "return":
                return self._return(arguments, state, frame)
            case "break" | "continue":
                return self._jump(name, arguments, state, frame)
            case "shift":
                count = self._walk.expander.integer(arguments[0].text or "?", state) if arguments else 1
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
                return self._eval(fields, state, frame)
            case "source" | ".":
                return self._sourced(fields, state, frame)
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
                status = SUCCESS
                for each in arguments:
                    status = self._tests.truth_of(self._walk.expander.calculate(each.value, state))
                return status, state
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

    def _exit(self, arguments: Sequence[Field], state: ShellState, frame: Frame) -> Result:
        code = arguments[0].text if arguments else None
        last = not arguments or (code is None and values.names(arguments[0].value) <= {EXPECTED.ending.value})
        if last:
            status = FAILURE if state.context.after_failure else EXPECTED
        else:
            status = UNDECIDED if code is None or not code.isdecimal() else SUCCESS if not code.strip("0") else FAILURE
        if status is not FAILURE:
            self._walk.record.ends += 1
        frame.exits.append((status, state))
        return status, None

    def _return(self, arguments: Sequence[Field], state: ShellState, frame: Frame) -> Result:
        code = arguments[0].text if arguments else None
        status = EXPECTED if not arguments else UNDECIDED if code is None else decided(code == "0")
        self._walk.record.ends += 1
        (frame.calls[-1] if frame.calls else frame.exits).append((status, state))
        return status, None

    def _jump(self, name: str, arguments: Sequence[Field], state: ShellState, frame: Frame) -> Result:
        if not frame.loops:
            return SUCCESS, state
        level = self._walk.expander.integer(arguments[0].text or "?", state) if arguments else 1
        loop = frame.loops[-min(max(level or 1, 1), len(frame.loops))]
        (loop.breaks if name == "break" else loop.continues).append(state)
        self._walk.record.ends += 1
        return SUCCESS, None

    def _set(self, arguments: Sequence[Field], state: ShellState) -> None:
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
                state.positional = as_positional(rest)
                return
            if "e" in text[1:] and not text.startswith("--"):
                state.errexit = text.startswith("-")

    def _eval(self, fields: list[Field], state: ShellState, frame: Frame) -> Result:
        parts: list[Value] = []
        for each in fields[1:]:
            if each.many:
                parts = [values.hole(many=True)]
                break
            parts.extend([values.literal(" "), each.value] if parts else [each.value])
        value = values.concatenate(parts) if parts else EMPTY
        if len(value) > 1:
            runs = [self._evaluated(text, fields, frame) for text in value]
            return self._walk.arms(state, frame, runs, values.NO_NAMES, None)
        return self._evaluated(value[0], fields, frame)(state)

    def _evaluated(self, text: Text, fields: list[Field], frame: Frame) -> Run:
        def run(state: ShellState) -> Result:
            if text and all(fragment.text is None or not fragment.text.strip() for fragment in text):
                self._walk.record.add(fields, [], state)
                if not all(
                    "conda" in name or "hook" in name for fragment in text for name in fragment.names
                ) or not any(fragment.names for fragment in text):
                    state.forget()
                return EXPECTED, state
            followed = self._walk.nested(text, state, frame, fields[-1].site, own=False)
            if followed is None:
                self._walk.record.add(fields, [], state)
                state.forget()
                return EXPECTED, state
            return followed

        return run

    def _sourced(self, fields: list[Field], state: ShellState, frame: Frame) -> Result:
        path = fields[1].text if len(fields) > 1 else None
        content = state.files.get(posixpath.normpath(path)) if path else None
        if content is not None:
            positional = state.positional
            if len(fields) > 2:
                state.positional = as_positional(fields[2:])
            returns: list[Ended] = []
            within = frame._replace(calls=(*frame.calls, returns))
            followed = self._walk.nested(content, state, within, fields[1].site, own=False)
            if followed is not None:
                after = join([each for each in (followed[1], *(end for _, end in returns)) if each is not None])
                if after is not None:
                    after.positional = positional
                return followed[0], after
        self._walk.record.add(fields, [], state)
        if path is None or not _BENIGN_SOURCES.search(path):
            state.forget()
        return EXPECTED, state

    def _read(self, arguments: Sequence[Field], separator: Variable | None, state: ShellState) -> ExitStatus:
        """`read`: takes one line of a known here-string, heredoc, file or pipe."""
        flags, targets, delimiter = _read_options(arguments, "pdnNtui")
        if flags is None:
            state.forget()
            return UNDECIDED
        text = values.single(state.stdin) if state.stdin is not None else None
        ifs = values.single(separator.scalar()) if separator is not None else " \t\n"
        state.forget_names(targets or ["REPLY"])
        if (
            text is None
            or ifs is None
            or flags & set("nNu")
            or len(ifs.strip()) > 1
            or ("\\" in text and "r" not in flags)
        ):
            state.stdin = None if state.stdin is None else values.hole(["<"])
            return UNDECIDED
        if delimiter is not None:
            line, rest = (text, "") if delimiter == "" else (None, "")
        else:
            line, _, rest = text.partition("\n")
        state.stdin = values.literal(rest)
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

    def _read_lines(self, arguments: Sequence[Field], state: ShellState) -> None:
        """`mapfile`, `readarray`: the array is not known."""
        flags, targets, _ = _read_options(arguments, "dnOsuCc")
        if flags is None:
            state.forget()
        else:
            state.forget_names(targets or ["MAPFILE"])
        state.stdin = None if state.stdin is None else values.hole(["<"])

    def _getopts(self, arguments: Sequence[Field], state: ShellState) -> ExitStatus:
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

    def _trap(self, arguments: Sequence[Field], state: ShellState) -> None:
        signals = {each.text for each in arguments[1:]}
        if not arguments:
            return
        value = arguments[0].value
        known = len(value) == 1 and values.known_text(value[0]) not in (None, "", "-")
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
