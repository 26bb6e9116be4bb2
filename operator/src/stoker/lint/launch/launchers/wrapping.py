"""Command-line tools that start torchrun by themselves, with counts from variables of their own."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    environment_count,
    finished,
    granted,
    is_set,
    times,
    visible_devices,
)
from stoker.lint.launch.launchers.programs import unknown_counts
from stoker.lint.launch.launchers.torch_elastic import per_node_meaning
from stoker.lint.launch.model import Count, CountSource, Launch, Launcher
from stoker.shell.model import Invocation, Word

PER_NODE, NODES = "NPROC_PER_NODE", "NNODES"


def llama_factory(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`llamafactory-cli train`: torchrun where there are several GPUs, one process for each unless NPROC_PER_NODE says.

    Its nodes come from NNODES alone: without it each pod trains for itself.
    """
    if not words or words[0].text != "train" or is_set(invocation.environment.get("USE_RAY")):
        return unknown_counts(Launcher.OTHER)(invocation, words, context)
    per_node = environment_count(invocation, PER_NODE) or granted(visible_devices(invocation), context)
    nodes = environment_count(invocation, NODES) or ONE
    return _launch(Launcher.LLAMA_FACTORY, invocation, words, per_node, nodes)


SWIFT_TRAINS = frozenset({"sft", "pt", "rlhf", "dpo", "orpo", "simpo", "kto", "cpo"})


def swift(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`swift sft`: torchrun where NPROC_PER_NODE or NNODES is set, else one process that may drive all GPUs.

    What these two don't say, torchrun takes from `PET_*` or its defaults. With fewer processes than GPUs each of them
    spreads its model over several.
    """
    trains = bool(words) and words[0].text in SWIFT_TRAINS
    per_node, nodes = environment_count(invocation, PER_NODE), environment_count(invocation, NODES)
    if not trains or (per_node is None and nodes is None):
        return unknown_counts(Launcher.OTHER)(invocation, words, context)
    meaning = per_node_meaning(context, visible_devices(invocation))
    per_node = per_node or environment_count(invocation, f"PET_{PER_NODE}", meaning) or ONE
    nodes = nodes or environment_count(invocation, f"PET_{NODES}") or ONE
    return replace(_launch(Launcher.SWIFT, invocation, words, per_node, nodes), one_device_per_process=False)


def xtuner(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`xtuner train`: torchrun with NPROC_PER_NODE and NNODES, one process where neither is set."""
    per_node, nodes = environment_count(invocation, PER_NODE), environment_count(invocation, NODES)
    if not words or words[0].text != "train" or (per_node is None and nodes is None):
        return unknown_counts(Launcher.OTHER)(invocation, words, context)
    return _launch(Launcher.XTUNER, invocation, words, per_node or ONE, nodes or ONE)


def mim(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`mim train PACKAGE CONFIG --launcher pytorch --gpus 8`: torch.distributed.launch with so many processes."""
    launcher, count = "", ONE
    for word, following in pairwise([*words, Word.known("")]):
        name, equals, value = (word.text or "").partition("=")
        if name in ("--launcher", "-l"):
            launcher = value if equals else following.text or ""
        elif name in ("--gpus", "-G"):
            number = value if equals else following.text or ""
            possible = frozenset({int(number)}) if number.isdecimal() and len(number) < 5 else None
            written = (word,) if equals else (word, following)
            count = Count(possible=possible, source=CountSource.OPTION, words=written)
    if launcher != "pytorch" or any(word.many for word in words):
        return unknown_counts(Launcher.OTHER)(invocation, words, context)
    return _launch(Launcher.TORCH_DISTRIBUTED_LAUNCH, invocation, words, count, ONE)


def torchx(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`torchx run -s local_cwd dist.ddp -j 1xPROCESSES` starts them here; other schedulers start them elsewhere."""
    texts = [word.text or "" for word in words]
    pairs = dict(pairwise(texts))
    scheduler = pairs.get("-s") or pairs.get("--scheduler") or ""
    shape = pairs.get("-j", "")
    nodes, times_sign, per_node = shape.partition("x")
    known = nodes == "1" and times_sign and per_node.isdecimal() and len(shape) < 8
    if not scheduler.startswith("local") or "dist.ddp" not in texts or not known:
        return unknown_counts(Launcher.OTHER)(invocation, words, context)
    index = texts.index("-j")
    written = tuple(words[index : index + 2])
    count = Count(possible=frozenset({int(per_node)}), source=CountSource.OPTION, words=written)
    return _launch(Launcher.TORCHRUN, invocation, words, count, ONE)


SCRIPTS = {"dist_train.sh": 1, "dist_test.sh": 2, "distributed_train.sh": 0}
"""Launch scripts that whole families of repositories have alike, and which of their arguments is the number of GPUs:
OpenMMLab's `tools/dist_train.sh CONFIG GPUS` and `tools/dist_test.sh CONFIG CHECKPOINT GPUS`, timm's
`distributed_train.sh GPUS`.
"""


def script(invocation: Invocation, words: Sequence[Word]) -> Launch | None:
    """A launch by one of these scripts, from its path on; None for another script, or where the number is not known.

    Nobody has read the script, so that nothing is certain about its processes.
    """
    name = (words[0].text or "").rsplit("/", 1)[-1] if words else ""
    at = SCRIPTS.get(name, len(words)) + 1
    number = (words[at].text or "") if at < len(words) else ""
    if not number.isdecimal() or len(number) > 3 or any(word.many for word in words[:at]):
        return None
    count = Count(possible=frozenset({int(number)}), source=CountSource.OPTION, words=tuple(words[: at + 1]))
    nodes = environment_count(invocation, NODES) or UNKNOWN
    launch = _launch(Launcher.TORCH_DISTRIBUTED_LAUNCH, invocation, words[1:], count, nodes)
    return replace(launch, program=(words[0],), one_device_per_process=False)


def _launch(launcher: Launcher, invocation: Invocation, words: Sequence[Word], per_node: Count, nodes: Count) -> Launch:
    launch = Launch(
        launcher=launcher,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=times(per_node, nodes),
        explicit=bool(per_node.words),
        one_device_per_process=True,
        program=tuple(invocation.argv[:1]),
        arguments=tuple(words),
        devices=visible_devices(invocation),
    )
    return finished(launch, one_device=True)
