"""What a command substitution gives, where that is certain without running anything."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.subjects import shell_text
from stoker.subjects.shell_expansion import Field
from stoker.subjects.shell_text import Text, Value

MAX_NUMBERS = 256
MAX_DIGITS = 12

PRODUCERS = frozenset(
    {"echo", "printf", "seq", "cat", "nvidia-smi", "hostname", "pwd", "basename", "dirname", "expr", "nproc", "date",
     "python", "python3", "rocm-smi", "id", "whoami", "mktemp", "which", "uname"}
)  # fmt: skip
FILTERS = frozenset({"wc", "tr", "head", "tail", "cut", "xargs", "grep", "awk", "sed", "sort", "uniq"})


@dataclass(frozen=True, slots=True)
class Lines:
    """Output of which only the number of lines is known."""

    count: Value


Stream = Value | Lines


def pipeline(
    commands: Sequence[Sequence[Field]], *, gpus: int | None, files: Mapping[str, Text | None]
) -> Value | None:
    """The output of a pipeline of known tools, None if it isn't one. Unknown output is a hole that names its tool."""
    stream = _produce(commands[0], gpus, files)
    for command in commands[1:]:
        if stream is None:
            return None
        stream = _filter(command, stream)
    return None if stream is None or isinstance(stream, Lines) else stream


def _texts(command: Sequence[Field]) -> list[str] | None:
    texts = [field.text for field in command]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _produce(command: Sequence[Field], gpus: int | None, files: Mapping[str, Text | None]) -> Stream | None:
    name = (command[0].text or "").rsplit("/", 1)[-1] if command else ""
    granted = shell_text.hole(["$(nvidia-smi)"]) if gpus is None else shell_text.literal(str(gpus))
    arguments = command[1:]
    texts = _texts(arguments)
    match name:
        case "echo":
            flags = 0
            while flags < len(arguments) and arguments[flags].text in ("-n", "-e", "-ne"):
                flags += 1
            parts: list[Value] = []
            for index, field in enumerate(arguments[flags:]):
                if index:
                    parts.append(shell_text.literal(" "))
                parts.append(shell_text.hole(many=True) if field.many else field.value)
            return shell_text.concatenate(parts)
        case "printf" if texts and texts[0] in ("%s", "%s\\n", "%d", "%d\\n") and len(texts) == 2:
            return shell_text.literal(texts[1])
        case "seq" if texts:
            return _sequence(texts)
        case "cat" if texts and len(texts) == 1 and files.get(texts[0]) is not None:
            content = files[texts[0]]
            assert content is not None
            return (content,)
        case "basename" if texts and len(texts) <= 2:
            base = posixpath.basename(texts[0].rstrip("/"))
            return shell_text.literal(base.removesuffix(texts[1]) if len(texts) == 2 else base)
        case "dirname" if texts and len(texts) == 1:
            return shell_text.literal(posixpath.dirname(texts[0].rstrip("/")) or ".")
        case "nvidia-smi":
            if texts is None:
                return None
            listing = any(text in ("-L", "--list-gpus") for text in texts)
            query = any(text.startswith("--query-gpu") for text in texts)
            headless = any(text.startswith("--format") and "noheader" in text for text in texts)
            selected = any(text in ("-i", "--id") or text.startswith(("-i=", "--id=")) for text in texts)
            return Lines(granted) if (listing or (query and headless)) and not selected else None
        case "python" | "python3" if texts and len(texts) == 2 and texts[0] == "-c":
            compact = "".join(texts[1].split())
            if compact in (
                "importtorch;print(torch.cuda.device_count())",
                "importtorch;print(torch.cuda.device_count(),end='')",
            ):
                return granted
            return None
        case "which" if texts and len(texts) == 1 and "/" not in texts[0]:
            return shell_text.literal(f"/usr/bin/{texts[0]}")  # the directory matters to nobody here
        case "hostname":
            return shell_text.hole(["HOSTNAME"])
        case _:
            return None


def _sequence(texts: list[str]) -> Value | None:
    separator = "\n"
    if texts[0] == "-s" and len(texts) > 2:
        separator, texts = texts[1], texts[2:]
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
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step) if step else range(0)
    return shell_text.literal(separator.join(map(str, values))) if len(values) <= MAX_NUMBERS else None


def _filter(command: Sequence[Field], stream: Stream) -> Stream | None:
    texts = _texts(command)
    if not texts:
        return None
    name, arguments = texts[0].rsplit("/", 1)[-1], texts[1:]
    if isinstance(stream, Lines):
        if (name == "wc" and arguments in (["-l"], ["--lines"])) or (
            name == "grep"
            and arguments[:1] in (["-c"], ["--count"])
            and arguments[1:] in (["GPU"], ["."], [""], ["UUID"])
        ):
            return stream.count
        if name in ("sort", "cat") or (name == "grep" and arguments == ["GPU"]):
            return stream
        return None
    known = shell_text.single(stream)
    if known is None:
        return None
    text = known.rstrip("\n")
    lines = text.split("\n") if text else []
    match name, arguments:
        case "wc", ["-l"]:
            return shell_text.literal(str(len(lines)))
        case "wc", ["-w"]:
            return shell_text.literal(str(len(text.split())))
        case "tr", [source, target] if len(source.replace("\\n", "\n")) == 1 and not source.startswith("-"):
            return shell_text.literal(text.replace(source.replace("\\n", "\n"), target.replace("\\n", "\n")))
        case "tr", ["-d", source] if not any(each in source for each in "[]-"):
            return shell_text.literal("".join(each for each in text if each not in source))
        case "tr", ["-cd", "," as kept]:
            return shell_text.literal("".join(each for each in text if each in kept))
        case "wc", ["-c"]:
            return shell_text.literal(str(len(known.encode("utf-8", "replace"))))
        case "head", ["-1"] | ["-n", "1"] | ["-n1"]:
            return shell_text.literal(lines[0] if lines else "")
        case "tail", ["-1"] | ["-n", "1"] | ["-n1"]:
            return shell_text.literal(lines[-1] if lines else "")
        case "xargs", []:
            return shell_text.literal(" ".join(text.split()))
        case "grep", ["-o", "," as kept]:
            return shell_text.literal("\n".join(each for each in text if each in kept))
        case "cut", [separator, chosen]:
            return _cut(lines, separator, chosen)
        case "cut", ["-d", separator, "-f", chosen]:
            return _cut(lines, "-d" + separator, "-f" + chosen)
        case "awk", ["-F", separator, "{print NF}"] if len(lines) == 1 and len(separator) == 1:
            return shell_text.literal(str(len(text.split(separator))))
        case "awk", [separator, "{print NF}"] if len(lines) == 1 and separator.startswith("-F") and len(separator) == 3:
            return shell_text.literal(str(len(text.split(separator[2:]))))
        case _:
            return None


def _cut(lines: list[str], separator: str, chosen: str) -> Value | None:
    if not separator.startswith("-d") or not chosen.startswith("-f") or not chosen[2:].isdecimal() or not separator[2:]:
        return None
    index = int(chosen[2:6]) - 1
    cut: list[str] = []
    for line in lines:
        parts = line.split(separator[2:])
        cut.append(line if len(parts) == 1 else parts[index] if 0 <= index < len(parts) else "")
    return shell_text.literal("\n".join(cut))
