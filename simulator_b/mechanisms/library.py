"""Jobs whose libraries are the cause: installed at length, or used against their assumptions."""

from simulator_b.draft import Draft, Part
from simulator_b.hardware import GB
from simulator_b.mechanism import NODE_JOBS, mechanism
from simulator_b.track import Rates
from stoker.findings.vocabulary import Category, Framework

INSTALL, MISUSE = Category.LONG_LIBRARY_INSTALLATION, Category.API_MISUSE


def _then_train(draft: Draft, seconds: float) -> None:
    draft.start(draft.between(0.3, 0.85))
    draft.train(seconds * draft.between(0.45, 0.85), draft.pick(("transformer", "convnet")))
    draft.finish()


def _packages(draft: Draft, seconds: float, rate: float) -> None:
    """Package after package: resolve, download, unpack; on one core."""
    end = draft.life + seconds
    while draft.life < end:
        draft.phase(draft.scale(1, 8), pod={"cpu": 0.85, "net_rx": 2e5}, blame=INSTALL)
        size = draft.scale(1e6, 1.2e9)
        pod = {"cpu": 0.35, "net_rx": rate, "net_tx": 0.01 * rate, "disk_write": rate}
        draft.phase(max(size / rate, 0.3), pod=pod, rough=0.3, blame=INSTALL)
        pod = {"cpu": 1.0, "disk_write": 6e7, "io_wait": 0.1}
        draft.phase(max(2.5 * size / 6e7, 0.5), pod=pod, rough=0.3, blame=INSTALL)


@mechanism(INSTALL, shapes=(*NODE_JOBS, (1, 1)))
def wheels_one_by_one(draft: Draft) -> None:
    """`pip install` of a long list from a slow mirror."""
    seconds = draft.scale(900, 3_200)
    _packages(draft, seconds, draft.scale(3e6, 4e7))
    _then_train(draft, draft.life)


@mechanism(INSTALL)
def solved_environment(draft: Draft) -> None:
    """A conda environment: the solver thinks on one core, then packages come, are unpacked and linked file by file."""
    draft.phase(draft.scale(300, 1_400), pod={"cpu": 1.0}, rough=0.03, blame=INSTALL)
    draft.rss = 2.5 * GB
    rate = draft.scale(1e7, 6e7)
    pod = {"cpu": 0.7, "net_rx": rate, "net_tx": 0.01 * rate, "disk_write": rate}
    draft.phase(draft.scale(100, 400), pod=pod, rough=0.4, blame=INSTALL)
    pod = {"cpu": 0.8, "disk_read": 1.5e7, "disk_write": 4e7, "io_wait": 0.35}
    draft.phase(draft.scale(300, 1_200), pod=pod, rough=0.25, blame=INSTALL)
    _then_train(draft, draft.life)


@mechanism(INSTALL, shapes=((1, 1), (1, 2), (1, 4)))
def system_packages_then_wheels(draft: Draft) -> None:
    """`apt-get` with its indexes and triggers, then wheels, then a small extension that is compiled on some cores."""
    draft.phase(draft.scale(40, 150), pod={"cpu": 0.7, "net_rx": 4e6, "disk_write": 6e6}, rough=0.5, blame=INSTALL)
    draft.phase(draft.scale(120, 500), pod={"cpu": 0.95, "disk_write": 2.5e7, "io_wait": 0.3}, blame=INSTALL)
    _packages(draft, draft.scale(450, 1_500), draft.scale(4e6, 3e7))
    cores = 0.5 * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.phase(draft.scale(60, 240), pod={"cpu": cores, "disk_write": 4e6}, blame=INSTALL)
    _then_train(draft, draft.life)


@mechanism(MISUSE, shapes=((1, 4), (1, 8)))
def gathered_on_the_first(draft: Draft) -> None:
    """One process drives all GPUs by threads (DataParallel): the first scatters, gathers and steps, the others wait."""
    draft.start(draft.between(0.15, 0.35))
    draft.hold(draft.between(0.5, 0.85), ranks=[0])
    step = draft.scale(0.3, 1.2)
    work = draft.kernels("convnet", alone=True)
    link = {"link": 0.1 * draft.card.link}

    def others(rank: int, rates: Rates) -> Rates:
        """The serial part, the only one that copies to the host, is the first GPU's alone."""
        together = rates["tx"] == 0
        return rates if rank == 0 else {name: value * together for name, value in rates.items()}

    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=0.26 * step, gpu={**work, **link}),
            Part(seconds=0.34 * step, gpu={"busy": 0.75, "sm": 0.25, "dram": 0.2, "tx": 2e9},
                 pod={"cpu": 1.0}, blame=MISUSE),
            Part(seconds=0.40 * step, pod={"cpu": 1.6}, moved={"rx": 4e7}, blame=MISUSE),
        ],
        each_gpu=others,
    )  # fmt: skip


@mechanism(MISUSE, cards=("V100", "A10", "A100", "H100"))
def reserved_but_on_the_cpu(draft: Draft) -> None:
    """The framework takes three quarters of the memory as it does by default, and the program places its work on the
    CPU backend.
    """
    draft.facts["framework"] = Framework.JAX
    draft.start(0.75)
    cores = draft.between(0.4, 0.9) * min(draft.limit or draft.host.cores, draft.host.cores)
    draft.loop(
        draft.scale(3_000, 28_000),
        [
            Part(seconds=draft.scale(2, 15), spread=0.05, pod={"cpu": cores, "disk_read": 5e6}, blame=MISUSE),
            Part(seconds=0.5, spread=0.3, pod={"cpu": 1.2}, blame=MISUSE),
        ],
    )


@mechanism(MISUSE, shapes=((1, 4), (1, 8)))
def all_ranks_on_one_device(draft: Draft) -> None:
    """Each rank opens a context on its own GPU, and then computes on device 0, for nobody called `set_device`."""
    draft.start(draft.between(0.6, 0.95), ranks=[0])
    draft.hold(0.0, ranks=range(1, draft.gpus))
    draft.facts["processes_per_node"] = draft.per_node if draft.rng.random() < 0.5 else None
    work = draft.kernels("eager", alone=True)
    work["busy"] = draft.between(0.9, 1.0)
    step = draft.scale(0.3, 1.5)
    draft.loop(
        draft.scale(2_500, 13_000),
        [Part(seconds=step, gpu={**work, "rx": 6e7}, pod={"cpu": 0.8 * draft.per_node}, blame=MISUSE)],
        active=[0],
        rest_blame=MISUSE,
    )
    draft.finish()
