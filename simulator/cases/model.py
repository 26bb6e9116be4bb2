"""What the model's own configuration costs: batches, memory, checkpoints."""

from dataclasses import replace

from simulator.case import Cast, Draw, begin, case, cast, fed, hours
from simulator.hardware import A100, A100_40, H100, V100
from simulator.job import Story
from simulator.networks import (
    BERT_LARGE,
    EFFICIENTNET,
    GPT2,
    GPT2_XL,
    LLAMA_7B,
    LSTM,
    RESNET50,
    SPEECH,
    SWIN_BASE,
    VIT_LARGE,
)
from simulator.training import Exchange, Training
from stoker.findings.vocabulary import Category
from stoker.telemetry.series import BatchSize

ADAM_BYTES = 12
"""Of a checkpoint, each parameter: weights and both moments in single precision."""


def checkpoint_bytes(training: Training) -> float:
    """Of a whole checkpoint with the optimizer's states."""
    return training.network.parameters * 1e6 * ADAM_BYTES


@case("small-batch-convnet", Category.IMPROPER_BATCH_SIZE)
def small_batch_convnet(draw: Draw) -> Cast:
    """A few images a step: the host launches kernels more slowly than the GPU runs them."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE], batch=draw.pick([1, 2, 4]), layouts=[(1, 1), (1, 2), (1, 4)])
    story = begin(draw, replace(training, host_gap=draw.scale(3e-3, 12e-3), synchronizes=True))
    story.train(story.regime(), hours(draw))
    return cast(
        draw,
        story,
        facts={"batch_size": BatchSize(option="--batch-size", value=str(training.batch))} if draw.chance(0.5) else {},
    )


@case("small-batch-recurrent", Category.IMPROPER_BATCH_SIZE)
def small_batch_recurrent(draw: Draw) -> Cast:
    """A recurrent network of tiny kernels, with a few sequences at a time."""
    training = draw.tuned(networks=[LSTM], batch=draw.pick([8, 16, 32]), layouts=[(1, 1), (1, 1), (1, 2)])
    story = begin(draw, replace(training, host_gap=draw.scale(1.5e-2, 5e-2)))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("small-batch-transformer", Category.IMPROPER_BATCH_SIZE)
def small_batch_transformer(draw: Draw) -> Cast:
    """A fine-tuning with the tutorial's batch size, on GPUs ten times as large as the tutorial's."""
    training = draw.tuned(networks=[BERT_LARGE, SPEECH], gpus=[A100, H100], batch=draw.pick([2, 4, 8]))
    training = replace(training, host_gap=draw.scale(8e-3, 3e-2), synchronizes=True)
    story = begin(draw, training)
    for _ in range(draw.pick([2, 4, 6])):
        story.train(story.regime(), hours(draw, 0.4, 0.9))
        story.evaluate(replace(training, batch=training.batch), draw.between(30, 150))
    return cast(draw, story)


@case("small-batch-tensorflow", Category.IMPROPER_BATCH_SIZE)
def small_batch_tensorflow(draw: Draw) -> Cast:
    """A framework that may reserve memory has been told to take only what it needs, and its batch needs little."""
    training = draw.tuned(networks=[EFFICIENTNET], batch=draw.pick([2, 4]), layouts=[(1, 1), (1, 2)])
    story = begin(draw, fed(replace(training, host_gap=draw.scale(8e-3, 2.5e-2), synchronizes=True)))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("memory-one-sample", Category.INSUFFICIENT_GPU_MEMORY)
def memory_one_sample(draw: Draw) -> Cast:
    """The model hardly fits: one sample at a time, and an allocator that frees and synchronizes to make room."""
    gpu = draw.pick([V100, A100_40])
    network = GPT2_XL if gpu is A100_40 else replace(GPT2_XL, parameters=1100, kernels=8200)
    training = draw.tuned(networks=[network], gpus=[gpu], layouts=[(1, 1), (1, 1), (1, 4)], batch=1)
    full = gpu.memory * draw.between(0.84, 0.96)
    # each retry of cudaMalloc stops the device: dozens a step at this fill
    small = replace(training, network=replace(network, gflop=network.gflop * draw.scale(0.05, 0.12)), memory=full)
    training = replace(small, host_gap=draw.between(1.3, 2.6) * small.busy, synchronizes=True)
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("memory-offload", Category.INSUFFICIENT_GPU_MEMORY)
def memory_offload(draw: Draw) -> Cast:
    """Optimizer states live in host memory, because the GPUs' is full: PCIe and the CPUs take longer than the GPU."""
    gpu, per_node = draw.pick([V100, A100_40, A100]), draw.pick([1, 2, 4])
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[gpu], layouts=[(1, per_node)], batch=1)
    share = training.network.parameters * 1e6 * 2 / per_node
    light = replace(training.network, gflop=training.network.gflop * draw.scale(0.1, 0.6))
    training = replace(
        training, network=light, memory=gpu.memory * draw.between(0.84, 0.97), offload_bytes=share, host_memory=120e9
    )
    story = begin(draw, fed(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("memory-offload-activations", Category.INSUFFICIENT_GPU_MEMORY)
def memory_offload_activations(draw: Draw) -> Cast:
    """Activations or parameters lie in host memory between their uses: the links are busy both ways, the CPUs rest."""
    gpu, per_node = draw.pick([V100, A100_40, A100]), draw.pick([1, 1, 2, 4])
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[gpu], layouts=[(1, per_node)], batch=1)
    share = training.network.parameters * 1e6 * draw.between(0.5, 2) / per_node
    training = replace(training, network=replace(training.network, gflop=training.network.gflop * draw.scale(0.1, 0.6)))
    wanted = draw.between(1.2, 3.0) * training.compute
    training = replace(
        training,
        memory=gpu.memory * draw.between(0.84, 0.97),
        host_optimizer=False,
        offload_bytes=share,
        offload_speed=min(2 * share / wanted, gpu.pinned * 0.6e9),
        host_memory=120e9,
    )
    story = begin(draw, fed(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


def _epochs(
    draw: Draw, training: Training, *, share: float, total: float, remote: bool, sharded: bool = False
) -> Story:
    """Epochs that end in a synchronous checkpoint, which takes this share of the time."""
    story = begin(draw, training)
    regime = story.regime()
    size = checkpoint_bytes(training) * draw.between(0.9, 1.1)
    bandwidth = draw.scale(4e7, 3e8) if remote else draw.scale(1.5e8, 6e8)
    probe = Story(draw.rng, training)
    saving = probe.checkpoint(size, bandwidth, remote=remote, sharded=sharded)
    if saving < 15:
        size, saving = size * 15 / saving, 15.0
    epoch = saving / share * (1 - share)
    while story.seconds < total:
        story.train(regime, epoch * draw.between(0.97, 1.03))
        story.checkpoint(size, bandwidth * draw.between(0.93, 1.07), remote=remote, sharded=sharded)
    return story


@case("checkpoint-remote", Category.MODEL_CHECKPOINTING)
def checkpoint_remote(draw: Draw) -> Cast:
    """One GPU saves its whole state to a remote path each epoch, and waits for it."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2, SWIN_BASE], layouts=[(1, 1)])
    story = _epochs(draw, training, share=draw.between(0.45, 0.7), total=hours(draw), remote=True)
    return cast(draw, story)


@case("checkpoint-local", Category.MODEL_CHECKPOINTING)
def checkpoint_local(draw: Draw) -> Cast:
    """The same onto a slow local disk."""
    training = draw.tuned(networks=[VIT_LARGE, GPT2, BERT_LARGE], layouts=[(1, 1)])
    story = _epochs(draw, training, share=draw.between(0.45, 0.65), total=hours(draw), remote=False)
    return cast(draw, story)


@case("checkpoint-sharded", Category.MODEL_CHECKPOINTING)
def checkpoint_sharded(draw: Draw) -> Cast:
    """Every rank writes its share of a large model through the pod's one network link, every few minutes."""
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[A100, H100], layouts=[(1, 4), (1, 8), (2, 8)])
    training = replace(training, memory=training.gpu.memory * draw.between(0.6, 0.9))
    story = _epochs(draw, training, share=draw.between(0.45, 0.65), total=hours(draw, 2, 5), remote=True, sharded=True)
    return cast(draw, story)


@case("checkpoint-rank-zero", Category.MODEL_CHECKPOINTING)
def checkpoint_rank_zero(draw: Draw) -> Cast:
    """Rank 0 saves to a remote path; its peers spin in the next collective and look busy."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(1, 2), (1, 4), (1, 8), (2, 8)])
    story = _epochs(draw, training, share=draw.between(0.4, 0.65), total=hours(draw), remote=True)
    return cast(draw, story)


@case("checkpoint-idle-peers", Category.MODEL_CHECKPOINTING)
def checkpoint_idle_peers(draw: Draw) -> Cast:
    """Rank 0 saves to a remote path; its peers wait on a barrier of the host's, idle."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(1, 2), (1, 4), (1, 8)])
    training = replace(training, exchange=Exchange.HOST, accumulate=64)
    story = _epochs(draw, training, share=draw.between(0.4, 0.65), total=hours(draw), remote=True)
    return cast(draw, story)


@case("checkpoint-slow-mount", Category.MODEL_CHECKPOINTING)
def checkpoint_slow_mount(draw: Draw) -> Cast:
    """A mount of some megabytes a second takes the weights: the GPU stands still for most of each period."""
    training = draw.tuned(networks=[SWIN_BASE, RESNET50, SPEECH], layouts=[(1, 1), (1, 1), (1, 2)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1.2, 3)
    saving, working = draw.between(55, 110), draw.between(30, 60)
    rate = draw.scale(1.5e6, 1e7)
    while story.seconds < total:
        story.train(regime, working * draw.between(0.97, 1.03))
        story.checkpoint(saving * rate, rate * draw.between(0.93, 1.07), remote=True)
    return cast(draw, story)
