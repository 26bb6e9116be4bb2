"""`accelerate launch`: the number of processes is the total over all machines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import yaml

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    devices_of,
    finished,
    granted,
    is_remote,
    program_of,
    shared,
    takes_rank,
    visible_devices,
    with_module,
    words_of,
)
from stoker.lint.launch.model import Count, CountSource, Launch, Launcher
from stoker.lint.launch.options import Grammar, count_of, read
from stoker.shell.model import Invocation, Word

MAX_CONFIGURATION = 65_536
"""Characters of a configuration file that are parsed."""
DEFAULT_CONFIGURATION = "huggingface/accelerate/default_config.yaml"


_ACCELERATE = Grammar(
    valued=words_of(
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
    flags=words_of(
        "multi_gpu use_deepspeed use_fsdp use_megatron_lm cpu tpu use_xpu ipex module no_python quiet debug "
        "same_network enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic tpu_use_cluster "
        "use_parallelism_config"
    ),
    short={"-m": "module", "-q": "quiet"},
)


def accelerate(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """`accelerate launch`: `--num_processes` is the total over all machines; without it, the visible GPUs."""
    options = read(words, _ACCELERATE, stop=("module",))
    devices = visible_devices(invocation)
    file_option = options.last("config_file")
    configuration = file_option.value if file_option is not None else _default_configuration(invocation)
    settings = _configuration(context.file(invocation, configuration))
    unseen = configuration is not None and settings is None
    file_words = file_option.words if file_option is not None else ()

    def count(name: str) -> Count | None:
        if options.doubtful(name):
            return UNKNOWN
        option = options.last(name)
        if option is not None and option.value is not None:
            return count_of(option.value, option.words, CountSource.OPTION)
        if settings is not None and name in settings:
            number = settings[name]
            possible = frozenset({number}) if type(number) is int and number > 0 else None
            return Count(possible=possible, source=CountSource.OPTION, words=file_words, key=name)
        return UNKNOWN if unseen else None

    nodes = count("num_machines") or ONE
    total = count("num_processes")
    explicit = total is not None and total.source is CountSource.OPTION
    chosen: Count | None = None
    identifiers = options.last("gpu_ids")
    if identifiers is not None and identifiers.value is not None and identifiers.value.text != "all":
        devices = devices_of(identifiers.value)
        chosen = replace(granted(devices, context), source=CountSource.OPTION, words=identifiers.words)
    kind = _distributed_type(settings)
    if options.has("cpu") or kind == "NO":
        total = total or ONE
    elif total is None:
        total = chosen or granted(devices, context)
    address = options.last("main_process_ip")
    program, arguments = program_of(with_module(options))
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
        # A file that nobody sees says nothing of other nodes where the job has one.
        processes_per_node=shared(total, ONE if unseen and context.nodes == 1 else nodes),
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
        rendezvous=address is not None and is_remote(address.value),
        configuration=configuration,
    )
    implied = several or (configuration is None and total.minimum is not None and total.minimum > 1)
    implied = implied and takes_rank(options, program) and not unseen
    return finished(launch, one_device=implied and not options.has("use_megatron_lm", "cpu"))


def _default_configuration(invocation: Invocation) -> Word | None:
    """The config file that the script itself puts where accelerate looks for one."""
    path = next((path for path in invocation.files if path.endswith(DEFAULT_CONFIGURATION)), None)
    return Word.known(path) if path is not None else None


def _distributed_type(settings: Mapping[str, object] | None) -> str:
    """A config file's kind of training, "" without one. Without quotes, YAML reads NO as false."""
    kind = (settings or {}).get("distributed_type", "")
    return "NO" if kind is False else str(kind)


def _configuration(text: str | None) -> Mapping[str, object] | None:
    """A readable config file's settings."""
    if text is None or len(text) > MAX_CONFIGURATION or "&" in text or "{" in text.split("\n", 1)[0][1:]:
        return None
    try:
        loaded: object = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None
