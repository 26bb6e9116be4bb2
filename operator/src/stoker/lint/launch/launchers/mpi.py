"""mpirun, horovodrun and srun: totals, hosts and slots."""

import re
from collections.abc import Sequence

from stoker.lint.launch.launchers.counts import (
    ONE,
    UNKNOWN,
    LaunchContext,
    finished,
    program_of,
    shared,
    times,
    visible_devices,
    words_of,
)
from stoker.lint.launch.launchers.hosts import given_hosts
from stoker.lint.launch.model import Count, CountSource, Launch, Launcher
from stoker.lint.launch.options import Grammar, count_of, read
from stoker.shell.model import Invocation, Word

_MPIRUN = Grammar(
    valued=words_of(
        "np n npernode N ppn hostfile machinefile f host H hosts x bind_to map_by rank_by wdir wd output_filename "
        "prefix timeout cpus_per_proc rankfile rf launcher iface bootstrap genvlist envlist app tune am cpu_set "
        "perhost pernodes stdin launch_agent default_hostfile bind_to_type npersocket cpus_per_rank stream_buffering"
    ),
    flags=words_of(
        "allow_run_as_root oversubscribe nooversubscribe pernode report_bindings display_map display_allocation "
        "tag_output timestamp_output nolocal v verbose q quiet genvall envall merge_stderr_to_stdout l prepend_rank "
        "use_hwthread_cpus mca_base leave_session_attached"
    ),
    double=words_of("mca gmca genv env"),
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
    valued=words_of(
        "num_proc min_num_proc max_num_proc hosts hostfile slots_per_host ssh_port ssh_identity_file "
        "network_interfaces network_interface start_timeout elastic_timeout output_filename config_file "
        "fusion_threshold_mb cycle_time_ms cache_capacity timeline_filename log_level host_discovery_script "
        "reset_limit mpi_args nics mpi_threads_disable binding_args num_nccl_streams thread_affinity "
        "gloo_timeout_seconds min_np max_np"
    ),
    flags=words_of(
        "verbose gloo mpi jsrun autotune disable_cache prefix_output_with_timestamp tcp hierarchical_allreduce "
        "hierarchical_allgather no_stall_check check_build version"
    ),
    short={"-np": "num_proc", "-p": "ssh_port", "-H": "hosts", "--min-np": "min_num_proc", "--max-np": "max_num_proc"},
)


_SRUN = Grammar(
    valued=words_of(
        "ntasks nodes ntasks_per_node gres gpus gpus_per_node gpus_per_task cpus_per_task partition account time "
        "job_name mem mem_per_cpu nodelist exclude output error constraint mpi container_image container_mounts "
        "container_workdir chdir cpu_bind qos distribution jobid nodefile ntasks_per_gpu reservation export "
        "environment wckey comment gpu_bind accel_bind kill_on_bad_exit wait container_name"
    ),
    flags=words_of("exclusive pty label unbuffered overlap quiet verbose no_container_mount_home"),
    short={
        "-n": "ntasks", "-N": "nodes", "-G": "gpus", "-c": "cpus_per_task", "-p": "partition", "-A": "account",
        "-t": "time", "-J": "job_name", "-w": "nodelist", "-x": "exclude", "-o": "output", "-e": "error",
        "-l": "label", "-u": "unbuffered", "-K": "kill_on_bad_exit_flag",
    },
    attached=True,
)  # fmt: skip


def mpirun(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
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
    listed, file = options.last("host", "hosts"), options.last("hostfile", "machinefile", "default_hostfile")
    hosts = given_hosts(listed, file, invocation, context)
    nodes = ONE if hosts is None else hosts.nodes()
    if several_parts or options.doubtful("np"):
        total = per_node = None
    elif total is None and per_node is None:
        # All slots; without hosts these are the cores of the machine.
        total, per_node = (hosts.total(), hosts.per_node()) if hosts is not None else (None, None)
    elif total is None and per_node is not None:
        total = times(per_node, nodes)
    elif per_node is None and total is not None:
        per_node = shared(total, nodes)
    elif total is not None and per_node is not None and hosts is None:
        derived = shared(total, per_node)
        nodes = derived if derived.possible is not None else nodes
    program, arguments = program_of(options.rest)
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
        hostfile=hosts is not None,
        slots=hosts.total() if hosts is not None else UNKNOWN,
    )
    return finished(launch, one_device=False)


def horovodrun(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """horovodrun: `-np` is the total; without hosts all processes run here."""
    options = read(words, _HOROVODRUN)
    number = options.last("num_proc")
    hosts = given_hosts(options.last("hosts"), options.last("hostfile", "host_discovery_script"), invocation, context)
    nodes = ONE if hosts is None else hosts.nodes()
    total = UNKNOWN
    elastic = options.has("min_num_proc", "max_num_proc", "min_np", "max_np", "host_discovery_script")
    if number is not None and number.value is not None and not options.doubtful("num_proc") and not elastic:
        total = count_of(number.value, number.words, CountSource.OPTION)
    program, arguments = program_of(options.rest)
    launch = Launch(
        launcher=Launcher.HOROVODRUN,
        invocation=invocation,
        processes_per_node=shared(total, nodes),
        nodes=nodes,
        total=total,
        explicit=total.source is CountSource.OPTION,
        one_device_per_process=True,
        program=program,
        arguments=arguments,
        devices=visible_devices(invocation),
        hostfile=hosts is not None,
        slots=hosts.total() if hosts is not None else UNKNOWN,
    )
    return finished(launch, one_device=True)


def srun(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Launch:
    """srun: `-n` is the total, `--ntasks-per-node` per node; what is left out comes from Slurm's allocation."""
    del context
    options = read(words, _SRUN)

    def count(name: str) -> Count:
        option = options.last(name)
        if option is None or option.value is None or options.doubtful(name):
            return UNKNOWN
        return count_of(option.value, option.words, CountSource.OPTION)

    total, nodes, per_node = count("ntasks"), count("nodes"), count("ntasks_per_node")
    if per_node.possible is None:
        per_node = shared(total, nodes)
    elif total.possible is None:
        total = times(per_node, nodes)
    program, arguments = program_of(options.rest)
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
    return finished(launch, one_device=False)
