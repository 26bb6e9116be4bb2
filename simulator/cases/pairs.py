"""Jobs with two things wrong in them."""

from dataclasses import replace

from simulator.case import Cast, Draw, begin, case, cast, hours
from simulator.cases.data import IMAGES, starved_of_cpu
from simulator.cases.job import ASLEEP
from simulator.cases.model import checkpoint_bytes
from simulator.hardware import A100, H100
from simulator.job import Story
from simulator.networks import BERT_LARGE, GPT2, SPEECH, VIT_LARGE
from simulator.training import Storage, Training
from stoker.findings.vocabulary import Category


def _small(draw: Draw) -> Training:
    training = draw.tuned(
        networks=[BERT_LARGE, SPEECH], gpus=[A100, H100], batch=draw.pick([2, 4]), layouts=[(1, 1), (1, 1), (1, 4)]
    )
    return replace(training, host_gap=draw.scale(1e-2, 3e-2), synchronizes=True)


def _saving(draw: Draw, story: Story, seconds: float, share: float) -> None:
    """Train and save in turns, so long, with this share of it spent saving."""
    training, until = story.training, story.seconds + seconds
    regime = story.regime()
    size, bandwidth = checkpoint_bytes(training), draw.scale(4e7, 2e8)
    while story.seconds < until:
        before = story.seconds
        story.checkpoint(size, bandwidth, remote=True)
        story.train(regime, (story.seconds - before) * (1 - share) / share * draw.between(0.97, 1.03))


@case("pair-small-batch-checkpoint", Category.IMPROPER_BATCH_SIZE, Category.MODEL_CHECKPOINTING)
def small_batch_checkpoint(draw: Draw) -> Cast:
    """A small batch, and a synchronous checkpoint after each short epoch."""
    story = begin(draw, _small(draw))
    _saving(draw, story, hours(draw), draw.between(0.3, 0.45))
    return cast(draw, story)


@case("pair-install-small-batch", Category.LONG_LIBRARY_INSTALLATION, Category.IMPROPER_BATCH_SIZE)
def install_small_batch(draw: Draw) -> Cast:
    """A long installation, then a small batch."""
    story = Story(draw.rng, _small(draw))
    story.install_wheels(60 * draw.scale(15, 40))
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(10, 40))
    story.warm_up(draw.scale(10, 40))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("pair-checkpoint-unreleased", Category.MODEL_CHECKPOINTING, Category.UNRELEASED_JOB)
def checkpoint_unreleased(draw: Draw) -> Cast:
    """Synchronous checkpoints while it trains, a sleep after it."""
    story = begin(draw, draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(1, 1)]))
    _saving(draw, story, hours(draw, 1.5, 3), draw.between(0.4, 0.6))
    story.wait(60 * draw.scale(25, 120), "asleep", pod=ASLEEP)
    return cast(draw, story, finished=False)


@case("pair-download-preprocessing", Category.EXTERNAL_DATA_USAGE, Category.DATA_PREPROCESSING)
def download_preprocessing(draw: Draw) -> Cast:
    """A data set is downloaded, and then too much is asked of too few cores in every step."""
    training = draw.tuned(networks=IMAGES, layouts=[(1, 1), (1, 2), (1, 4)])
    training = starved_of_cpu(training, draw.scale(2.0, 4.0))
    story = Story(draw.rng, training)
    rate = draw.scale(8e6, 8e7)
    story.download(60 * draw.scale(20, 60) * rate, rate)
    story.boot(draw.scale(10, 40))
    story.load_model(draw.scale(5, 30))
    story.train(story.regime(), hours(draw, 1, 3))
    return cast(draw, story)


@case("pair-processes-checkpoint", Category.GPU_OVERSUBSCRIPTION, Category.MODEL_CHECKPOINTING)
def processes_checkpoint(draw: Draw) -> Cast:
    """Half of the GPUs have no process, and the others save synchronously."""
    training = draw.tuned(networks=[VIT_LARGE, GPT2, BERT_LARGE], layouts=[(1, 4)])
    story = begin(draw, training)
    regime, until = story.regime(), hours(draw)
    share, size, bandwidth = draw.between(0.35, 0.55), checkpoint_bytes(training), draw.scale(1e8, 5e8)
    while story.seconds < until:
        before = story.seconds
        story.checkpoint(size, bandwidth, remote=True, sharded=True)
        story.train(regime, (story.seconds - before) * (1 - share) / share * draw.between(0.97, 1.03))
    roles = {(0, slot): "lead" if slot == 0 else "peers" for slot in range(4)}
    return cast(draw, story, per_node=8, roles=roles, rest="unused")


@case("pair-install-processes", Category.LONG_LIBRARY_INSTALLATION, Category.GPU_OVERSUBSCRIPTION)
def install_processes(draw: Draw) -> Cast:
    """Libraries are installed at the start, and then the launcher starts a process on half of the GPUs."""
    training = draw.tuned(layouts=[(1, 2), (1, 4)])
    story = Story(draw.rng, training)
    story.install_wheels(60 * draw.scale(14, 45))
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(5, 45))
    story.train(story.regime(), hours(draw))
    used = training.ranks_per_pod
    roles = {(0, slot): "lead" if slot == 0 else "peers" for slot in range(used)}
    return cast(draw, story, per_node=2 * used, roles=roles, rest="unused")


@case("pair-transfer-unreleased", Category.INEFFICIENT_HOST_GPU_TRANSFER, Category.UNRELEASED_JOB)
def transfer_unreleased(draw: Draw) -> Cast:
    """Pageable copies that take longer than the steps, and a sleep at the end."""
    training = draw.tuned(networks=IMAGES, layouts=[(1, 1), (1, 2)])
    heavy = training.compute * draw.scale(1.2, 3.0) * training.gpu.pageable * 1e9 / training.batch
    network = replace(training.network, device_bytes=heavy)
    story = begin(draw, replace(training, network=network, pinned=False, storage=Storage.MEMORY))
    story.train(story.regime(), hours(draw, 1, 3))
    story.wait(60 * draw.scale(25, 120), "asleep", pod=ASLEEP)
    return cast(draw, story, finished=False)


@case("pair-reading-checkpoint", Category.REMOTE_DATA_READ, Category.MODEL_CHECKPOINTING)
def reading_checkpoint(draw: Draw) -> Cast:
    """Samples come too slowly over a mount, and checkpoints go to it, synchronously."""
    training = draw.tuned(networks=IMAGES, layouts=[(1, 1), (1, 2)], workers=8)
    use = training.batch * training.ranks_per_pod / training.step * training.network.stored_bytes
    network = replace(training.network, parameters=training.network.parameters * 8)
    training = replace(training, network=network, storage=Storage.MOUNT, bandwidth=use / draw.scale(1.6, 2.6))
    story = begin(draw, replace(training, latency=2e-4, memory=training.gpu.memory * draw.between(0.55, 0.8)))
    _saving(draw, story, hours(draw), draw.between(0.25, 0.4))
    return cast(draw, story, facts={"has_persistent_volume": True})
