"""Jobs with two causes."""

from simulator_b.draft import SPIN, Draft, Part
from simulator_b.hardware import GB, MIB
from simulator_b.mechanism import SPREAD_JOBS, mechanism
from stoker.findings.vocabulary import Category


@mechanism(Category.LONG_LIBRARY_INSTALLATION, Category.IMPROPER_BATCH_SIZE)
def wheels_then_tiny_batches(draft: Draft) -> None:
    """Half an hour of `pip install`, then steps that are bound by kernel launches."""
    cause = Category.LONG_LIBRARY_INSTALLATION
    seconds, rate = draft.scale(1_000, 2_600), draft.scale(4e6, 2e7)
    draft.loop(
        seconds,
        [
            Part(seconds=4, spread=0.8, pod={"cpu": 0.9, "net_rx": 2e5}, blame=cause),
            Part(seconds=9, spread=1.0, pod={"cpu": 0.35, "net_rx": rate, "disk_write": rate}, blame=cause),
            Part(seconds=8, spread=1.0, pod={"cpu": 1.0, "disk_write": 5e7, "io_wait": 0.1}, blame=cause),
        ],
    )
    draft.start(draft.between(0.05, 0.25))
    step = Part(seconds=0.1, gpu=draft.kernels("launch-bound"), blame=Category.IMPROPER_BATCH_SIZE)
    draft.loop(seconds * draft.between(1.0, 1.8), [step])


@mechanism(Category.DATA_PREPROCESSING, Category.MODEL_CHECKPOINTING)
def tokens_then_saves(draft: Draft) -> None:
    """All texts are tokenized at the start; then each epoch ends in a save to the store that everything waits for."""
    cores = 0.8 * min(draft.limit or draft.host.cores, draft.host.cores)
    seconds = draft.scale(1_000, 3_000)
    pod = {"cpu": cores, "disk_read": 6e6 * cores / 8, "disk_write": 4e6 * cores / 8}
    draft.phase(seconds, pod=pod, blame=Category.DATA_PREPROCESSING)
    draft.start(draft.between(0.4, 0.8))
    wait, rate = draft.scale(50, 150), draft.scale(6e7, 3e8)
    size = min(rate * wait, 0.3 * draft.card.memory * MIB)
    end = draft.life + seconds * draft.between(1.6, 2.4)
    while draft.life < end:
        draft.train(wait * draft.between(0.7, 1.1), "transformer")
        copy = size / draft.card.pageable
        save = Category.MODEL_CHECKPOINTING
        draft.phase(copy, gpu=lambda rank: {"tx": size / copy} if rank == 0 else {}, pod={"cpu": 1.0}, blame=save)  # noqa: B023 - called at once
        draft.phase(wait, pod={"cpu": 0.5, "net_tx": size / wait, "io_wait": 0.1}, blame=save)


@mechanism(Category.REMOTE_DATA_READ, Category.UNRELEASED_JOB)
def streamed_then_kept(draft: Draft) -> None:
    """A training that waits for objects from the store, and a sleep at its end."""
    draft.finished = False
    draft.start(draft.between(0.3, 0.7))
    use, rate = draft.scale(0.2, 0.8), draft.scale(7e7, 3e8)
    period = use * draft.between(1.9, 2.8)
    seconds = draft.scale(2_500, 6_000)
    draft.fed(
        seconds, make=period * 8, use=use, workers=8, compute=draft.kernels("convnet"), cores=0.12, spread=0.5,
        batch={"net_rx": rate * period, "rx": rate * period / draft.per_node}, drift=0.2,
        blame=Category.REMOTE_DATA_READ,
    )  # fmt: skip
    draft.release()
    draft.rss = 0.1 * GB
    draft.phase(seconds * draft.between(0.5, 0.9), pod={"cpu": 0.002}, blame=Category.UNRELEASED_JOB)


@mechanism(Category.DATA_EXCHANGE, Category.MODEL_CHECKPOINTING, shapes=SPREAD_JOBS)
def sockets_and_saves(draft: Draft) -> None:
    """Gradients over TCP after each step, and a save to the store every few minutes for which all nodes wait."""
    draft.start(draft.between(0.4, 0.8))
    rate = 0.6 * min(draft.host.nic, 3.1e9)
    compute = draft.scale(0.3, 1.0)
    wire = compute * draft.between(0.8, 1.4)
    size = draft.between(0.15, 0.3) * draft.card.memory * MIB
    run, end = draft.scale(150, 400), draft.scale(4_000, 11_000)
    work = draft.kernels("transformer", alone=True)
    wait = run * draft.between(0.5, 0.8)
    while draft.life < end:
        staged = rate * wire / draft.per_node / 2
        draft.loop(run, [
            Part(seconds=compute, gpu=work),
            Part(seconds=wire, pod={"cpu": draft.per_node}, blame=Category.DATA_EXCHANGE,
                 moved={"tx": staged, "rx": staged, "net_tx": rate * wire, "net_rx": rate * wire}),
        ])  # fmt: skip
        store = {"net_tx": size / wait, "cpu": 0.6}
        draft.phase(
            wait,
            pod=store,
            gpu=lambda rank: {"tx": size / wait} if rank == 0 else {},
            each_pod=lambda pod, rates: rates if pod == 0 else {},
            blame=Category.MODEL_CHECKPOINTING,
        )


@mechanism(Category.GPU_OVERSUBSCRIPTION, Category.IMPROPER_BATCH_SIZE, shapes=((1, 4), (1, 8)))
def half_the_gpus_half_asleep(draft: Draft) -> None:
    """Half of the GPUs are never touched, and the other half gets batches of a few samples."""
    used = list(range(draft.per_node // 2))
    draft.start(draft.between(0.05, 0.25), ranks=used)
    work = draft.kernels("launch-bound")
    draft.loop(
        draft.scale(2_500, 12_000),
        [
            Part(seconds=0.09, gpu=work, pod={"cpu": 0.5}, blame=Category.IMPROPER_BATCH_SIZE),
            Part(seconds=0.005, gpu=SPIN, moved={"rx": 1e6}),
        ],
        active=used,
        rest_blame=Category.GPU_OVERSUBSCRIPTION,
    )


@mechanism(Category.EXTERNAL_DATA_USAGE, Category.DATA_PREPROCESSING)
def archive_then_slow_decoding(draft: Draft) -> None:
    """An archive from a distant server, then a training whose few workers cannot decode fast enough."""
    rate, seconds = draft.scale(5e6, 4e7), draft.scale(1_200, 3_000)
    pod = {"cpu": 0.1, "net_rx": rate, "disk_write": rate, "net_tx": 0.012 * rate}
    draft.phase(seconds, pod=pod, rough=0.3, blame=Category.EXTERNAL_DATA_USAGE)
    draft.start(draft.between(0.25, 0.6))
    use = draft.scale(0.2, 0.8)
    draft.fed(
        seconds * draft.between(1.2, 2.0), make=use * 4 * draft.between(2.0, 3.0), use=use, workers=4,
        compute=draft.kernels("convnet"), cores=0.95 * draft.per_node,
        batch={"rx": 5e7, "disk_read": 6e6}, blame=Category.DATA_PREPROCESSING,
    )  # fmt: skip
