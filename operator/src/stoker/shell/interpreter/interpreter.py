"""The abstract interpreter: walks the syntax tree, keeps what is known, records the commands that would run.

It follows successful runs: a program is expected to succeed, what stands behind `||` or in `if ! program` is reached
after a failure. A question with an unknown answer (`test -f x`, `grep`) splits the walk into arms, which are joined.
Every limit turns what is left into "unknown" and marks the script as not completely analysed.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import command_output, repeated_commands, values, wrappers
from stoker.shell.interpreter.builtins import Builtins
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.parsed_text import NOWHERE, Source
from stoker.shell.interpreter.state import EXPECTED, SUCCESS, UNDECIDED, Outcome, State, Variable, join
from stoker.shell.interpreter.values import Piece, Text, Value
from stoker.shell.interpreter.walk import MAX_DEPTH, MAX_STEPS, STEP_SIZE, Run
from stoker.shell.model import ExhaustedError
from stoker.shell.words import SHELLS

_PRINT_NO_OPTIONS = frozenset(
    {
        "basename", "date", "dirname", "hostname", "id", "mktemp", "nproc", "pwd", "readlink", "realpath", "shuf",
        "uname", "uuidgen", "wc", "whoami",
    }
)  # fmt: skip
"""Programs that print a number, a name or a path: no options of a command that it is handed to."""
_RESERVED = frozenset({"then", "else", "elif", "fi", "do", "done", "esac"})

# Answers that the script asks for: their end status decides, it is no failure.
_QUESTIONS = frozenset(
    {
        "grep", "egrep", "fgrep", "rg", "diff", "cmp", "which", "type", "hash", "pgrep", "pidof", "ping", "nc", "ncat",
        "mountpoint", "nvidia-smi", "rocm-smi", "lsmod", "lspci", "id", "getent", "host", "nslookup", "dig", "kill",
        "ls", "dpkg", "rpm", "command", "alias", "stat", "ip", "jq", "awk", "mpstat", "ps", "lsof", "kubectl", "expr",
        "getopt", "pip-check",
    }
)  # fmt: skip  # fmt: skip


# Programs that leave the files that they are given as they are.
_READERS = frozenset(
    {
        *SHELLS, *_QUESTIONS, "accelerate", "cat", "chmod", "chown", "cut", "deepspeed", "echo", "head", "horovodrun",
        "less", "md5sum", "mkdir", "more", "mpiexec", "mpirun", "printf", "sed", "sha256sum", "sort", "source",
        "srun", "tail", "torchrun", "touch", "tr", "uniq", "wc",
    }
)  # fmt: skip
_INTO_LAST = frozenset({"cp", "install", "ln", "rsync", "scp"})


class Interpreter(Builtins):
    """The walk, with simple commands, functions, programs, nested shells and command substitutions."""

    def _dispatch(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        match node.type:
            case "command":
                return self._command(node, state)
            case "variable_assignment":
                return self._assign(node, state), state
            case "variable_assignments":
                outcome = SUCCESS
                for child in node.named_children:
                    outcome = self._assign(child, state)
                return outcome, state
            case "declaration_command":
                return self._declare(node, state), state
            case "unset_command":
                return self._unset(node, state), state
            case "list":
                return self._list(node, state)
            case "pipeline":
                return self._pipeline(node.named_children, state)
            case "redirected_statement":
                return self._redirected(node, state)
            case "negated_command":
                inner = [child for child in node.named_children if child.type != "comment"]
                self._conditions += 1
                try:
                    outcome, after = self._sequence(inner, state)
                finally:
                    self._conditions -= 1
                return outcome.negated(), after
            case "test_command":
                return self._test(node, state), state
            case "subshell":
                return self._subshell(state, lambda inner: self._sequence(node.children, inner)), state
            case "compound_statement":
                if node.children and node.children[0].type == "((":
                    return self._truth_of(self._expander.calculate(self._inside(node, state), state)), state
                return self._sequence(node.children, state)
            case "do_group":
                return self._sequence(node.children, state)
            case "if_statement":
                return self._if(node, state)
            case "while_statement":
                return self._while(node, state)
            case "for_statement":
                return self._for(node, state)
            case "c_style_for_statement":
                return self._counted(node, state)
            case "case_statement":
                return self._case(node, state)
            case "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is not None and body is not None:
                    state.functions[self._source.slice(name)] = (self._source, body)
                return SUCCESS, state
            case "ERROR":
                changed = self._assigned(node, state)
                if changed is None:
                    state.forget()
                else:
                    state.forget_names(changed)
                return UNDECIDED, state
            case _:
                return UNDECIDED, state

    def _command(self, node: Node, state: State, extra: Sequence[Node] = ()) -> tuple[Outcome, State | None]:
        prefix: list[tuple[str, Variable]] = []
        nodes = [*self._argument_nodes(node), *extra]
        group = next((child for child in node.children if child.type == "subshell"), None)
        if group is not None and [self._source.slice(each) for each in nodes] == ["time"]:
            return self._execute(group, state)
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        if not nodes:
            outcome = SUCCESS
            for child in node.named_children:
                if child.type == "variable_assignment":
                    outcome = self._assign(child, state)
            return outcome, state
        prefixed = self._prefix(node, state)
        variants = self._expander.fields(nodes, self._source, state)
        scratch = state
        for child in prefixed:
            if child.type == "variable_assignment":
                scratch = state.fork() if scratch is state else scratch
                self._assign(child, scratch, exported=True)
                target = child.child_by_field_name("name")
                if target is not None and (name := self._source.slice(target)) in scratch.variables:
                    prefix.append((name, scratch.variables[name]))
        outer, first = self._stdin, len(self._invocations)
        redirection = None
        if redirects:
            redirection = self._redirects(redirects, state)
            self._stdin = redirection.stdin if redirection.stdin is not None else outer
            if redirection.target is not None:
                self._write(redirection.target, self._output(node, state, ()), state, append=redirection.append)
        try:
            if len(variants) == 1:
                return self._run_command(variants[0], prefix, state, node)
            runs = [self._variant(fields, prefix, node) for fields in variants]
            return self._arms(state, runs, values.NO_NAMES, node)
        finally:
            if redirection is not None and redirection.stdin is not None:
                self._stdin = outer
            if redirection is not None and redirection.diverts:
                self._diverted.update(range(first, len(self._invocations)))

    def _prefix(self, node: Node, state: State) -> list[Node]:
        """The assignments in front of a command.

        The grammar lets `A=1 B=2`, alone on their line, run into the command of the next line: those are statements.
        """
        assignments = [child for child in node.named_children if child.type == "variable_assignment"]
        name = node.child_by_field_name("name")
        if name is None or not assignments:
            return assignments
        following = [*assignments[1:], name]
        own = 0
        for index, (left, right) in enumerate(zip(assignments, following, strict=True)):
            between = self._source.text[self._source.end(left) : self._source.start(right)]
            if "\n" in between.replace("\\\n", ""):
                own = index + 1
        for child in assignments[:own]:
            self._assign(child, state)
        return assignments[own:]

    def _variant(self, fields: list[Field], prefix: list[tuple[str, Variable]], node: Node) -> Run:
        return lambda state: self._run_command(fields, prefix, state, node)

    def _run_command(
        self, fields: list[Field], prefix: list[tuple[str, Variable]], state: State, node: Node | None
    ) -> tuple[Outcome, State | None]:
        if not fields:
            state.variables.update(dict(prefix))
            return SUCCESS, state
        name = fields[0].text
        if name is not None:
            if name == "{":
                # `time { a; }` and `! { a; }` reach us as the commands `{ a` and `}`.
                return self._run_command(fields[1:], prefix, state, node)
            if name == "}":
                return SUCCESS, state
            if name in _RESERVED:
                # The grammar takes a stray `fi` for a command; no shell does.
                self._complete = False
                return UNDECIDED, state
            if name in state.functions:
                return self._call(name, fields, prefix, state)
            builtin = self._builtin(name, fields, prefix, state)
            if builtin is not None:
                return builtin
        unwrapped = wrappers.unwrap(fields)
        if not unwrapped.fields:
            return SUCCESS, state
        if unwrapped.wrappers:
            return self._unwrapped(unwrapped, prefix, state)
        repeated = repeated_commands.repeated(fields)
        if repeated is not None:
            return self._for_each(repeated, prefix, state, node)
        return self._program(fields, prefix, state), state

    def _for_each(
        self, repeated: repeated_commands.Repeated, prefix: list[tuple[str, Variable]], state: State, node: Node | None
    ) -> tuple[Outcome, State | None]:
        """A command that runs for items nobody has counted, maybe not at all."""

        def rounds(current: State) -> tuple[Outcome, State | None]:
            if self._depth >= MAX_DEPTH:
                raise ExhaustedError
            self._depth += 1
            copy = current.fork()
            copy.how = replace(copy.how, in_loop=True, background=copy.how.background or repeated.parallel)
            copy.errexit = False
            outer, self._stdin = self._stdin, None
            try:
                if not repeated.text:
                    self._subshell(copy, lambda inner: self._run_command(repeated.fields, prefix, inner, None))
                elif self._shell_text(repeated.fields[0], self._child(copy, ()), repeated.fields) is None:
                    self._record(repeated.fields, prefix, copy)
            finally:
                self._stdin = outer
                self._depth -= 1
            return EXPECTED, current

        return self._arms(state, [rounds, self._keeper(EXPECTED)], values.NO_NAMES, node)

    def _unwrapped(
        self, unwrapped: wrappers.Unwrapped, prefix: list[tuple[str, Variable]], state: State
    ) -> tuple[Outcome, State | None]:
        """A command without its wrappers. All but `command`, `time` and `builtin` start a process: a copy."""
        copy = state.fork()
        copy.how = replace(copy.how, wrappers=(*state.how.wrappers, *unwrapped.wrappers))
        if unwrapped.seconds is not None:
            copy.how = replace(copy.how, time_limit=unwrapped.seconds)
        if unwrapped.background:
            copy.how, copy.errexit = replace(copy.how, background=True, detached=True), False
            words = unwrapped.fields
            if len(words) == 1:
                # A single word is a shell's text, several are a command.
                unwrapped.shell_text = words[0]
        for key, variable in prefix:
            copy.variables[key] = variable
        if unwrapped.cleared:
            copy.variables = {}
        for key in unwrapped.removed:
            copy.clear(key)
        for key, field_, offset in unwrapped.assignments:
            copy.variables[key] = Variable(value=_tail(field_.value, offset), exported=True, origin=field_.site)
        if unwrapped.shell_text is not None:
            text = unwrapped.shell_text
            followed = self._shell_text(text, self._child(copy, ()), unwrapped.fields)
            return (followed, state) if followed is not None else (self._program(unwrapped.fields, [], copy), state)
        same_shell = set(unwrapped.wrappers) <= {"command", "time", "builtin"}
        if same_shell and unwrapped.fields[0].text in state.functions and set(unwrapped.wrappers) != {"time"}:
            # `command` and `builtin` pass functions by: a function may wrap the command of its own name.
            return self._program(unwrapped.fields, prefix, state), state
        if same_shell:
            outcome, after = self._run_command(unwrapped.fields, prefix, state, None)
            return outcome, after
        name = unwrapped.fields[0].text
        if name is not None and name in state.functions and not unwrapped.replaces:
            outcome = self._program(unwrapped.fields, [], copy)
        else:
            builtin = name in ("test", "[", "true", "false", ":")

            def run(inner: State) -> tuple[Outcome, State | None]:
                if builtin:
                    return self._run_command(unwrapped.fields, [], inner, None)
                return self._program(unwrapped.fields, [], inner), inner

            outcome = self._subshell(copy, run)
        _change_files(unwrapped.fields, state)
        if unwrapped.replaces:
            self._ends += 1
            self._exits[-1].append((outcome, state))
            return outcome, None
        return outcome, state

    def _program(self, fields: list[Field], prefix: list[tuple[str, Variable]], state: State) -> Outcome:
        """An external command: a shell with known text is followed, everything else is recorded."""
        path = fields[0].text or ""
        name = path.rsplit("/", 1)[-1]
        if name in SHELLS:
            outcome = self._shell(fields, prefix, state)
            if outcome is not None:
                return outcome
        elif path and "/" in path and posixpath.normpath(path) in state.files:
            content = state.files[posixpath.normpath(path)]
            if content is not None and not _other_interpreter(content):
                child = self._child(state, self._positional(fields[1:]))
                child.variables.update(dict(prefix))
                followed = self._nested(content, child, fields[0].site, own=True)
                if followed is not None:
                    return followed[0]
        self._record(fields, prefix, state)
        _change_files(fields, state)
        if name == "sleep":
            return SUCCESS
        if name in _QUESTIONS or (name.startswith("python") and len(fields) > 1 and fields[1].text == "-c"):
            return Outcome(UNDECIDED.ending, frozenset().union(*(values.names(each.value) for each in fields)))
        if name in ("pip", "pip3", "conda") and len(fields) > 1 and fields[1].text in ("show", "list", "freeze", "env"):
            return UNDECIDED
        return EXPECTED

    def _shell(self, fields: list[Field], prefix: list[tuple[str, Variable]], state: State) -> Outcome | None:
        """`bash -c TEXT`, `bash FILE`, `bash <<EOF`; None if there is nothing to follow."""
        position = 1
        command = False
        errexit = False
        while position < len(fields):
            text = fields[position].text
            if text is None or not text.startswith(("-", "+")) or text == "-":
                break
            if text == "--":
                position += 1
                break
            if text in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
                errexit = errexit or (text == "-o" and fields[min(position + 1, len(fields) - 1)].text == "errexit")
                position += 2
                continue
            if not text.startswith("--"):
                command = command or "c" in text[1:]
                errexit = errexit or "e" in text[1:]
                if text.endswith("o") and len(text) > 2:
                    position += 1
            position += 1
            if command and text.startswith("-") and "c" in text and not text.startswith("--"):
                # Options may follow -c; the text is the first other word.
                while position < len(fields) and (fields[position].text or "").startswith("-"):
                    position += 1
                break
        rest = fields[position:]
        if command:
            if not rest:
                return None
            child = self._child(state, self._positional(rest[2:]))
            child.variables.update(dict(prefix))
            child.errexit = errexit
            return self._shell_text(rest[0], child, fields)
        child = self._child(state, self._positional(rest[1:]))
        child.variables.update(dict(prefix))
        child.errexit = errexit
        path = rest[0].text if rest else None
        if path is not None and path not in ("-", "-s", "/dev/stdin"):
            content = state.files.get(posixpath.normpath(path))
            if content is None:
                return None
            followed = self._nested(content, child, rest[0].site, own=True)
            return followed[0] if followed is not None else None
        if rest and path is None:
            return None
        if self._stdin is not None and len(self._stdin) == 1 and self._stdin[0] != ():
            text_in, self._stdin = self._stdin[0], None
            if all(piece.text is None for piece in text_in):
                return None
            child.how = replace(child.how, reads_pipe=False)
            followed = self._nested(text_in, child, fields[0].site, own=True)
            return followed[0] if followed is not None else None
        return None

    def _shell_text(self, field_: Field, child: State, fields: Sequence[Field]) -> Outcome | None:
        if field_.many or len(field_.value) != 1 or all(piece.text is None for piece in field_.value[0]):
            return None
        site = field_.site if field_.site != NOWHERE else fields[0].site
        followed = self._nested(field_.value[0], child, site, own=True)
        return followed[0] if followed is not None else None

    def _call(
        self, name: str, fields: list[Field], prefix: list[tuple[str, Variable]], state: State
    ) -> tuple[Outcome, State | None]:
        source, body = state.functions[name]
        if len(self._calls) >= 8:
            self._cut()
            state.forget()
            return EXPECTED, state
        positional, state.positional = state.positional, self._positional(fields[1:])
        entered = len(state.how.branches)
        stored: dict[str, Variable | None] = {key: state.variables.get(key) for key, _ in prefix}
        state.variables.update(dict(prefix))
        self._calls.append([])
        self._locals.append(stored)
        loops, self._loops = self._loops, []
        outer, self._source = self._source, source
        stdin = self._stdin
        try:
            outcome, after = self._execute(body, state)
        finally:
            self._source, self._loops, self._stdin = outer, loops, stdin
            returns = self._calls.pop()
            self._locals.pop()
        ends = [*returns, *([(outcome, after)] if after is not None else [])]
        result = join([each for _, each in ends])
        if result is None:
            return outcome, None
        wanted = [each for each, ended in ends if ended.how.after_failure == result.how.after_failure]
        final = wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED
        if len(ends) > 1:
            # Arms that return early meet again here.
            result.how = replace(result.how, branches=result.how.branches[:entered])
        result.positional = positional
        for key, variable in stored.items():
            if variable is None:
                result.variables.pop(key, None)
                result.unset -= {key}
            else:
                result.variables[key] = variable
        return final, result

    def _substitute(self, node: Node, source: Source, state: State, *, whole: bool = False) -> Value:
        """What `$(...)` gives: known for a few tools on known input, else a hole that names what it hangs on."""
        self._steps += 1
        self._allowance.check()
        if self._steps > MAX_STEPS:
            raise ExhaustedError
        if self._depth >= MAX_DEPTH:
            self._cut()
            return values.hole()
        outer, self._source = self._source, source
        stdin, self._stdin = self._stdin, None
        self._depth += 1
        try:
            output = self._substituted(node, state)
            self._steps += sum(len(piece.text or "") for text in output for piece in text) // STEP_SIZE
            return output if whole else values.trim_end(output)
        finally:
            self._depth -= 1
            self._source, self._stdin = outer, stdin

    def _substituted(self, node: Node, state: State) -> Value:
        statements = [child for child in node.named_children if child.type != "comment"]
        names: set[str] = set()
        many = True
        first = len(self._invocations)
        if len(statements) == 1:
            statement = statements[0]
            if statement.type == "file_redirect":
                destination = statement.child_by_field_name("destination")
                path = values.single(self._value(destination, state)) if destination is not None else None
                content = state.files.get(posixpath.normpath(path)) if path else None
                return (content,) if content is not None else values.hole(["<"], many=True)
            members = statement.named_children if statement.type == "pipeline" else [statement]
            commands = [self._plain(member, state, again=False) for member in members]
            plain = [command for command in commands if command is not None]
            if len(plain) == len(commands) and all(command.stdin is None for command in plain[1:]):
                known = [command.fields for command in plain]
                many = (known[-1][0].text or "").rsplit("/", 1)[-1] not in _PRINT_NO_OPTIONS
                for command in known:
                    names |= {name for each in command for name in values.names(each.value)}
                    names |= {"HOSTNAME"} if (command[0].text or "").endswith("hostname") else set()
                    names |= {"conda"} if (command[0].text or "").endswith(("conda", "mamba")) else set()
                    names |= {"$(nvidia-smi)"} if (command[0].text or "").endswith("nvidia-smi") else set()
                if not any(command[0].text in state.functions for command in known):
                    output = command_output.pipeline(known, self._machine(state), plain[0].stdin)
                    if output is not None:
                        return output
        del self._invocations[first:]
        copy = state.fork()
        copy.how = replace(copy.how, captured=True)
        self._subshell(copy, lambda inner: self._sequence(node.children[1:-1], inner))
        added = self._invocations[first:]
        if len(added) == 1 and added[0].name == "echo" and added[0].branches == state.how.branches:
            words = [word.text for word in added[0].argv[1:]]
            plainly = not any(word is None or word.startswith("-") or "\\" in word for word in words)
            if plainly and not added[0].in_loop and first not in self._diverted:
                return values.literal(" ".join(word or "" for word in words))
        return values.hole(names, many=many)


def _change_files(fields: Sequence[Field], state: State) -> None:
    """What a program may have written to a known file that it names, nobody knows."""
    name = (fields[0].text or "").rsplit("/", 1)[-1]
    in_place = name == "sed" and any((each.text or "").startswith(("-i", "--in-place")) for each in fields)
    if not state.files or (name in _READERS and not in_place):
        return
    words = fields[-1:] if name in _INTO_LAST else fields[1:]
    parts = {part for each in words for part in (each.text or "", (each.text or "").partition("=")[2]) if part}
    changed = {posixpath.normpath(part) for part in parts} & state.files.keys()
    if changed:
        state.files = {**state.files, **dict.fromkeys(changed)}


def _tail(value: Value, offset: int) -> Value:
    """Without the first `offset` characters, which are known."""
    result: list[Text] = []
    for text in value:
        left = offset
        pieces: list[Piece] = []
        for piece in text:
            if left and piece.text is not None:
                cut = min(left, len(piece.text))
                left -= cut
                if cut < len(piece.text):
                    pieces.append(piece.part(cut, len(piece.text)))
            else:
                pieces.append(piece)
        result.append(tuple(piece._replace(quoted=False, expanded=False) for piece in pieces))
    return tuple(result)


def _other_interpreter(text: Text) -> bool:
    known = values.plain(text)
    first = (known or "").split("\n", 1)[0]
    return first.startswith("#!") and not re.search(r"\b(ba|da|a|z|k)?sh\b", first)
