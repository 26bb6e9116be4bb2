"""What data costs on its way: preparing, reading, copying, exchanging, sending."""

from dataclasses import replace

from simulator.case import COMMON, Cast, Draw, begin, case, cast, fed, hours
from simulator.hardware import A100, DATACENTRE, L40S, T4, V100
from simulator.job import Story
from simulator.networks import (
    BERT_LARGE,
    EFFICIENTNET,
    GPT2,
    GRAPH,
    RANKING,
    RESNET50,
    SPEECH,
    SWIN_BASE,
    TABULAR,
    UNET3D,
    VIDEO,
    VIT_LARGE,
)
from simulator.training import Exchange, Storage, Training
from stoker.findings.vocabulary import Category

IMAGES = (RESNET50, SWIN_BASE, EFFICIENTNET, SPEECH)


def starved_of_cpu(training: Training, times: float) -> Training:
    """Each sample takes so much CPU time that all the pod's cores make `1 / times` of what the GPUs could use."""
    cores = max(training.cpu_limit - training.ranks_per_pod, 1.0)
    use = training.batch * training.ranks_per_pod / training.step
    workers = max(training.workers, int(1.2 * training.cpu_limit / training.ranks_per_pod))
    return replace(training, cpu_per_sample=times * cores / use, workers=workers, storage=Storage.MEMORY)


@case("preprocessing-cores", Category.DATA_PREPROCESSING)
def preprocessing_cores(draw: Draw) -> Cast:
    """Augmentation needs a multiple of the cores that the pod may use."""
    training = draw.tuned(networks=IMAGES, gpus=[*DATACENTRE, L40S])
    training = replace(training, cpu_limit=float(training.ranks_per_pod * draw.pick([4, 6, 8, 12])))
    training = starved_of_cpu(training, draw.scale(2.0, 5.0))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("preprocessing-few-workers", Category.DATA_PREPROCESSING)
def preprocessing_few_workers(draw: Draw) -> Cast:
    """Two or three workers prepare samples, each with a core; the other cores have nothing to do."""
    training = draw.tuned(networks=[*IMAGES, VIDEO], workers=draw.pick([1, 2, 3]), layouts=[(1, 1), (1, 2), (1, 4)])
    need = draw.scale(2.0, 5.0) * training.workers * training.step / training.batch
    training = replace(training, cpu_per_sample=need, storage=Storage.MEMORY, workers=training.workers)
    story = begin(draw, replace(training, cpu_limit=float(training.ranks_per_pod * draw.pick([8, 12, 16]))))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("preprocessing-main-process", Category.DATA_PREPROCESSING)
def preprocessing_main_process(draw: Draw) -> Cast:
    """No workers: the training process prepares each batch itself, between the steps."""
    training = draw.tuned(networks=[*IMAGES, GRAPH], layouts=[(1, 1), (1, 1), (1, 4)])
    need = draw.scale(1.5, 5.0) * training.step / training.batch
    story = begin(draw, replace(training, workers=0, cpu_per_sample=need, storage=Storage.MEMORY))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("preprocessing-before", Category.DATA_PREPROCESSING)
def preprocessing_before(draw: Draw) -> Cast:
    """The whole data set is tokenized or decoded on the CPUs while the GPUs wait for training to begin."""
    training = draw.tuned(networks=COMMON)
    story = Story(draw.rng, training)
    story.boot(draw.scale(10, 60))
    story.prepare(60 * draw.scale(25, 120), cores=training.cpu_limit * draw.between(0.85, 1.2))
    story.load_model(draw.scale(10, 60))
    story.warm_up(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.7, 2.5))
    return cast(draw, story)


@case("preprocessing-each-epoch", Category.DATA_PREPROCESSING)
def preprocessing_each_epoch(draw: Draw) -> Cast:
    """Between epochs the samples are drawn and augmented anew by a pool of processes, and training waits."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    epoch, pause = 60 * draw.scale(4, 12), 60 * draw.scale(3, 9)
    cores = training.cpu_limit * draw.between(0.85, 1.1)
    busy = replace(training.pod(), cpu=min(cores, training.cpu_limit), net_rx=2e3, net_tx=2e3)
    busy = replace(busy, throttled=0.5 if training.limited else 0.0, cpu_pressure=0.6, disk_read=0.0)
    while story.seconds < total:
        story.train(regime, epoch * draw.between(0.95, 1.05))
        story.wait(pause * draw.between(0.9, 1.1), "preprocessing", pod=busy)
    return cast(draw, story)


@case("read-objects", Category.REMOTE_DATA_READ)
def read_objects(draw: Draw) -> Cast:
    """Each sample is an object in a distant store: workers wait for round trips."""
    training = draw.tuned(networks=[*IMAGES, VIDEO], workers=draw.pick([4, 8, 12]))
    need = draw.scale(1.8, 4.0) * training.workers * training.step / training.batch
    training = replace(training, latency=need, cpu_per_sample=min(training.cpu_per_sample, need * 0.1))
    story = begin(draw, replace(training, storage=Storage.OBJECTS, jitter=0.4, bandwidth=5e9))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("read-mount", Category.REMOTE_DATA_READ)
def read_mount(draw: Draw) -> Cast:
    """Samples come over a network file system whose bandwidth is a fraction of what the GPUs could take."""
    training = draw.tuned(networks=[*IMAGES, VIDEO, UNET3D])
    use = training.batch * training.ranks_per_pod / training.step * training.network.stored_bytes
    story = begin(
        draw,
        replace(
            training,
            storage=Storage.MOUNT,
            bandwidth=use / draw.scale(1.8, 5.0),
            latency=2e-4,
            workers=max(training.workers, 8),
            jitter=0.3,
        ),
    )
    story.train(story.regime(), hours(draw))
    return cast(draw, story, facts={"has_persistent_volume": True})


@case("read-shards", Category.REMOTE_DATA_READ)
def read_shards(draw: Draw) -> Cast:
    """Training stops at the end of each shard until the next one has been fetched."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2), (1, 8)], storage=Storage.MEMORY)
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    size, rate = draw.scale(4e9, 2e10), draw.scale(4e7, 2.5e8)
    fetch = size / rate
    work = fetch / draw.between(0.5, 0.75) - fetch
    pod = replace(training.pod(), cpu=0.3 + rate / 4e8, net_rx=rate * 1.03, net_tx=rate * 0.015, disk_write=rate)
    pod = replace(pod, throttled=0.0, cpu_pressure=0.0)
    while story.seconds < total:
        story.wait(fetch * draw.between(0.85, 1.25), "reading", pod=pod)
        story.train(regime, work * draw.between(0.97, 1.03))
    return cast(draw, story)


@case("unpinned-video", Category.INEFFICIENT_HOST_GPU_TRANSFER)
def unpinned_video(draw: Draw) -> Cast:
    """Large clips go to the GPU in pageable, blocking copies, which take longer than the step."""
    training = draw.tuned(networks=[VIDEO, UNET3D, GRAPH, RANKING], layouts=[(1, 1), (1, 2), (1, 4), (1, 8)])
    heavy = training.compute * draw.scale(1.2, 4.0) * training.gpu.pageable * 1e9 / training.batch
    network = replace(training.network, device_bytes=heavy)
    training = replace(training, network=network, pinned=False, workers=12, cpu_per_sample=training.cpu_per_sample / 4)
    story = begin(draw, replace(training, storage=Storage.MEMORY))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("unpinned-samples", Category.INEFFICIENT_HOST_GPU_TRANSFER)
def unpinned_samples(draw: Draw) -> Cast:
    """Each sample of a large batch goes alone, in a loop, and each copy waits for the one before."""
    training = draw.tuned(networks=[TABULAR, RANKING, GRAPH], gpus=[V100, A100, T4], layouts=[(1, 1), (1, 2)])
    batch = draw.pick([512, 1024, 2048])
    training = replace(training, batch=batch, pinned=False, copies=batch * draw.pick([2, 4]), storage=Storage.MEMORY)
    heavy = training.compute * draw.scale(0.6, 2.0) * training.gpu.pageable * 1e9 / batch
    network = replace(training.network, device_bytes=max(heavy, training.network.device_bytes))
    training = replace(
        training, network=network, cpu_per_sample=0.0, memory=training.gpu.memory * draw.between(0.55, 0.75)
    )
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("staged-samples", Category.INEFFICIENT_HOST_GPU_TRANSFER)
def staged_samples(draw: Draw) -> Cast:
    """One thread converts and stages many small copies; the other cores rest, and nothing is read meanwhile."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 1), (1, 2), (1, 4)], fill=(0.2, 0.8))
    speed, share = draw.scale(0.8e9, 3e9), draw.between(0.5, 0.75)
    slow = replace(training.gpu, pageable=speed / 1e9)
    heavy = share / (1 - share) * training.compute * speed / training.batch
    training = replace(training, gpu=slow, network=replace(training.network, device_bytes=heavy), pinned=False)
    training = replace(training, cpu_per_sample=training.cpu_per_sample / 10, storage=Storage.MEMORY)
    story = begin(draw, fed(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("preprocessing-unknown-limit", Category.DATA_PREPROCESSING)
def preprocessing_unknown_limit(draw: Draw) -> Cast:
    """Augmentation needs a multiple of the cores that the pod may use, and nobody tells how many these are."""
    training = draw.tuned(networks=IMAGES, fill=(0.2, 0.8))
    training = replace(training, cpu_limit=float(training.ranks_per_pod * draw.pick([4, 6, 8, 12])))
    training = starved_of_cpu(training, draw.scale(2.0, 5.0))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story, limits_known=False)


@case("read-short-shards", Category.REMOTE_DATA_READ)
def read_short_shards(draw: Draw) -> Cast:
    """Training stops for some seconds, several times a minute, until the next small shard has come."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2), (1, 4)], storage=Storage.MEMORY, fill=(0.2, 0.45))
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1, 2)
    fetch, share, rate = draw.scale(2.5, 8.0), draw.between(0.55, 0.75), draw.scale(2e7, 2e8)
    pod = replace(training.pod(), cpu=0.3 + rate / 4e8, net_rx=rate * 1.03, net_tx=rate * 0.015)
    pod = replace(pod, throttled=0.0, cpu_pressure=0.0)
    while story.seconds < total:
        story.wait(fetch * draw.scale(0.7, 1.5), "reading", pod=pod)
        story.train(regime, fetch * (1 - share) / share * draw.scale(0.9, 1.1))
    return cast(draw, story)


def exchanging(training: Training, draw: Draw, *, share: tuple[float, float]) -> Training:
    """Gradients grow, or steps shrink, until the exposed exchange takes this share of a step."""
    wanted = draw.between(*share)
    rest = training.copy + training.compute
    factor = (wanted / (1 - wanted)) * rest / max(training.exposed, 1e-9)
    # smaller batches per rank: the same gradients more often
    batch = max(1, int(training.batch / max(factor, 1.0)))
    smaller = replace(training, batch=batch)
    left = (wanted / (1 - wanted)) * (smaller.copy + smaller.compute) / max(smaller.exposed, 1e-9)
    return replace(smaller, network=replace(smaller.network, parameters=smaller.network.parameters * max(left, 1.0)))


@case("exchange-through-host", Category.DATA_EXCHANGE)
def exchange_through_host(draw: Draw) -> Cast:
    """Gradients are summed through host memory and TCP; the GPUs wait idle for each sum."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(1, 4), (1, 8), (2, 4), (2, 8), (4, 4)])
    nodes = training.ranks // training.ranks_per_pod
    training = replace(
        training, exchange=Exchange.HOST, network_bandwidth=draw.scale(6e8, 1.25e9) if nodes > 1 else 0.0, rdma=False
    )
    training = exchanging(training, draw, share=(0.5, 0.75))
    training = replace(training, memory=training.gpu.memory * draw.between(0.55, 0.9))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("exchange-data-parallel", Category.DATA_EXCHANGE)
def exchange_data_parallel(draw: Draw) -> Cast:
    """DataParallel: one process copies the model to all GPUs and gathers from them, in every step."""
    training = draw.tuned(
        networks=[BERT_LARGE, VIT_LARGE, SWIN_BASE], gpus=[V100, A100, L40S], layouts=[(1, 4), (1, 8)]
    )
    training = replace(training, exchange=Exchange.DATA_PARALLEL)
    training = exchanging(training, draw, share=(0.55, 0.75))
    training = replace(training, memory=training.gpu.memory * draw.between(0.55, 0.9))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("exchange-ethernet", Category.DATA_EXCHANGE)
def exchange_ethernet(draw: Draw) -> Cast:
    """NCCL over a slow Ethernet between nodes: the GPUs spin in collectives most of the time."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(2, 4), (2, 8), (4, 8)])
    training = replace(training, network_bandwidth=draw.scale(1.1e9, 2.8e9), rdma=False, overlap=0.3)
    training = exchanging(training, draw, share=(0.6, 0.8))
    training = replace(training, memory=training.gpu.memory * draw.between(0.55, 0.9))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("exchange-sockets", Category.DATA_EXCHANGE)
def exchange_sockets(draw: Draw) -> Cast:
    """Gloo over sockets between nodes: gigabytes a second go each way, and some percent more out than in."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(2, 1), (2, 4), (4, 1), (4, 4)])
    training = replace(training, exchange=Exchange.HOST, network_bandwidth=draw.scale(1e9, 4e9), rdma=False)
    training = exchanging(training, draw, share=(0.5, 0.75))
    training = replace(training, memory=training.gpu.memory * draw.between(0.3, 0.9), asymmetry=draw.scale(0.01, 0.08))
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("upload-small-files", Category.INTERMEDIATE_RESULT_UPLOAD)
def upload_small_files(draw: Draw) -> Cast:
    """Hundreds of small files go to a store one by one: round trips take the time, and little is sent."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 1), (1, 2)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1.2, 3)
    upload, share = draw.scale(40, 180), draw.between(0.45, 0.65)
    while story.seconds < total:
        story.train(regime, upload * (1 - share) / share * draw.scale(0.6, 1.6))
        rate = draw.scale(6e4, 6e5)
        story.upload(upload * draw.scale(0.5, 1.8) * rate, rate)
    return cast(draw, story)


@case("upload-images", Category.INTERMEDIATE_RESULT_UPLOAD)
def upload_images(draw: Draw) -> Cast:
    """Every so many steps, samples and plots are sent to a store, one by one, before the next step."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 1), (1, 2)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1.2, 3)
    upload, share = draw.scale(12, 50), draw.between(0.45, 0.65)
    while story.seconds < total:
        story.train(regime, upload * (1 - share) / share * draw.scale(0.5, 1.8))
        size = upload * draw.scale(0.35, 2.5)
        story.upload(size * (rate := draw.scale(1.5e6, 1.2e7)), rate)
    return cast(draw, story)


@case("upload-predictions", Category.INTERMEDIATE_RESULT_UPLOAD)
def upload_predictions(draw: Draw) -> Cast:
    """After each validation the predictions go to a tracking server as tables of changing size."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2), (1, 4)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 1.5, 4)
    validation = story.regime(replace(training, forward_only=True, memory=training.gpu_memory))
    mean, share = draw.scale(60, 200), draw.between(0.45, 0.65)
    while story.seconds < total:
        story.train(regime, mean * (1 - share) / share * draw.scale(0.6, 1.6))
        story.play(validation, draw.between(10, 30))
        rate = draw.scale(3e6, 2.5e7)
        story.upload(mean * draw.scale(0.4, 2.2) * rate, rate)
    return cast(draw, story)


@case("download-model", Category.EXTERNAL_DATA_USAGE)
def download_model(draw: Draw) -> Cast:
    """Weights come from a public hub at the job's start, over the cluster's way out."""
    training = draw.tuned(networks=[GPT2, BERT_LARGE, VIT_LARGE])
    story = Story(draw.rng, training)
    story.boot(draw.scale(10, 60))
    minutes, rate = draw.scale(18, 70), draw.scale(8e6, 9e7)
    story.download(minutes * 60 * rate, rate)
    story.load_model(draw.scale(20, 90))
    story.warm_up(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.6, 2.5))
    return cast(draw, story)


@case("download-dataset", Category.EXTERNAL_DATA_USAGE)
def download_dataset(draw: Draw) -> Cast:
    """A data set comes from its public site, and is then unpacked, before training starts."""
    training = draw.tuned(networks=IMAGES, layouts=[(1, 1), (1, 2), (1, 4), (1, 8)])
    story = Story(draw.rng, training)
    story.boot(draw.scale(10, 40))
    minutes, rate = draw.scale(25, 110), draw.scale(6e6, 8e7)
    story.download(minutes * 60 * rate, rate)
    story.prepare(draw.scale(40, 240), cores=1.0)
    story.load_model(draw.scale(5, 20))
    story.warm_up(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.6, 2.5))
    return cast(draw, story)
