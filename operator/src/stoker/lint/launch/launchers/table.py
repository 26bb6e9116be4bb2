"""Which program is a launcher, and who reads its command line: the word list `launchers`, with the readers it names.

Used by lint.launch.role, which asks for every command of a script.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from stoker.lint.launch.launchers import accelerate, deepspeed, mpi, one_node, torch_elastic, wrapping
from stoker.lint.launch.launchers.counts import LaunchReader
from stoker.lint.launch.launchers.programs import unknown_counts
from stoker.lint.launch.launchers.servers import server
from stoker.lint.launch.model import Launcher
from stoker.lint.word_lists.loader import WordList, word_lists

ANY_NUMBER = unknown_counts(Launcher.OTHER)
"""Reads programs that decide by themselves how many GPUs they use."""

READERS: Mapping[str, LaunchReader] = {
    "accelerate": accelerate.accelerate,
    "any-number-of-gpus": ANY_NUMBER,
    "composer": one_node.composer,
    "deepspeed": deepspeed.deepspeed,
    "fabric": one_node.fabric,
    "horovodrun": mpi.horovodrun,
    "lightning": unknown_counts(Launcher.LIGHTNING),
    "llama-factory": wrapping.llama_factory,
    "lmdeploy": server(Launcher.LMDEPLOY),
    "mim": wrapping.mim,
    "mpirun": mpi.mpirun,
    "paddle": one_node.paddle,
    "sglang": server(Launcher.SGLANG),
    "srun": mpi.srun,
    "swift": wrapping.swift,
    "text-generation-inference": server(Launcher.TGI),
    "torch-distributed-launch": torch_elastic.torch_launch,
    "torchrun": torch_elastic.torchrun,
    "torchx": wrapping.torchx,
    "triton": unknown_counts(Launcher.TRITON),
    "vllm": server(Launcher.VLLM),
    "xtuner": wrapping.xtuner,
}
"""The readers by the names that the word list has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchers:
    """Readers of command lines.

    commands: by the program's name. subcommands: by the name and the first word; what follows it is read. modules: of
    `python -m`, by the module.
    """

    commands: Mapping[str, LaunchReader]
    subcommands: Mapping[tuple[str, str], LaunchReader]
    modules: Mapping[str, LaunchReader]


@cache
def launchers() -> Launchers:
    """All launchers that are known. Raises WordListError where a site's list is broken."""
    return launchers_of(word_lists("launchers"))


def launchers_of(lists: Iterable[WordList]) -> Launchers:
    """The launchers of some word lists; of a name that is there twice the later entry counts."""
    commands: dict[str, LaunchReader] = {}
    subcommands: dict[tuple[str, str], LaunchReader] = {}
    modules: dict[str, LaunchReader] = {}
    for entry in (entry for one in lists for entry in one.get("launchers", ())):
        reader = READERS[entry["reader"]]
        commands |= dict.fromkeys(entry.get("commands", ()), reader)
        modules |= dict.fromkeys(entry.get("modules", ()), reader)
        for program, word in map(str.split, entry.get("subcommands", ())):
            subcommands[program, word] = reader
    return Launchers(commands=commands, subcommands=subcommands, modules=modules)
