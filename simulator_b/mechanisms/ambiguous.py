"""Jobs whose true cause no metric of any tier tells from some others: a label of several acceptable causes."""

import numpy as np

from simulator_b.draft import SPIN, Draft, Part
from simulator_b.hardware import GB
from simulator_b.mechanism import NODE_JOBS, SPREAD_JOBS, mechanism
from simulator_b.track import Rates
from stoker.findings.vocabulary import Category, Framework

MISUSE, NON_DL = Category.API_MISUSE, Category.NON_DL_JOB
READ, EXTERNAL = Category.REMOTE_DATA_READ, Category.EXTERNAL_DATA_USAGE
INSTALL, PREPARE = Category.LONG_LIBRARY_INSTALLATION, Category.DATA_PREPROCESSING
EXCHANGE, STRAGGLER = Category.DATA_EXCHANGE, Category.STRAGGLER
UNRELEASED, STALLED = Category.UNRELEASED_JOB, Category.STALLED
BATCH, MEMORY = Category.IMPROPER_BATCH_SIZE, Category.INSUFFICIENT_GPU_MEMORY


@mechanism(MISUSE, or_else=(Category.GPU_OVERSUBSCRIPTION,), shapes=NODE_JOBS)
def one_visible_device(draft: Draft) -> None:
    """A script with one visible device in a job with several: a wrong variable, or a request that is too large."""
    draft.start(draft.between(0.3, 0.85), ranks=[0])
    draft.train(draft.scale(2_500, 15_000), "convnet", stall=0.05, active=[0], rest_blame=MISUSE)
    draft.finish()


@mechanism(MISUSE, or_else=(NON_DL,))
def no_visible_device(draft: Draft) -> None:
    """A training that finds no GPU, as an empty variable hides them, and runs on the CPU."""
    cores = draft.between(0.5, 0.95) * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.rss = draft.scale(3, 25) * GB
    draft.loop(
        draft.scale(4_000, 29_000),
        [
            Part(seconds=draft.scale(1, 12), spread=0.05, pod={"cpu": cores}, blame=MISUSE),
            Part(seconds=0.2, spread=0.3, pod={"cpu": 2.0, "disk_read": 4e7}, blame=MISUSE),
        ],
    )


@mechanism(BATCH, or_else=(MEMORY,), cards=("V100", "A10", "A100", "T4"))
def reserved_and_tiny(draft: Draft) -> None:
    """Tiny batches under a framework that reserves nearly all memory at its start, whatever it needs."""
    draft.facts["framework"] = Framework.TENSORFLOW
    draft.start(0.95)
    step = draft.scale(0.05, 0.2)
    draft.loop(
        draft.scale(2_500, 14_000),
        [Part(seconds=step, gpu=draft.kernels("launch-bound"), pod={"cpu": draft.per_node}, blame=BATCH)],
    )


def _train_after(draft: Draft) -> None:
    seconds = draft.life
    draft.start(draft.between(0.4, 0.8))
    draft.train(seconds * draft.between(0.45, 0.85), "transformer")
    draft.finish()


@mechanism(READ, or_else=(EXTERNAL, INSTALL), shapes=(*NODE_JOBS, (1, 1)))
def data_set_copied_first(draft: Draft) -> None:
    """The whole data set is copied from the store to the local disk before the first step."""
    rate = draft.scale(8e7, 6e8)
    pod = {"cpu": 0.3 + rate / 4e8, "net_rx": rate, "disk_write": min(rate, draft.host.disk), "net_tx": 0.005 * rate}
    draft.phase(draft.scale(1_200, 5_000), pod=pod, rough=0.2, blame=READ)
    _train_after(draft)


@mechanism(INSTALL, or_else=(READ, EXTERNAL))
def library_folder_from_a_share(draft: Draft) -> None:
    """A folder of tens of thousands of small library files is copied from the store."""
    rate = draft.scale(3e6, 2e7)
    pod = {"cpu": 0.25, "net_rx": rate, "disk_write": rate, "net_tx": 0.03 * rate, "io_wait": 0.2}
    draft.phase(draft.scale(900, 2_400), pod=pod, rough=0.3, blame=INSTALL)
    _train_after(draft)


@mechanism(INSTALL, or_else=(PREPARE,))
def kernels_compiled_first(draft: Draft) -> None:
    """CUDA extensions are compiled from source on all cores; what comes out is small."""
    cores = draft.between(0.7, 0.95) * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.phase(draft.scale(20, 90), pod={"cpu": 0.6, "net_rx": 1e7, "disk_write": 1.5e7}, rough=0.4, blame=INSTALL)
    draft.rss = draft.scale(8, 60) * GB
    draft.phase(draft.scale(1_000, 4_000), pod={"cpu": cores, "disk_write": 8e5}, rough=0.1, blame=INSTALL)
    draft.rss = 1 * GB
    _train_after(draft)


@mechanism(EXTERNAL, or_else=(READ,))
def streamed_from_a_hub(draft: Draft) -> None:
    """A data set that streams from a public hub while it is trained on, with pauses and retries."""
    draft.start(draft.between(0.3, 0.8))
    use, rate = draft.scale(0.3, 1.2), draft.scale(4e6, 4e7)
    period = use * draft.between(2.2, 4.0)
    draft.fed(
        draft.scale(2_500, 13_000), make=period * 2, use=use, workers=2, compute=draft.kernels("transformer"),
        cores=0.2, batch={"net_rx": rate * period, "rx": 5e6}, spread=1.1, drift=0.45, blame=EXTERNAL,
    )  # fmt: skip


@mechanism(EXTERNAL, or_else=(READ, PREPARE))
def pictures_by_address(draft: Draft) -> None:
    """Each sample is a picture at an address on the web: slow hosts, timeouts, and decoding of what arrives."""
    draft.start(draft.between(0.25, 0.7))
    use, rate = draft.scale(0.3, 1.2), draft.scale(1.5e6, 1.2e7)
    period = use * draft.between(2.2, 3.6)
    draft.fed(
        draft.scale(2_500, 13_000), make=period * 16, use=use, workers=16, compute=draft.kernels("convnet"),
        cores=0.08, batch={"net_rx": rate * period, "net_tx": 0.12 * rate * period, "rx": 4e7}, spread=0.9,
        drift=0.3, blame=EXTERNAL,
    )  # fmt: skip


@mechanism(EXCHANGE, or_else=(STRAGGLER,), shapes=SPREAD_JOBS, low=False)
def kernels_that_wait_for_sockets(draft: Draft) -> None:
    """NCCL over TCP: its kernels stay on the GPU while the network works, so that utilization reads 100 %."""
    draft.start(draft.between(0.4, 0.85))
    rate = draft.between(0.4, 0.85) * min(draft.host.nic, 3.1e9)
    compute = draft.scale(0.2, 1.0)
    wire = compute * draft.between(1.3, 2.5)
    moved = {"net_tx": rate * wire, "net_rx": rate * wire, "tx": rate * wire / draft.per_node,
             "rx": rate * wire / draft.per_node}  # fmt: skip
    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=compute, spread=0.04, gpu=draft.kernels("transformer", alone=True)),
            Part(seconds=wire, spread=0.1, gpu=SPIN, pod={"cpu": 1.5 * draft.per_node}, moved=moved, blame=EXCHANGE),
        ],
    )
    draft.finish()


@mechanism(STRAGGLER, or_else=(EXCHANGE,), shapes=((1, 4), (1, 8), (2, 4)), cards=("A100", "H100", "L40S"), low=False)
def unequal_ranks(draft: Draft) -> None:
    """One rank gets the longest sequences: the others wait for it in a collective, with kernels that only spin."""
    draft.start(draft.between(0.4, 0.85))
    work = draft.kernels("transformer")
    slow = int(draft.rng.integers(draft.gpus))
    share = draft.between(0.3, 0.5)

    def waits(rank: int, rates: Rates) -> Rates:
        """All but the slow rank spin where only it computes, which is where it copies from the host."""
        spins = (np.asarray(rates["rx"]) > 0).astype(np.float64)
        own: Rates = {name: value * (1 - spins) + SPIN.get(name, 0.0) * spins for name, value in rates.items()}
        return rates if rank == slow else {**own, "rx": 0.0}

    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=0.8 * share, gpu=work),
            Part(seconds=0.8 * (1 - share), spread=0.1, gpu={**work, "rx": 1e5}, blame=STRAGGLER),
        ],
        each_gpu=waits,
    )
    draft.finish()


@mechanism(STRAGGLER, or_else=(BATCH,), shapes=NODE_JOBS)
def evaluation_by_one_rank(draft: Draft) -> None:
    """Rank 0 evaluates alone, sample by sample, for longer than each epoch; the other ranks wait on the CPU."""
    draft.start(draft.between(0.3, 0.7))
    epoch, end = draft.scale(100, 400), draft.scale(4_000, 12_000)
    test = draft.kernels("launch-bound")
    while draft.life < end:
        draft.train(epoch, "transformer")
        draft.phase(epoch * draft.between(1.2, 2.2), gpu=test, pod={"cpu": 1.0}, active=[0], blame=STRAGGLER)


@mechanism(EXCHANGE, or_else=(PREPARE,), shapes=((2, 1), (4, 1), (3, 2)))
def learner_behind_actors(draft: Draft) -> None:
    """Reinforcement learning: actors play on CPUs and send their games; the learner waits for them."""
    draft.start(draft.between(0.15, 0.5))
    play = draft.scale(2, 15)
    size = draft.scale(2e7, 4e8)
    cores = 0.7 * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.loop(
        draft.scale(3_000, 13_000),
        [
            Part(seconds=play, spread=0.3, pod={"cpu": cores}, moved={"net_tx": 0.3 * size, "net_rx": size},
                 gpu={"busy": 0.06, "sm": 0.02, "dram": 0.01}, blame=EXCHANGE),
            Part(seconds=play * draft.between(0.25, 0.6), gpu=draft.kernels("eager", alone=True), moved={"rx": size}),
        ],
    )  # fmt: skip


@mechanism(STALLED, or_else=(UNRELEASED,), shapes=(*NODE_JOBS, (2, 4)))
def never_returns(draft: Draft) -> None:
    """A training in which a lock is never released: from one step to the next nothing happens any more."""
    draft.finished = False
    draft.start(draft.between(0.3, 0.85))
    seconds = draft.scale(1_500, 6_000)
    draft.train(seconds, "transformer")
    draft.phase(seconds * draft.between(1.1, 3.0), pod={"cpu": 0.01}, blame=STALLED)


@mechanism(UNRELEASED, or_else=(STALLED,), shapes=((1, 1), (1, 4), (1, 8)))
def thread_that_never_ends(draft: Draft) -> None:
    """The training is done and saved; a thread that nobody joins keeps the process, with all of its memory."""
    draft.finished = False
    draft.start(draft.between(0.3, 0.85))
    draft.train(draft.scale(1_500, 6_000), draft.pick(("convnet", "transformer")))
    draft.finish()
    draft.phase(draft.life * draft.between(1.1, 3.0), pod={"cpu": 0.02}, blame=UNRELEASED)


@mechanism(Category.INTERACTIVE_JOB, or_else=(UNRELEASED,), shapes=((1, 1), (1, 2)))
def shell_left_open(draft: Draft) -> None:
    """Somebody trains once by hand in a shell, and does not come back."""
    cause = Category.INTERACTIVE_JOB
    draft.finished = False
    draft.phase(draft.scale(200, 1_500), pod={"cpu": 0.03, "net_rx": 900, "net_tx": 2e3}, rough=1.0, blame=cause)
    draft.start(draft.between(0.3, 0.7))
    draft.train(draft.scale(400, 2_500), "convnet")
    draft.release()
    draft.phase(draft.life * draft.between(1.5, 5.0), pod={"cpu": 0.002}, blame=cause)
