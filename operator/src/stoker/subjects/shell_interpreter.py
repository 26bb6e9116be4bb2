"""The abstract interpreter: walks the syntax tree, keeps what is known, records the commands that would run.

It follows successful runs: a program is expected to succeed, what stands behind `||` or in `if ! program` is reached
after a failure. A question with an unknown answer (`test -f x`, `grep`) splits the walk into arms, which are joined.
Every limit turns what is left into "unknown" and marks the script as not completely analysed.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tree_sitter import Node

from stoker.subjects import shell_condition, shell_output, shell_pattern, shell_text, shell_wrapper
from stoker.subjects.shell_condition import Token
from stoker.subjects.shell_expansion import Expander, Field
from stoker.subjects.shell_model import Branch, Invocation, ShellScript, Span, SyntaxIssue, Word
from stoker.subjects.shell_pattern import PatternTooLargeError
from stoker.subjects.shell_source import NOWHERE, Offsets, Source
from stoker.subjects.shell_state import (
    EXPECTED,
    FAILURE,
    SUCCESS,
    UNDECIDED,
    UNEXPECTED,
    Outcome,
    State,
    Variable,
    decided,
    join,
)
from stoker.subjects.shell_text import EMPTY, Piece, Text, Value

MAX_STEPS = 20_000
MAX_DEPTH = 64
MAX_NESTED_SHELLS = 6
MAX_NESTED_TEXT = 1 << 20
MAX_UNROLL = 64
MAX_INVOCATIONS = 4_096
MAX_ISSUES = 20

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})

_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RANK = re.compile(r"RANK|INDEX|HOSTNAME|POD_NAME|NODE_?ID|\bNODENAME|ORDINAL", re.IGNORECASE)
# Answers that the script asks for: their end status decides, it is no failure.
_QUESTIONS = frozenset(
    {
        "grep", "egrep", "fgrep", "rg", "diff", "cmp", "which", "type", "hash", "pgrep", "pidof", "ping", "nc", "ncat",
        "mountpoint", "nvidia-smi", "rocm-smi", "lsmod", "lspci", "id", "getent", "host", "nslookup", "dig", "kill",
        "ls", "dpkg", "rpm", "command", "alias", "stat", "ip", "jq", "awk", "mpstat", "ps", "lsof", "kubectl", "expr",
        "getopt", "pip-check",
    }
)  # fmt: skip
# Sourcing these changes search paths, not the script's own variables.
_BENIGN_SOURCES = re.compile(
    r"(^|/)(activate|conda\.sh|mamba\.sh|profile|\.profile|\.bashrc|bash\.bashrc|\.bash_profile|setvars\.sh|"
    r"environment|modules?(\.sh)?|init/(bash|sh)|nvm\.sh|lmod\.sh)$"
)

_Run: TypeAlias = Callable[[State], tuple[Outcome, State | None]]


class _ExhaustedError(Exception):
    """A limit of the whole walk is reached."""


@dataclass(slots=True)
class _Loop:
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


@dataclass(slots=True)
class _Decision:
    arms: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)


class _Environment(Mapping[str, Word]):
    """The exported variables at one point; words are made when they are asked for."""

    def __init__(self, variables: dict[str, Variable], word: Callable[[Variable], Word]) -> None:
        self._variables = variables
        self._word = word

    def __getitem__(self, name: str) -> Word:
        variable = self._variables[name]
        if not variable.exported:
            raise KeyError(name)
        return self._word(variable)

    def __iter__(self) -> Iterator[str]:
        return (name for name, variable in self._variables.items() if variable.exported)

    def __len__(self) -> int:
        return sum(variable.exported for variable in self._variables.values())


class Interpreter:
    """One walk over one script. `run` or `run_argv` once, then `result`."""

    def __init__(
        self,
        source: str,
        *,
        environment: Mapping[str, str | None],
        gpus_per_node: int | None,
        files: Mapping[str, str],
        argument: int | None = None,
    ) -> None:
        self._script = ShellScript(source=source, argument=argument)
        self._gpus = gpus_per_node
        self._environment = environment
        self._given_files = files
        self._assumed_unset: set[str] = set()
        self._expander = Expander(self._substitute, self._assumed_unset)
        self._invocations: list[Invocation] = []
        self._issues: list[SyntaxIssue] = []
        self._complete = True
        self._source = Source.outermost("")
        self._steps = 0
        self._depth = 0
        self._shell_depth = 0
        self._nested_text = 0
        self._conditions = 0
        self._ends = 0
        self._decisions: list[_Decision] = []
        self._loops: list[_Loop] = []
        self._calls: list[list[tuple[Outcome, State]]] = []
        self._locals: list[dict[str, Variable | None]] = []
        self._exits: list[list[tuple[Outcome, State]]] = [[]]
        self._stdin: Value | None = None
        self._words: dict[int, tuple[Variable, Word]] = {}
        self._hole_count = 0
        self._written: dict[str, Text | None] = {}

    # ------------------------------------------------------------------------------------------------------ results

    def run(self, positional: Sequence[str] | None) -> None:
        """Follow the source as a script."""
        state = self._initial(positional)
        self._guarded(lambda: self._whole(Source.outermost(self._script.source), state))

    def run_argv(self, fields: list[Field]) -> None:
        """Follow one command, already split."""
        state = self._initial(())

        def walk() -> None:
            end = self._run_command(fields, [], state, None)[1]
            self._exit_trap(end, [])

        self._guarded(walk)

    def result(self) -> ShellScript:
        return replace(
            self._script,
            invocations=tuple(self._settled(invocation) for invocation in self._invocations),
            syntax_issues=tuple(self._issues),
            complete=self._complete,
            assumed_unset=frozenset(self._assumed_unset),
            files={
                path: known
                for path, text in self._written.items()
                if text is not None and (known := shell_text.plain(text)) is not None
            },
        )

    def _guarded(self, walk: Callable[[], None]) -> None:
        try:
            walk()
        except (_ExhaustedError, RecursionError):
            self._complete = False

    def _initial(self, positional: Sequence[str] | None) -> State:
        state = State(
            variables={
                name: Variable(
                    value=shell_text.hole([name], many=True) if text is None else shell_text.literal(text),
                    exported=True,
                )
                for name, text in self._environment.items()
            },
            positional=None if positional is None else tuple(shell_text.literal(text) for text in positional),
        )
        state.files = {posixpath.normpath(path): (Piece(text),) for path, text in self._given_files.items()}
        return state

    def _settled(self, invocation: Invocation) -> Invocation:
        """Without the branches whose other arms all end in failure: a successful run takes this one."""
        if not invocation.branches:
            return invocation
        kept = tuple(
            branch
            for branch in invocation.branches
            if not self._decisions[branch.decision].arms - {branch.arm} <= self._decisions[branch.decision].failed
        )
        return replace(invocation, branches=kept) if len(kept) != len(invocation.branches) else invocation

    # ----------------------------------------------------------------------------------------------- shells, nesting

    def _whole(self, source: Source, state: State) -> None:
        """The outermost script."""
        end = self._text(source, state)[1]
        self._exit_trap(end, self._exits[-1])

    def _exit_trap(self, end: State | None, exits: list[tuple[Outcome, State]]) -> None:
        last = join([each for each in (end, *(state for _, state in exits)) if each is not None])
        if last is None or last.exit_trap is None:
            return
        handler, last.exit_trap, last.in_trap = last.exit_trap, None, True
        self._text(Source.nested(handler, NOWHERE), last)

    def _text(self, source: Source, state: State) -> tuple[Outcome, State | None]:
        """All statements of a text, in the given state."""
        if source.tree is None:
            self._complete = False
            return UNDECIDED, state
        root = source.tree.root_node
        if source.blanked:
            self._complete = False
        if root.has_error:
            self._note_errors(root, source)
        previous, self._source = self._source, source
        try:
            return self._sequence(root.children, state)
        finally:
            self._source = previous

    def _note_errors(self, root: Node, source: Source) -> None:
        self._complete = False
        stack = [root]
        while stack and len(self._issues) < MAX_ISSUES:
            node = stack.pop()
            if node.type == "ERROR" or node.is_missing:
                start, end = source.outer(source.start(node), max(source.end(node), source.start(node) + 1))
                excerpt = " ".join(source.slice(node).split())[:40]
                message = f'"{excerpt}" is not understood here' if excerpt else f'"{node.type}" is missing here'
                if start >= 0:
                    self._issues.append(SyntaxIssue(self._script.span_of(start, end), message))
            elif node.has_error:
                stack.extend(reversed(node.children))

    def _subshell(self, state: State, run: _Run) -> Outcome:
        """Run in a copy: assignments don't come back; `exit` ends only the copy."""
        loops, self._loops = self._loops, []
        calls, self._calls = self._calls, []
        stored, self._locals = self._locals, []
        self._exits.append([])
        try:
            outcome, end = run(state.fork())
        finally:
            exits = self._exits.pop()
            self._loops, self._calls, self._locals = loops, calls, stored
        ends = [*exits, *([(outcome, end)] if end is not None else [])]
        wanted = [each for each, ended in ends if not ended.after_failure or state.after_failure] or [
            each for each, _ in ends
        ]
        if not wanted:
            return FAILURE
        return wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED

    def _nested(self, text: Text, state: State, site: Offsets, *, own: bool) -> tuple[Outcome, State | None] | None:
        """Run text as a script, in this shell (`eval`, `source`) or one of its own; None if it can't be followed."""
        size = sum(len(piece.text or "") for piece in text)
        self._nested_text += size
        if self._shell_depth >= MAX_NESTED_SHELLS or self._nested_text > MAX_NESTED_TEXT:
            self._complete = False
            return None
        if not any(piece.text and piece.text.strip() for piece in text):
            return (SUCCESS, state) if size or not text else None
        known: list[Piece] = []
        for piece in text:
            if piece.text is not None:
                known.append(piece)
                continue
            self._hole_count += 1
            name = f"__unknown_{self._hole_count}"
            state.variables[name] = Variable(value=((piece._replace(quoted=False, expanded=False, absent=False),),))
            known.append(Piece("${" + name + "}"))
        self._shell_depth += 1
        try:
            source = Source.nested(tuple(known), site)
            if not own:
                return self._text(source, state)
            return self._subshell(state, lambda inner: self._text(source, inner)), state
        finally:
            self._shell_depth -= 1

    def _child(self, state: State, arguments: tuple[Value, ...] | None) -> State:
        """What a new shell process inherits."""
        child = state.fork()
        child.variables = {name: variable for name, variable in state.variables.items() if variable.exported}
        child.unset = frozenset()
        child.functions = {}
        child.positional = arguments
        child.errexit = False
        child.exit_trap = None
        return child

    # --------------------------------------------------------------------------------------------------- statements

    def _sequence(self, nodes: Sequence[Node], state: State | None) -> tuple[Outcome, State | None]:
        outcome = SUCCESS
        for index, node in enumerate(nodes):
            if not node.is_named or node.type in ("comment", "heredoc_body", "heredoc_end"):
                continue
            if state is None:
                break
            following = nodes[index + 1] if index + 1 < len(nodes) else None
            if following is not None and following.type == "&":
                self._background(node, state)
                outcome = SUCCESS
                continue
            outcome, state = self._execute(node, state)
            if (
                state is not None
                and state.errexit
                and not self._conditions
                and outcome.ending is FAILURE.ending
                and node.type in ("command", "test_command", "subshell")
            ):
                self._exits[-1].append((FAILURE, state))
                state = None
        return outcome, state

    def _background(self, node: Node, state: State) -> None:
        copy = state.fork()
        copy.background = True
        copy.errexit = False
        self._subshell(copy, lambda inner: self._execute(node, inner))

    def _execute(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        self._steps += 1
        if self._steps > MAX_STEPS or len(self._invocations) > MAX_INVOCATIONS:
            raise _ExhaustedError
        if self._depth >= MAX_DEPTH:
            self._complete = False
            state.forget()
            return UNDECIDED, state
        self._depth += 1
        try:
            outcome, after = self._dispatch(node, state)
        finally:
            self._depth -= 1
        if after is not None:
            after.last = outcome
        return outcome, after

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

    def _two_ways(
        self, outcome: Outcome, state: State, when_true: _Run, when_false: _Run, node: Node
    ) -> tuple[Outcome, State | None]:
        """Go on by how a condition ended."""
        truth = outcome.truth
        if truth is None:
            return self._arms(state, [when_true, when_false], outcome.names, node)
        chosen, other = (when_true, when_false) if truth else (when_false, when_true)
        if outcome.certain:
            return chosen(state)
        failed = state.fork()
        failed.after_failure = True
        if truth:
            result, after = chosen(state)
            other_result, other_after = other(failed)
        else:
            # Recorded in the order of the text.
            other_result, other_after = other(failed)
            result, after = chosen(state)
        return (result, after) if after is not None else (other_result, other_after)

    def _arms(
        self, state: State, runs: Sequence[_Run], names: frozenset[str], node: Node | None
    ) -> tuple[Outcome, State | None]:
        """All arms of a decision that can't be taken, then their union."""
        number = len(self._decisions)
        decision = _Decision()
        self._decisions.append(decision)
        span = self._span_of(node) if node is not None else None
        rank = any(_RANK.search(name) for name in names)
        ends: list[State] = []
        outcomes: list[Outcome] = []
        for arm, run in enumerate(runs):
            decision.arms.add(arm)
            copy = state.fork()
            copy.branches = (*state.branches, Branch(decision=number, arm=arm, rank_dependent=rank, span=span))
            before = self._ends
            outcome, after = run(copy)
            if after is None:
                if self._ends == before:
                    decision.failed.add(arm)
                continue
            ends.append(after)
            outcomes.append(outcome)
        joined = join(ends)
        if joined is not None and len(ends) == 1 and len(decision.failed) == len(runs) - 1:
            joined.branches = state.branches
        if len(outcomes) == 1:
            return outcomes[0], joined
        kinds = {outcome.ending for outcome in outcomes}
        return (outcomes[0] if len(kinds) == 1 and outcomes else Outcome(UNDECIDED.ending, names)), joined

    def _list(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        links: list[tuple[str, Node]] = []
        while node.type == "list" and len(node.children) >= 3:
            links.append((node.children[1].type, node.children[-1]))
            node = node.children[0]
        return self._chain(node, list(reversed(links)), state)

    def _chain(self, first: Node, links: list[tuple[str, Node]], state: State) -> tuple[Outcome, State | None]:
        """`a && b || c`, from left to right."""
        self._conditions += 1
        try:
            outcome, after = self._execute(first, state)
        finally:
            self._conditions -= 1
        return self._links(outcome, after, links, first)

    def _links(
        self, outcome: Outcome, after: State | None, links: list[tuple[str, Node]], first: Node
    ) -> tuple[Outcome, State | None]:
        index = 0
        while index < len(links) and after is not None:
            operator, node = links[index]
            run = self._runner(node)
            stay = self._keeper(outcome)
            if operator == "&&" and outcome.truth is None and index + 1 < len(links) and links[index + 1][0] == "||":
                # `question && a || b` is used as if-then-else.
                outcome, after = self._two_ways(outcome, after, run, self._runner(links[index + 1][1]), first)
                index += 2
                continue
            ways = (run, stay) if operator == "&&" else (stay, run)
            outcome, after = self._two_ways(outcome, after, *ways, first)
            index += 1
        return outcome, after

    def _runner(self, node: Node) -> _Run:
        return lambda state: self._execute(node, state)

    @staticmethod
    def _keeper(outcome: Outcome) -> _Run:
        return lambda state: (outcome, state)

    def _pipeline(
        self, nodes: Sequence[Node], state: State, *, first_input: Value | None = None, reads: bool = False
    ) -> tuple[Outcome, State | None]:
        """Every member runs in a copy. Known text that reaches a shell is run by it."""
        members = [node for node in nodes if node.type != "comment"]
        outcome = SUCCESS
        commands: list[list[Field]] = []
        flowing = first_input
        outer, self._stdin = self._stdin, None
        try:
            for index, node in enumerate(members):
                copy = state.fork()
                copy.piped = True
                copy.reads_pipe = index > 0 or reads
                if index > 0:
                    flowing = shell_output.pipeline(commands, gpus=self._gpus, files=state.files) if commands else None
                self._stdin = flowing
                outcome = self._subshell(copy, self._runner(node))
                self._stdin = None
                fields = self._plain_fields(node, copy)
                commands = [*commands, fields] if fields is not None and len(commands) == index else []
        finally:
            self._stdin = outer
        return outcome, state

    def _plain_fields(self, node: Node, state: State) -> list[Field] | None:
        """The words of a simple command, None for anything else. Redirections of errors don't matter."""
        if node.type == "redirected_statement":
            body = node.child_by_field_name("body")
            redirects = [child for child in node.children if child != body]
            if body is None or any(not self._source.slice(each).startswith("2>") for each in redirects):
                return None
            node = body
        if node.type != "command":
            return None
        variants = self._expander.fields(self._argument_nodes(node), self._source, state.fork())
        return variants[0] if len(variants) == 1 else None

    # -------------------------------------------------------------------------------------------------- redirections

    def _redirected(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        text, target, append = self._redirects([child for child in node.children if child != body], state)
        links: list[tuple[str, Node]] = []
        pipe: list[Node] = []
        for heredoc in (child for child in node.children if child.type == "heredoc_redirect"):
            operator, right = heredoc.child_by_field_name("operator"), heredoc.child_by_field_name("right")
            if operator is not None and right is not None:
                links.append((operator.type, right))
            pipe.extend(each for child in heredoc.children if child.type == "pipeline" for each in child.named_children)
        if body is None:
            return SUCCESS, state
        outer = self._stdin
        if text is not None:
            self._stdin = text
        extra = [
            child
            for heredoc in node.children
            if heredoc.type == "heredoc_redirect"
            for index, child in enumerate(heredoc.children)
            if heredoc.field_name_for_child(index) == "argument"
        ]
        try:
            output = self._output(body, state, extra) if target is not None or pipe else None
            if body.type == "command" and extra:
                outcome, after = self._command(body, state, extra)
            else:
                outcome, after = self._execute(body, state)
        finally:
            self._stdin = outer
        if after is not None and target is not None:
            self._write(target, output, after, append=append)
        if after is not None and pipe:
            outcome, after = self._pipeline(pipe, after, first_input=output, reads=True)
        if links:
            return self._links(outcome, after, links, body)
        return outcome, after

    def _redirects(self, nodes: Iterable[Node], state: State) -> tuple[Value | None, str | None, bool]:
        """Standard input's text and the file that standard output goes to."""
        text: Value | None = None
        target: str | None = None
        append = False
        pending = list(nodes)
        while pending:
            node = pending.pop(0)
            if node.type == "heredoc_redirect":
                pending.extend(child for child in node.children if child.type == "file_redirect")
                start = next((child for child in node.children if child.type == "heredoc_start"), None)
                body = next((child for child in node.children if child.type == "heredoc_body"), None)
                text = EMPTY
                if start is not None and body is not None:
                    delimiter = self._source.slice(start)
                    if any(character in delimiter for character in "'\"\\"):
                        begin, end = self._source.start(body), self._source.end(body)
                        text = shell_text.literal(self._source.text[begin:end], *self._source.exact(begin, end))
                    else:
                        text = self._expander.heredoc(body, self._source, state)
                    if any(child.type == "<<-" for child in node.children):
                        text = _without_tabs(text)
            elif node.type == "herestring_redirect":
                text = (
                    self._expander.value(node.named_children[-1], self._source, state) if node.named_children else None
                )
            elif node.type == "file_redirect":
                descriptor = node.child_by_field_name("descriptor")
                destination = node.child_by_field_name("destination")
                operator = next((child.type for child in node.children if not child.is_named), "")
                if destination is None or (descriptor is not None and self._source.slice(descriptor) != "1"):
                    continue
                value = self._expander.value(destination, self._source, state)
                if operator in (">", ">>", ">|", "&>", "&>>"):
                    target, append = shell_text.single(value) or "", ">>" in operator
                elif operator == "<":
                    path = shell_text.single(value)
                    known = state.files.get(posixpath.normpath(path)) if path else None
                    text = (known,) if known is not None else shell_text.hole(["<"])
        return text, target, append

    def _output(self, node: Node, state: State, extra: Sequence[Node]) -> Value | None:
        """What a simple command prints, if that is certain."""
        if node.type != "command":
            return None
        fields = self._expander.fields([*self._argument_nodes(node), *extra], self._source, state.fork())
        if len(fields) != 1 or not fields[0]:
            return None
        name = fields[0][0].text
        if name in ("cat", "tee") and self._stdin is not None and (len(fields[0]) == 1 or name == "tee"):
            return self._stdin
        output = shell_output.pipeline(fields, gpus=self._gpus, files=state.files)
        return None if output is None else shell_text.concatenate([output, shell_text.literal("\n")])

    def _write(self, path: str, content: Value | None, state: State, *, append: bool) -> None:
        if not path or path.startswith("/dev/"):
            return
        key = posixpath.normpath(path)
        text = content[0] if content is not None and len(content) == 1 else None
        if append:
            previous = state.files.get(key, ())
            text = (*previous, *text) if text is not None and previous is not None else None
        state.files[key] = text
        self._written[path] = text

    # --------------------------------------------------------------------------------------------------- assignments

    def _assign(self, node: Node, state: State, *, exported: bool | None = None, store: bool = True) -> Outcome:
        """NAME=value, NAME+=value, NAME=(...), NAME[i]=value."""
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return UNDECIDED
        append = any(child.type == "+=" for child in node.children)
        origin = self._source.outer(self._source.start(node), self._source.end(node))
        if name_node.type == "subscript":
            base = name_node.child_by_field_name("name")
            if base is not None:
                self._assign_element(self._source.slice(base), name_node, value_node, state, origin)
            return SUCCESS
        name = self._source.slice(name_node)
        previous = state.variables.get(name)
        keep = previous.exported if previous is not None else False
        flag = keep if exported is None else exported or keep
        if value_node is not None and value_node.type == "array":
            items = self._array(value_node, state)
            if append and items is not None:
                known = previous.items if previous is not None else ()
                if known is None and previous is not None:
                    known = () if not previous.value or previous.value == EMPTY else (previous.value,)
                    if any(piece.text is None for text in (previous.value or ()) for piece in text):
                        items = None
                items = (*(known or ()), *items) if items is not None else None
            if items is None:
                variable = Variable(value=shell_text.hole([name], many=True), exported=flag, origin=origin)
            else:
                variable = Variable(items=items, exported=flag, origin=origin)
            state.variables[name] = variable
            return SUCCESS
        value = shell_text.as_assigned(self._value(value_node, state))
        if append:
            found = self._expander.lookup(name, state)
            if previous is not None and previous.items is not None:
                found = previous.items[0] if previous.items else EMPTY
            base_value = EMPTY if found is None or shell_text.is_absent(found) else found
            if found is not None and shell_text.is_absent(found):
                self._assumed_unset.add(name)
            value = shell_text.concatenate([base_value, value])
        if store:
            state.variables[name] = Variable(value=value, exported=flag, origin=origin)
        return EXPECTED if value_node is not None and "command_substitution" in _types(value_node) else SUCCESS

    def _assign_element(self, name: str, target: Node, value: Node | None, state: State, origin: Offsets) -> None:
        index_node = target.child_by_field_name("index")
        previous = state.variables.get(name)
        items = previous.items if previous is not None else ()
        position = self._expander.integer(self._source.slice(index_node), state) if index_node is not None else None
        exported = previous is not None and previous.exported
        if items is None or position is None or not 0 <= position <= len(items):
            state.variables[name] = Variable(value=shell_text.hole([name], many=True), exported=exported, origin=origin)
            return
        element = shell_text.as_assigned(self._value(value, state))
        state.variables[name] = Variable(
            items=(*items[:position], element, *items[position + 1 :]), exported=exported, origin=origin
        )

    def _value(self, node: Node | None, state: State) -> Value:
        return EMPTY if node is None else self._expander.value(node, self._source, state)

    def _array(self, node: Node, state: State) -> tuple[Value, ...] | None:
        elements = [child for child in node.named_children if child.type != "comment"]
        if any(self._source.slice(child).startswith("[") for child in elements):
            return None
        variants = self._expander.fields(elements, self._source, state)
        if len(variants) != 1 or any(field.many for field in variants[0]) or len(variants[0]) > 1_024:
            return None
        return tuple(shell_text.as_assigned(field.value) for field in variants[0])

    def _declare(self, node: Node, state: State) -> Outcome:
        """export, declare, typeset, local, readonly."""
        keyword = node.children[0].type if node.children else ""
        flags = ""
        outcome = SUCCESS
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                name_node = child.child_by_field_name("name")
                if name_node is not None:
                    self._localize(keyword, flags, self._source.slice(name_node), state)
                    if "A" in flags:
                        state.variables[self._source.slice(name_node)] = Variable(
                            value=shell_text.hole([self._source.slice(name_node)], many=True)
                        )
                        continue
                export = keyword == "export" or "x" in flags
                outcome = self._assign(child, state, exported=export or None)
            elif child.is_named:
                self._declare_word(child, keyword, flags, state)
                text = self._source.slice(child)
                if text.startswith("-"):
                    flags += text[1:]
        return outcome

    def _declare_word(self, node: Node, keyword: str, flags: str, state: State) -> None:
        """`export NAME`, `export $(cat .env)`, `local x`, `declare -A m`."""
        if self._source.slice(node).startswith("-"):
            return
        for field_ in self._expander.fields([node], self._source, state)[0]:
            text = field_.text
            if text is None:
                head = shell_text.prefix(field_.value)
                if "=" in head:
                    state.forget_names([head.split("=", 1)[0]])
                else:
                    state.forget()
                continue
            name, equals, content = text.partition("=")
            if not name.isidentifier():
                continue
            self._localize(keyword, flags, name, state)
            previous = state.variables.get(name)
            export = (keyword == "export" or "x" in flags) and "n" not in flags
            if equals:
                state.variables[name] = Variable(
                    value=shell_text.literal(content),
                    exported=export or (previous is not None and previous.exported),
                    origin=field_.site,
                )
            elif "A" in flags:
                state.variables[name] = Variable(value=shell_text.hole([name], many=True))
            elif previous is not None:
                state.variables[name] = replace(previous, exported=export or (previous.exported and "n" not in flags))
            elif export and name not in state.unset:
                state.variables[name] = Variable(
                    value=shell_text.hole([name], absent=not state.tainted, many=True), exported=True
                )

    def _localize(self, keyword: str, flags: str, name: str, state: State) -> None:
        if self._locals and (keyword == "local" or (keyword in ("declare", "typeset") and "g" not in flags)):
            self._locals[-1].setdefault(name, state.variables.get(name))
            if keyword == "local":
                state.clear(name)

    def _unset(self, node: Node, state: State) -> Outcome:
        for child in node.named_children:
            text = self._source.slice(child)
            if text == "-f":
                break
            if text.isidentifier():
                state.clear(text)
        return SUCCESS

    # ---------------------------------------------------------------------------------------------------- conditions

    def _test(self, node: Node, state: State) -> Outcome:
        """`[ ]`, `[[ ]]` and `(( ))` where the grammar gives it as a test."""
        opening = node.children[0].type if node.children else ""
        if opening == "((":
            return self._truth_of(self._expander.calculate(self._inside(node, state), state))
        tokens: list[Token] = []
        stack = list(reversed(node.children[1:-1]))
        while stack:
            child = stack.pop()
            if child.type in (
                "binary_expression", "unary_expression", "parenthesized_expression", "negation_expression",
                "ternary_expression",
            ):  # fmt: skip
                stack.extend(reversed(child.children))
            elif child.type == "test_operator" or not child.is_named:
                tokens.append(Token(self._source.slice(child)))
            else:
                value = self._expander.value(child, self._source, state)
                text = self._source.slice(child)
                operator = text if text in shell_condition.BINARY or text in shell_condition.UNARY else ""
                tokens.append(Token(operator, value))
        return self._answer(tokens, patterns=opening == "[[")

    def _answer(self, tokens: Sequence[Token], *, patterns: bool) -> Outcome:
        answer = shell_condition.evaluate(tokens, patterns=patterns)
        self._assumed_unset |= answer.assumed if answer.truth is not None else set()
        if answer.truth is None and answer.names == {EXPECTED.ending.value} and len(tokens) == 3:
            # `[ $? -ne 0 ]` after a program: a successful run doesn't come here.
            operator, right = tokens[1].operator, tokens[2].value
            if right is not None and shell_text.single(right) == "0":
                return {"-eq": EXPECTED, "=": EXPECTED, "==": EXPECTED, "-ne": UNEXPECTED, "!=": UNEXPECTED,
                        "-gt": UNEXPECTED}.get(operator, UNDECIDED)  # fmt: skip
        return decided(answer.truth, answer.names)

    def _test_words(self, fields: Sequence[Field]) -> Outcome:
        """`test EXPRESSION`."""
        tokens: list[Token] = []
        for each in fields:
            text = each.text
            operator = text in shell_condition.BINARY or text in shell_condition.UNARY or text in ("!", "(", ")")
            if text in ("-a", "-o", "!", "(", ")"):
                tokens.append(Token(text or ""))
            else:
                tokens.append(Token(text or "" if operator else "", each.value))
        return self._answer(tokens, patterns=False)

    def _inside(self, node: Node, state: State) -> Value:
        """The expression of `(( ))`, its `$` expansions done."""
        start, end = self._source.start(node) + 2, self._source.end(node) - 2
        return self._expander.region(node, start, end, self._source, state)

    def _truth_of(self, value: Value) -> Outcome:
        texts = shell_text.possible(value)
        if texts is None:
            return Outcome(UNDECIDED.ending, shell_text.names(value))
        truths = {text not in ("0", "") for text in texts}
        return decided(next(iter(truths)) if len(truths) == 1 else None)

    def _if(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        clauses: list[tuple[list[Node], list[Node]]] = [([], [])]
        otherwise: list[Node] = []
        into_body = False
        for child in node.children:
            if child.type == "elif_clause":
                condition: list[Node] = []
                body: list[Node] = []
                current = condition
                for each in child.children[1:]:
                    if each.type == "then":
                        current = body
                    else:
                        current.append(each)
                clauses.append((condition, body))
            elif child.type == "else_clause":
                otherwise = list(child.children[1:])
            elif child.type == "then":
                into_body = True
            elif child.type not in ("if", "fi"):
                clauses[0][1 if into_body else 0].append(child)

        def clause(index: int, current: State) -> tuple[Outcome, State | None]:
            if index == len(clauses):
                return self._sequence(otherwise, current)
            self._steps += 1
            if self._steps > MAX_STEPS or index > MAX_DEPTH:
                raise _ExhaustedError
            condition, body = clauses[index]
            self._conditions += 1
            try:
                outcome, after = self._sequence(condition, current)
            finally:
                self._conditions -= 1
            if after is None:
                return outcome, None
            return self._two_ways(
                outcome,
                after,
                lambda arm: self._sequence(body, arm),
                lambda arm: clause(index + 1, arm),
                condition[0] if condition else node,
            )

        return clause(0, state)

    def _case(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        subject_node = node.child_by_field_name("value")
        subject = self._value(subject_node, state)
        arms: list[_Run] = []
        items = [child for child in node.children if child.type == "case_item"]
        certain = False
        for index, item in enumerate(items):
            truth = self._matches(subject, item, state)
            if truth is False:
                continue
            arms.append(self._case_body(items, index))
            if truth:
                certain = True
                break
        if certain and len(arms) == 1:
            return arms[0](state)
        if not arms:
            return SUCCESS, state
        if not certain:
            arms.append(self._keeper(SUCCESS))
        return self._arms(state, arms, shell_text.names(subject), subject_node)

    def _case_body(self, items: Sequence[Node], index: int) -> _Run:
        def run(state: State) -> tuple[Outcome, State | None]:
            outcome: Outcome = SUCCESS
            after: State | None = state
            for item in items[index:]:
                begin = next((number for number, child in enumerate(item.children) if child.type == ")"), 0)
                outcome, after = self._sequence(item.children[begin + 1 :], after)
                if not any(child.type in (";&", ";;&") for child in item.children):
                    break
            return outcome, after

        return run

    def _matches(self, subject: Value, item: Node, state: State) -> bool | None:
        """Whether a case item is taken."""
        texts = shell_text.possible(subject)
        patterns: list[str] = []
        for index, child in enumerate(item.children):
            if item.field_name_for_child(index) != "value":
                continue
            if child.type == "extglob_pattern" and not child.named_child_count:
                patterns.extend(self._source.slice(child).split("|"))
                continue
            value = self._expander.value(child, self._source, state)
            if len(value) != 1 or shell_text.plain(value[0]) is None:
                return None
            patterns.append(
                "".join(
                    re.sub(r"([*?\[\]\\])", r"\\\1", piece.text or "") if piece.quoted else piece.text or ""
                    for piece in value[0]
                )
            )
        if "*" in patterns:
            return True
        if texts is None:
            known = shell_text.prefix(subject)
            literal = [pattern for pattern in patterns if not any(each in pattern for each in "*?[\\@!+")]
            if known and len(literal) == len(patterns) and not any(each.startswith(known) for each in literal):
                return False
            return None
        try:
            answers = {any(shell_pattern.matches(pattern, text) for pattern in patterns) for text in texts}
        except PatternTooLargeError:
            return None
        return next(iter(answers)) if len(answers) == 1 else None

    # --------------------------------------------------------------------------------------------------------- loops

    def _for(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        if body is None or variable is None:
            return UNDECIDED, state
        name = self._source.slice(variable)
        values = [child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "value"]
        if any(child.type == "in" for child in node.children):
            variants = self._expander.fields(values, self._source, state)
        else:
            variants = (
                [[Field(shell_text.hole(many=True), many=True)]]
                if state.positional is None
                else [[Field(value) for value in state.positional]]
            )
        items = variants[0]
        selects = any(child.type == "select" for child in node.children)
        known = len(variants) == 1 and not selects and not any(each.many or _globs(each) for each in items)
        if known and len(items) <= MAX_UNROLL:
            return self._unrolled(name, items, body, state)
        # Something is in the list, but what and how much is unknown; a long known list does run.
        certain = known or (len(variants) == 1 and not selects and any(not each.many for each in items))
        return self._repeated(body, state, runs=True if certain else None, bind=name, node=variable)

    def _unrolled(self, name: str, items: Sequence[Field], body: Node, state: State) -> tuple[Outcome, State | None]:
        outer, self._loops = self._loops, [*self._loops, _Loop()]
        loop = self._loops[-1]
        in_loop, state.in_loop = state.in_loop, True
        current: State | None = state
        outcome = SUCCESS
        try:
            for item in items:
                if current is None:
                    break
                previous = current.variables.get(name)
                current.variables[name] = Variable(
                    value=shell_text.as_assigned(item.value),
                    exported=previous is not None and previous.exported,
                    origin=item.site,
                )
                outcome, current = self._iteration(body, current, loop)
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.in_loop = in_loop
        return (outcome if current is not None else SUCCESS), after

    def _iteration(self, body: Node, state: State, loop: _Loop) -> tuple[Outcome, State | None]:
        outcome, after = self._execute(body, state)
        after = join([each for each in (after, *loop.continues) if each is not None])
        loop.continues.clear()
        return outcome, after

    def _repeated(
        self,
        body: Node,
        state: State,
        *,
        runs: bool | None,
        bind: str | None = None,
        node: Node | None = None,
        endless: bool = False,
        names: frozenset[str] = shell_text.NO_NAMES,
        recorded: int | None = None,
    ) -> tuple[Outcome, State | None]:
        """A loop whose number of rounds is unknown: what the body assigns is forgotten, the body is walked once.

        runs: it runs at least once (None: maybe). endless: its condition never ends it. recorded: number of invocations
        before its condition was walked.
        """
        changed = self._assigned(body, state)
        first = len(self._invocations) if recorded is None else recorded
        outer, self._loops = self._loops, [*self._loops, _Loop()]
        loop = self._loops[-1]
        ends = self._ends
        branches, in_loop, was_endless = state.branches, state.in_loop, state.loop_endless

        def rounds(current: State) -> tuple[Outcome, State | None]:
            if changed is None:
                current.forget()
            else:
                current.forget_names(changed)
            if bind is not None:
                current.forget_names([bind])
            current.in_loop, current.loop_endless = True, endless or was_endless
            return self._iteration(body, current, loop)

        try:
            if runs:
                outcome, after = rounds(state)
            else:
                outcome, after = self._arms(state, [rounds, self._keeper(SUCCESS)], names, node)
        finally:
            self._loops = outer
        left = loop.breaks or self._ends != ends
        if endless:
            for index in range(first, len(self._invocations)):
                self._invocations[index] = replace(self._invocations[index], loop_endless=was_endless or not left)
        result = join([*loop.breaks] if endless else [each for each in (after, *loop.breaks) if each is not None])
        if result is not None:
            result.in_loop, result.loop_endless = in_loop, was_endless
            if endless or loop.breaks:
                result.branches = branches
            if changed is None:
                result.forget()
            elif not endless:
                result.forget_names(name for name in changed if name not in state.variables or runs)
        return outcome, result

    def _while(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        condition = [
            child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "condition"
        ]
        if body is None:
            return UNDECIDED, state
        until = bool(node.children) and node.children[0].type == "until"
        text = (
            self._source.text[self._source.start(condition[0]) : self._source.end(condition[-1])] if condition else ""
        )
        constant = not any(character in text for character in "$`(")
        in_loop = state.in_loop
        outer, self._loops = self._loops, [*self._loops, _Loop()]
        loop = self._loops[-1]
        current: State | None = state
        try:
            for _ in range(MAX_UNROLL):
                assert current is not None
                recorded = len(self._invocations)
                current.in_loop = True
                self._conditions += 1
                try:
                    outcome, current = self._sequence(condition, current)
                finally:
                    self._conditions -= 1
                if current is None:
                    break
                outcome = outcome.negated() if until else outcome
                if outcome.certain and outcome.truth is False:
                    break
                if not outcome.certain or constant:
                    current = self._abstract(body, current, outcome, node, recorded)
                    break
                outcome, current = self._iteration(body, current, loop)
                if current is None:
                    break
            else:
                assert current is not None
                changed = self._assigned(body, current)
                if changed is None:
                    current.forget()
                else:
                    current.forget_names(changed)
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.in_loop = in_loop
        return SUCCESS, after

    def _abstract(self, body: Node, state: State, outcome: Outcome, node: Node, recorded: int) -> State | None:
        """The rounds of a `while` that can't be counted."""
        if outcome.certain:
            return self._repeated(body, state, runs=True, endless=True, recorded=recorded)[1]
        if outcome.truth is False:
            # `until program; do ...`: the body runs only after a failure.
            failed = state.fork()
            failed.after_failure = True
            after = self._repeated(body, failed, runs=True)[1]
            return join([each for each in (state, after) if each is not None])
        return self._repeated(body, state, runs=None, node=node, names=outcome.names)[1]

    def _counted(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        """`for ((i = 0; i < n; i++))`."""
        body = node.child_by_field_name("body")
        if body is None:
            return UNDECIDED, state
        parts: dict[str, list[Node]] = {"initializer": [], "condition": [], "update": []}
        for index, child in enumerate(node.children):
            name = node.field_name_for_child(index)
            if name in parts and child.is_named:
                parts[name].append(child)

        def evaluate(part: str, current: State) -> Value:
            value: Value = shell_text.literal("1")
            for each in parts[part]:
                region = self._expander.region(
                    each, self._source.start(each), self._source.end(each), self._source, current
                )
                value = self._expander.calculate(region, current)
            return value

        evaluate("initializer", state)
        in_loop, state.in_loop = state.in_loop, True
        outer, self._loops = self._loops, [*self._loops, _Loop()]
        loop = self._loops[-1]
        current: State | None = state
        try:
            for _ in range(MAX_UNROLL):
                assert current is not None
                outcome = self._truth_of(evaluate("condition", current))
                if outcome.truth is False:
                    break
                if outcome.truth is None or not parts["condition"]:
                    current = self._repeated(
                        body, current, runs=True if not parts["condition"] else None,
                        endless=not parts["condition"], node=node, names=outcome.names,
                    )[1]  # fmt: skip
                    break
                _, current = self._iteration(body, current, loop)
                if current is None:
                    break
                evaluate("update", current)
            else:
                assert current is not None
                changed = self._assigned(body, current)
                current.forget_names(changed or ())
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.in_loop = in_loop
        return SUCCESS, after

    def _assigned(self, node: Node, state: State) -> frozenset[str] | None:
        """Names that a piece of script may assign; None if that can be any (`eval`, `source`)."""
        names: set[str] = set()
        seen: set[str] = set()
        stack: list[tuple[Source, Node]] = [(self._source, node)]
        while stack:
            source, current = stack.pop()
            self._steps += 1
            if self._steps > 4 * MAX_STEPS:
                raise _ExhaustedError
            match current.type:
                case "variable_assignment" | "for_statement":
                    target = current.child_by_field_name("name") or current.child_by_field_name("variable")
                    if target is not None:
                        names.add(source.slice(target).split("[", 1)[0])
                case "arithmetic_expansion" | "compound_statement" | "c_style_for_statement" | "test_command":
                    head = source.slice(current)
                    if current.type != "compound_statement" or head.startswith("(("):
                        names.update(
                            re.findall(r"[A-Za-z_]\w*", head[:2_000])
                            if "=" in head or "++" in head or "--" in head
                            else ()
                        )
                case "expansion":
                    head = source.slice(current)
                    if "=" in head[:200]:
                        names.update(re.findall(r"[A-Za-z_]\w*", head[:200])[:1])
                case "declaration_command" | "unset_command":
                    names.update(
                        source.slice(child) for child in current.named_children if child.type == "variable_name"
                    )
                case "command":
                    name_node = current.child_by_field_name("name")
                    name = source.slice(name_node) if name_node is not None else ""
                    if name in ("eval", "source", "."):
                        return None
                    if name in ("read", "mapfile", "readarray", "getopts", "printf", "let"):
                        names.update(re.findall(r"[A-Za-z_]\w*", source.slice(current)[:2_000]))
                    if name in state.functions and name not in seen:
                        seen.add(name)
                        stack.append(state.functions[name])
                case _:
                    pass
            stack.extend((source, child) for child in current.named_children)
        return frozenset(names)

    # ------------------------------------------------------------------------------------------------------ commands

    @staticmethod
    def _argument_nodes(node: Node) -> list[Node]:
        nodes: list[Node] = []
        for index, child in enumerate(node.children):
            role = node.field_name_for_child(index)
            if role == "argument":
                nodes.append(child)
            elif role == "name":
                nodes.extend(child.children or [child])
        return nodes

    def _command(self, node: Node, state: State, extra: Sequence[Node] = ()) -> tuple[Outcome, State | None]:
        prefix: list[tuple[str, Variable]] = []
        nodes = [*self._argument_nodes(node), *extra]
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
        outer = self._stdin
        if redirects:
            text, target_path, append = self._redirects(redirects, state)
            self._stdin = text if text is not None else self._stdin
            if target_path is not None:
                self._write(target_path, self._output(node, state, ()), state, append=append)
        try:
            if len(variants) == 1:
                return self._run_command(variants[0], prefix, state, node)
            runs = [self._variant(fields, prefix, node) for fields in variants]
            return self._arms(state, runs, shell_text.NO_NAMES, node)
        finally:
            self._stdin = outer

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

    def _variant(self, fields: list[Field], prefix: list[tuple[str, Variable]], node: Node) -> _Run:
        return lambda state: self._run_command(fields, prefix, state, node)

    def _run_command(
        self, fields: list[Field], prefix: list[tuple[str, Variable]], state: State, node: Node | None
    ) -> tuple[Outcome, State | None]:
        if not fields:
            state.variables.update(dict(prefix))
            return SUCCESS, state
        name = fields[0].text
        if name is not None:
            if name in state.functions:
                return self._call(name, fields, prefix, state)
            builtin = self._builtin(name, fields, prefix, state)
            if builtin is not None:
                return builtin
        unwrapped = shell_wrapper.unwrap(fields)
        if name == "exec" and not unwrapped.fields:
            return SUCCESS, state
        if unwrapped.wrappers:
            return self._unwrapped(unwrapped, prefix, state)
        return self._program(fields, prefix, state), state

    def _unwrapped(
        self, unwrapped: shell_wrapper.Unwrapped, prefix: list[tuple[str, Variable]], state: State
    ) -> tuple[Outcome, State | None]:
        """A command without its wrappers. It runs in a copy: all but `command`, `time` and `builtin` start a process."""
        copy = state.fork()
        copy.wrappers = (*state.wrappers, *unwrapped.wrappers)
        if unwrapped.seconds is not None:
            copy.time_limit = unwrapped.seconds
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
        if name == "sleep":
            return SUCCESS
        if name in _QUESTIONS or (name.startswith("python") and len(fields) > 1 and fields[1].text == "-c"):
            return Outcome(UNDECIDED.ending, frozenset().union(*(shell_text.names(each.value) for each in fields)))
        if name in ("pip", "pip3", "conda") and len(fields) > 1 and fields[1].text in ("show", "list", "freeze", "env"):
            return UNDECIDED
        return EXPECTED

    def _positional(self, fields: Sequence[Field]) -> tuple[Value, ...] | None:
        if any(each.many for each in fields):
            return None
        return tuple(shell_text.as_assigned(each.value) for each in fields)

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
            child.reads_pipe = False
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
            self._complete = False
            state.forget()
            return EXPECTED, state
        positional, state.positional = state.positional, self._positional(fields[1:])
        entered = state.branches
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
        wanted = [each for each, ended in ends if ended.after_failure == result.after_failure]
        final = wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED
        if len(ends) > 1:
            # Arms that return early meet again here.
            result.branches = result.branches[: len(entered)]
        result.positional = positional
        for key, variable in stored.items():
            if variable is None:
                result.variables.pop(key, None)
                result.unset -= {key}
            else:
                result.variables[key] = variable
        return final, result

    # ------------------------------------------------------------------------------------------------------ builtins

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
            outcome = UNDECIDED if code is None or not code.isdecimal() else SUCCESS if int(code) == 0 else FAILURE
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

    def _evaluated(self, text: Text, fields: list[Field]) -> _Run:
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

    # ----------------------------------------------------------------------------------------- command substitutions

    def _substitute(self, node: Node, source: Source, state: State) -> Value:
        """What `$(...)` gives: known for a few tools on known input, else a hole that names what it hangs on."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _ExhaustedError
        if self._depth >= MAX_DEPTH:
            self._complete = False
            return shell_text.hole()
        outer, self._source = self._source, source
        stdin, self._stdin = self._stdin, None
        self._depth += 1
        try:
            return self._substituted(node, state)
        finally:
            self._depth -= 1
            self._source, self._stdin = outer, stdin

    def _substituted(self, node: Node, state: State) -> Value:
        statements = [child for child in node.named_children if child.type != "comment"]
        names: set[str] = set()
        if len(statements) == 1 and node.type != "process_substitution":
            statement = statements[0]
            if statement.type == "file_redirect":
                destination = statement.child_by_field_name("destination")
                path = shell_text.single(self._value(destination, state)) if destination is not None else None
                content = state.files.get(posixpath.normpath(path)) if path else None
                return shell_text.trim_end((content,)) if content is not None else shell_text.hole(["<"], many=True)
            if statement.type == "redirected_statement" and self._plain_fields(statement, state) is not None:
                statement = statement.child_by_field_name("body") or statement
            members = statement.named_children if statement.type == "pipeline" else [statement]
            commands = [self._plain_fields(member, state) for member in members]
            if all(command for command in commands):
                known = [command for command in commands if command]
                for command in known:
                    names |= {name for each in command for name in shell_text.names(each.value)}
                    names |= {"HOSTNAME"} if (command[0].text or "").endswith("hostname") else set()
                    names |= {"conda"} if (command[0].text or "").endswith(("conda", "mamba")) else set()
                    names |= {"$(nvidia-smi)"} if (command[0].text or "").endswith("nvidia-smi") else set()
                if not any(command[0].text in state.functions for command in known):
                    output = shell_output.pipeline(known, gpus=self._gpus, files=state.files)
                    if output is not None:
                        return shell_text.trim_end(output)
        copy = state.fork()
        copy.captured = True
        first = len(self._invocations)
        self._subshell(copy, lambda inner: self._sequence(node.children[1:-1], inner))
        added = self._invocations[first:]
        if len(added) == 1 and added[0].name == "echo" and added[0].branches == state.branches:
            words = [word.text for word in added[0].argv[1:]]
            if None not in words and not any((word or "").startswith("-") for word in words):
                return shell_text.literal(" ".join(word or "" for word in words))
        return shell_text.hole(names, many=True)

    # ----------------------------------------------------------------------------------------------------- recording

    def _record(self, fields: Sequence[Field], prefix: Sequence[tuple[str, Variable]], state: State) -> None:
        environment = _Environment({**state.variables, **dict(prefix)}, self._variable_word)
        located = [each.site for each in fields if each.site != NOWHERE]
        span = None
        if located:
            span = self._script.span_of(min(site[0] for site in located), max(site[1] for site in located))
        self._invocations.append(
            Invocation(
                argv=tuple(self._word(each) for each in fields),
                span=span,
                environment=environment,
                background=state.background,
                branches=state.branches,
                after_failure=state.after_failure,
                in_loop=state.in_loop,
                loop_endless=state.loop_endless,
                piped=state.piped,
                reads_pipe=state.reads_pipe,
                captured=state.captured,
                in_trap=state.in_trap,
                wrappers=state.wrappers,
                time_limit=state.time_limit,
                stdin_text=shell_text.single(self._stdin) if self._stdin is not None else None,
            )
        )

    def _variable_word(self, variable: Variable) -> Word:
        cached = self._words.get(id(variable))
        if cached is not None and cached[0] is variable:
            return cached[1]
        word = self._word(Field(variable.scalar(), variable.origin))
        self._words[id(variable)] = (variable, word)
        return word

    def _word(self, field_: Field) -> Word:
        value, site = field_.value, field_.site
        texts = shell_text.possible(value)
        known = shell_text.single(value) if not field_.many else None
        elsewhere = [
            piece
            for text in value
            for piece in text
            if piece.start >= 0 and (site == NOWHERE or piece.start < site[0] or piece.end > site[1])
        ]
        origin = None
        if elsewhere and site != NOWHERE:
            origin = self._script.span_of(min(each.start for each in elsewhere), max(each.end for each in elsewhere))
        return Word(
            text=known,
            possible=texts if texts is not None and not field_.many else frozenset(),
            prefix=shell_text.prefix(value),
            many=field_.many,
            span=self._script.span_of(*site) if site != NOWHERE else None,
            origin=origin,
            names=shell_text.names(value),
            argument=field_.argument,
        )

    def _span_of(self, node: Node) -> Span | None:
        site = self._source.outer(self._source.start(node), self._source.end(node))
        return self._script.span_of(*site) if site != NOWHERE else None


def _globs(field_: Field) -> bool:
    return any(
        piece.text is not None and not piece.quoted and any(each in piece.text for each in "*?")
        for text in field_.value
        for piece in text
    )


def _types(node: Node) -> set[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        found.add(current.type)
        stack.extend(current.children)
    return found


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


def _without_tabs(value: Value) -> Value:
    """The text of a `<<-` here-document: leading tabs of each line are dropped."""
    result: list[Text] = []
    for text in value:
        pieces: list[Piece] = []
        fresh = True
        for piece in text:
            if piece.text is None:
                pieces.append(piece)
                fresh = False
                continue
            position = 0
            for line in piece.text.splitlines(keepends=True):
                skipped = len(line) - len(line.lstrip("\t")) if fresh else 0
                if skipped < len(line):
                    pieces.append(piece.part(position + skipped, position + len(line)))
                position += len(line)
                fresh = line.endswith("\n")
        result.append(tuple(pieces))
    return tuple(result)


def _other_interpreter(text: Text) -> bool:
    known = shell_text.plain(text)
    first = (known or "").split("\n", 1)[0]
    return first.startswith("#!") and not re.search(r"\b(ba|da|a|z|k)?sh\b", first)
