"""External programs: a shell whose text is known is followed, everything else is recorded."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.parsed_text import NOWHERE
from stoker.shell.interpreter.state import EXPECTED, SUCCESS, UNDECIDED, ExitStatus, ShellState, Variable
from stoker.shell.interpreter.values import Text
from stoker.shell.interpreter.walk import Walk, as_positional, new_process
from stoker.shell.words import SHELLS

_QUESTIONS = frozenset(
    {
        "grep", "egrep", "fgrep", "rg", "diff", "cmp", "which", "type", "hash", "pgrep", "pidof", "ping", "nc", "ncat",
        "mountpoint", "nvidia-smi", "rocm-smi", "lsmod", "lspci", "id", "getent", "host", "nslookup", "dig", "kill",
        "ls", "dpkg", "rpm", "command", "alias", "stat", "ip", "jq", "awk", "mpstat", "ps", "lsof", "kubectl", "expr",
        "getopt", "pip-check",
    }
)  # fmt: skip
"""Programs that the script asks something: their end status decides, it is no failure."""

_READERS = frozenset(
    {
        *SHELLS, *_QUESTIONS, "accelerate", "cat", "chmod", "chown", "cut", "deepspeed", "echo", "head", "horovodrun",
        "less", "md5sum", "mkdir", "more", "mpiexec", "mpirun", "printf", "sed", "sha256sum", "sort", "source",
        "srun", "tail", "torchrun", "touch", "tr", "uniq", "wc",
    }
)  # fmt: skip
"""Programs that leave the files that they are given as they are."""

_INTO_LAST = frozenset({"cp", "install", "ln", "rsync", "scp"})
"""Programs that write to the last of the files that they are given."""


class Programs:
    """Commands that are neither functions nor the shell's own."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def run(
        self, fields: list[Field], prefix: list[tuple[str, Variable]], state: ShellState, frame: Frame
    ) -> ExitStatus:
        """An external command: a shell with known text is followed, everything else is recorded."""
        path = fields[0].text or ""
        name = path.rsplit("/", 1)[-1]
        if name in SHELLS:
            status = self._shell(fields, prefix, state, frame)
            if status is not None:
                return status
        elif path and "/" in path and posixpath.normpath(path) in state.files:
            content = state.files[posixpath.normpath(path)]
            if content is not None and not _other_interpreter(content):
                process = new_process(state, as_positional(fields[1:]))
                process.variables.update(dict(prefix))
                followed = self._walk.nested(content, process, frame, fields[0].site, own=True)
                if followed is not None:
                    return followed[0]
        self._walk.record.add(fields, prefix, state)
        change_files(fields, state)
        if name == "sleep":
            return SUCCESS
        if name in _QUESTIONS or (name.startswith("python") and len(fields) > 1 and fields[1].text == "-c"):
            return ExitStatus(UNDECIDED.ending, frozenset().union(*(values.names(each.value) for each in fields)))
        if name in ("pip", "pip3", "conda") and len(fields) > 1 and fields[1].text in ("show", "list", "freeze", "env"):
            return UNDECIDED
        return EXPECTED

    def _shell(
        self, fields: list[Field], prefix: list[tuple[str, Variable]], state: ShellState, frame: Frame
    ) -> ExitStatus | None:
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
            process = new_process(state, as_positional(rest[2:]))
            process.variables.update(dict(prefix))
            process.errexit = errexit
            return self.shell_text(rest[0], process, frame, fields)
        process = new_process(state, as_positional(rest[1:]))
        process.variables.update(dict(prefix))
        process.errexit = errexit
        path = rest[0].text if rest else None
        if path is not None and path not in ("-", "-s", "/dev/stdin"):
            content = state.files.get(posixpath.normpath(path))
            if content is None:
                return None
            followed = self._walk.nested(content, process, frame, rest[0].site, own=True)
            return followed[0] if followed is not None else None
        if rest and path is None:
            return None
        if state.stdin is not None and len(state.stdin) == 1 and state.stdin[0] != ():
            text_in, state.stdin, process.stdin = state.stdin[0], None, None
            if all(fragment.text is None for fragment in text_in):
                return None
            process.context = replace(process.context, reads_pipe=False)
            followed = self._walk.nested(text_in, process, frame, fields[0].site, own=True)
            return followed[0] if followed is not None else None
        return None

    def shell_text(self, text: Field, process: ShellState, frame: Frame, fields: Sequence[Field]) -> ExitStatus | None:
        """A word that a shell runs; None if it can't be followed. fields: the command that it is a word of."""
        if text.many or len(text.value) != 1 or all(fragment.text is None for fragment in text.value[0]):
            return None
        site = text.site if text.site != NOWHERE else fields[0].site
        followed = self._walk.nested(text.value[0], process, frame, site, own=True)
        return followed[0] if followed is not None else None


def change_files(fields: Sequence[Field], state: ShellState) -> None:
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


def _other_interpreter(text: Text) -> bool:
    known = values.known_text(text)
    first = (known or "").split("\n", 1)[0]
    return first.startswith("#!") and not re.search(r"\b(ba|da|a|z|k)?sh\b", first)
