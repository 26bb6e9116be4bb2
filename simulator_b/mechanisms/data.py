"""Jobs whose data are the cause: copied badly, prepared on CPUs, read or downloaded from afar, results sent away."""

from simulator_b.draft import Draft, Part
from simulator_b.hardware import GB, MIB
from simulator_b.mechanism import NODE_JOBS, SMALL_JOBS, mechanism
from stoker.findings.vocabulary import Category

COPY, PREPARE = Category.INEFFICIENT_HOST_GPU_TRANSFER, Category.DATA_PREPROCESSING
READ, EXTERNAL = Category.REMOTE_DATA_READ, Category.EXTERNAL_DATA_USAGE
UPLOAD = Category.INTERMEDIATE_RESULT_UPLOAD


# ----------------------------------------------------------------------------------------------- copies to the GPU


@mechanism(COPY)
def staged_pageable_batches(draft: Draft) -> None:
    """Large batches in pageable memory: one thread stages them for the driver, and each copy is waited for."""
    draft.start(draft.between(0.3, 0.75))
    compute = draft.scale(0.12, 0.8)
    rate = draft.card.pageable / max(1.0, draft.per_node / 2) * draft.between(0.6, 0.95)
    copy = compute * draft.between(1.3, 2.6)
    draft.rss += 4 * rate * copy * draft.per_node
    draft.loop(
        draft.scale(2_500, 15_000),
        [
            Part(seconds=copy, spread=0.15, pod={"cpu": draft.per_node}, moved={"rx": rate * copy}, blame=COPY),
            Part(seconds=compute, gpu=draft.kernels("convnet"), pod={"cpu": draft.between(0.5, 2) * draft.per_node}),
        ],
    )
    draft.finish()


@mechanism(COPY)
def many_small_copies(draft: Draft) -> None:
    """Each step copies hundreds of small tensors one by one and reads values back, waiting for the GPU each time."""
    draft.start(draft.between(0.2, 0.6))
    step = draft.scale(0.15, 0.7)
    draft.loop(
        draft.scale(2_500, 15_000),
        [
            Part(seconds=0.62 * step, spread=0.15, pod={"cpu": draft.per_node},
                 moved={"rx": 0.62 * step * draft.scale(2e8, 9e8), "tx": 0.62 * step * draft.scale(3e7, 2e8)},
                 blame=COPY),
            Part(seconds=0.38 * step, gpu=draft.kernels("eager")),
        ],
    )  # fmt: skip
    draft.finish()


@mechanism(COPY, shapes=SMALL_JOBS)
def tables_on_the_host(draft: Draft) -> None:
    """Embedding tables live in host memory: each step gathers rows, copies them over and copies gradients back."""
    draft.start(draft.between(0.25, 0.6))
    draft.rss += draft.scale(30, 200) * GB
    compute = draft.scale(0.08, 0.3)
    size = draft.card.pageable * compute * draft.between(0.7, 1.2) / max(1, draft.per_node / 2)
    copy = size / (draft.card.pageable * 0.85) * max(1, draft.per_node / 2)
    draft.loop(
        draft.scale(2_500, 15_000),
        [
            Part(seconds=0.3 * copy, spread=0.2, pod={"cpu": 3.0 * draft.per_node}, blame=COPY),
            Part(seconds=copy, pod={"cpu": draft.per_node}, moved={"rx": size}, blame=COPY),
            Part(seconds=compute, gpu=draft.kernels("recommender")),
            Part(seconds=0.6 * copy, pod={"cpu": draft.per_node}, moved={"tx": 0.6 * size}, blame=COPY),
        ],
    )


@mechanism(COPY, shapes=((1, 1), (1, 2)))
def models_moved_in_turn(draft: Draft) -> None:
    """Two networks are trained in turn; each goes to the host while the other works, though both would fit."""
    draft.start(draft.between(0.25, 0.45))
    size = draft.between(0.12, 0.25) * draft.card.memory * MIB
    copy = size / (0.7 * draft.card.pageable)
    draft.loop(
        draft.scale(3_000, 14_000),
        [
            Part(seconds=copy, pod={"cpu": 1.0}, moved={"rx": size}, blame=COPY),
            Part(seconds=copy * draft.between(0.8, 1.4), spread=0.2, gpu=draft.kernels("diffusion")),
            Part(seconds=copy, pod={"cpu": 1.0}, moved={"tx": size}, blame=COPY),
        ],
    )


# ----------------------------------------------------------------------------------------------- work of the CPUs


@mechanism(PREPARE)
def decoding_workers(draft: Draft) -> None:
    """Workers that decode and augment pictures, too few or too slow for the GPU behind them."""
    draft.start(draft.between(0.25, 0.7))
    use = draft.scale(0.15, 0.8)
    workers = draft.pick((2, 4, 6, 8))
    draft.limit = None
    make = use * workers * draft.between(2.2, 4.0)
    size = draft.scale(2e6, 4e7)
    draft.fed(
        draft.scale(2_500, 13_000),
        make=make,
        use=use,
        workers=workers,
        compute=draft.kernels("convnet"),
        cores=draft.per_node * draft.between(0.9, 1.0),
        batch={"rx": 8 * size, "disk_read": size * draft.per_node * draft.pick((0.0, 1.0))},
        spread=0.35,
        blame=PREPARE,
    )
    draft.finish()


@mechanism(PREPARE)
def features_on_demand(draft: Draft) -> None:
    """No workers: the training process computes each sample's features itself, on one core, between steps."""
    draft.start(draft.between(0.2, 0.6))
    use = draft.scale(0.1, 1.2)
    draft.fed(
        draft.scale(2_500, 13_000),
        make=use * draft.between(1.5, 3.5),
        use=use,
        workers=0,
        compute=draft.kernels(draft.pick(("convnet", "graph"))),
        cores=draft.per_node,
        batch={"rx": draft.scale(1e6, 6e7)},
        blame=PREPARE,
    )


@mechanism(PREPARE, shapes=(*NODE_JOBS, (1, 1)))
def tokenized_at_the_start(draft: Draft) -> None:
    """All texts are tokenized on all cores before the first step, read from and written to the local disk."""
    cores = 0.85 * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.phase(draft.scale(20, 60), pod={"cpu": 1.0}, blame=PREPARE)
    rate = draft.scale(3e5, 2e6) * cores
    seconds = draft.scale(1_500, 7_000)
    draft.rss = draft.scale(4, 40) * GB
    draft.phase(seconds, pod={"cpu": cores, "disk_read": rate, "disk_write": 0.6 * rate}, rough=0.12, blame=PREPARE)
    draft.start(draft.between(0.4, 0.85))
    draft.train(seconds * draft.between(0.5, 0.85), "transformer")
    draft.finish()


@mechanism(PREPARE, shapes=((1, 1), (1, 2), (1, 4)))
def clips_under_a_limit(draft: Draft) -> None:
    """Videos are decoded by many workers under a CPU limit of a few cores, which stops them in each period."""
    draft.limit = float(draft.pick((4, 6, 8)))
    draft.start(draft.between(0.3, 0.7))
    use = draft.scale(0.4, 2.0)
    workers = 2 * int(draft.limit)
    share = draft.limit / workers
    stopped = {"throttled": draft.between(0.6, 0.95), "cpu_wait": draft.between(0.5, 0.9)}
    draft.spin = 0.05
    draft.fed(
        draft.scale(2_500, 13_000),
        make=use * workers * draft.between(1.8, 3.2),
        use=use,
        workers=workers,
        compute=draft.kernels("convnet"),
        cores=share,
        batch={"rx": draft.scale(3e7, 3e8), "disk_read": draft.scale(2e6, 4e7)},
        pod=stopped,
        blame=PREPARE,
    )


@mechanism(PREPARE)
def features_before_each_epoch(draft: Draft) -> None:
    """Before each epoch negatives are sampled and features computed anew on all cores; then the epoch runs well."""
    draft.start(draft.between(0.3, 0.7))
    cores = draft.between(0.4, 0.9) * min(draft.limit or draft.host.cores, draft.host.cores)
    epoch, end = draft.scale(90, 600), draft.scale(4_500, 14_000)
    while draft.life < end:
        draft.phase(epoch * draft.between(1.3, 1.9), pod={"cpu": cores}, rough=0.15, blame=PREPARE)
        draft.train(epoch, draft.pick(("recommender", "graph", "transformer")))


# ---------------------------------------------------------------------------------------- reads from the data store


@mechanism(READ)
def streamed_objects(draft: Draft) -> None:
    """Workers read each sample from an object store in the cluster, whose throughput for one job is bounded."""
    draft.start(draft.between(0.3, 0.75))
    rate = draft.scale(6e7, 3.5e8)
    use = draft.scale(0.2, 1.0)
    workers = draft.pick((4, 8, 16))
    period = use * draft.between(2.1, 3.6)
    draft.fed(
        draft.scale(2_500, 13_000),
        make=period * workers,
        use=use,
        workers=workers,
        compute=draft.kernels("convnet"),
        cores=draft.between(0.05, 0.2),
        batch={"net_rx": rate * period, "rx": 2 * rate * period / draft.per_node, "net_tx": 0.01 * rate * period},
        spread=0.5,
        drift=0.2,
        pod={"io_wait": 0.05},
        blame=READ,
    )


@mechanism(READ)
def small_files_on_a_share(draft: Draft) -> None:
    """Hundreds of thousands of small files on a share that the node mounts: each costs round trips, few bytes flow."""
    draft.facts["mounts_storage"] = True
    draft.start(draft.between(0.25, 0.7))
    use = draft.scale(0.15, 0.8)
    workers = draft.pick((2, 4, 8))
    draft.fed(
        draft.scale(2_500, 13_000),
        make=use * workers * draft.between(2.1, 3.8),
        use=use,
        workers=workers,
        compute=draft.kernels("convnet"),
        cores=draft.between(0.08, 0.2) * draft.per_node,
        batch={"rx": draft.scale(1e7, 8e7)},
        spread=0.6,
        drift=0.25,
        pod={"io_wait": draft.between(0.6, 0.95)},
        blame=READ,
    )


@mechanism(READ, shapes=SMALL_JOBS)
def bucket_as_a_folder(draft: Draft) -> None:
    """A bucket mounted by a process in the pod (FUSE): one request at a time for each open file, and a busy mount."""
    draft.facts["mounts_storage"] = True
    draft.start(draft.between(0.3, 0.7))
    use = draft.scale(0.3, 1.5)
    rate = draft.scale(4e7, 1.6e8)
    period = use * draft.between(2.1, 3.2)
    draft.fed(
        draft.scale(2_500, 13_000),
        make=period * 4,
        use=use,
        workers=4,
        compute=draft.kernels("convnet"),
        cores=0.12,
        batch={"net_rx": rate * period, "rx": 1.5 * rate * period / draft.per_node},
        spread=0.4,
        drift=0.2,
        pod={"cpu": rate / 1.4e8, "io_wait": 0.7},
        blame=READ,
    )


@mechanism(READ)
def shard_by_shard(draft: Draft) -> None:
    """A shard is fetched from the store at the full speed of a stream, then trained on, and so on."""
    draft.start(draft.between(0.3, 0.75))
    rate = min(draft.scale(1.5e8, 8e8), 0.7 * draft.host.nic)
    fetch = draft.scale(20, 120)
    draft.loop(
        draft.scale(3_500, 14_000),
        [
            Part(seconds=fetch, spread=0.12, drift=0.15, pod={"cpu": 0.9, "net_tx": 2e5, "disk_write": min(rate, 3e8)},
                 moved={"net_rx": rate * fetch}, blame=READ),
            Part(seconds=fetch * draft.between(0.5, 0.85), spread=0.05, gpu={**draft.kernels("convnet"), "rx": 1.5e8},
                 pod={"cpu": 2.0}),
        ],
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ external sources


def _downloaded(draft: Draft, seconds: float) -> None:
    draft.start(draft.between(0.4, 0.85))
    draft.train(seconds * draft.between(0.4, 0.85), draft.pick(("transformer", "diffusion")))
    draft.finish()


@mechanism(EXTERNAL, shapes=(*NODE_JOBS, (1, 1)))
def weights_from_a_hub(draft: Draft) -> None:
    """Weights and a data set come from a public hub, by one or a few connections, before the first step."""
    rate = draft.scale(1.2e7, 7e7)
    seconds = draft.scale(1_300, 5_500)
    draft.phase(draft.scale(8, 30), pod={"cpu": 0.9}, blame=EXTERNAL)
    parts = int(draft.rng.integers(3, 12))
    for _ in range(parts):
        speed = rate * draft.scale(0.6, 1.5)
        pod = {"cpu": 0.25 + speed / 2e8, "net_rx": speed, "disk_write": speed, "net_tx": 0.012 * speed}
        draft.phase(seconds / parts, pod=pod, rough=0.2, blame=EXTERNAL)
        draft.phase(draft.scale(1, 6), pod={"cpu": 0.5}, blame=EXTERNAL)
    _downloaded(draft, seconds)


@mechanism(EXTERNAL, shapes=SMALL_JOBS)
def archive_from_a_web_page(draft: Draft) -> None:
    """An archive from a university's server at a few megabytes/s, then its unpacking."""
    rate = draft.scale(3e6, 2.5e7)
    seconds = draft.scale(1_800, 7_000)
    pod = {"cpu": 0.08, "net_rx": rate, "disk_write": rate, "net_tx": 0.015 * rate}
    draft.phase(seconds, pod=pod, rough=0.3, blame=EXTERNAL)
    unpack = rate * seconds / 1.5e8
    pod = {"cpu": 1.0, "disk_read": 1.4e8, "disk_write": 1.8e8, "io_wait": 0.15}
    draft.phase(unpack, pod=pod, blame=EXTERNAL)
    _downloaded(draft, seconds)


@mechanism(EXTERNAL)
def download_with_refusals(draft: Draft) -> None:
    """A hub that refuses after some files (429) until a growing delay is over: bursts, minutes of nothing."""
    end = draft.scale(1_500, 6_000)
    rate, delay = draft.scale(2e7, 9e7), 20.0
    while draft.life < end:
        burst = draft.scale(15, 150)
        pod = {"cpu": 0.5, "net_rx": rate, "disk_write": rate, "net_tx": 0.01 * rate}
        draft.phase(burst, pod=pod, rough=0.25, blame=EXTERNAL)
        draft.phase(delay * draft.between(0.7, 1.3), pod={"cpu": 0.02}, blame=EXTERNAL)
        delay = min(delay * 1.5, 300.0) if draft.rng.random() < 0.7 else 20.0
    _downloaded(draft, draft.life)


# ------------------------------------------------------------------------------------------------- results sent away


@mechanism(UPLOAD)
def validation_outputs(draft: Draft) -> None:
    """Every few minutes a short validation, whose outputs go to the store before the training continues."""
    draft.start(draft.between(0.3, 0.75))
    train, end = draft.scale(60, 200), draft.scale(4_000, 13_000)
    rate = draft.scale(4e6, 5e7)
    while draft.life < end:
        draft.train(train, "convnet")
        test = {**draft.kernels("convnet"), "rx": 1e8, "tx": draft.scale(1e6, 1e8)}
        draft.phase(draft.scale(10, 35), gpu=test, pod={"cpu": 2.0})
        seconds = train * draft.between(1.5, 2.4)
        pod = {"cpu": draft.between(0.3, 1.0), "net_tx": rate, "net_rx": 0.01 * rate}
        draft.phase(seconds, pod=pod, rough=0.3, blame=UPLOAD)


@mechanism(UPLOAD, shapes=SMALL_JOBS)
def trial_statistics(draft: Draft) -> None:
    """A search of short trials: each process ends, and its artifacts are uploaded before the next one starts."""
    end = draft.scale(4_500, 15_000)
    trial = draft.scale(60, 240)
    rate = draft.scale(2e6, 2e7)
    while draft.life < end:
        draft.start(draft.between(0.15, 0.6), seconds=draft.between(8, 20))
        draft.train(trial * draft.between(0.6, 1.4), "convnet")
        draft.release()
        pod = {"cpu": 0.4, "net_tx": rate, "disk_read": 0.3 * rate}
        draft.phase(trial * draft.between(1.3, 2.0), pod=pod, rough=0.25, blame=UPLOAD)


@mechanism(UPLOAD)
def pictures_of_samples(draft: Draft) -> None:
    """Each hundred steps samples are drawn, written as pictures on one core, and sent to a tracking server."""
    draft.start(draft.between(0.3, 0.75))
    run = draft.scale(15, 60)
    size = draft.scale(5e7, 8e8)
    send = run * draft.between(1.0, 1.5)
    draft.loop(
        draft.scale(3_500, 13_000),
        [
            Part(seconds=run, spread=0.05, gpu={**draft.kernels("diffusion"), "rx": 3e7}, pod={"cpu": 1.0}),
            Part(seconds=0.4 * run, spread=0.2, gpu={"tx": 2e6}, pod={"cpu": draft.per_node}, blame=UPLOAD),
            Part(seconds=send, spread=0.3, drift=0.3, pod={"cpu": 0.2}, moved={"net_tx": size}, blame=UPLOAD),
        ],
    )


@mechanism(UPLOAD, shapes=((1, 1), (1, 2)))
def vectors_to_the_store(draft: Draft) -> None:
    """An inference that writes the vectors of each shard to the store before it begins the next."""
    draft.start(draft.between(0.2, 0.6))
    run = draft.scale(20, 90)
    rate = draft.scale(1e7, 8e7)
    send = run * draft.between(1.3, 2.2)
    work = draft.kernels("transformer", alone=True)
    draft.loop(
        draft.scale(3_500, 13_000),
        [
            Part(seconds=run, spread=0.08, gpu={**work, "rx": 4e7, "tx": rate * send / run},
                 pod={"cpu": 1.5, "disk_read": 5e6}),
            Part(seconds=send, spread=0.2, drift=0.2, pod={"cpu": 0.7}, moved={"net_tx": rate * send}, blame=UPLOAD),
        ],
    )  # fmt: skip
