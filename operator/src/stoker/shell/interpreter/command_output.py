"""What a command prints, where that is certain without running anything: `echo`, `seq`, `wc`, `cut`, `nvidia-smi`, ...

Output is exact: a line ends in its newline, and one without it has none.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.shell.interpreter import arithmetic, values
from stoker.shell.interpreter.arithmetic import ArithmeticUnknownError
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.quoting import ansi
from stoker.shell.interpreter.values import Text, Value
from stoker.shell.words import count_visible_devices

MAX_NUMBERS = 256
"""Numbers that `seq` prints; chosen because loops over more are not unrolled anyway (see loops.MAX_UNROLL)."""
MAX_DIGITS = 12
"""Digits of a number; chosen because nobody counts further."""
MAX_PRINTED = 65_536
"""Characters that a command prints: the longest script of a DLJob."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The pod that commands run in.

    gpus: GPUs granted to it, None = unknown. visible: CUDA_VISIBLE_DEVICES in force, None = not set.
    files: texts of known files by normalized path (None: there is one, its text is unknown).
    """

    gpus: int | None
    visible: Value | None
    files: Mapping[str, Text | None]

    @property
    def granted(self) -> Value:
        return values.hole(["$(nvidia-smi)"]) if self.gpus is None else values.literal(str(self.gpus))

    def seen(self) -> Value:
        """How many devices a CUDA program counts."""
        if self.visible is None or self.gpus is None:
            return self.granted
        text = values.single(self.visible)
        number = None if text is None else count_visible_devices(text, self.gpus)
        return values.hole(["CUDA_VISIBLE_DEVICES"]) if number is None else values.literal(str(number))

    def file(self, path: str) -> Text | None:
        """A file's text, None if it isn't known."""
        return self.files.get(posixpath.normpath(path))


@dataclass(frozen=True, slots=True)
class Lines:
    """Output of which only the number of lines is known: one for each GPU, and some more."""

    gpus: Value
    more: int = 0

    def count(self) -> Value:
        text = values.single(self.gpus)
        if text is None:
            return self.gpus if self.more == 0 else values.hole(values.names(self.gpus))
        return values.literal(str(int(text) + self.more))


Stream = Value | Lines


def pipeline(commands: Sequence[Sequence[Field]], machine: Machine, stdin: Value | None = None) -> Value | None:
    """The output of a pipeline of known tools, None if it isn't one. Unknown output is a hole that names its tool.

    stdin: what the first of them reads.
    """
    stream: Stream | None = None if stdin is None else _filter(commands[0], stdin, machine)
    if stream is None:
        stream = _produce(commands[0], machine)
    for command in commands[1:]:
        if stream is None:
            return None
        stream = _filter(command, stream, machine)
    return None if stream is None or isinstance(stream, Lines) else stream


def _texts(command: Sequence[Field]) -> list[str] | None:
    texts = [None if field.globs else field.text for field in command]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _line(value: Value) -> Value:
    return values.concatenate([value, values.literal("\n")])


# ------------------------------------------------------------------------------------------------------------ producers


def _produce(command: Sequence[Field], machine: Machine) -> Stream | None:
    name = (command[0].text or "").rsplit("/", 1)[-1] if command else ""
    arguments = command[1:]
    texts = _texts(arguments)
    match name:
        case "echo":
            return _echo(arguments)
        case "printf" if (text := printed(arguments)) is not None:
            return values.literal(text)
        case "seq" if texts:
            return _sequence(texts)
        case "cat" if texts and not any(text.startswith("-") for text in texts):
            contents = [machine.file(text) for text in texts]
            known = [content for content in contents if content is not None]
            return values.concatenate([(content,) for content in known]) if len(known) == len(contents) else None
        case "basename" if texts and len(texts) <= 2:
            base = posixpath.basename(texts[0].rstrip("/"))
            return values.literal((base.removesuffix(texts[1]) if len(texts) == 2 else base) + "\n")
        case "dirname" if texts and len(texts) == 1:
            return values.literal((posixpath.dirname(texts[0].rstrip("/")) or ".") + "\n")
        case "expr" if texts and len(texts) == 3 and texts[1] in ("+", "-", "*", "/", "%"):
            return _calculated(" ".join(texts))
        case "nvidia-smi" if texts:
            return _devices(texts, machine)
        case "ls" if [each.text for each in arguments if not (each.text or "").startswith("-")] in (
            ["/dev/nvidia[0-9]*"], ["/dev/nvidia[0-9]"], ["/dev/nvidia?"],
        ):  # fmt: skip
            return Lines(machine.granted)
        case "python" | "python3" if texts and len(texts) == 2 and texts[0] == "-c":
            return _python(texts[1], machine)
        case "which" if texts and len(texts) == 1 and "/" not in texts[0]:
            return values.literal(f"/usr/bin/{texts[0]}\n")  # the directory matters to nobody here
        case "hostname":
            return values.hole(["HOSTNAME"])
        case _ if texts and (content := machine.file(texts[-1])) is not None:
            # `wc -l hosts`, `awk '{print $1}' x`: a filter of a file.
            counted = _filter(command[:-1], (content,), machine)
            if name == "wc" and counted is not None and not isinstance(counted, Lines):
                return values.concatenate([values.trim_end(counted), values.literal(f" {texts[-1]}\n")])
            return counted
        case _:
            return None


def _echo(arguments: Sequence[Field]) -> Value | None:
    flags = ""
    words = list(arguments)
    while words and re.fullmatch(r"-[neE]+", words[0].text or ""):
        flags += (words.pop(0).text or "")[1:]
    parts: list[Value] = []
    after_word = False
    for field in words:
        # How many words it becomes is not known; of none the blank is not printed either, so it is part of the hole.
        is_word = not (field.many or field.globs)
        if is_word and after_word:
            parts.append(values.literal(" "))
        parts.append(field.value if is_word else values.hole(many=True))
        after_word = is_word
    value = values.concatenate(parts) if parts else values.EMPTY
    if any("\\" in (fragment.text or "") for text in value for fragment in text):
        # What bash's echo prints as it stands is an escape to the one of other shells.
        text = values.single(value)
        if "e" not in flags or text is None:
            return None
        value = values.literal(ansi(text))
    return value if "n" in flags else _line(value)


_FORMAT = re.compile(r"%(?:%|(-?)(0?)(\d{0,3})([sdi]))")


def printed(arguments: Sequence[Field]) -> str | None:
    """What `printf` prints; None if it can't be followed. The format is used again until no words are left."""
    texts = [each.text for each in arguments if not each.globs]
    words = [text for text in texts if text is not None]
    if not words or len(words) != len(arguments):
        return None
    form, rest = words[0], words[1:]
    form = form if form != "--" else ""
    slots = [match for match in _FORMAT.finditer(form) if match[4]]
    if not form or re.search(r"%|\\[0-9xuUc]", _FORMAT.sub("", form)) is not None:
        return None
    result: list[str] = []
    size = 0
    while True:
        taken, rest = rest[: len(slots)], rest[len(slots) :]
        arguments_left = iter([*taken, *[None] * (len(slots) - len(taken))])
        position = 0
        for match in _FORMAT.finditer(form):
            result.append(ansi(form[position : match.start()]))
            position = match.end()
            if not match[4]:
                result.append("%")
                continue
            value = next(arguments_left)
            if match[4] != "s" and not re.fullmatch(r"-?\d{1,12}", value or "0"):
                return None
            text = (value or "") if match[4] == "s" else str(int(value or "0"))
            width = int(match[3] or 0)
            filled = text.zfill(width) if match[2] and match[4] != "s" else text.rjust(width)
            result.append(text.ljust(width) if match[1] else filled)
        result.append(ansi(form[position:]))
        size += sum(map(len, result[-2 * len(slots) - 2 :]))
        if size > MAX_PRINTED:
            return None
        if not rest or not slots:
            return "".join(result)


def _sequence(texts: list[str]) -> Value | None:
    if any(len(text) > MAX_DIGITS for text in texts):
        return None
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3:
        return None
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    numbers_printed = range(first, numbers[-1] + (1 if step > 0 else -1), step) if step else range(0)
    if len(numbers_printed) > MAX_NUMBERS:
        return None
    return values.literal("".join(f"{number}\n" for number in numbers_printed))


def _calculated(expression: str) -> Value | None:
    """What `expr` prints."""

    def unknown(_name: str) -> int:
        raise ArithmeticUnknownError

    def refuse(_name: str, _value: int) -> None:
        raise ArithmeticUnknownError

    try:
        return values.literal(f"{arithmetic.evaluate(expression, unknown, refuse)}\n")
    except ArithmeticUnknownError:
        return None


def _devices(texts: list[str], machine: Machine) -> Stream | None:
    """nvidia-smi lists a pod's GPUs from 0 on, whatever CUDA_VISIBLE_DEVICES says."""
    if any(text in ("-i", "--id") or text.startswith(("-i=", "--id=")) for text in texts):
        return None
    if any(text in ("-L", "--list-gpus") for text in texts):
        return Lines(machine.granted)
    query = next((text.partition("=")[2] for text in texts if text.startswith("--query-gpu=")), None)
    form = next((text.partition("=")[2] for text in texts if text.startswith("--format=")), "")
    if query is None or "csv" not in form.split(","):
        return None
    if "noheader" not in form.split(","):
        return Lines(machine.granted, more=1)
    if query in ("index", "count") and machine.gpus is not None and machine.gpus <= MAX_NUMBERS:
        numbers = range(machine.gpus) if query == "index" else [machine.gpus] * machine.gpus
        return values.literal("".join(f"{number}\n" for number in numbers))
    return Lines(machine.granted)


_COUNTS_DEVICES = re.compile(
    r"(?:import[\w.,]+;|fromtorchimportcuda;)*print\((?:"
    r"(?:torch\.)?cuda\.device_count\(\)|jax\.(?:local_)?device_count\(\)|"
    r"len\((?:tf|tensorflow)\.config\.(?:experimental\.)?list_physical_devices\(['\"]GPU['\"]\)\)"
    r")(?:,end=['\"]{2})?\);?"
)
_COUNTS_PARTS = re.compile(r"print\(len\((['\"])([\d,]*)\1\.split\((['\"]),\3\)\)\);?")


def _python(program: str, machine: Machine) -> Value | None:
    """The one-liners by which scripts count GPUs."""
    compact = "".join(program.strip().replace("\n", ";").split()).replace("torchascuda", "torch")
    if _COUNTS_DEVICES.fullmatch(re.sub(r"(?<=import)tensorflowastf(?=;)", "tensorflow", compact)):
        return _line(machine.seen())
    parts = _COUNTS_PARTS.fullmatch(compact)
    return values.literal(f"{len(parts[2].split(','))}\n") if parts is not None else None


# -------------------------------------------------------------------------------------------------------------- filters


def _filter(command: Sequence[Field], stream: Stream, machine: Machine) -> Stream | None:
    texts = [each.text for each in command]
    if not texts or None in texts:
        return None
    name, *arguments = [text or "" for text in texts]
    name = name.rsplit("/", 1)[-1]
    if isinstance(stream, Lines):
        return _filter_lines(name, arguments, stream)
    if name in ("cat", "tee"):
        return stream if name == "tee" or arguments in ([], ["-"]) else None
    results: list[Value] = []
    for each in stream:
        text = values.known_text(each)
        transformed = None if text is None or len(text) > MAX_PRINTED else _transformed(name, arguments, text)
        if transformed is None:
            return None
        results.append(values.literal(transformed))
    return values.union(results)


def _filter_lines(name: str, arguments: list[str], stream: Lines) -> Stream | None:
    if (name == "wc" and arguments in (["-l"], ["--lines"])) or (name == "awk" and arguments == ["END{print NR}"]):
        return _line(stream.count())
    if name in ("sort", "cat", "tee"):
        return stream
    if name == "tail" and arguments in (["-n", "+2"], ["-n+2"], ["+2"]) and stream.more:
        return replace(stream, more=stream.more - 1)
    if name == "sed" and arguments in (["1d"], ["-e", "1d"]) and stream.more:
        return replace(stream, more=stream.more - 1)
    if name == "grep" and not stream.more and arguments[-1:] in (["GPU"], ["^GPU"], ["UUID"], ["."], [""], ["nvidia"]):
        if arguments[:-1] in (["-c"], ["--count"]):
            return _line(stream.count())
        return stream if arguments[:-1] == [] else None
    return None


def _transformed(name: str, arguments: list[str], text: str) -> str | None:
    """What a filter makes of a text; None for other filters and options."""
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    transform = _TRANSFORMS.get(name)
    return None if transform is None else transform(arguments, text, lines)


def _ended(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _wc(arguments: list[str], text: str, lines: list[str]) -> str | None:
    del lines
    match arguments:
        case ["-l"] | ["--lines"]:
            return f"{text.count(chr(10))}\n"
        case ["-w"] | ["--words"]:
            return f"{len(text.split())}\n"
        case _:
            return None


def _tr(arguments: list[str], text: str, lines: list[str]) -> str | None:
    del lines
    sets = [ansi(each) for each in arguments if not each.startswith("-") or len(each) == 1]
    if len(sets) != len(arguments) or [len(each) for each in sets] != [1, 1]:
        return None
    return text.replace(sets[0], sets[1])


def _awk(arguments: list[str], text: str, lines: list[str]) -> str | None:
    del text
    joined = " ".join(arguments[:-1])
    program = "".join(arguments[-1].split()) if arguments else ""
    begin = re.match(r'BEGIN\{FS="(.)"\};?', program)
    separator = begin[1] if begin is not None else None
    program = program[begin.end() :] if begin is not None else program
    option = re.fullmatch(r"(?:-F|-v FS=) ?(.)", joined)
    if joined and option is None:
        return None
    separator = option[1] if option is not None else separator
    if program == "END{printNR}":
        return f"{len(lines)}\n"
    field = re.fullmatch(r"\{print(NF|\$\d{1,3}|\$NF);?\}", program)
    if field is None:
        return None
    result: list[str] = []
    for line in lines:
        # An empty line has no field, whatever separates them.
        parts = line.split(None if separator == " " else separator) if line else []
        index = len(parts) if field[1] == "$NF" else int(field[1][1:]) if field[1] != "NF" else 0
        chosen = line if index == 0 else parts[index - 1] if index <= len(parts) else ""
        result.append(str(len(parts)) if field[1] == "NF" else chosen)
    return _ended(result)


def _cut(arguments: list[str], text: str, lines: list[str]) -> str | None:
    del text
    match = re.fullmatch(r"-d ?(.) -f ?(\d{1,3})(-?)", " ".join(arguments))
    if match is None or match[2] == "0":
        return None
    index = int(match[2]) - 1
    result: list[str] = []
    for line in lines:
        parts = line.split(match[1])
        chosen = match[1].join(parts[index:]) if match[3] else parts[index] if index < len(parts) else ""
        result.append(line if len(parts) == 1 else chosen)
    return _ended(result)


_TRANSFORMS: Mapping[str, Callable[[list[str], str, list[str]], str | None]] = {
    "wc": _wc,
    "tr": _tr,
    "awk": _awk,
    "gawk": _awk,
    "cut": _cut,
}
