"""What launchers' readers share: counts of processes and devices, parallel sizes, and where the program begins."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import takewhile

from stoker.lint.launch.model import Count, CountSource, Devices, Launch
from stoker.lint.launch.options import Interpretation, Options, count_of, integer, tail
from stoker.lint.word_lists.loader import word_lists
from stoker.shell import words
from stoker.shell.model import Invocation, Word


def words_of(text: str) -> frozenset[str]:
    """A table of words."""
    return frozenset(text.split())


ONE = Count(possible=frozenset({1}), source=CountSource.DEFAULT)


UNKNOWN = Count(possible=None, source=CountSource.UNKNOWN)


@cache
def parallelism_options() -> Mapping[str, str]:
    """Names of options, with _ for -, and the parallel size that each sets: tensor, pipeline, context, ..."""
    sizes = (size for one in word_lists("launchers") for size in one.get("parallelism", {}).items())
    return {name: kind for kind, names in sizes for name in names}


_LOCAL = re.compile(r"^(localhost|127\.0\.0\.1|0\.0\.0\.0|::1|\[::1\])(:\d*)?$")


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What a launcher can learn of its job.

    files: what the container finds beside the files that the script writes, by path.
    """

    nodes: int
    gpus_per_node: int
    files: Mapping[str, str]

    def file(self, invocation: Invocation, word: Word | None) -> str | None:
        """The text of the file that a word names, None if it can't be seen."""
        if word is None or word.text is None:
            return None
        return invocation.files.get(word.text, self.files.get(word.text))


LaunchReader = Callable[[Invocation, Sequence[Word], LaunchContext], Launch]


def visible_devices(invocation: Invocation) -> Devices | None:
    """CUDA_VISIBLE_DEVICES in force, None where nothing sets it."""
    for name in words.VISIBLE_DEVICES:
        word = invocation.environment.get(name)
        if word is not None:
            return devices_of(word)
    return None


def devices_of(word: Word) -> Devices:
    """The devices of "0,1", "", "-1", "GPU-3a...", as CUDA reads them."""
    if word.text is None:
        return Devices(word=word, indices=None)
    found = words.visible_devices(word.text)
    return Devices(word=word, indices=found.indices, identifiers=found.identifiers)


def granted(devices: Devices | None, context: LaunchContext) -> Count:
    """As many processes as there are visible GPUs: CUDA ends the list at the first device that is not there."""
    if devices is None:
        return Count(possible=frozenset({context.gpus_per_node}), source=CountSource.DEVICES)
    count = devices.count
    if count is not None and devices.indices is not None and not devices.identifiers:
        count = sum(1 for _ in takewhile(lambda index: index < context.gpus_per_node, devices.indices))
    if count is None:
        return Count(possible=None, source=CountSource.DEVICES, words=(devices.word,))
    return Count(possible=frozenset({count}), source=CountSource.DEVICES, words=(devices.word,))


def times(left: Count, right: Count) -> Count:
    """The product of every possible pair."""
    if left.possible is None or right.possible is None or len(left.possible) * len(right.possible) > 256:
        return replace(UNKNOWN, source=CountSource.DERIVED)
    possible = frozenset(one * other for one in left.possible for other in right.possible)
    return Count(possible=possible, source=CountSource.DERIVED, words=(*left.words, *right.words))


def shared(total: Count, nodes: Count) -> Count:
    """A total over nodes; unknown where it doesn't divide."""
    if total.possible is None or nodes.possible is None or 0 in nodes.possible:
        return replace(UNKNOWN, source=CountSource.DERIVED, words=total.words)
    if any(one % other for one in total.possible for other in nodes.possible):
        return replace(UNKNOWN, source=CountSource.DERIVED, words=total.words)
    possible = frozenset(one // other for one in total.possible for other in nodes.possible)
    return Count(possible=possible, source=CountSource.DERIVED, words=total.words)


def product(factors: Sequence[Count]) -> Count:
    """The product of all; one of none."""
    return reduce(times, factors) if factors else ONE


def program_of(rest: Sequence[Word]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The program's words and its arguments: `train.py ...`, `-m pkg.train ...`, `python train.py ...`."""
    if not rest:
        return (), ()
    if rest[0].text in ("-m", "-c", "--module", "--no_python", "--no-python") and len(rest) > 1:
        return tuple(rest[:2]), tuple(rest[2:])
    return (rest[0],), tuple(rest[1:])


def with_module(options: Options) -> tuple[Word, ...]:
    """The program's words; `-m` belongs to them."""
    option = options.last("module")
    if option is None:
        return options.rest
    rest = options.rest
    return rest if rest and rest[0].text in ("-m", "--module") else (Word.known("-m", option.words[0].span), *rest)


def takes_rank(options: Options, program: Sequence[Word]) -> bool:
    """Whether each process takes the device of its rank: with `--no_python`, a program of any kind need not."""
    name = (program[0].text if program else None) or ""
    return not options.has("no_python") or name.rsplit("/", 1)[-1].startswith("python")


def parallelism(arguments: Sequence[Word]) -> dict[str, Count]:
    """Parallel sizes among a program's arguments: `--tensor-parallel-size 4`, `model.tp_size=2`, `-tp 2`."""
    return counts_named(arguments, parallelism_options())


def counts_named(arguments: Sequence[Word], kinds: Mapping[str, str]) -> dict[str, Count]:
    """Numbers among a program's arguments by kind; `kinds` are the options' names with `_` for `-`."""
    found: dict[str, Count] = {}
    for index, word in enumerate(arguments):
        head = word.text if word.text is not None else word.prefix
        name, equals, _ = head.partition("=")
        key = name.lstrip("-+").rsplit(".", 1)[-1].replace("-", "_").lower()
        kind = kinds.get(key)
        if kind is None or (not equals and not head.startswith("-")):
            continue
        if equals:
            value = tail(word, len(name) + 1)
            words: tuple[Word, ...] = (word,)
        elif index + 1 < len(arguments) and not arguments[index + 1].prefix.startswith("--"):
            value = arguments[index + 1]
            words = (word, arguments[index + 1])
        else:
            continue
        found[kind] = count_of(value, words, CountSource.OPTION)
    return found


def is_remote(word: Word | None) -> bool:
    """An address that isn't this pod's own; an unknown one counts as remote."""
    return word is not None and (word.text is None or (word.text != "" and _LOCAL.match(word.text) is None))


def environment_count(invocation: Invocation, name: str, meaning: Interpretation = integer) -> Count | None:
    """The count that an exported variable gives, with its assignment as the words; None where it isn't set."""
    word = invocation.environment.get(name)
    if word is None:
        return None
    count = count_of(word, (), CountSource.ENVIRONMENT, meaning=meaning, variable=name)
    if word.span is None:
        return count
    written = f"{name}={word.text}"
    assignment = Word.known(written, word.span) if word.text is not None else word
    return replace(count, words=(assignment,))


def is_set(word: Word | None) -> bool:
    """Whether a variable says yes."""
    return word is not None and word.text not in (None, "", "0", "false", "False")


def finished(launch: Launch, *, one_device: bool) -> Launch:
    """With the parallel sizes among its arguments, on which it hangs whether each process has one device."""
    sizes = {**launch.parallelism, **parallelism(launch.arguments)}
    launch = replace(launch, parallelism=sizes)
    return replace(launch, one_device_per_process=one_device and not launch.model_parallel)
