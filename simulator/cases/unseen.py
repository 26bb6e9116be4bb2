"""Mechanisms that thresholds are never tuned on: other ways to the same causes, measured on their own."""

from dataclasses import replace

from simulator.case import COMMON, Cast, Draw, begin, case, cast, fed, hours
from simulator.hardware import A100, H100, V100
from simulator.job import Story
from simulator.networks import EFFICIENTNET, GRAPH, RANKING, RESNET50, SPEECH, SWIN_BASE, TABULAR, UNET3D, VIT_LARGE
from simulator.timeline import PodUse
from simulator.training import Exchange, Storage
from stoker.findings.vocabulary import Category


@case("unseen-checkpoint-preallocated", Category.MODEL_CHECKPOINTING, unseen=True)
def checkpoint_preallocated(draw: Draw) -> Cast:
    """A framework that takes all memory at once saves every few hundred steps, to a mount, in two parts."""
    training = draw.tuned(networks=[EFFICIENTNET, replace(EFFICIENTNET, parameters=480)], layouts=[(1, 1), (1, 2)])
    training = replace(training, memory=training.gpu.memory * 0.95, exchange=Exchange.NONE, ranks=1, ranks_per_pod=1)
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    size, rate, share = draw.scale(1.5e9, 1e10), draw.scale(4e7, 1.5e8), draw.between(0.4, 0.6)
    while story.seconds < total:
        before = story.seconds
        story.checkpoint(size * 0.7, rate, remote=True)
        story.wait(draw.between(2, 8), "checkpoint", pod=PodUse(cpu=1.0, memory=training.host_memory))
        story.checkpoint(size * 0.3, rate, remote=True)
        story.train(regime, (story.seconds - before) * (1 - share) / share)
    return cast(draw, story)


@case("unseen-read-cold-epochs", Category.REMOTE_DATA_READ, unseen=True)
def read_cold_epochs(draw: Draw) -> Cast:
    """The first epochs read from a mount; later ones find most of the data in the page cache."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE, SPEECH, UNET3D])
    use = training.batch * training.ranks_per_pod / training.step * training.network.stored_bytes
    cold = replace(training, storage=Storage.MOUNT, bandwidth=use / draw.scale(2, 5), latency=2e-4, jitter=0.35)
    story = begin(draw, training)
    total = hours(draw)
    story.train(story.regime(cold), total * draw.between(0.55, 0.8))
    story.train(story.regime(fed(replace(training, storage=Storage.MEMORY))), total * 0.25)
    return cast(draw, story, facts={"has_persistent_volume": True})


@case("unseen-decoder-thread", Category.DATA_PREPROCESSING, unseen=True)
def decoder_thread(draw: Draw) -> Cast:
    """A pipeline with one decoding thread feeds a framework that holds all memory."""
    training = draw.tuned(networks=[EFFICIENTNET], layouts=[(1, 1), (1, 2)], workers=1)
    training = replace(training, memory=training.gpu.memory * 0.94, storage=Storage.DISK, latency=0.0, workers=1)
    need = draw.scale(1.8, 4.5) * training.step / training.batch
    story = begin(draw, replace(training, cpu_per_sample=need))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("unseen-copies-back", Category.INEFFICIENT_HOST_GPU_TRANSFER, unseen=True)
def copies_back(draw: Draw) -> Cast:
    """Large sparse inputs go in pageable copies on a machine with a slow bus, at half the usual pageable rate."""
    training = draw.tuned(networks=[UNET3D, GRAPH], gpus=[V100, A100], layouts=[(1, 1), (1, 2), (1, 4)])
    slow = replace(training.gpu, pageable=training.gpu.pageable * draw.between(0.4, 0.7))
    heavy = training.compute * draw.scale(1.2, 3.0) * slow.pageable * 1e9 / training.batch
    network = replace(training.network, device_bytes=heavy)
    training = replace(training, gpu=slow, network=network, pinned=False, copies=16, storage=Storage.MEMORY)
    story = begin(draw, fed(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("unseen-small-batch-mlp", Category.IMPROPER_BATCH_SIZE, unseen=True)
def small_batch_mlp(draw: Draw) -> Cast:
    """A tabular model of a hundred tiny kernels, with batches of a beginner's notebook."""
    training = draw.tuned(
        networks=[TABULAR, GRAPH], gpus=[A100, H100, V100], layouts=[(1, 1)], batch=draw.pick([16, 32])
    )
    training = replace(training, synchronizes=True, host_gap=draw.scale(4e-3, 1e-2), storage=Storage.MEMORY)
    story = begin(draw, fed(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("unseen-upload-logs", Category.INTERMEDIATE_RESULT_UPLOAD, unseen=True)
def upload_logs(draw: Draw) -> Cast:
    """Every minute or so the run's folder is synchronized with a store: listings, and what has changed."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1.2, 3)
    mean = draw.scale(30, 80)
    while story.seconds < total:
        story.train(regime, mean * draw.scale(0.5, 1.5))
        listing = PodUse(cpu=0.4, memory=training.host_memory, net_rx=2e5, net_tx=1.5e5)
        story.wait(mean * draw.between(0.1, 0.3), "upload", pod=listing)
        story.upload(mean * draw.scale(0.3, 1.6) * (rate := draw.scale(2e6, 2e7)), rate)
    return cast(draw, story)


@case("unseen-parameter-servers", Category.DATA_EXCHANGE, unseen=True)
def parameter_servers(draw: Draw) -> Cast:
    """Workers of one GPU each push parts of their gradients to remote servers and pull parameters, over TCP."""
    training = draw.tuned(networks=[VIT_LARGE, replace(RANKING, parameters=350)], layouts=[(2, 1), (4, 1)])
    training = replace(training, exchange=Exchange.HOST, network_bandwidth=draw.scale(4e8, 1.2e9), rdma=False)
    wanted = draw.between(0.5, 0.7)
    factor = wanted / (1 - wanted) * (training.copy + training.compute) / training.exposed
    network = replace(training.network, parameters=training.network.parameters * factor)
    training = replace(training, network=network, memory=training.gpu.memory * draw.between(0.55, 0.85), accumulate=1)
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("unseen-long-cells", Category.INTERACTIVE_JOB, unseen=True)
def long_cells(draw: Draw) -> Cast:
    """A notebook whose cells train for minutes, with lunch, meetings and nights between them."""
    training = draw.tuned(layouts=[(1, 1), (1, 2)])
    story = Story(draw.rng, training)
    typing = PodUse(cpu=0.02, memory=3e9, net_rx=3e3, net_tx=7e3)
    story.cpu_only(draw.scale(200, 1500), "thinking", typing)
    regime, total = story.regime(), hours(draw, 8, 16)
    while story.seconds < total:
        story.train(regime, draw.scale(20, 200))
        story.wait(draw.scale(300, 9000), "thinking", pod=typing)
    return cast(draw, story, finished=False, facts={"interactive_entry": draw.chance(0.5)})


@case("unseen-solver", Category.LONG_LIBRARY_INSTALLATION, unseen=True)
def solver(draw: Draw) -> Cast:
    """An environment solver computes on one core for long, then fetches and links packages."""
    story = Story(draw.rng, draw.tuned())
    story.cpu_only(60 * draw.scale(6, 20), "install", PodUse(cpu=1.0, memory=2e9, net_rx=5e3, net_tx=3e3))
    story.install_wheels(60 * draw.scale(8, 20))
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(5, 45))
    story.train(story.regime(), hours(draw, 0.6, 3))
    return cast(draw, story)


@case("unseen-clone", Category.EXTERNAL_DATA_USAGE, unseen=True)
def clone(draw: Draw) -> Cast:
    """A repository of large files from a public site: in turns fast and nearly stopped by a rate limit."""
    story = Story(draw.rng, draw.tuned())
    story.boot(draw.scale(10, 40))
    until = story.seconds + 60 * draw.scale(25, 80)
    while story.seconds < until:
        rate = draw.scale(1.5e7, 6e7)
        story.download(rate * draw.scale(60, 240), rate)
        story.download(2e6 * draw.scale(20, 90), 2e6)
    story.load_model(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.6, 2.5))
    return cast(draw, story)


@case("unseen-server-stays", Category.UNRELEASED_JOB, unseen=True)
def keeps_a_server(draw: Draw) -> Cast:
    """After training a dashboard's server keeps the pods alive, and is asked for its health now and then."""
    story = begin(draw, draw.tuned())
    story.train(story.regime(), hours(draw, 0.7, 3))
    pod = PodUse(cpu=0.03, memory=1e9, net_rx=2.5e3, net_tx=4e3)
    story.cpu_only(60 * draw.scale(30, 200), "asleep", pod)
    return cast(draw, story, finished=False)


@case("unseen-sampling", unseen=True)
def sampling(draw: Draw) -> Cast:
    """A generative model draws samples for a minute each epoch, at a lower level than it trains."""
    training = draw.tuned(networks=[VIT_LARGE, SWIN_BASE], layouts=[(1, 1), (1, 4), (1, 8)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    samples = fed(replace(training, forward_only=True, batch=4, synchronizes=True, memory=training.gpu_memory))
    slow = story.regime(samples)
    while story.seconds < total:
        story.train(regime, 60 * draw.scale(8, 20))
        story.play(slow, draw.between(30, 90))
    return cast(draw, story)


@case("unseen-distillation", unseen=True)
def distillation(draw: Draw) -> Cast:
    """Data flows in at high rates, checkpoints leave in the background, evaluation comes each hour: all is well."""
    training = draw.tuned(networks=[SWIN_BASE, SPEECH], workers=12, layouts=[(1, 2), (1, 8), (2, 8)])
    training = fed(replace(training, storage=Storage.OBJECTS, latency=5e-4, bandwidth=6e9))
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 2, 5)
    evaluation = story.regime(fed(replace(training, forward_only=True, memory=training.gpu_memory)))
    while story.seconds < total:
        story.train(regime, 60 * draw.between(20, 40))
        story.train(regime, draw.between(20, 90), beside={"head": PodUse(cpu=0.7, net_tx=draw.scale(5e7, 4e8))})
        story.play(evaluation, draw.between(60, 240))
    return cast(draw, story)


@case("unseen-busy-start", unseen=True)
def busy_start(draw: Draw) -> Cast:
    """Some minutes of everything at the start, none of them long: wheels, a download, sharding, compilation."""
    story = Story(draw.rng, draw.tuned())
    story.install_wheels(60 * draw.between(1, 3))
    story.download(draw.scale(5e8, 3e9), draw.scale(3e7, 1e8))
    story.prepare(60 * draw.between(0.5, 2), cores=4)
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(10, 60))
    story.warm_up(60 * draw.between(1, 3))
    story.train(story.regime(), hours(draw, 2, 5))
    return cast(draw, story)
