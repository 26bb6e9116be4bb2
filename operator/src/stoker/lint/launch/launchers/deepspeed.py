"""deepspeed: the visible GPUs of this node, other nodes by a host file only."""

from collections.abc import Sequence

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    finished,
    granted,
    is_remote,
    program_of,
    takes_rank,
    times,
    visible_devices,
    with_module,
    words_of,
)
from stoker.lint.launch.launchers.hosts import given_hosts, hosts_in
from stoker.lint.launch.model import Count, CountSource, Launch, Launcher
from stoker.lint.launch.options import Grammar, count_of, read
from stoker.shell.model import Invocation, Word

DEFAULT_HOSTFILE = "/job/hostfile"
_DEEPSPEED = Grammar(
    valued=words_of(
        "hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus num_accelerators master_port "
        "master_addr node_rank launcher launcher_args autotuning bind_core_list ssh_port enable_each_rank_log "
        "venv_script"
    ),
    flags=words_of(
        "module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training bind_cores_to_rank"
    ),
    short={"-H": "hostfile", "-i": "include", "-e": "exclude"},
)


def deepspeed(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """deepspeed: all visible GPUs of this node unless told otherwise; other nodes only by a host file."""
    options = read(words, _DEEPSPEED, stop=("module",))
    devices = visible_devices(invocation)
    hostfile = options.last("hostfile")
    include, exclude = options.last("include"), options.last("exclude")
    number = options.last("num_gpus", "num_accelerators")
    node_option = options.last("num_nodes")
    hosts = given_hosts(None, hostfile, invocation, context)
    if hosts is None and (default := context.file(invocation, Word.known(DEFAULT_HOSTFILE))) is not None:
        hosts = hosts_in(default, ())
    nodes = ONE if hosts is None else hosts.nodes()
    if node_option is not None and node_option.value is not None:
        nodes = count_of(node_option.value, node_option.words, CountSource.OPTION)
    if options.doubtful("num_gpus", "num_accelerators"):
        per_node = UNKNOWN
    elif number is not None and number.value is not None:
        unlimited = number.value.text == "-1"
        per_node = granted(None, context) if unlimited else count_of(number.value, number.words, CountSource.OPTION)
    elif include is not None and include.value is not None:
        selected = _selection(include.value)
        per_node = Count(possible=selected[0], source=CountSource.OPTION, words=include.words)
        if hosts is None and selected[1] is not None:
            nodes = Count(possible=selected[1], source=CountSource.OPTION, words=include.words)
    elif exclude is not None and exclude.value is not None:
        excluded, _ = _selection(exclude.value)
        left = frozenset(context.gpus_per_node - each for each in excluded) if excluded is not None else None
        per_node = Count(possible=left, source=CountSource.OPTION, words=exclude.words)
    elif hosts is not None:
        per_node = hosts.per_node()
    else:
        per_node = granted(devices, context)
    address = options.last("master_addr")
    program, arguments = program_of(with_module(options))
    launch = Launch(
        launcher=Launcher.DEEPSPEED,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=times(per_node, nodes),
        explicit=per_node.source is CountSource.OPTION,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=devices,
        rendezvous=address is not None and is_remote(address.value),
        hostfile=hosts is not None,
    )
    return finished(launch, one_device=takes_rank(options, program))


def _selection(word: Word) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """GPUs per node and nodes of `--include "worker-0:0,1@worker-1:2,3"`; None where it differs or is unknown."""
    if word.text is None:
        return None, None
    counts: set[int] = set()
    hosts = [part for part in word.text.split("@") if part]
    for host in hosts:
        _, colon, indices = host.partition(":")
        if not colon:
            return None, frozenset({len(hosts)})
        counts.add(len([part for part in indices.split(",") if part.strip()]))
    return (frozenset(counts) if len(counts) == 1 else None), frozenset({len(hosts)})
