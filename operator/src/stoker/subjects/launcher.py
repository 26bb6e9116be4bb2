"""From a command to its launch: each launcher's own options, defaults and traps."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import yaml

from stoker.subjects.launch_model import RANKS, Count, CountSource, Devices, Launch, Launcher
from stoker.subjects.launch_options import Grammar, Interpretation, Options, count_of, integer, read, tail
from stoker.subjects.shell_model import Invocation, Word

MAX_CONFIGURATION = 65_536


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ONE = Count(possible=frozenset({1}), source=CountSource.DEFAULT)
UNKNOWN = Count(possible=None, source=CountSource.UNKNOWN)

_TORCHRUN = Grammar(
    valued=_words(
        "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval "
        "start_method role log_dir redirects tee local_ranks_filter node_rank master_addr master_port local_addr "
        "logs_specs event_log_handler numa_binding signals_to_handle duplicate_stdout_filters "
        "duplicate_stderr_filters"
    ),
    flags=_words("standalone module no_python run_path use_env virtual_local_rank"),
    short={"-m": "module", "-r": "redirects", "-t": "tee"},
)
_DEEPSPEED = Grammar(
    valued=_words(
        "hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus num_accelerators master_port "
        "master_addr node_rank launcher launcher_args autotuning bind_core_list ssh_port enable_each_rank_log "
        "venv_script"
    ),
    flags=_words(
        "module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training bind_cores_to_rank"
    ),
    short={"-H": "hostfile", "-i": "include", "-e": "exclude"},
)
_ACCELERATE = Grammar(
    valued=_words(
        "config_file num_processes num_machines machine_rank main_process_ip main_process_port mixed_precision "
        "dynamo_backend dynamo_mode gpu_ids deepspeed_config_file zero_stage num_cpu_threads_per_process rdzv_backend "
        "rdzv_conf gradient_accumulation_steps gradient_clipping offload_optimizer_device offload_param_device "
        "offload_optimizer_nvme_path offload_param_nvme_path zero3_init_flag zero3_save_16bit_model "
        "deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter deepspeed_multinode_launcher "
        "deepspeed_moe_layer_cls_names fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy "
        "fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type "
        "fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states "
        "fsdp_activation_checkpointing fsdp_version fsdp_reshard_after_forward megatron_lm_tp_degree "
        "megatron_lm_pp_degree megatron_lm_num_micro_batches megatron_lm_sequence_parallelism "
        "megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer megatron_lm_gradient_clipping "
        "max_restarts monitor_interval role tee log_dir main_training_function downcast_bf16 tpu_name tpu_zone "
        "fp8_backend same_network_flag env vm command_file mpirun_hostfile mpirun_ccl"
    ),
    flags=_words(
        "multi_gpu use_deepspeed use_fsdp use_megatron_lm cpu tpu use_xpu ipex module no_python quiet debug "
        "same_network enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic tpu_use_cluster "
        "use_parallelism_config"
    ),
    short={"-m": "module", "-q": "quiet"},
)
_MPIRUN = Grammar(
    valued=_words(
        "np n npernode N ppn hostfile machinefile f host H hosts x bind_to map_by rank_by wdir wd output_filename "
        "prefix timeout cpus_per_proc rankfile rf launcher iface bootstrap genvlist envlist app tune am cpu_set "
        "perhost pernodes stdin launch_agent default_hostfile bind_to_type npersocket cpus_per_rank stream_buffering"
    ),
    flags=_words(
        "allow_run_as_root oversubscribe nooversubscribe pernode report_bindings display_map display_allocation "
        "tag_output timestamp_output nolocal v verbose q quiet genvall envall merge_stderr_to_stdout l prepend_rank "
        "use_hwthread_cpus mca_base leave_session_attached"
    ),
    double=_words("mca gmca genv env"),
    short={
        "-np": "np", "-n": "np", "-c": "np", "--np": "np", "--n": "np", "-N": "npernode", "-npernode": "npernode",
        "-ppn": "npernode", "--ppn": "npernode", "-perhost": "npernode", "-hostfile": "hostfile",
        "-machinefile": "hostfile", "-f": "hostfile", "-H": "host", "-host": "host", "-hosts": "host", "-x": "x",
        "-v": "verbose", "-l": "l", "-q": "quiet",
    },
    prefixes=False,
    single=True,
)  # fmt: skip
_HOROVODRUN = Grammar(
    valued=_words(
        "num_proc min_num_proc max_num_proc hosts hostfile slots_per_host ssh_port ssh_identity_file "
        "network_interfaces network_interface start_timeout elastic_timeout output_filename config_file "
        "fusion_threshold_mb cycle_time_ms cache_capacity timeline_filename log_level host_discovery_script "
        "reset_limit mpi_args nics mpi_threads_disable binding_args num_nccl_streams thread_affinity "
        "gloo_timeout_seconds min_np max_np"
    ),
    flags=_words(
        "verbose gloo mpi jsrun autotune disable_cache prefix_output_with_timestamp tcp hierarchical_allreduce "
        "hierarchical_allgather no_stall_check check_build version"
    ),
    short={"-np": "num_proc", "-p": "ssh_port", "-H": "hosts", "--min-np": "min_num_proc", "--max-np": "max_num_proc"},
)
_SRUN = Grammar(
    valued=_words(
        "ntasks nodes ntasks_per_node gres gpus gpus_per_node gpus_per_task cpus_per_task partition account time "
        "job_name mem mem_per_cpu nodelist exclude output error constraint mpi container_image container_mounts "
        "container_workdir chdir cpu_bind qos distribution jobid nodefile ntasks_per_gpu reservation export "
        "environment wckey comment gpu_bind accel_bind kill_on_bad_exit wait container_name"
    ),
    flags=_words("exclusive pty label unbuffered overlap quiet verbose no_container_mount_home"),
    short={
        "-n": "ntasks", "-N": "nodes", "-G": "gpus", "-c": "cpus_per_task", "-p": "partition", "-A": "account",
        "-t": "time", "-J": "job_name", "-w": "nodelist", "-x": "exclude", "-o": "output", "-e": "error",
        "-l": "label", "-u": "unbuffered", "-K": "kill_on_bad_exit_flag",
    },
    attached=True,
)  # fmt: skip
_COMPOSER = Grammar(
    valued=_words("nproc world_size base_rank node_rank master_addr master_port stdout stderr"),
    flags=_words("module_mode command_mode verbose"),
    short={"-n": "nproc", "-m": "module_mode", "-c": "command_mode", "-v": "verbose"},
)
_PADDLE = Grammar(
    valued=_words(
        "master rank log_level nnodes nproc_per_node log_dir run_mode job_id devices gpus xpus host servers trainers "
        "trainer_num server_num ips elastic_level max_restart"
    ),
)
_PYTHON = Grammar(
    valued=_words("W X Q check_hash_based_pycs"),
    flags=_words("u O OO B E s S I b q v x i d P"),
    short={f"-{letter}": letter for letter in "WXQuOBEsSIbqvxidP"} | {"-OO": "OO"},
    prefixes=False,
)

PARALLELISM = {
    "tensor": _words(
        "tensor_parallel_size tensor_model_parallel_size tensor_parallel tp_size tp tp_degree tensor_parallel_degree "
        "model_parallel_size mp_size num_shard model_parallel sharding_degree tensor_parallel_dim"
    ),
    "pipeline": _words(
        "pipeline_parallel_size pipeline_model_parallel_size pipeline_parallel pp_size pp pp_degree "
        "pipeline_parallel_degree pipeline_stages pipe_parallel_size"
    ),
    "context": _words(
        "context_parallel_size cp_size cp context_parallel_degree sequence_parallel_size ulysses_degree sp_size "
        "ulysses_size sequence_parallel_degree ring_degree"
    ),
    "expert": _words("expert_parallel_size expert_model_parallel_size ep_size expert_parallel_degree"),
    "data": _words("data_parallel_size dp_size dp data_parallel_degree data_parallel_replicate_degree"),
    "other": _words("device_map"),
}  # fmt: skip
_PARALLELISM_BY_NAME = {name: kind for kind, names in PARALLELISM.items() for name in names}
_LOCAL = re.compile(r"^(localhost|127\.0\.0\.1|0\.0\.0\.0|::1|\[::1\])(:\d*)?$")
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Setting:
    """The job around a command. files: readable files by path, for config files and host files."""

    nodes: int
    gpus_per_node: int
    files: Mapping[str, str]


Reader = Callable[[Invocation, Sequence[Word], Setting], Launch]


def visible_devices(invocation: Invocation) -> Devices | None:
    """CUDA_VISIBLE_DEVICES in force, None where nothing sets it."""
    for name in DEVICE_VARIABLES:
        word = invocation.environment.get(name)
        if word is not None:
            return devices_of(word)
    return None


def devices_of(word: Word) -> Devices:
    """The devices of "0,1", "", "-1", "GPU-3a..."; the list ends at the first invalid index, as CUDA reads it."""
    if word.text is None:
        return Devices(word=word, indices=None)
    parts = [part.strip() for part in word.text.split(",") if part.strip()]
    if any(part.startswith(("GPU-", "MIG-")) for part in parts):
        return Devices(word=word, indices=None, identifiers=tuple(parts))
    indices: list[int] = []
    for part in parts:
        if not re.fullmatch(r"-?\d{1,4}", part):
            return Devices(word=word, indices=None)
        if int(part) < 0:
            break
        indices.append(int(part))
    return Devices(word=word, indices=tuple(dict.fromkeys(indices)))


def _granted(devices: Devices | None, setting: Setting) -> Count:
    """As many processes as there are visible GPUs."""
    if devices is None:
        return Count(possible=frozenset({setting.gpus_per_node}), source=CountSource.DEVICES)
    count = devices.count
    if count is None:
        return Count(possible=None, source=CountSource.DEVICES, words=(devices.word,))
    return Count(possible=frozenset({count}), source=CountSource.DEVICES, words=(devices.word,))


def _times(left: Count, right: Count) -> Count:
    if left.possible is None or right.possible is None or len(left.possible) * len(right.possible) > 256:
        return replace(UNKNOWN, source=CountSource.DERIVED)
    possible = frozenset(one * other for one in left.possible for other in right.possible)
    return Count(possible=possible, source=CountSource.DERIVED, words=(*left.words, *right.words))


def _shared(total: Count, nodes: Count) -> Count:
    """A total over nodes; unknown where it doesn't divide."""
    if total.possible is None or nodes.possible is None or 0 in nodes.possible:
        return replace(UNKNOWN, source=CountSource.DERIVED, words=total.words)
    if any(one % other for one in total.possible for other in nodes.possible):
        return replace(UNKNOWN, source=CountSource.DERIVED, words=total.words)
    possible = frozenset(one // other for one in total.possible for other in nodes.possible)
    return Count(possible=possible, source=CountSource.DERIVED, words=total.words)


def _program(rest: Sequence[Word]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The program's words and its arguments: `train.py ...`, `-m pkg.train ...`, `python train.py ...`."""
    if not rest:
        return (), ()
    if rest[0].text in ("-m", "-c", "--module", "--no_python", "--no-python") and len(rest) > 1:
        return tuple(rest[:2]), tuple(rest[2:])
    return (rest[0],), tuple(rest[1:])


def parallelism(arguments: Sequence[Word]) -> dict[str, Count]:
    """Parallel sizes among a program's arguments: `--tensor-parallel-size 4`, `model.tp_size=2`, `-tp 2`."""
    return counts_named(arguments, _PARALLELISM_BY_NAME)


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


def _remote(word: Word | None) -> bool:
    """An address that isn't this pod's own; an unknown one counts as remote."""
    return word is not None and (word.text is None or (word.text != "" and _LOCAL.match(word.text) is None))


def _finish(launch: Launch, *, one_device: bool) -> Launch:
    sizes = {**launch.parallelism, **parallelism(launch.arguments)}
    launch = replace(launch, parallelism=sizes)
    return replace(launch, one_device_per_process=one_device and not launch.model_parallel)


# ------------------------------------------------------------------------------------------------------------ torchrun


def _per_node(setting: Setting, devices: Devices | None) -> Interpretation:
    def meaning(text: str) -> frozenset[int] | None:
        if text in ("auto", "gpu"):
            return _granted(devices, setting).possible
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
    variable = f"PET_{name.upper()}"
    word = invocation.environment.get(variable)
    if word is not None:
        return count_of(
            word, (word,) if word.span is not None else (), CountSource.ENVIRONMENT, meaning=meaning, variable=variable
        )
    return ONE


def torchrun(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """torchrun, `python -m torch.distributed.run` and `.launch`, torchtune's `tune run`.

    Defaults are one process on one node; every option is also read from `PET_<NAME>`.
    """
    return _torch(invocation, words, setting, Launcher.TORCHRUN)


def torch_launch(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """`python -m torch.distributed.launch`: the same options."""
    return _torch(invocation, words, setting, Launcher.TORCH_DISTRIBUTED_LAUNCH)


def _torch(invocation: Invocation, words: Sequence[Word], setting: Setting, launcher: Launcher) -> Launch:
    options = read(words, _TORCHRUN, stop=("module",))
    devices = visible_devices(invocation)
    per_node = _torch_count(options, "nproc_per_node", invocation, _per_node(setting, devices))
    standalone = options.has("standalone") or _is_set(invocation.environment.get("PET_STANDALONE"))
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
    rest = _with_module(options)
    program, arguments = _program(rest)
    explicit = per_node.source is CountSource.OPTION or (
        per_node.source is CountSource.ENVIRONMENT and bool(per_node.words)
    )
    launch = Launch(
        launcher=launcher,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=_times(per_node, nodes),
        explicit=explicit,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=devices,
        standalone=standalone,
        rendezvous=not standalone and any(_remote(each) for each in addresses),
    )
    return _finish(launch, one_device=_takes_rank(options, program))


def _takes_rank(options: Options, program: Sequence[Word]) -> bool:
    """Whether each process takes the device of its rank: with `--no_python`, a program of any kind need not."""
    name = (program[0].text if program else None) or ""
    return not options.has("no_python") or name.rsplit("/", 1)[-1].startswith("python")


def _with_module(options: Options) -> tuple[Word, ...]:
    """The program's words; `-m` belongs to them."""
    option = options.last("module")
    if option is None:
        return options.rest
    rest = options.rest
    return rest if rest and rest[0].text in ("-m", "--module") else (Word.known("-m", option.words[0].span), *rest)


def _is_set(word: Word | None) -> bool:
    return word is not None and word.text not in (None, "", "0", "false", "False")


# ----------------------------------------------------------------------------------------------------------- deepspeed


def deepspeed(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """deepspeed: all visible GPUs of this node unless told otherwise; other nodes only by a host file."""
    options = read(words, _DEEPSPEED, stop=("module",))
    devices = visible_devices(invocation)
    hostfile = options.last("hostfile")
    include, exclude = options.last("include"), options.last("exclude")
    number = options.last("num_gpus", "num_accelerators")
    node_option = options.last("num_nodes")
    hosts = _hosts(hostfile.value if hostfile is not None else None, setting)
    nodes = ONE
    if hostfile is not None:
        nodes = (
            Count(possible=frozenset({len(hosts)}), source=CountSource.OPTION, words=hostfile.words)
            if hosts
            else replace(UNKNOWN, words=hostfile.words)
        )
    if node_option is not None and node_option.value is not None:
        nodes = count_of(node_option.value, node_option.words, CountSource.OPTION)
    if options.doubtful("num_gpus") and number is None:
        per_node = UNKNOWN
    elif number is not None and number.value is not None:
        unlimited = number.value.text == "-1"
        per_node = _granted(None, setting) if unlimited else count_of(number.value, number.words, CountSource.OPTION)
    elif include is not None and include.value is not None:
        selected = _selection(include.value)
        per_node = Count(possible=selected[0], source=CountSource.OPTION, words=include.words)
        if hostfile is None and selected[1] is not None:
            nodes = Count(possible=selected[1], source=CountSource.OPTION, words=include.words)
    elif exclude is not None and exclude.value is not None:
        excluded, _ = _selection(exclude.value)
        left = frozenset(setting.gpus_per_node - each for each in excluded) if excluded is not None else None
        per_node = Count(possible=left, source=CountSource.OPTION, words=exclude.words)
    elif hostfile is not None:
        slots = set(hosts.values())
        per_node = Count(
            possible=frozenset(slots) if len(slots) == 1 else None, source=CountSource.OPTION, words=hostfile.words
        )
    else:
        per_node = _granted(devices, setting)
    address = options.last("master_addr")
    program, arguments = _program(_with_module(options))
    launch = Launch(
        launcher=Launcher.DEEPSPEED,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=_times(per_node, nodes),
        explicit=per_node.source is CountSource.OPTION,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=devices,
        rendezvous=address is not None and _remote(address.value),
        hostfile=hostfile is not None,
    )
    return _finish(launch, one_device=_takes_rank(options, program))


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


def _hosts(word: Word | None, setting: Setting) -> dict[str, int]:
    """Hosts and slots of a readable host file."""
    text = setting.files.get(word.text) if word is not None and word.text is not None else None
    hosts: dict[str, int] = {}
    for line in (text or "").splitlines()[:4_096]:
        parts = line.split("#", 1)[0].split()
        if not parts:
            continue
        slots = next((part.partition("=")[2] for part in parts[1:] if part.startswith("slots=")), "")
        if not slots.isdigit():
            return {}
        hosts[parts[0]] = int(slots[:6])
    return hosts


# ---------------------------------------------------------------------------------------------------------- accelerate


def accelerate(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """`accelerate launch`: `--num_processes` is the total over all machines; without it, the visible GPUs."""
    options = read(words, _ACCELERATE, stop=("module",))
    devices = visible_devices(invocation)
    file_option = options.last("config_file")
    configuration = file_option.value if file_option is not None else None
    settings = _configuration(configuration, setting)
    unseen = configuration is not None and settings is None

    def count(name: str) -> Count | None:
        if options.doubtful(name):
            return UNKNOWN
        option = options.last(name)
        if option is not None and option.value is not None:
            return count_of(option.value, option.words, CountSource.OPTION)
        if settings is not None and file_option is not None and name in settings:
            number = settings[name]
            possible = frozenset({number}) if type(number) is int and number > 0 else None
            return Count(possible=possible, source=CountSource.OPTION, words=file_option.words)
        return UNKNOWN if unseen else None

    nodes = count("num_machines") or ONE
    total = count("num_processes")
    explicit = total is not None and total.source is CountSource.OPTION
    chosen: Count | None = None
    identifiers = options.last("gpu_ids")
    if identifiers is not None and identifiers.value is not None and identifiers.value.text != "all":
        devices = devices_of(identifiers.value)
        chosen = replace(_granted(devices, setting), source=CountSource.OPTION, words=identifiers.words)
    kind = _distributed_type(settings)
    if options.has("cpu") or kind == "NO":
        total = total or ONE
    elif total is None:
        total = chosen or _granted(devices, setting)
    address = options.last("main_process_ip")
    program, arguments = _program(_with_module(options))
    # The launcher sets --multi_gpu itself for more than one process, unless a config file says otherwise.
    several = options.has("multi_gpu", "use_deepspeed", "use_fsdp") or kind in ("MULTI_GPU", "DEEPSPEED", "FSDP")
    sizes = {
        name: count_of(option.value, option.words, CountSource.OPTION)
        for name, key in (("tensor", "megatron_lm_tp_degree"), ("pipeline", "megatron_lm_pp_degree"))
        if (option := options.last(key)) is not None and option.value is not None
    }
    launch = Launch(
        launcher=Launcher.ACCELERATE,
        invocation=invocation,
        processes_per_node=_shared(total, nodes),
        nodes=nodes,
        total=total,
        explicit=explicit,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        parallelism=sizes,
        devices=devices,
        multi_gpu=several,
        distributed_type=kind,
        rendezvous=address is not None and _remote(address.value),
        configuration=configuration,
    )
    implied = several or (configuration is None and total.minimum is not None and total.minimum > 1)
    implied = implied and _takes_rank(options, program)
    return _finish(launch, one_device=implied and not options.has("use_megatron_lm", "cpu"))


def _distributed_type(settings: Mapping[str, object] | None) -> str:
    """A config file's kind of training, "" without one. Without quotes, YAML reads NO as false."""
    kind = (settings or {}).get("distributed_type", "")
    return "NO" if kind is False else str(kind)


def _configuration(word: Word | None, setting: Setting) -> Mapping[str, object] | None:
    """A readable config file's settings."""
    text = setting.files.get(word.text) if word is not None and word.text is not None else None
    if text is None or len(text) > MAX_CONFIGURATION or "&" in text or "{" in text.split("\n", 1)[0][1:]:
        return None
    try:
        loaded: object = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


# ---------------------------------------------------------------------------------------------------- mpirun and kin


def mpirun(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """mpirun, mpiexec, orterun: `-np` is the total; none of it means all slots."""
    options = read(words, _MPIRUN)
    several_parts = any(word.text == ":" for word in words)
    number = options.last("np")
    local = options.last("npernode", "perhost")
    total: Count | None = None
    per_node: Count | None = None
    if number is not None and number.value is not None:
        total = count_of(number.value, number.words, CountSource.OPTION)
    if local is not None and local.value is not None:
        per_node = count_of(local.value, local.words, CountSource.OPTION)
    mapping = options.last("map_by")
    if per_node is None and mapping is not None and mapping.value is not None:
        match = re.search(r"ppr:(\d{1,5}):node", mapping.value.text or "")
        if match is not None:
            per_node = Count(possible=frozenset({int(match[1])}), source=CountSource.OPTION, words=mapping.words)
    if options.has("pernode"):
        per_node = ONE
    hosts_option, file_option = options.last("host", "hosts"), options.last("hostfile", "machinefile")
    nodes = ONE
    if hosts_option is not None and hosts_option.value is not None:
        nodes = _host_count(hosts_option.value, hosts_option.words)
    elif file_option is not None:
        hosts = _hosts(file_option.value, setting)
        nodes = Count(
            possible=frozenset({len(hosts)}) if hosts else None, source=CountSource.OPTION, words=file_option.words
        )
    if several_parts or options.doubtful("np"):
        total = per_node = None
    elif total is None and per_node is not None:
        total = _times(per_node, nodes)
    elif per_node is None and total is not None:
        per_node = _shared(total, nodes)
    elif total is not None and per_node is not None and hosts_option is None and file_option is None:
        shared = _shared(total, per_node)
        nodes = shared if shared.possible is not None else nodes
    program, arguments = _program(options.rest)
    launch = Launch(
        launcher=Launcher.MPIRUN,
        invocation=invocation,
        processes_per_node=per_node or UNKNOWN,
        nodes=nodes,
        total=total or UNKNOWN,
        explicit=total is not None,
        one_device_per_process=False,
        program=program,
        arguments=arguments,
        devices=visible_devices(invocation),
        hostfile=hosts_option is not None or file_option is not None,
    )
    return _finish(launch, one_device=False)


def _host_count(word: Word, words: tuple[Word, ...]) -> Count:
    if word.text is None:
        return replace(UNKNOWN, words=words)
    hosts = {part.split(":", 1)[0] for part in word.text.split(",") if part}
    return Count(possible=frozenset({len(hosts)}), source=CountSource.OPTION, words=words)


def horovodrun(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """horovodrun: `-np` is the total; without hosts all processes run here."""
    options = read(words, _HOROVODRUN)
    number = options.last("num_proc")
    hosts_option, file_option = options.last("hosts"), options.last("hostfile", "host_discovery_script")
    nodes = ONE
    if hosts_option is not None and hosts_option.value is not None:
        nodes = _host_count(hosts_option.value, hosts_option.words)
    elif file_option is not None:
        hosts = _hosts(file_option.value, setting)
        nodes = Count(
            possible=frozenset({len(hosts)}) if hosts else None, source=CountSource.OPTION, words=file_option.words
        )
    total = UNKNOWN
    elastic = options.has("min_num_proc", "max_num_proc", "min_np", "max_np", "host_discovery_script")
    if number is not None and number.value is not None and not options.doubtful("num_proc") and not elastic:
        total = count_of(number.value, number.words, CountSource.OPTION)
    program, arguments = _program(options.rest)
    launch = Launch(
        launcher=Launcher.HOROVODRUN,
        invocation=invocation,
        processes_per_node=_shared(total, nodes),
        nodes=nodes,
        total=total,
        explicit=total.source is CountSource.OPTION,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=visible_devices(invocation),
        hostfile=hosts_option is not None or file_option is not None,
    )
    return _finish(launch, one_device=True)


def srun(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """srun: `-n` is the total, `--ntasks-per-node` per node; what is left out comes from Slurm's allocation."""
    del setting
    options = read(words, _SRUN)

    def count(name: str) -> Count:
        option = options.last(name)
        if option is None or option.value is None or options.doubtful(name):
            return UNKNOWN
        return count_of(option.value, option.words, CountSource.OPTION)

    total, nodes, per_node = count("ntasks"), count("nodes"), count("ntasks_per_node")
    if per_node.possible is None:
        per_node = _shared(total, nodes)
    elif total.possible is None:
        total = _times(per_node, nodes)
    program, arguments = _program(options.rest)
    launch = Launch(
        launcher=Launcher.SRUN,
        invocation=invocation,
        processes_per_node=per_node,
        nodes=nodes,
        total=total,
        explicit=CountSource.OPTION in (total.source, per_node.source),
        one_device_per_process=False,
        program=program,
        arguments=arguments,
        devices=visible_devices(invocation),
    )
    return _finish(launch, one_device=False)


# ------------------------------------------------------------------------------------------------ single-node launchers


def composer(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """MosaicML's composer: one process for each GPU unless `-n` says otherwise."""
    options = read(words, _COMPOSER, stop=("module_mode",))
    return _local(invocation, options, "nproc", Launcher.COMPOSER, setting)


def paddle(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
    """`python -m paddle.distributed.launch`: one process for each GPU, or each of `--gpus`."""
    options = read(words, _PADDLE)
    chosen = options.last("devices", "gpus")
    launch = _local(invocation, options, "nproc_per_node", Launcher.PADDLE, setting)
    nodes = options.last("nnodes")
    if chosen is not None and chosen.value is not None and not options.has("nproc_per_node"):
        count = devices_of(chosen.value).count
        per_node = Count(
            possible=None if count is None else frozenset({count}), source=CountSource.OPTION, words=chosen.words
        )
        launch = replace(launch, processes_per_node=per_node, total=_times(per_node, launch.nodes), explicit=True)
    if nodes is not None and nodes.value is not None:
        told = count_of(nodes.value, nodes.words, CountSource.OPTION, meaning=node_range)
        launch = replace(launch, nodes=told, total=_times(launch.processes_per_node, told))
    master = options.last("master", "ips")
    return replace(launch, rendezvous=master is not None and _remote(master.value))


def _local(invocation: Invocation, options: Options, name: str, launcher: Launcher, setting: Setting) -> Launch:
    devices = visible_devices(invocation)
    option = options.last(name)
    if options.doubtful(name):
        per_node = UNKNOWN
    elif option is not None and option.value is not None:
        per_node = count_of(option.value, option.words, CountSource.OPTION)
    else:
        per_node = _granted(devices, setting)
    program, arguments = _program(options.rest)
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
    return _finish(launch, one_device=True)


_SERVERS = {
    Launcher.VLLM: ("tensor", "pipeline", "data"),
    Launcher.SGLANG: ("tensor", "pipeline", "data"),
    Launcher.TGI: ("tensor",),
}
_OF_NODES = {"nnodes": "nodes", "data_parallel_size_local": "local", "dpl": "local"}


def server(launcher: Launcher) -> Reader:
    """vLLM, SGLang, TGI: one server over tensor x pipeline x data parallel GPUs of all nodes that it is told of.

    A local data parallel size counts on each node. SGLang's data parallel attention shares the tensor parallel GPUs.
    """

    def reader(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
        sizes, of_nodes = parallelism(words), counts_named(words, _OF_NODES)
        devices = visible_devices(invocation)
        texts = {word.text for word in words}
        shards = invocation.environment.get("NUM_SHARD") if launcher is Launcher.TGI else None
        if shards is not None and "tensor" not in sizes:
            written = (shards,) if shards.span is not None else ()
            sizes["tensor"] = count_of(shards, written, CountSource.ENVIRONMENT, variable="NUM_SHARD")
        kinds = [kind for kind in _SERVERS.get(launcher, ()) if kind in sizes]
        if "--enable-dp-attention" in texts:
            kinds = [kind for kind in kinds if kind != "data"]
        total, nodes = _product([sizes[kind] for kind in kinds]), of_nodes.get("nodes", ONE)
        if launcher is Launcher.TGI and "tensor" not in sizes:
            total = _granted(devices, setting)
        unseen = any(word.many and not (word.names and word.names <= RANKS) for word in words) or any(
            (text or "").startswith("--config") for text in texts
        )
        if launcher not in _SERVERS or unseen:
            total = UNKNOWN
        per_node = total if nodes is ONE else _shared(total, nodes)
        if "local" in of_nodes and total is not UNKNOWN:
            per_node = _product([*(sizes[kind] for kind in kinds if kind != "data"), of_nodes["local"]])
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


def _product(factors: Sequence[Count]) -> Count:
    return reduce(_times, factors) if factors else ONE


def unknown_counts(launcher: Launcher) -> Reader:
    """A program that decides by itself how many devices it uses."""

    def reader(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Launch:
        del setting
        return Launch(
            launcher=launcher,
            invocation=invocation,
            processes_per_node=UNKNOWN,
            nodes=UNKNOWN,
            total=UNKNOWN,
            explicit=False,
            one_device_per_process=False,
            program=tuple(invocation.argv[:1]),
            arguments=tuple(words),
            parallelism=parallelism(words),
            devices=visible_devices(invocation),
        )

    return reader


def python(invocation: Invocation, program: tuple[Word, ...], arguments: tuple[Word, ...]) -> Launch:
    """A plain Python program: one process, which may drive any number of devices."""
    return Launch(
        launcher=Launcher.PYTHON,
        invocation=invocation,
        processes_per_node=ONE,
        nodes=ONE,
        total=ONE,
        explicit=False,
        one_device_per_process=False,
        program=program,
        arguments=arguments,
        parallelism=parallelism(arguments),
        devices=visible_devices(invocation),
    )


def python_program(words: Sequence[Word]) -> tuple[str, tuple[Word, ...]]:
    """What the Python interpreter is told to run, after its own options.

    ("-m", module and arguments), ("-c", text and arguments), ("file", script and arguments), ("-", arguments),
    ("", ()) for a bare interpreter, ("version", ()), ("?", ()) if unknown.
    """
    position = 0
    while position < len(words):
        text = words[position].text
        if text is None:
            return (
                ("?", ()) if words[position].many and len(words) == position + 1 else ("file", tuple(words[position:]))
            )
        if text == "-":
            return "-", tuple(words[position + 1 :])
        if not text.startswith("-"):
            return "file", tuple(words[position:])
        if text in ("-V", "-VV", "--version", "-h", "--help"):
            return "version", ()
        if text in ("-W", "-X", "-Q"):
            position += 2
            continue
        letter = re.fullmatch(r"-[uOBEsSIbqvxidP]*([mc])(.*)", text, re.DOTALL)
        if letter is not None:
            attached = (tail(words[position], len(text) - len(letter[2])),) if letter[2] else ()
            return f"-{letter[1]}", (*attached, *words[position + 1 :])
        position += 1
    return "", ()
