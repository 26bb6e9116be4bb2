"""Inference servers: parallel sizes multiply to the GPUs that they use."""

from collections.abc import Sequence

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    LaunchReader,
    counts_named,
    environment_count,
    granted,
    parallelism,
    product,
    shared,
    visible_devices,
)
from stoker.lint.launch.model import RANKS, Launch, Launcher
from stoker.shell.model import Invocation, Word

_SERVERS = {
    Launcher.VLLM: ("tensor", "pipeline", "context", "data"),
    Launcher.SGLANG: ("tensor", "pipeline", "data"),
    Launcher.LMDEPLOY: ("tensor",),
    Launcher.TGI: ("tensor",),
}


_OF_NODES = {"nnodes": "nodes", "data_parallel_size_local": "local", "dpl": "local"}


def server(launcher: Launcher) -> LaunchReader:
    """vLLM, SGLang, LMDeploy, TGI: a server over tensor x pipeline x data parallel GPUs of all nodes that it knows of.

    vLLM's prefill context parallel size multiplies them, too. A local data parallel size counts on each node. SGLang's
    data parallel attention shares the tensor parallel GPUs; how LMDeploy's sizes go together is left open.
    """

    def reader(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
        sizes, of_nodes = parallelism(words), counts_named(words, _OF_NODES)
        devices = visible_devices(invocation)
        texts = {word.text for word in words}
        shards = environment_count(invocation, "NUM_SHARD") if launcher is Launcher.TGI else None
        if shards is not None and "tensor" not in sizes:
            sizes["tensor"] = shards
        kinds = [kind for kind in _SERVERS.get(launcher, ()) if kind in sizes]
        if "--enable-dp-attention" in texts:
            kinds = [kind for kind in kinds if kind != "data"]
        total, nodes = product([sizes[kind] for kind in kinds]), of_nodes.get("nodes", ONE)
        if launcher is Launcher.TGI and "tensor" not in sizes:
            whole = " --sharded false" in " ".join(["", *(word.text or "" for word in words)]).replace("=", " ")
            total = ONE if whole else granted(devices, context)
        unseen = any(word.many and not (word.names and word.names <= RANKS) for word in words) or any(
            (text or "").startswith("--config") for text in texts
        )
        shared_out = launcher is Launcher.LMDEPLOY and (sizes.keys() - {"tensor"} or "proxy" in texts)
        if launcher not in _SERVERS or unseen or shared_out:
            total = UNKNOWN
        per_node = total if nodes is ONE else shared(total, nodes)
        if "local" in of_nodes and total is not UNKNOWN:
            per_node = product([*(sizes[kind] for kind in kinds if kind != "data"), of_nodes["local"]])
            nodes = UNKNOWN
        return Launch(
            launcher=launcher,
            invocation=invocation,
            processes_per_node=per_node,
            nodes=nodes,
            total=total,
            explicit=bool(sizes),
            one_device_per_process=False,
            program=tuple(invocation.argv[:1]),
            arguments=tuple(words),
            parallelism=sizes,
            devices=devices,
        )

    return reader
