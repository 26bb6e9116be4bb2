"""Launchers that start one process for each GPU of their own node."""

from collections.abc import Sequence
from dataclasses import replace

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    devices_of,
    environment_count,
    finished,
    granted,
    is_remote,
    program_of,
    shared,
    times,
    visible_devices,
    words_of,
)
from stoker.lint.launch.launchers.torch_elastic import node_range
from stoker.lint.launch.model import Count, CountSource, Launch, Launcher
from stoker.lint.launch.options import Grammar, Options, count_of, read
from stoker.shell.model import Invocation, Word

_COMPOSER = Grammar(
    valued=words_of("nproc world_size base_rank node_rank master_addr master_port stdout stderr"),
    flags=words_of("module_mode command_mode verbose"),
    short={"-n": "nproc", "-m": "module_mode", "-c": "command_mode", "-v": "verbose"},
)


_PADDLE = Grammar(
    valued=words_of(
        "master rank log_level nnodes nproc_per_node log_dir run_mode job_id devices gpus xpus host servers trainers "
        "trainer_num server_num ips elastic_level max_restart"
    ),
)


_FABRIC = Grammar(
    valued=words_of("accelerator strategy devices num_nodes node_rank main_address main_port precision"),
)


def composer(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """MosaicML's composer: one process for each GPU unless `-n` says otherwise."""
    options = read(words, _COMPOSER, stop=("module_mode",))
    launch = _local(invocation, options, "nproc", Launcher.COMPOSER, context, "LOCAL_WORLD_SIZE")
    world = options.last("world_size")
    if world is not None and world.value is not None:
        total = count_of(world.value, world.words, CountSource.OPTION)
    else:
        total = environment_count(invocation, "WORLD_SIZE") or launch.total
    if total is launch.total:
        return launch
    return replace(launch, total=total, nodes=shared(total, launch.processes_per_node))


def fabric(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`fabric run`, `lightning run model`: one process for each of `--devices`, of which the default is one."""
    options = read(words[1:] if words and words[0].text == "model" else words, _FABRIC)
    device = options.last("devices")
    if device is None and not options.doubtful("devices"):
        launch = replace(_local(invocation, options, "devices", Launcher.LIGHTNING, context), explicit=False)
        return replace(launch, processes_per_node=ONE, total=ONE)
    if device is not None and device.value is not None and device.value.text in ("auto", "-1"):
        options.found.remove(device)
    launch = _local(invocation, options, "devices", Launcher.LIGHTNING, context)
    nodes = options.last("num_nodes")
    if nodes is None or nodes.value is None:
        return launch
    given = count_of(nodes.value, nodes.words, CountSource.OPTION)
    return replace(launch, nodes=given, total=times(launch.processes_per_node, given))


def paddle(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`python -m paddle.distributed.launch`: one process for each GPU, or each of `--gpus`."""
    options = read(words, _PADDLE)
    chosen = options.last("devices", "gpus")
    launch = _local(invocation, options, "nproc_per_node", Launcher.PADDLE, context)
    nodes = options.last("nnodes")
    if chosen is not None and chosen.value is not None and not options.has("nproc_per_node"):
        count = devices_of(chosen.value).count
        per_node = Count(
            possible=None if count is None else frozenset({count}), source=CountSource.OPTION, words=chosen.words
        )
        launch = replace(launch, processes_per_node=per_node, total=times(per_node, launch.nodes), explicit=True)
    if nodes is not None and nodes.value is not None:
        given = count_of(nodes.value, nodes.words, CountSource.OPTION, meaning=node_range)
        launch = replace(launch, nodes=given, total=times(launch.processes_per_node, given))
    master = options.last("master", "ips")
    return replace(launch, rendezvous=master is not None and is_remote(master.value))


def _local(
    invocation: Invocation, options: Options, name: str, launcher: Launcher, context: LaunchContext, variable: str = ""
) -> Launch:
    """One process for each visible GPU unless an option, or else a variable, says otherwise."""
    devices = visible_devices(invocation)
    option = options.last(name)
    if options.doubtful(name):
        per_node = UNKNOWN
    elif option is not None and option.value is not None:
        per_node = count_of(option.value, option.words, CountSource.OPTION)
    else:
        given = environment_count(invocation, variable) if variable else None
        per_node = given or granted(devices, context)
    program, arguments = program_of(options.rest)
    launch = Launch(
        launcher=launcher,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=ONE,
        total=per_node,
        explicit=per_node.source is CountSource.OPTION,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=devices,
    )
    return finished(launch, one_device=True)
