"""What kind of work a launch does, by whole words: of its program's name, and of what it is told to do (`--mode=test`).

Parts of words say nothing: `finetune.py` tunes no hyperparameters, `--eval-interval 500` is an option of a training,
and `lora_rank` is no rank. Used by rules that concern training, and pass over what pods do independently of each other.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

from stoker.lint.launch.names import parts_of, words_of
from stoker.lint.launch.plan import Launch
from stoker.lint.launch.queries import texts


class Work(StrEnum):
    """What a program does with its GPUs."""

    TRAINING = "training"
    INDEPENDENT = "independent"  # evaluation, inference, sweeps, serving, preparation: pods need not know of each other


_TRAINING = re.compile(r"(?:pre)?train(?:s|er|ing)?|finetun(?:e|er|ing)|sft|dpo|ppo|grpo|rlhf|orpo|kto|q?lora|fit")
_INDEPENDENT = re.compile(
    r"infer(?:s|ence|ences|encing|ring)?|generat(?:e|es|ion|or|ing)|predict(?:s|ion|ions|or|ing)?"
    r"|eval(?:s|uate|uates|uation|uator|uating)?|tests?|testing|sweep(?:s|er|ing)?|tun(?:e|er|ing)|hpo|optuna"
    r"|search(?:er)?|agents?|serv(?:e|er|ing)|embed(?:s|der|ding|dings)?|extract(?:s|ion|or|ing)?"
    r"|preprocess(?:es|ing|or)?|shard(?:s|ed|ing)?|(?:re)?rank(?:er|ing)?|bench(?:mark|marks|marking)?|stud(?:y|ies)"
    r"|trials?|sampl(?:e|er|ing)"
)
_NEUTRAL = frozenset({"main", "run", "cli", "app", "start", "launch", "entrypoint", "script"})
"""Names of programs that say nothing: then the folder's or the package's is asked."""

_ASKS = frozenset({"mode", "task", "action", "command", "stage", "phase"})
"""Options whose value says what to do."""
_CONFIGURES = frozenset({"config", "cfg", "recipe"})
"""Options whose value names a file that says what to do."""


def work_of(launch: Launch) -> Work | None:
    """What the launch does, by the first word of its program's name that tells; None where nothing tells.

    An argument that has the program do one thing alone comes first: `main.py evaluate`, `train.py --eval-only`.
    """
    told = next((work for work in _arguments_work(launch) if work is not None), None)
    return Work.INDEPENDENT if told is Work.INDEPENDENT else _name_work(launch) or told


def _name_work(launch: Launch) -> Work | None:
    for word in launch.program:
        for words in parts_of(word.text or word.prefix):
            if (work := _of_words(words)) is not None:
                return work
            if not _NEUTRAL.issuperset(words):
                break
    return None


def _arguments_work(launch: Launch) -> Iterator[Work | None]:
    """What each argument has the program do; None for an argument that has it do nothing else."""
    arguments = texts(launch)[len(launch.program) :]
    if arguments and not arguments[0].startswith("-") and "=" not in arguments[0]:
        yield _of_words(words_of(arguments[0]))
    for argument, following in pairwise([*arguments, ""]):
        name, equals, value = argument.partition("=")
        if not (name.startswith("-") or equals):
            continue
        words = words_of(name.lstrip("-").replace(".", "_"))
        if words and words[-1] in _ASKS | _CONFIGURES:
            yield _of_words(words_of(value if equals else following))
        elif _has_it_do_nothing_else(words, value, arguments):
            yield Work.INDEPENDENT


def _has_it_do_nothing_else(words: tuple[str, ...], value: str, arguments: list[str]) -> bool:
    """Whether an option is a switch to other work: `--eval`, `--test_only`, `--do_predict` without `--do_train`."""
    name = [word for word in words if word not in {"only", "do", "just"}]
    if value.lower() in {"false", "0", "no"} or len(name) != 1 or name[0] in _VALUES:
        return False
    options = (argument.partition("=")[0].lstrip("-") for argument in arguments if argument.startswith("-"))
    trains_too = any(words_of(option) in {("train",), ("do", "train")} for option in options)
    return _INDEPENDENT.fullmatch(name[0]) is not None and ("only" in words or not trains_too)


_VALUES = frozenset({"rank", "shard", "shards", "sample", "agent", "agents", "server", "trials", "study", "search"})
"""Words that as an option's name say which or how many, and not what to do."""


def _of_words(words: tuple[str, ...]) -> Work | None:
    for word in words:
        if _TRAINING.fullmatch(word):
            return Work.TRAINING
        if _INDEPENDENT.fullmatch(word):
            return Work.INDEPENDENT
    return None


__all__ = ["Work", "work_of"]
