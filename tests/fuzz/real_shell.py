"""Scripts as bash runs them, and what that refutes of the interpreter's claims."""

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from stoker.shell.model import Invocation, ShellScript, Word
from stoker.shell.script import read_script
from tests.fuzz.shell_grammar import PROGRAMS, QUESTIONS, VARIABLES

BASH = shutil.which("bash")
TOOLS = ("env", "nohup", "timeout", "nice", "seq", "basename", "dirname", "cat", "wc", "head", "tr", "cut", "tee")
GPUS = 8
TRACE = 9
"""The file descriptor that stubs write to: the run has ended when nobody holds it any more."""


@dataclass(frozen=True, slots=True)
class Call:
    """One program that was run: its words, and those of `VARIABLES` that it was given."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class World:
    """What a script can't decide: the values of its environment, which of them can be seen, and what questions get."""

    environment: Mapping[str, str]
    hidden: frozenset[str] = frozenset()
    answer: int = 0


@dataclass(frozen=True, slots=True)
class Ran:
    """A run's programs in the order of their start, and whether everything in it went well."""

    calls: tuple[Call, ...]
    successful: bool
    errors: str


STUB = """\
#!/bin/sh
printf '%s\\0' "$#" "${0##*/}" "$@" FIELDS >&9
exit STATUS
"""


def write_programs(root: Path) -> None:
    """Folders for PATH: `0` and `1` with what all runs have, and questions that answer so."""
    fields = " ".join(f'"${{{name}+=${name}}}"' for name in VARIABLES)
    for answer in (0, 1):
        folder = root / str(answer)
        folder.mkdir()
        texts = {name: STUB.replace("FIELDS", fields).replace("STATUS", "0") for name in PROGRAMS}
        texts |= {name: STUB.replace("FIELDS", fields).replace("STATUS", str(answer)) for name in QUESTIONS}
        texts |= {"bash": f'#!/bin/sh\nexec {BASH} "$@"\n', "sh": f'#!/bin/sh\nexec {BASH} "$@"\n'}
        texts |= {"time": '#!/bin/sh\nexec "$@"\n', "sleep": "#!/bin/sh\n"}
        texts["nvidia-smi"] = "#!/bin/sh\n" + "".join(f"echo GPU {index}: H100\n" for index in range(GPUS))
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        for name in TOOLS:
            found = shutil.which(name)
            assert found is not None
            (folder / name).symlink_to(found)


def run(script: str, world: World, programs: Path) -> Ran | None:
    """Run a script by bash and read what its programs noted; None if it does not end."""
    reading, writing = os.pipe()
    assert BASH is not None
    with tempfile.TemporaryDirectory() as folder, os.fdopen(reading, "rb") as trace:
        process = subprocess.Popen(
            [BASH, "-c", f"exec {TRACE}>&{writing} {writing}>&-\n" + script],
            cwd=folder,
            env={"PATH": str(programs / str(world.answer)), "FUNCNEST": "30", **world.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[writing],
            preexec_fn=_limited,  # noqa: PLW1509 - this test has no threads
            start_new_session=True,
        )
        os.close(writing)
        try:
            _, errors = process.communicate(timeout=5)
            os.set_blocking(reading, True)
            noted = trace.read().decode()
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
    calls = tuple(_calls(noted.split("\0")))
    text = errors.decode(errors="replace")
    complaints = [line for line in text.splitlines() if re.search(r"line \d+: (?!\[:|test:|\[\[:)", line)]
    gave_up = any(call.argv[0] == "giveup" for call in calls)
    return Ran(calls, process.returncode == 0 and not complaints and not gave_up, text)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))


def _calls(noted: Sequence[str]) -> Iterator[Call]:
    position = 0
    while position + 1 < len(noted):
        words = position + 2 + int(noted[position])
        values = dict(zip(VARIABLES, noted[words : words + len(VARIABLES)], strict=True))
        yield Call(
            tuple(noted[position + 1 : words]),
            {name: value[1:] for name, value in values.items() if value.startswith("=")},
        )
        position = words + len(VARIABLES)


# ------------------------------------------------------------------------------------------------------------- claims


def violations(script: ShellScript, ran: Ran) -> list[str]:
    """The interpreter's claims that a successful run refutes."""
    traced = [each for each in script.invocations if _name(each) in {*PROGRAMS, *QUESTIONS}]
    claims = [each for each in traced if each.certain]
    wrong: list[str] = []
    place = 0
    for claim in claims:
        if claim.background or claim.piped:
            if not any(covers(claim, call) for call in ran.calls):
                wrong.append(f"was not run: {shown(claim)}")
            continue
        found = next((at for at in range(place, len(ran.calls)) if covers(claim, ran.calls[at])), None)
        if found is None:
            wrong.append(f"was not run, or not there: {shown(claim)}")
        else:
            place = found + 1
    if script.complete and not any(_runs_anything(each) for each in script.invocations):
        wrong += [
            f"was not foreseen: {' '.join(map(repr, call.argv))} {dict(call.environment)}"
            for call in ran.calls
            if not any(covers(each, call) for each in script.invocations)
        ]
    return wrong


def covers(invocation: Invocation, call: Call) -> bool:
    """Whether an invocation, as far as it is known, can have been this call."""
    environment = invocation.environment
    if not _fits(invocation.argv, call.argv):
        return False
    return _name(invocation) is None or all(
        _may_be(environment[name], call.environment[name])
        if name in environment and name in call.environment
        else name not in call.environment and (name not in environment or environment[name].text is None)
        for name in VARIABLES
    )


def _fits(words: Sequence[Word], argv: Sequence[str]) -> bool:
    """Whether words can have become an argv.

    What is unknown, in whole or in part, is as a rule taken for one word, though it may be blank or have blanks in it:
    here it may be none or several.
    """
    reachable = {0}
    for word in words:
        starts = {at for at in reachable if at < len(argv) and _may_be(word, argv[at])}
        if word.many or (word.text is None and not word.possible and not word.prefix):
            reachable = set(range(min(reachable), len(argv) + 1))
        elif word.text is None and not word.possible and starts:
            reachable = set(range(min(starts) + 1, len(argv) + 1))
        else:
            reachable = {at + 1 for at in starts}
        if not reachable:
            return False
    return len(argv) in reachable


def _may_be(word: Word, text: str) -> bool:
    known = word.possible or ({word.text} if word.text is not None else None)
    if known is not None:
        return text in known or any(set(each) & set("*?[") and fnmatchcase(text, each) for each in known)
    return text.startswith(word.prefix)


def _name(invocation: Invocation) -> str | None:
    return invocation.argv[0].text if invocation.argv else None


def _runs_anything(invocation: Invocation) -> bool:
    """Whether the interpreter says that it could not follow what is run here."""
    return _name(invocation) in {"eval", "source", ".", "bash", "sh", "exec", "trap"}


def shown(invocation: Invocation) -> str:
    """An invocation in one line."""
    environment = {name: str(word) for name, word in invocation.environment.items() if name in VARIABLES}
    line = invocation.span.line if invocation.span is not None else "?"
    return f"line {line}: {' '.join(repr(str(word)) + '*' * word.many for word in invocation.argv)} {environment}"


def compared(source: str, world: World, programs: Path) -> tuple[str, list[str]]:
    """What came of a script, and what a run of bash refutes of the claims about it; nothing where none apply."""
    source = f"{source}\n:\n"
    seen = {name: None if name in world.hidden else value for name, value in world.environment.items()}
    script = read_script(source, environment=seen, gpus_per_node=GPUS)
    if script.syntax_issues:
        return "not understood", []
    ran = run(source, world, programs)
    if ran is None or not ran.successful:
        return "no successful run", []
    return "followed" if script.complete else "cut short", violations(script, ran)


__all__ = ["BASH", "World", "compared", "run", "shown", "violations", "write_programs"]
