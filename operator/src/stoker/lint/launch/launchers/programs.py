"""Programs without a launcher, which drive any number of devices by themselves."""

import re
from collections.abc import Sequence

from stoker.lint.launch.launchers.counts import ONE, UNKNOWN, LaunchContext, LaunchReader, parallelism, visible_devices
from stoker.lint.launch.model import Launch, Launcher
from stoker.lint.launch.options import tail
from stoker.shell.model import Invocation, Word


def unknown_counts(launcher: Launcher) -> LaunchReader:
    """A program that decides by itself how many devices it uses."""

    def reader(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
        del context
        return Launch(
            launcher=launcher,
            invocation=invocation,
            processes_per_node=UNKNOWN,
            nodes=UNKNOWN,
            total=UNKNOWN,
            explicit=False,
            one_device_per_process=False,
            program=tuple(invocation.argv[:1]),
            arguments=tuple(words),
            parallelism=parallelism(words),
            devices=visible_devices(invocation),
        )

    return reader


def python(invocation: Invocation, program: tuple[Word, ...], arguments: tuple[Word, ...]) -> Launch:
    """A plain Python program: one process, which may drive any number of devices."""
    return Launch(
        launcher=Launcher.PYTHON,
        invocation=invocation,
        processes_per_node=ONE,
        nodes=ONE,
        total=ONE,
        explicit=False,
        one_device_per_process=False,
        program=program,
        arguments=arguments,
        parallelism=parallelism(arguments),
        devices=visible_devices(invocation),
    )


def python_program(words: Sequence[Word]) -> tuple[str, tuple[Word, ...]]:
    """What the Python interpreter is told to run, after its own options.

    ("-m", module and arguments), ("-c", text and arguments), ("file", script and arguments), ("-", arguments),
    ("", ()) for a bare interpreter, ("version", ()), ("?", ()) if unknown.
    """
    position = 0
    while position < len(words):
        text = words[position].text
        if text is None:
            return (
                ("?", ()) if words[position].many and len(words) == position + 1 else ("file", tuple(words[position:]))
            )
        if text == "-":
            return "-", tuple(words[position + 1 :])
        if not text.startswith("-"):
            return "file", tuple(words[position:])
        if text in ("-V", "-VV", "--version", "-h", "--help"):
            return "version", ()
        if text in ("-W", "-X", "-Q"):
            position += 2
            continue
        letter = re.fullmatch(r"-[uOBEsSIbqvxidP]*([mc])(.*)", text, re.DOTALL)
        if letter is not None:
            attached = (tail(words[position], len(text) - len(letter[2])),) if letter[2] else ()
            return f"-{letter[1]}", (*attached, *words[position + 1 :])
        position += 1
    return "", ()
