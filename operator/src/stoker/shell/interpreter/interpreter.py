"""Puts the parts of the interpreter together, and tells them which statement is whose."""

import posixpath
from collections.abc import Callable, Mapping, Sequence

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.assignments import Assignments
from stoker.shell.interpreter.branches import Branches
from stoker.shell.interpreter.budget import Budget
from stoker.shell.interpreter.builtins import Builtins
from stoker.shell.interpreter.commands import Commands
from stoker.shell.interpreter.expansion import Expander, Field
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.loops import Loops
from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.interpreter.pipelines import Pipelines
from stoker.shell.interpreter.programs import Programs
from stoker.shell.interpreter.record import ScriptRecord
from stoker.shell.interpreter.redirections import Redirections
from stoker.shell.interpreter.state import SUCCESS, UNDECIDED, ShellState, Variable
from stoker.shell.interpreter.substitutions import Substitutions
from stoker.shell.interpreter.tests import Tests
from stoker.shell.interpreter.values import Fragment, NotFollowedError, Value
from stoker.shell.interpreter.walk import Result, Walk
from stoker.shell.model import Allowance, ExhaustedError, ShellScript


class Interpreter:
    """One walk over one script: `run` or `run_argv`, once.

    gpus_per_node: GPUs that the pod is granted, None = unknown. argument: see `ShellScript`.
    """

    def __init__(
        self, source: str, *, gpus_per_node: int | None, allowance: Allowance, argument: int | None = None
    ) -> None:
        self._budget = Budget(allowance)
        self._record = ScriptRecord(ShellScript(source=source, argument=argument), self._budget)
        expander = Expander(self._substitute, self._record.assumed_unset, self._budget)
        self._walk = Walk(self._record, self._budget, expander, self._statement)
        redirections = Redirections(self._walk, gpus_per_node)
        self._tests = Tests(expander, self._record)
        self._assignments = Assignments(expander, self._record)
        self._branches = Branches(self._walk)
        self._loops = Loops(self._walk, self._tests)
        self._substitutions = Substitutions(self._walk, redirections)
        self._commands = Commands(
            self._walk, self._assignments, redirections, Builtins(self._walk, self._tests), Programs(self._walk)
        )
        self._pipelines = Pipelines(self._walk, redirections, self._commands)

    def run(self, state: ShellState) -> ShellScript:
        """Follow the source as a script. state: what the shell knows at its beginning."""
        text = ParsedText.outermost(self._record.script.source)
        frame = Frame.outermost(text)
        return self._followed(frame, lambda: self._walk.whole_text(text, state, frame))

    def run_argv(self, fields: list[Field], state: ShellState) -> ShellScript:
        """Follow one command, already split."""
        frame = Frame.outermost(ParsedText.outermost(""))
        return self._followed(frame, lambda: self._commands.run(fields, [], state, frame, None))

    def _followed(self, frame: Frame, walk: Callable[[], Result]) -> ShellScript:
        try:
            _, end = walk()
            self._walk.exit_traps(end, frame.exits, frame)
        except (ExhaustedError, RecursionError):
            self._record.cut()
        except NotFollowedError:
            self._record.not_followed()
        script = self._record.result()
        self._budget.close()
        self._walk.close()
        return script

    def _substitute(self, node: Node, state: ShellState, frame: Frame, whole: bool) -> Value:
        return self._substitutions.value(node, state, frame, whole=whole)

    def _statement(self, node: Node, state: ShellState, frame: Frame) -> Result:
        match node.type:
            case "command":
                return self._commands.command(node, state, frame)
            case "variable_assignment":
                return self._assignments.assign(node, state, frame), state
            case "variable_assignments":
                status = SUCCESS
                for child in node.named_children:
                    status = self._assignments.assign(child, state, frame)
                return status, state
            case "declaration_command":
                return self._assignments.declare(node, state, frame), state
            case "unset_command":
                return self._assignments.unset(node, state, frame), state
            case "list":
                return self._pipelines.and_or_list(node, state, frame)
            case "pipeline":
                return self._pipelines.pipeline(node.named_children, state, frame)
            case "redirected_statement":
                return self._pipelines.redirected(node, state, frame)
            case "negated_command":
                inner = [child for child in node.named_children if child.type != "comment"]
                status, after = self._walk.sequence(inner, state, frame.as_condition())
                return status.negated(), after
            case "test_command":
                return self._tests.test(node, state, frame), state
            case "subshell":
                status = self._walk.subshell(
                    state, frame, lambda inner, within: self._walk.sequence(node.children, inner, within)
                )
                return status, state
            case "compound_statement":
                if node.children and node.children[0].type == "((":
                    return self._tests.arithmetic(node, state, frame), state
                return self._walk.sequence(node.children, state, frame)
            case "do_group":
                return self._walk.sequence(node.children, state, frame)
            case "if_statement":
                return self._branches.if_statement(node, state, frame)
            case "while_statement":
                return self._loops.while_statement(node, state, frame)
            case "for_statement":
                return self._loops.for_statement(node, state, frame)
            case "c_style_for_statement":
                return self._loops.counted_for(node, state, frame)
            case "case_statement":
                return self._branches.case_statement(node, state, frame)
            case "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is not None and body is not None:
                    state.functions[frame.text.slice(name)] = (frame.text, body)
                return SUCCESS, state
            case "ERROR":
                changed = self._loops.assigned(node, state, frame)
                if changed is None:
                    state.forget()
                else:
                    state.forget_names(changed)
                return UNDECIDED, state
            case _:
                return UNDECIDED, state


def beginning(
    environment: Mapping[str, str | None], positional: Sequence[str] | None, files: Mapping[str, str]
) -> ShellState:
    """What the shell knows before the first statement (see `script.read_script`)."""
    return ShellState(
        variables={
            name: Variable(
                value=values.hole([name], many=True) if text is None else values.literal(text), exported=True
            )
            for name, text in environment.items()
        },
        positional=None if positional is None else tuple(values.literal(text) for text in positional),
        files={posixpath.normpath(path): (Fragment(text),) for path, text in files.items()},
    )
