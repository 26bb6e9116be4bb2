"""Commands that act on the shell itself: exit, set, eval, source, read, trap, ..."""

import posixpath
import re
from collections.abc import Sequence

from stoker.subjects import shell_text
from stoker.subjects.shell_expansion import Field
from stoker.subjects.shell_loop import Loops
from stoker.subjects.shell_state import EXPECTED, FAILURE, SUCCESS, UNDECIDED, Outcome, State, Variable, decided, join
from stoker.subjects.shell_text import EMPTY, Text, Value
from stoker.subjects.shell_walk import Run

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
                return self._test_words(arguments), state
            case "[":
                return self._test_words(arguments[:-1]), state
            case "exit":
                return self._exit(arguments, state)
            case "return":
                return self._return(arguments, state)
            case "break" | "continue":
                return self._jump(name, arguments, state)
            case "shift":
                count = self._expander.integer(arguments[0].text or "?", state) if arguments else 1
                if state.positional is not None:
                    state.positional = None if count is None or count < 0 else state.positional[count:]
                return SUCCESS, state
            case "set":
                self._set(arguments, state)
                return SUCCESS, state
            case "eval":
                return self._eval(fields, state)
            case "source" | ".":
                return self._sourced(fields, state)
            case "read" | "mapfile" | "readarray" | "getopts":
                if name == "getopts" and state.positional == ():
                    return FAILURE, state
                self._read(name, arguments, prefix, state)
                return UNDECIDED, state
            case "let":
                outcome = SUCCESS
                for each in arguments:
                    outcome = self._truth_of(self._expander.calculate(each.value, state))
                return outcome, state
            case "trap":
                self._trap(arguments, state)
                return SUCCESS, state
            case "unset":
                for each in arguments:
                    if each.text is None:
                        state.forget()
                    elif each.text.isidentifier():
                        state.clear(each.text)
                return SUCCESS, state
            case "export" | "declare" | "typeset" | "local" | "readonly":
                names = [(each.text or shell_text.prefix(each.value)).split("=", 1)[0] for each in arguments]
                state.forget_names(each for each in names if each.isidentifier())
                return SUCCESS, state
            case "printf" if arguments and arguments[0].text == "-v":
                state.forget_names(each for each in [arguments[1].text if len(arguments) > 1 else None] if each)
                return SUCCESS, state
            case "shopt" | "umask" | "ulimit" | "hash" | "alias" | "unalias":
                return SUCCESS, state
            case _:
                return None

    def _exit(self, arguments: Sequence[Field], state: State) -> tuple[Outcome, State | None]:
        code = arguments[0].text if arguments else None
        last = not arguments or (code is None and shell_text.names(arguments[0].value) <= {EXPECTED.ending.value})
        if last:
            outcome = FAILURE if state.after_failure else EXPECTED
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
                parts = [shell_text.hole(many=True)]
                break
            parts.extend([shell_text.literal(" "), each.value] if parts else [each.value])
        value = shell_text.concatenate(parts) if parts else EMPTY
        if len(value) > 1:
            runs = [self._evaluated(text, fields) for text in value]
            return self._arms(state, runs, shell_text.NO_NAMES, None)
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

    def _read(self, name: str, arguments: Sequence[Field], prefix: list[tuple[str, Variable]], state: State) -> None:
        """`read`: known only from a known here-string into an array or variables."""
        targets = [each.text for each in arguments if each.text is not None and each.text.isidentifier()]
        flags = "".join(each.text[1:] for each in arguments if each.text is not None and each.text.startswith("-"))
        text = shell_text.single(self._stdin) if self._stdin is not None else None
        if name == "getopts":
            targets = targets[-1:]
        separator = dict(prefix).get("IFS")
        ifs = shell_text.single(separator.scalar()) if separator is not None else " \t"
        state.forget_names(targets or ["REPLY"])
        if name != "read" or text is None or ifs is None or not targets or "d" in flags or "n" in flags:
            return
        line = text.split("\n", 1)[0]
        words = line.split() if ifs.isspace() else line.strip().split(ifs) if len(ifs) == 1 and line.strip() else [line]
        if "a" in flags:
            state.variables[targets[0]] = Variable(items=tuple(shell_text.literal(word) for word in words[:1_024]))
        elif len(targets) >= len(words):
            for index, target in enumerate(targets):
                word = words[index] if index < len(words) else ""
                state.variables[target] = Variable(value=shell_text.literal(word))

    def _trap(self, arguments: Sequence[Field], state: State) -> None:
        signals = {each.text for each in arguments[1:]}
        if not arguments or not signals & {"EXIT", "0"}:
            return
        value = arguments[0].value
        known = len(value) == 1 and shell_text.plain(value[0]) not in (None, "", "-")
        state.exit_trap = value[0] if known else None
