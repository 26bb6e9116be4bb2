"""Launchers' options and the roles of commands."""

import pytest

from stoker.lint.launch.plan import Command, Count, CountSource, Launch, Launcher, LaunchPlan, Role, plan
from stoker.shell.script import read_script

PET: dict[str, str | None] = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "PET_MASTER_ADDR": "job-0"}


def planned(source: str, *, gpus: int = 8, environment: dict[str, str | None] | None = None) -> LaunchPlan:
    return plan(read_script(source, environment=environment, gpus_per_node=gpus), nodes=1, gpus_per_node=gpus)


def launch_of(source: str, *, gpus: int = 8, environment: dict[str, str | None] | None = None) -> Launch:
    launches = planned(source, gpus=gpus, environment=environment).launches
    assert len(launches) == 1
    return launches[0]


def command_of(source: str) -> Command:
    commands = planned(source).commands
    assert len(commands) == 1
    return commands[0]


def known(count: Count) -> int | list[int] | None:
    return count.value if count.value is not None else sorted(count.possible) if count.possible is not None else None


@pytest.mark.parametrize(
    "source, launcher, expected",
    [
        # processes per node, nodes, total
        ("torchrun t.py", Launcher.TORCHRUN, (1, 1, 1)),
        ("torchrun --nproc_per_node=4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchrun --nproc-per-node 4 --nnodes 2 t.py", Launcher.TORCHRUN, (4, 2, 8)),
        ("torchrun --nproc 4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchrun --nproc_per_node=gpu t.py", Launcher.TORCHRUN, (8, 1, 8)),
        ("torchrun --nproc_per_node=auto t.py", Launcher.TORCHRUN, (8, 1, 8)),
        ("torchrun --nproc_per_node=cpu t.py", Launcher.TORCHRUN, (None, 1, None)),
        ("torchrun --nnodes=1:3 --nproc_per_node=2 t.py", Launcher.TORCHRUN, (2, [1, 2, 3], [2, 4, 6])),
        ("torchrun --standalone --nnodes=4 --nproc_per_node=2 t.py", Launcher.TORCHRUN, (2, 1, 2)),
        ("torchrun --nproc_per_node=2 --nproc_per_node=4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchrun t.py --nproc_per_node=4", Launcher.TORCHRUN, (1, 1, 1)),
        ("torchrun -m pkg.t --nproc_per_node=4", Launcher.TORCHRUN, (1, 1, 1)),
        ("torchrun --nproc_per_node=$N t.py", Launcher.TORCHRUN, (None, 1, None)),
        ("torchrun --nproc_per_node $N t.py", Launcher.TORCHRUN, (None, 1, None)),
        ("torchrun --nproc_per_node 4 $MORE t.py", Launcher.TORCHRUN, (None, None, None)),
        ("torchrun $MORE --nproc_per_node 4 --nnodes 1 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchrun --nproc_per_node 4 t.py $MORE", Launcher.TORCHRUN, (4, 1, 4)),
        ("export PET_NPROC_PER_NODE=4; torchrun t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=gpu t.py", Launcher.TORCHRUN, (2, 1, 2)),
        ("python -m torch.distributed.run --nproc_per_node=4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("python3.11 -um torch.distributed.launch --nproc_per_node=4 --use_env t.py",
         Launcher.TORCH_DISTRIBUTED_LAUNCH, (4, 1, 4)),
        ("tune run --nproc_per_node 4 recipe --config c", Launcher.TORCHRUN, (4, 1, 4)),
        ("deepspeed t.py", Launcher.DEEPSPEED, (8, 1, 8)),
        ("deepspeed --num_gpus=4 t.py --num_gpus 2", Launcher.DEEPSPEED, (4, 1, 4)),
        ("deepspeed --num_gpus 4 --num_nodes 2 t.py", Launcher.DEEPSPEED, (4, 2, 8)),
        ("deepspeed --include localhost:0,2 t.py", Launcher.DEEPSPEED, (2, 1, 2)),
        ("deepspeed -i a:0,1@b:2,3 t.py", Launcher.DEEPSPEED, (2, 2, 4)),
        ("deepspeed --exclude localhost:0 t.py", Launcher.DEEPSPEED, (7, 1, 7)),
        ("deepspeed --hostfile /job/hosts t.py", Launcher.DEEPSPEED, (None, None, None)),
        ("printf '%s\\n' 'a slots=4' > h; deepspeed --hostfile h t.py", Launcher.DEEPSPEED, (4, 1, 4)),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py", Launcher.DEEPSPEED, (2, 1, 2)),
        ("accelerate launch t.py", Launcher.ACCELERATE, (8, 1, 8)),
        ("accelerate launch --num_processes 4 t.py", Launcher.ACCELERATE, (4, 1, 4)),
        ("accelerate launch --num-processes=16 --num-machines=2 --multi-gpu t.py", Launcher.ACCELERATE, (8, 2, 16)),
        ("accelerate launch --num_machines 2 t.py", Launcher.ACCELERATE, (4, 2, 8)),
        ("accelerate launch --num_processes 5 --num_machines 2 t.py", Launcher.ACCELERATE, (None, 2, 5)),
        ("accelerate launch --gpu_ids 0,1 t.py", Launcher.ACCELERATE, (2, 1, 2)),
        ("accelerate launch --config_file unseen.yaml t.py", Launcher.ACCELERATE, (None, None, None)),
        ("accelerate launch -m pkg.t --num_processes 2", Launcher.ACCELERATE, (8, 1, 8)),
        ("accelerate-launch --num_processes 2 t.py", Launcher.ACCELERATE, (2, 1, 2)),
        ("mpirun -np 8 python t.py", Launcher.MPIRUN, (8, 1, 8)),
        ("mpirun -np 8 -N 4 -mca a b -x C python t.py -np 3", Launcher.MPIRUN, (4, 2, 8)),
        ("mpirun -H a:4,b:4 -npernode 4 python t.py", Launcher.MPIRUN, (4, 2, 8)),
        ("mpiexec --hostfile h -n 8 python t.py", Launcher.MPIRUN, (None, None, 8)),
        ("mpirun python t.py", Launcher.MPIRUN, (None, 1, None)),
        ("mpirun -np 1 a : -np 2 b", Launcher.MPIRUN, (None, 1, None)),
        ("horovodrun -np 4 python t.py", Launcher.HOROVODRUN, (4, 1, 4)),
        ("horovodrun -np 8 -H a:4,b:4 python t.py", Launcher.HOROVODRUN, (4, 2, 8)),
        ("horovodrun --min-np 2 --max-np 8 -np 4 --host-discovery-script d python t.py",
         Launcher.HOROVODRUN, (None, None, None)),
        ("srun -n8 -N2 python t.py", Launcher.SRUN, (4, 2, 8)),
        ("srun --ntasks-per-node=4 --nodes=2 python t.py", Launcher.SRUN, (4, 2, 8)),
        ("composer -n 2 t.py", Launcher.COMPOSER, (2, 1, 2)),
        ("python -m paddle.distributed.launch --gpus 0,1 t.py", Launcher.PADDLE, (2, 1, 2)),
        ("vllm serve m --tensor-parallel-size 4 --pipeline-parallel-size=2", Launcher.VLLM, (8, 1, 8)),
        ("vllm serve m", Launcher.VLLM, (1, 1, 1)),
        ("python -m sglang.launch_server --tp 4", Launcher.SGLANG, (4, 1, 4)),
        ("python -m sglang.launch_server --tp 16 --nnodes 2 --node-rank $NODE_RANK", Launcher.SGLANG, (8, 2, 16)),
        ("vllm serve m -tp 2 -dp 8 --data-parallel-size-local 4", Launcher.VLLM, (8, None, 16)),
        ("vllm serve m --config c.yaml", Launcher.VLLM, (None, 1, None)),
        ("text-generation-launcher --num-shard 2", Launcher.TGI, (2, 1, 2)),
        ("text-generation-launcher --model-id m", Launcher.TGI, (8, 1, 8)),
        ("python t.py", Launcher.PYTHON, (1, 1, 1)),
        ("python -u -W ignore t.py", Launcher.PYTHON, (1, 1, 1)),
        ("ray start --head", Launcher.RAY, (None, None, None)),
        ("torchrun --nproc_per_node 4 --brand-new-flag t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchrun ${A:---nproc_per_node 4} t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("PET_NPROC_PER_NODE=gpu torchrun t.py", Launcher.TORCHRUN, (8, 1, 8)),
        ("python $(which torchrun) --nproc_per_node=4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchx run -s local_cwd dist.ddp -j 1x4 --script t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("torchx run -s kubernetes dist.ddp -j 2x8 --script t.py", Launcher.OTHER, (None, None, None)),
        ("colossalai run --nproc_per_node 4 t.py", Launcher.TORCHRUN, (4, 1, 4)),
        ("tune run x --config c", Launcher.OTHER, (None, None, None)),
        ("mim train mmdet c.py --gpus 4 --launcher pytorch", Launcher.TORCH_DISTRIBUTED_LAUNCH, (4, 1, 4)),
        ("mim train mmdet c.py --gpus 4", Launcher.OTHER, (None, None, None)),
        ("FORCE_TORCHRUN=1 llamafactory-cli train c.yaml", Launcher.LLAMA_FACTORY, (8, 1, 8)),
        ("NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train c.yaml", Launcher.LLAMA_FACTORY, (4, 2, 8)),
        ("USE_RAY=1 llamafactory-cli train c.yaml", Launcher.OTHER, (None, None, None)),
        ("llamafactory-cli chat c.yaml", Launcher.OTHER, (None, None, None)),
        ("NPROC_PER_NODE=4 swift sft --model m", Launcher.SWIFT, (4, 1, 4)),
        ("NNODES=2 PET_NPROC_PER_NODE=gpu swift pt --model m", Launcher.SWIFT, (8, 2, 16)),
        ("swift sft --model m", Launcher.OTHER, (None, None, None)),
        ("NPROC_PER_NODE=4 swift infer --model m", Launcher.OTHER, (None, None, None)),
        ("NPROC_PER_NODE=8 xtuner train c", Launcher.XTUNER, (8, 1, 8)),
        ("xtuner train c", Launcher.OTHER, (None, None, None)),
        ("deepspeed --num_gpus -1 t.py", Launcher.DEEPSPEED, (8, 1, 8)),
        ("deepspeed --num_gpus 4 $MORE t.py", Launcher.DEEPSPEED, (None, 1, None)),
        ("deepspeed $MORE --num_gpus 4 t.py", Launcher.DEEPSPEED, (4, 1, 4)),
        ("mkdir /job; echo a slots=4 > /job/hostfile; deepspeed t.py", Launcher.DEEPSPEED, (4, 1, 4)),
        ("accelerate launch --multi_gpu --num_processes=$N t.py", Launcher.ACCELERATE, (None, 1, None)),
        ("accelerate launch --cpu t.py", Launcher.ACCELERATE, (1, 1, 1)),
        ("python -m accelerate.commands.launch --num_processes 4 t.py", Launcher.ACCELERATE, (4, 1, 4)),
        ("python -m accelerate.commands.accelerate_cli launch --num_processes 4 t.py", Launcher.ACCELERATE, (4, 1, 4)),
        ("echo 'num_processes: 4' > ~/.cache/huggingface/accelerate/default_config.yaml; accelerate launch t.py",
         Launcher.ACCELERATE, (4, 1, 4)),
        ("mpirun -H a:4,b:4 python t.py", Launcher.MPIRUN, (4, 2, 8)),
        ("mpirun -H a,b python t.py", Launcher.MPIRUN, (None, 2, None)),
        ("mpirun -np 8 -H a:6,b:2 python t.py", Launcher.MPIRUN, (4, 2, 8)),
        ("mpirun -np 16 --map-by ppr:8:node --bind-to none python t.py", Launcher.MPIRUN, (8, 2, 16)),
        ("mpiexec -ppn 4 -n 8 -hosts a,b -genv A 1 python t.py", Launcher.MPIRUN, (4, 2, 8)),
        ("printf 'a slots=2\\nb slots=2\\n' > h; mpirun --hostfile h python t.py", Launcher.MPIRUN, (2, 2, 4)),
        ("composer --world_size 16 -n 8 --node_rank 0 t.py", Launcher.COMPOSER, (8, 2, 16)),
        ("LOCAL_WORLD_SIZE=2 composer t.py", Launcher.COMPOSER, (2, 1, 2)),
        ("fabric run t.py", Launcher.LIGHTNING, (1, 1, 1)),
        ("fabric run --devices auto t.py", Launcher.LIGHTNING, (8, 1, 8)),
        ("lightning run model --devices=4 --num-nodes 2 t.py", Launcher.LIGHTNING, (4, 2, 8)),
        ("python -m vllm.entrypoints.cli.main serve m -tp 2", Launcher.VLLM, (2, 1, 2)),
        ("python -m sglang.launch_server --tp 8 --dp 8 --enable-dp-attention", Launcher.SGLANG, (8, 1, 8)),
        ("NUM_SHARD=2 text-generation-launcher", Launcher.TGI, (2, 1, 2)),
        ("text-generation-launcher --sharded false", Launcher.TGI, (1, 1, 1)),
        ("wandb agent a/b/c", Launcher.OTHER, (None, None, None)),
        ("fairseq-train d --distributed-world-size 4", Launcher.OTHER, (None, None, None)),
    ],
)  # fmt: skip
def test_a_launcher_starts_as_many_processes_as_its_options_say(
    source: str, launcher: Launcher, expected: tuple[int | list[int] | None, ...]
) -> None:
    (launch,) = planned(source).launches
    assert launch.launcher is launcher
    assert (known(launch.processes_per_node), known(launch.nodes), known(launch.total)) == expected


def test_a_bare_torchrun_takes_the_injected_counts() -> None:
    launch = launch_of("torchrun t.py", environment=PET)
    assert (known(launch.processes_per_node), known(launch.nodes)) == (8, 2)
    assert launch.processes_per_node.source is CountSource.ENVIRONMENT
    assert launch.processes_per_node.variable == "PET_NPROC_PER_NODE"
    assert not launch.explicit


@pytest.mark.parametrize(
    "source, expected",
    [
        ("torchrun --nproc_per_node=4 t.py", "--nproc_per_node=4"),
        ("torchrun --nproc_per_node 4 t.py", "--nproc_per_node 4"),
        ("N=4; torchrun --nproc_per_node=$N t.py", "--nproc_per_node=4"),
        ("PET_NPROC_PER_NODE=4 torchrun t.py", "PET_NPROC_PER_NODE=4"),
        ("deepspeed --include localhost:0,1 t.py", "--include localhost:0,1"),
        ("torchrun t.py", ""),
    ],
)
def test_a_count_knows_the_words_that_made_it(source: str, expected: str) -> None:
    assert launch_of(source).processes_per_node.text == expected


@pytest.mark.parametrize(
    "source, expected",
    [
        ("torchrun --nproc_per_node=4 t.py", True),
        ("torchrun --nproc_per_node=4 t.py --tensor-model-parallel-size 2", False),
        ("torchrun --nproc_per_node=4 t.py model.tp_size=2", False),
        ("torchrun --nproc_per_node=4 t.py --tensor-model-parallel-size 1", True),
        ("torchrun --nproc_per_node=4 t.py --tensor-model-parallel-size $TP", False),
        ("torchrun --nproc_per_node=4 t.py --data_parallel_size 4", True),
        ("torchrun --nproc_per_node=4 t.py --device_map auto", False),
        ("horovodrun -np 4 python t.py", True),
        ("accelerate launch --multi_gpu --num_processes 4 t.py", True),
        ("accelerate launch --num_processes 4 t.py", True),
        ("accelerate launch --num_processes 1 t.py", False),
        ("deepspeed --num_gpus 4 t.py", True),
        ("mpirun -np 4 python t.py", False),
        ("python t.py", False),
        ("vllm serve m -tp 4", False),
        ("NPROC_PER_NODE=4 llamafactory-cli train c", True),
        ("NPROC_PER_NODE=4 swift sft", False),
        ("torchrun --no_python --nproc_per_node=4 ./binary", False),
    ],
)
def test_launchers_that_give_each_process_one_device_are_told_from_others(source: str, expected: bool) -> None:
    assert launch_of(source).one_device_per_process is expected


@pytest.mark.parametrize(
    "source, indices, count",
    [
        ("export CUDA_VISIBLE_DEVICES=0,2; python t.py", (0, 2), 2),
        ("CUDA_VISIBLE_DEVICES= python t.py", (), 0),
        ("CUDA_VISIBLE_DEVICES=-1 python t.py", (), 0),
        ("CUDA_VISIBLE_DEVICES=0,-1,1 python t.py", (0,), 1),
        ("CUDA_VISIBLE_DEVICES=GPU-3a,GPU-4b python t.py", None, 2),
        ("CUDA_VISIBLE_DEVICES=$X python t.py", None, None),
    ],
)
def test_visible_devices_are_read(source: str, indices: tuple[int, ...] | None, count: int | None) -> None:
    devices = launch_of(source).devices
    assert devices is not None
    assert (devices.indices, devices.count) == (indices, count)


def test_without_the_variable_all_devices_are_visible() -> None:
    assert launch_of("export CUDA_VISIBLE_DEVICES=0; unset CUDA_VISIBLE_DEVICES; python t.py").devices is None


@pytest.mark.parametrize(
    "source, expected",
    [
        ("torchrun --rdzv-endpoint=host:29400 t.py", True),
        ("torchrun --rdzv-endpoint=localhost:0 t.py", False),
        ("torchrun --master_addr $MASTER_ADDR t.py", True),
        ("torchrun t.py", False),
        ("accelerate launch --main_process_ip 10.0.0.1 t.py", True),
    ],
)
def test_a_rendezvous_is_an_address_of_another_pod(source: str, expected: bool) -> None:
    assert launch_of(source).rendezvous is expected


@pytest.mark.parametrize(
    "source, program, arguments",
    [
        ("torchrun --nproc_per_node 2 t.py --lr 1", ["t.py"], ["--lr", "1"]),
        ("torchrun --rdzv_id 7 --tee 3 -m a.b c", ["-m", "a.b"], ["c"]),
        ("python -m torch.distributed.launch --nproc_per_node=2 a/t.py", ["a/t.py"], []),
        ("accelerate launch --mixed_precision bf16 --dynamo_backend no t.py --x", ["t.py"], ["--x"]),
        ("deepspeed --master_port 29500 t.py --deepspeed", ["t.py"], ["--deepspeed"]),
        ("mpirun --allow-run-as-root -mca btl ^x -bind-to none -np 2 python t.py", ["python"], ["t.py"]),
        ("horovodrun -np 2 --verbose python t.py", ["python"], ["t.py"]),
        ("python -O -X dev a.py b", ["a.py"], ["b"]),
        ("python -m pkg.train --x", ["-m", "pkg.train"], ["--x"]),
        ("torchrun --unknown-option 5 t.py", ["t.py"], []),
    ],
)
def test_options_end_at_the_program(source: str, program: list[str], arguments: list[str]) -> None:
    launch = launch_of(source)
    assert [str(word) for word in launch.program] == program
    assert [str(word) for word in launch.arguments] == arguments


def test_the_accelerate_config_that_the_script_writes_is_read() -> None:
    source = "cat > c.yaml <<'E'\ndistributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 8\nE\n"
    launch = planned(source + "accelerate launch --config_file c.yaml t.py").launches[0]
    assert (known(launch.total), known(launch.nodes), launch.multi_gpu) == (8, 2, True)


@pytest.mark.parametrize("written, read", [("NO", "NO"), ("'NO'", "NO"), ("FSDP", "FSDP"), ("no", "NO")])
def test_accelerates_kind_of_distribution_is_read_as_accelerate_reads_it(written: str, read: str) -> None:
    """Without quotes, YAML makes NO a false."""
    source = f"cat > c.yaml <<'E'\ndistributed_type: {written}\nE\naccelerate launch --config_file c.yaml t.py"
    assert planned(source).launches[0].distributed_type == read


def test_each_launch_reads_its_config_as_it_is_then() -> None:
    write = "cat > c.yaml <<E\nnum_processes: {}\nE\naccelerate launch --config_file c.yaml t.py\n"
    assert [known(each.total) for each in planned(write.format(4) + write.format(8)).launches] == [4, 8]


@pytest.mark.parametrize(
    "text", ["a: &x [1]\nb: [*x,*x]", "{", "- 1", "num_processes: [1]", "\t", "a: !!python/object:x {}"]
)
def test_a_config_of_any_content_is_no_reason_to_fail(text: str) -> None:
    source = f"cat > c.yaml <<'E'\n{text}\nE\naccelerate launch --config_file c.yaml t.py"
    assert known(planned(source).launches[0].total) is None


@pytest.mark.parametrize(
    "source, role, tool",
    [
        ("pip install torch", Role.INSTALL, "pip"),
        ("python -m pip install -q x", Role.INSTALL, "pip"),
        ("uv pip install x", Role.INSTALL, "uv"),
        ("pip list", Role.TRIVIAL, "pip"),
        ("conda env create -f e.yml", Role.INSTALL, "conda"),
        ("conda activate x", Role.TRIVIAL, "conda"),
        ("apt-get -y install git", Role.INSTALL, "apt-get"),
        ("python setup.py install", Role.INSTALL, "setup.py"),
        ("cmake --build .", Role.INSTALL, "cmake"),
        ("make -j 8 CUDA=1 install", Role.INSTALL, "make"),
        ("make -C x train", Role.OPAQUE, "make"),
        ("make $TARGET", Role.OPAQUE, "make"),
        ("npm run train", Role.OPAQUE, "npm"),
        ("dvc repro", Role.OPAQUE, "dvc"),
        ("env -S 'A=1 python' t.py", Role.OPAQUE, "env"),
        ("wandb agent a/b/c", Role.LAUNCH, "wandb"),
        ("mim install mmcv", Role.INSTALL, "mim"),
        ("docker run --gpus all x torchrun t.py", Role.OPAQUE, "docker"),
        ("tools/train.sh c.py 8", Role.OPAQUE, "train.sh"),
        ("tools/dist_train.sh c.py 8", Role.LAUNCH, "dist_train.sh"),
        ("tools/dist_train.sh c.py $GPUS", Role.OPAQUE, "dist_train.sh"),
        ("coverage run t.py", Role.LAUNCH, "t.py"),
        ("git clone https://example.org/a", Role.INSTALL, "git"),
        ("git clone https://huggingface.co/a/b", Role.DOWNLOAD, "git"),
        ("git status", Role.TRIVIAL, "git"),
        ("git lfs pull", Role.DOWNLOAD, "git lfs"),
        ("wget https://example.org/a", Role.DOWNLOAD, "wget"),
        ("curl -sO https://example.org/a", Role.DOWNLOAD, "curl"),
        ("curl localhost:8000/health", Role.TRIVIAL, "curl"),
        ("curl -X POST https://hooks.example.org -d x", Role.TRIVIAL, "curl"),
        ("huggingface-cli download a/b", Role.DOWNLOAD, "huggingface-cli"),
        ("huggingface-cli login --token $T", Role.TRIVIAL, "huggingface-cli"),
        ("aws s3 cp s3://a/b . --recursive", Role.DOWNLOAD, "aws"),
        ("aws s3 cp out s3://a/b", Role.UPLOAD, "aws"),
        ("gsutil -m rsync -r gs://a /d", Role.DOWNLOAD, "gsutil"),
        ("rclone copy remote:a /d", Role.DOWNLOAD, "rclone"),
        ("python -c 'from huggingface_hub import snapshot_download; snapshot_download(\"a/b\")'", Role.DOWNLOAD,
         "huggingface_hub"),
        ("cp -r /nfs/env /opt", Role.COPY, "cp"),
        ("cp a b", Role.TRIVIAL, "cp"),
        ("sleep 5", Role.SLEEP, "sleep"),
        ("sleep infinity", Role.ENDLESS, "sleep"),
        ("timeout 1h sleep infinity", Role.SLEEP, "sleep"),
        ("tail -f /dev/null", Role.ENDLESS, "tail"),
        ("tail -n 5 x", Role.TRIVIAL, "tail"),
        ("tail --pid=3 -f x", Role.TRIVIAL, "tail"),
        ("while true; do sleep 60; done", Role.ENDLESS, "sleep"),
        ("wait", Role.WAIT, "wait"),
        ("jupyter lab --ip=0.0.0.0", Role.INTERACTIVE, "jupyter"),
        ("jupyter nbconvert --execute x.ipynb", Role.OTHER, "jupyter"),
        ("python -m notebook", Role.INTERACTIVE, "notebook"),
        ("/usr/sbin/sshd -D", Role.INTERACTIVE, "sshd"),
        ("/usr/sbin/sshd", Role.TRIVIAL, "sshd"),
        ("code-server", Role.INTERACTIVE, "code-server"),
        ("bash", Role.INTERACTIVE, "bash"),
        ("python", Role.INTERACTIVE, "python"),
        ("ipython", Role.INTERACTIVE, "ipython"),
        ("python -m debugpy --listen 5678 --wait-for-client t.py", Role.INTERACTIVE, "debugpy"),
        ("python -m debugpy --listen 5678 t.py", Role.LAUNCH, "python"),
        ("ipython train.py", Role.LAUNCH, "ipython"),
        ("spark-submit a.jar", Role.NON_DL, "spark-submit"),
        ("spark-submit --conf spark.rapids.sql.enabled=true a.jar", Role.OTHER, "spark-submit"),
        ("spark-submit $OPTIONS a.jar", Role.OTHER, "spark-submit"),
        ("Rscript a.R", Role.NON_DL, "Rscript"),
        ("bash train.sh", Role.OPAQUE, "bash"),
        ("./train.sh", Role.OPAQUE, "train.sh"),
        ("eval \"$X\"", Role.OPAQUE, "eval"),
        ("source ./x.sh", Role.OPAQUE, "source"),
        ("source venv/bin/activate", Role.TRIVIAL, "source"),
        ("$X y", Role.OPAQUE, ""),
        ("echo torchrun t.py", Role.TRIVIAL, "echo"),
        ("python --version", Role.TRIVIAL, "python"),
        ("torchrun --help", Role.TRIVIAL, "torchrun"),
        ("accelerate config default", Role.TRIVIAL, "accelerate"),
        ("nvidia-smi", Role.TRIVIAL, "nvidia-smi"),
        ("nvidia-smi -l 5", Role.ENDLESS, "nvidia-smi"),
        ("my-own-tool", Role.OTHER, "my-own-tool"),
        ("python -c 'import torch'", Role.OTHER, "python"),
    ],
)  # fmt: skip
def test_commands_have_roles(source: str, role: Role, tool: str) -> None:
    command = command_of(source)
    assert (command.role, command.tool) == (role, tool)


def test_an_install_knows_its_packages_and_requirements() -> None:
    command = command_of("pip install -U torch==2.4 'a>1' -r r.txt -e . --index-url https://x --no-deps -c limits.txt")
    assert [str(word) for word in command.packages] == ["torch==2.4", "a>1", "."]
    assert [str(word) for word in command.requirements] == ["r.txt"]
    conda = command_of("conda install -y -c nvidia -n x cudatoolkit pytorch")
    assert [str(word) for word in conda.packages] == ["cudatoolkit", "pytorch"]


def test_a_download_knows_its_addresses() -> None:
    assert [str(word) for word in command_of("wget -q -O x https://a.example/x https://b.example/y").urls] == [
        "https://a.example/x",
        "https://b.example/y",
    ]


@pytest.mark.parametrize(
    "source, seconds",
    [("sleep 90", 90), ("sleep 1.5h", 5400), ("sleep 1m 30s", 90), ("sleep $X", None), ("sleep inf", float("inf"))],
)
def test_a_sleep_knows_its_seconds(source: str, seconds: float | None) -> None:
    assert command_of(source).seconds == seconds


def test_waiting_for_an_endless_background_command_is_endless() -> None:
    assert [command.role for command in planned("sleep infinity & wait").commands] == [Role.ENDLESS, Role.ENDLESS]
    assert planned("python t.py & wait").commands[-1].role is Role.WAIT


def test_a_pause_in_an_endless_loop_around_work_is_no_end() -> None:
    assert planned("while true; do python t.py; sleep 60; done").commands[-1].role is Role.SLEEP


def test_trailing_commands_are_those_after_the_last_launch() -> None:
    result = planned("pip install x\nsleep 1\npython a.py\npython b.py\nsleep 2\nsleep 3")
    assert [command.seconds for command in result.trailing()] == [2, 3]
    assert planned("sleep 1").trailing() == ()


def test_a_plan_is_readable_when_nothing_is_hidden() -> None:
    assert planned("python t.py").readable
    assert not planned("bash x.sh; python t.py").readable
    assert not planned("python t.py; if x").readable
