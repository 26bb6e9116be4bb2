"""Jobs whose model settings are the cause: batches too small, memory too short, saves that everything waits for."""

from simulator_b.draft import SPIN, Draft, Part
from simulator_b.hardware import GB, MIB
from simulator_b.mechanism import NODE_JOBS, SMALL_JOBS, mechanism
from stoker.findings.vocabulary import Category
from stoker.telemetry.series import BatchSize

BATCH, MEMORY = Category.IMPROPER_BATCH_SIZE, Category.INSUFFICIENT_GPU_MEMORY
SAVE = Category.MODEL_CHECKPOINTING


def _known_batch(draft: Draft, *values: str) -> None:
    if draft.rng.random() < 0.4:
        option = draft.pick(("--batch-size", "--per_device_train_batch_size", "batch_size"))
        draft.facts["batch_size"] = BatchSize(option=option, value=draft.pick(values))


@mechanism(BATCH)
def launch_bound_steps(draft: Draft) -> None:
    """So few samples a step that kernels end before Python has launched the next ones."""
    _known_batch(draft, "1", "2", "4", "8")
    draft.start(draft.between(0.04, 0.3))
    work = draft.kernels("launch-bound")
    feed = {"cpu": draft.between(0.3, 1.0) * draft.per_node, "disk_read": 2e6}
    draft.loop(
        draft.scale(2_500, 18_000),
        [Part(seconds=draft.scale(0.03, 0.2), spread=0.1, gpu={**work, "rx": 2e6}, pod=feed, blame=BATCH)],
    )
    draft.finish(size=0.5 * GB)


@mechanism(BATCH, shapes=((1, 1), (1, 2)))
def one_by_one_scoring(draft: Draft) -> None:
    """A scoring of documents one by one: tokens on the CPU, a short forward pass, a result copied back."""
    draft.start(draft.between(0.05, 0.25))
    work = draft.kernels("eager", alone=True)
    use = draft.scale(0.02, 0.08)
    draft.loop(
        draft.scale(2_500, 15_000),
        [
            Part(seconds=use * draft.between(1.0, 1.8), spread=0.4, pod={"cpu": draft.per_node}, blame=BATCH),
            Part(seconds=use, spread=0.4, gpu=work, moved={"rx": 2e4, "tx": 4e4}, blame=BATCH),
        ],
    )


@mechanism(BATCH)
def small_evaluation(draft: Draft) -> None:
    """A training with good steps, whose evaluation uses batches of a few samples and takes longer than the training."""
    draft.start(draft.between(0.15, 0.45))
    train, test = draft.kernels("convnet"), draft.kernels("launch-bound")
    end = draft.scale(4_000, 14_000)
    epoch = draft.scale(120, 420)
    while draft.life < end:
        draft.loop(epoch, [Part(seconds=0.02), Part(seconds=0.4, gpu={**train, "rx": 8e7}, pod={"cpu": 1.5})])
        draft.loop(
            epoch * draft.between(2.2, 4.0),
            [Part(seconds=0.05, gpu={**test, "rx": 3e6}, pod={"cpu": 1.0}, blame=BATCH)],
        )


@mechanism(BATCH, shapes=NODE_JOBS)
def small_shards(draft: Draft) -> None:
    """A data-parallel training that divided its batch by the number of GPUs until hardly anything was left for each."""
    _known_batch(draft, "4", "8", "16")
    draft.start(draft.between(0.05, 0.25))
    work = draft.kernels("launch-bound")
    step = draft.scale(0.04, 0.15)
    draft.loop(
        draft.scale(2_500, 14_000),
        [
            Part(seconds=step, gpu=work, pod={"cpu": draft.per_node}, moved={"rx": 1e6}, blame=BATCH),
            Part(seconds=0.06 * step, gpu=SPIN, moved={"link": 0.02 * step * draft.card.link}, blame=BATCH),
        ],
    )
    draft.finish(size=0.8 * GB)


@mechanism(MEMORY, cards=("T4", "V100", "A10", "L40S", "A100"))
def one_sample_fits(draft: Draft) -> None:
    """A model so large that one sample at a time fits: short kernels, and memory full to the last gibibyte."""
    _known_batch(draft, "1")
    draft.start(draft.between(0.86, 0.97))
    busy = draft.between(0.30, 0.44)
    work = {"busy": busy, "sm": 0.6 * busy, "tensor": 0.12 * busy, "dram": 0.35 * busy}
    draft.loop(
        draft.scale(3_000, 16_000),
        [Part(seconds=draft.scale(0.2, 0.8), gpu={**work, "rx": 1e6}, pod={"cpu": draft.per_node}, blame=MEMORY)],
    )
    draft.finish(size=6 * GB)


@mechanism(MEMORY, cards=("A10", "L40S", "A100", "V100"))
def offloaded_activations(draft: Draft) -> None:
    """Activations go to the host in the forward pass and come back in the backward pass, for memory is short."""
    draft.start(draft.between(0.84, 0.95))
    work = draft.kernels("transformer")
    compute = draft.scale(0.3, 1.2)
    size = 0.7 * compute * draft.card.pinned
    copy = size / (0.75 * draft.card.pinned)
    draft.rss += size * draft.per_node
    draft.loop(
        draft.scale(3_000, 14_000),
        [
            Part(seconds=0.35 * compute, gpu=work),
            Part(seconds=copy, gpu={"busy": 0.05, "dram": 0.03}, moved={"tx": size}, blame=MEMORY),
            Part(seconds=copy, gpu={"busy": 0.05, "dram": 0.03}, moved={"rx": size}, blame=MEMORY),
            Part(seconds=0.65 * compute, gpu=work),
        ],
    )


@mechanism(MEMORY, cards=("A10", "L40S", "A100", "V100"), shapes=((1, 1), (1, 2), (1, 4)))
def optimizer_on_the_host(draft: Draft) -> None:
    """Gradients go to the host, Adam runs on its cores, parameters come back: the state has no room on the GPU."""
    draft.start(draft.between(0.83, 0.95))
    work = draft.kernels("transformer")
    params = draft.between(0.2, 0.35) * draft.card.memory * MIB
    copy = params / (0.6 * draft.card.pinned)
    cores = 0.7 * min(draft.limit or draft.host.cores, draft.host.cores)
    adam = draft.between(1.5, 5.0)
    draft.rss += 6 * params * draft.per_node
    draft.loop(
        draft.scale(3_000, 14_000),
        [
            Part(seconds=0.7 * (adam + 2 * copy), gpu=work, pod={"cpu": 1.0}),
            Part(seconds=copy, gpu={"busy": 0.1, "sm": 0.02, "dram": 0.05}, moved={"tx": params}, blame=MEMORY),
            Part(seconds=adam, spread=0.05, pod={"cpu": cores, "cpu_wait": 0.1}, blame=MEMORY),
            Part(seconds=copy, gpu={"busy": 0.1, "sm": 0.02, "dram": 0.05}, moved={"rx": params}, blame=MEMORY),
        ],
    )


@mechanism(MEMORY, cards=("T4", "V100", "A10"))
def allocator_at_its_limit(draft: Draft) -> None:
    """The allocator finds no block that is large enough, frees its cache and asks the driver anew, each few steps."""
    draft.start(0.9)
    work = draft.kernels("eager")
    end = draft.scale(3_000, 9_000)
    while draft.life < end:
        for share in (draft.between(0.93, 0.98), draft.between(0.82, 0.9)):
            draft.hold(share)
            draft.loop(
                draft.scale(15, 60),
                [
                    Part(seconds=0.5, gpu=work, pod={"cpu": 0.4}),
                    Part(seconds=draft.between(0.5, 0.8), spread=0.6, pod={"cpu": 1.0}, blame=MEMORY),
                ],
            )


def _save(draft: Draft, size: float, seconds: float, pod: dict[str, float], *, all_ranks: bool = False) -> None:
    """One save by rank 0 (or all): copy to the host, serialize on one core, then write for so long."""
    ranks = draft.gpus if all_ranks else 1
    copy = max(size / ranks / draft.card.pageable, 0.3)
    draft.phase(
        copy,
        gpu=lambda rank: {"tx": size / ranks / copy} if rank < ranks else {},
        pod={"cpu": 1.0 * (draft.per_node if all_ranks else 1)},
        blame=SAVE,
    )
    draft.rss += size
    draft.phase(seconds, pod=pod, rough=0.2, blame=SAVE)
    draft.rss -= size


@mechanism(SAVE, shapes=((1, 1), (1, 1), (1, 2), (1, 4)))
def save_each_epoch_to_store(draft: Draft) -> None:
    """After each epoch the whole state goes to an object store, and all ranks wait on the CPU for the answer."""
    draft.start(draft.between(0.3, 0.8))
    epoch, share = draft.scale(50, 240), draft.between(0.55, 0.68)
    wait = epoch * share / (1 - share)
    rate = draft.scale(4e7, 4e8)
    size = min(rate * wait, 0.35 * draft.card.memory * MIB)
    end = draft.scale(3_500, 14_000)
    while draft.life < end:
        draft.train(epoch * draft.between(0.95, 1.05), draft.pick(("transformer", "convnet")))
        time = wait * draft.scale(0.8, 1.3)
        _save(draft, size, time, {"cpu": 0.6, "net_tx": size / time, "io_wait": 0.1})


@mechanism(SAVE, shapes=((1, 1), (1, 2), (1, 4)))
def save_to_mounted_share(draft: Draft) -> None:
    """Saves go to a network file system that the node has mounted: no byte of them is in the pod's metrics."""
    draft.facts["mounts_storage"] = True
    draft.start(draft.between(0.3, 0.85))
    between, end = draft.scale(60, 300), draft.scale(4_000, 15_000)
    size = draft.between(0.1, 0.3) * draft.card.memory * MIB
    while draft.life < end:
        draft.train(between, "transformer")
        _save(draft, size, between * draft.scale(1.3, 2.0), {"cpu": 0.35, "io_wait": 0.85})


@mechanism(SAVE, shapes=NODE_JOBS)
def sharded_saves_on_slow_disk(draft: Draft) -> None:
    """Each rank writes its shard to one slow local volume, often."""
    draft.facts["has_persistent_volume"] = bool(draft.rng.random() < 0.5)
    draft.start(draft.between(0.4, 0.8))
    disk = draft.scale(1e8, 4e8)
    between, end = draft.scale(80, 240), draft.scale(4_000, 12_000)
    size = disk * between * draft.between(1.3, 2.0)
    size = min(size, 0.25 * draft.card.memory * MIB * draft.per_node)
    train = min(between, size / disk / 1.3)
    while draft.life < end:
        draft.train(train, "transformer")
        time = size / disk
        _save(draft, size, time, {"cpu": 1.5, "disk_write": disk, "io_wait": 0.7}, all_ranks=True)


@mechanism(SAVE, shapes=SMALL_JOBS)
def save_on_each_record(draft: Draft) -> None:
    """Within the step loop, a save to a remote path whenever the score is better than ever: often and irregular."""
    draft.start(draft.between(0.2, 0.7))
    rate = draft.scale(3e7, 2.5e8)
    size = min(rate * draft.scale(20, 70), 0.3 * draft.card.memory * MIB)
    end = draft.scale(3_000, 12_000)
    while draft.life < end:
        pause = size / rate * draft.scale(0.8, 1.25)
        draft.train(float(draft.rng.exponential(0.62 * pause)) + 4.0, "convnet")
        _save(draft, size, pause, {"cpu": 0.5, "net_tx": size / pause})
