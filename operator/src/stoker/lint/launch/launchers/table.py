"""Names of launchers and the modules that they are, with their readers."""

from stoker.lint.launch.launchers import accelerate, deepspeed, mpi, one_node, torch_elastic, wrapping
from stoker.lint.launch.launchers.counts import Reader
from stoker.lint.launch.launchers.programs import unknown_counts
from stoker.lint.launch.launchers.servers import server
from stoker.lint.launch.model import Launcher

COMMANDS: dict[str, Reader] = {
    "torchrun": torch_elastic.torchrun,
    "torchrun-hpu": torch_elastic.torchrun,
    "deepspeed": deepspeed.deepspeed,
    "ds": deepspeed.deepspeed,
    "accelerate-launch": accelerate.accelerate,
    "mpirun": mpi.mpirun,
    "mpiexec": mpi.mpirun,
    "mpirun.openmpi": mpi.mpirun,
    "mpirun.mpich": mpi.mpirun,
    "mpiexec.hydra": mpi.mpirun,
    "orterun": mpi.mpirun,
    "prterun": mpi.mpirun,
    "horovodrun": mpi.horovodrun,
    "srun": mpi.srun,
    "composer": one_node.composer,
    "fleetrun": one_node.paddle,
    "llamafactory-cli": wrapping.llama_factory,
    "lmf": wrapping.llama_factory,
    "swift": wrapping.swift,
    "xtuner": wrapping.xtuner,
    "torchx": wrapping.torchx,
    "text-generation-launcher": server(Launcher.TGI),
    "tritonserver": unknown_counts(Launcher.TRITON),
}
"""Readers of commands by their name."""

VERBS: dict[tuple[str, str], Reader] = {
    ("accelerate", "launch"): accelerate.accelerate,
    ("colossalai", "run"): torch_elastic.torchrun,
    ("vllm", "serve"): server(Launcher.VLLM),
    ("vllm", "bench"): server(Launcher.VLLM),
    ("vllm", "run-batch"): server(Launcher.VLLM),
    ("sglang", "serve"): server(Launcher.SGLANG),
    ("lmdeploy", "serve"): server(Launcher.LMDEPLOY),
    ("fabric", "run"): one_node.fabric,
    ("lightning", "run"): one_node.fabric,
    ("mim", "train"): wrapping.mim,
    ("mim", "run"): unknown_counts(Launcher.OTHER),
    ("mim", "test"): unknown_counts(Launcher.OTHER),
    ("mim", "gridsearch"): unknown_counts(Launcher.OTHER),
    ("mlflow", "run"): unknown_counts(Launcher.OTHER),
    ("wandb", "agent"): unknown_counts(Launcher.OTHER),
    ("wandb", "launch-agent"): unknown_counts(Launcher.OTHER),
}
"""Readers of commands by their name and first word; what follows it is read."""

MODULES: dict[str, Reader] = {
    "torch.distributed.run": torch_elastic.torchrun,
    "torch.distributed.launch": torch_elastic.torch_launch,
    "torch.distributed.elastic_launch": torch_elastic.torchrun,
    "accelerate.commands.launch": accelerate.accelerate,
    "accelerate.launch": accelerate.accelerate,
    "deepspeed": deepspeed.deepspeed,
    "deepspeed.launcher.runner": deepspeed.deepspeed,
    "horovod.runner": mpi.horovodrun,
    "horovod.runner.launch": mpi.horovodrun,
    "horovod.run": mpi.horovodrun,
    "paddle.distributed.launch": one_node.paddle,
    "composer.cli.launcher": one_node.composer,
    "llamafactory.cli": wrapping.llama_factory,
    "swift.cli.main": wrapping.swift,
    "vllm.entrypoints.openai.api_server": server(Launcher.VLLM),
    "vllm.entrypoints.api_server": server(Launcher.VLLM),
    "sglang.launch_server": server(Launcher.SGLANG),
    "sglang_router.launch_server": server(Launcher.SGLANG),
    "colossalai.cli": unknown_counts(Launcher.OTHER),
    "lightning": unknown_counts(Launcher.LIGHTNING),
}
"""Readers of `python -m MODULE`."""
