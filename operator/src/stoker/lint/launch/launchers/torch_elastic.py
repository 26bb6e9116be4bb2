"""torchrun and its kin: defaults of one process on one node, every option also from `PET_<NAME>`."""

from collections.abc import Sequence
from dataclasses import replace

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    environment_count,
    finished,
    granted,
    is_remote,
    is_set,
    program_of,
    takes_rank,
    times,
    visible_devices,
    with_module,
    words_of,
)
from stoker.lint.launch.model import Count, CountSource, Devices, Launch, Launcher
from stoker.lint.launch.options import Grammar, Interpretation, Options, count_of, integer, read
from stoker.shell.model import Invocation, Word

_OPTIONS = Grammar(
    valued=words_of(
        "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval "
        "start_method role log_dir redirects tee local_ranks_filter node_rank master_addr master_port local_addr "
        "logs_specs event_log_handler numa_binding signals_to_handle duplicate_stdout_filters "
        "duplicate_stderr_filters"
    ),
    flags=words_of("standalone module no_python run_path use_env virtual_local_rank"),
    short={"-m": "module", "-r": "redirects", "-t": "tee"},
)


def per_node_meaning(context: LaunchContext, devices: Devices | None) -> Interpretation:
    """What a number of processes says: "4", or "gpu" and "auto" for the visible devices."""

    def meaning(text: str) -> frozenset[int] | None:
        if text in ("auto", "gpu"):
            return granted(devices, context).possible
        return integer(text)

    return meaning


def node_range(text: str) -> frozenset[int] | None:
    """`--nnodes`: "2" or "1:4"."""
    low, colon, high = text.partition(":")
    first, last = integer(low), integer(high if colon else low)
    if first is None or last is None or min(last) - min(first) > 4_096:
        return None
    return frozenset(range(min(first), min(last) + 1)) or None


def _torch_count(
    options: Options,
    name: str,
    invocation: Invocation,
    meaning: Interpretation,
) -> Count:
    """An option, its PET_ variable, or the default of one."""
    if options.doubtful(name):
        return UNKNOWN
    option = options.last(name)
    if option is not None and option.value is not None:
        count = count_of(option.value, option.words, CountSource.OPTION, meaning=meaning)
        if option.value.text in ("auto", "gpu"):
            return replace(count, source=CountSource.DEVICES)
        return count
    return environment_count(invocation, f"PET_{name.upper()}", meaning) or ONE


def torchrun(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """torchrun, `python -m torch.distributed.run` and `.launch`, torchtune's `tune run`.

    Defaults are one process on one node; every option is also read from `PET_<NAME>`.
    """
    return _torch(invocation, words, context, Launcher.TORCHRUN)


def torch_launch(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`python -m torch.distributed.launch`: the same options."""
    return _torch(invocation, words, context, Launcher.TORCH_DISTRIBUTED_LAUNCH)


def _torch(invocation: Invocation, words: Sequence[Word], context: LaunchContext, launcher: Launcher) -> Launch:
    options = read(words, _OPTIONS, stop=("module",))
    devices = visible_devices(invocation)
    per_node = _torch_count(options, "nproc_per_node", invocation, per_node_meaning(context, devices))
    standalone = options.has("standalone") or is_set(invocation.environment.get("PET_STANDALONE"))
    nodes = ONE if standalone else _torch_count(options, "nnodes", invocation, node_range)
    addresses = [
        option.value
        for option in (options.last("rdzv_endpoint"), options.last("master_addr"))
        if option is not None and option.value is not None
    ]
    addresses += [
        word
        for name in ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR")
        if (word := invocation.environment.get(name)) is not None and word.span is not None
    ]
    rest = with_module(options)
    program, arguments = program_of(rest)
    explicit = per_node.source is CountSource.OPTION or (
        per_node.source is CountSource.ENVIRONMENT and bool(per_node.words)
    )
    launch = Launch(
        launcher=launcher,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=times(per_node, nodes),
        explicit=explicit,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=devices,
        standalone=standalone,
        rendezvous=not standalone and any(is_remote(each) for each in addresses),
    )
    return finished(launch, one_device=takes_rank(options, program))
