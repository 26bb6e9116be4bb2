"""A case: one way for a job to be slow or healthy, from which every seed makes another job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from simulator.hardware import DATACENTRE, GpuModel
from simulator.job import SimulatedJob, SimulatedPod, Story
from simulator.networks import BERT_LARGE, GPT2, RESNET50, SPEECH, SWIN_BASE, VIT_LARGE, Network
from simulator.timeline import Timeline
from simulator.training import Exchange, Storage, Training
from stoker.findings.vocabulary import Category, JobType
from stoker.telemetry.series import Attempt, JobFacts, PodFacts

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
Choice = TypeVar("Choice")

COMMON = (RESNET50, SWIN_BASE, VIT_LARGE, BERT_LARGE, GPT2, SPEECH)
LAYOUTS = ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8))
"""Nodes, and GPUs on each."""


class Draw:
    """Plausible parameters, drawn by a seed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def between(self, low: float, high: float) -> float:
        """Evenly."""
        return float(self.rng.uniform(low, high))

    def scale(self, low: float, high: float) -> float:
        """Evenly in the logarithm: for what varies by factors."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    # --------------------------------------------------------------------------------------------- configurations

    def tuned(
        self,
        *,
        networks: Sequence[Network] = COMMON,
        gpus: Sequence[GpuModel] = DATACENTRE,
        layouts: Sequence[tuple[int, int]] = LAYOUTS,
        fill: tuple[float, float] = (0.55, 0.85),
        **others: Any,
    ) -> Training:
        """A job as its author would have it: a batch that fills the memory, an input pipeline that is fast enough,
        pinned copies, exchange hidden behind the backward pass.
        """
        network, gpu, (nodes, per_node) = self.pick(networks), self.pick(gpus), self.pick(layouts)
        mixed = True if network.parameters > 1000 else self.chance(0.8)
        ranks = nodes * per_node
        # a model that large is sharded over the ranks
        sharded = network.parameters * 16e6 / 2**20 / ranks if network.parameters > 1000 else None
        base = Training(gpu=gpu, network=network, batch=1, mixed_precision=mixed, resident=sharded)
        room = gpu.memory * self.between(*fill) - base.gpu_memory
        each = network.activations * (1.04 if mixed else 1.77)
        batch = max(1, min(int(room / each), 4096))
        training = replace(
            base,
            batch=batch,
            ranks=ranks,
            ranks_per_pod=per_node,
            exchange=Exchange.NCCL if ranks > 1 else Exchange.NONE,
            network_bandwidth=self.scale(4e10, 3e11) if nodes > 1 else 0.0,
            rdma=nodes > 1,
            host_gap=self.scale(1e-3, 8e-3),
            limited=self.chance(0.6),
            cpu_limit=float(per_node * self.pick([8, 10, 12, 16])),
            workers=self.pick([4, 6, 8]),
            cpu_per_sample=network.cpu * self.between(0.7, 1.2),
            storage=self.pick([Storage.DISK, Storage.MEMORY, Storage.MOUNT]),
            bandwidth=self.scale(1.5e9, 4e9),
            latency=self.scale(5e-5, 4e-4),
            host_memory=per_node * self.scale(6e9, 40e9),
        )
        if "batch" in others:
            training = replace(training, batch=others["batch"])
        return fed(hidden(replace(training, **others)))


def fed(training: Training, margin: float = 1.4) -> Training:
    """The same with an input pipeline that is fast enough: more workers, then samples prepared ahead and kept near."""
    wanted = margin / training.step
    if training.supply < wanted:
        training = replace(training, workers=max(training.workers, 12))
    if training.supply < wanted:
        training = replace(training, cpu_per_sample=training.cpu_per_sample * 0.9 * training.supply / wanted)
    if training.supply < wanted:
        use = training.ranks_per_pod * training.batch * training.network.stored_bytes / training.step
        local = Storage.OBJECTS if training.storage is Storage.OBJECTS else Storage.DISK
        training = replace(training, latency=0.0, bandwidth=max(training.bandwidth, 2 * use), storage=local)
    if training.supply < wanted:
        training = replace(training, storage=Storage.MEMORY)
    if training.supply < wanted:
        training = replace(training, cpu_per_sample=training.cpu_per_sample * 0.9 * training.supply / wanted)
    return training


def hidden(training: Training, share: float = 0.08) -> Training:
    """The same with gradients summed over so many batches that exchanging them takes at most this share of a step."""
    while training.exposed > share * training.step and training.accumulate < 256:
        training = replace(training, accumulate=training.accumulate * 2)
    return training


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What a case makes of its draws: a story (or one for each pod), on so many pods of so many GPUs.

    `roles` of a pod's slots: by default the first GPU of rank 0 leads and all others are its peers. `waiting` names
    what keeps a pod of that rank from starting. `delays` are seconds by which pods start after the first.
    """

    stories: Sequence[Story]
    nodes: int = 1
    per_node: int = 1
    roles: Mapping[tuple[int, int], str] = field(default_factory=dict)
    rest: str = "peers"
    finished: bool = False
    waiting: Mapping[int, str] = field(default_factory=dict)
    queued: float = 4.0
    """Seconds between a pod's binding and its container's start."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    host_network: bool = False
    limits_known: bool = True
    """Whether the pods' CPU limits and requests are known: nobody told those of a foreign recording."""
    attempt: tuple[float, float] | None = None
    """Seconds at which a first attempt ended, and the second began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`truth`: the causes that its mechanism has, empty for a healthy job. `about`: the mechanism, in a line. `unseen`:
    kept from whoever tunes thresholds. `acceptable`: of an ambiguous case all causes that its metrics fit.
    """

    name: str
    truth: frozenset[Category]
    about: str
    build: Callable[[Draw], Cast]
    unseen: bool = False
    acceptable: frozenset[Category] = frozenset()


CASES: dict[str, Case] = {}


def case(
    name: str, *truth: Category, unseen: bool = False, acceptable: Sequence[Category] = ()
) -> Callable[[Callable[[Draw], Cast]], Callable[[Draw], Cast]]:
    """Register a builder; its docstring says what happens."""

    def enter(build: Callable[[Draw], Cast]) -> Callable[[Draw], Cast]:
        about = " ".join((build.__doc__ or "").split())
        CASES[name] = Case(
            name=name,
            truth=frozenset(truth),
            about=about,
            build=build,
            unseen=unseen,
            acceptable=frozenset(acceptable),
        )
        return build

    return enter


def simulate(case: str, seed: int) -> SimulatedJob:
    """The job that a case and a seed make, always the same. Raises KeyError for an unknown case."""
    found = CASES[case]
    draw = Draw(np.random.default_rng([seed, *case.encode()]))
    cast = found.build(draw)
    timelines = [story.timeline() for story in cast.stories]
    training = cast.stories[0].training
    life = timelines[0].duration
    pods = [_pod(cast, rank, timelines[min(rank, len(timelines) - 1)], training.gpu) for rank in range(cast.nodes)]
    facts: dict[str, Any] = {
        "namespace": "team",
        "name": "job",
        "uid": f"{case}-{seed}",
        "nodes": cast.nodes,
        "gpus_per_node": cast.per_node,
        "framework": training.network.framework if draw.chance(0.8) else None,
        "gpu_product": training.gpu.name if draw.chance(0.8) else None,
        "job_type": JobType.TRAINING,
        "pods": tuple(_pod_facts(cast, rank, life, training) for rank in range(cast.nodes)),
        "has_persistent_volume": training.storage is Storage.MOUNT,
    }
    return SimulatedJob(
        case=case,
        seed=seed,
        facts=JobFacts(**(facts | dict(cast.facts))),
        pods=tuple(pod for pod in pods if pod is not None),
        truth=found.truth,
        life=life,
    )


def _name(rank: int) -> str:
    return f"job-{rank}-x7k2p"


def _pod(cast: Cast, rank: int, timeline: Timeline, model: GpuModel) -> SimulatedPod | None:
    if rank in cast.waiting:
        return None
    default = {(0, 0): "lead"} | dict(cast.roles) if cast.rest == "peers" else dict(cast.roles)
    return SimulatedPod(
        name=_name(rank),
        model=model,
        timeline=timeline,
        gpus=tuple(default.get((rank, slot), cast.rest) for slot in range(cast.per_node)),
        role="head" if rank == 0 or len(cast.stories) > 1 else "tails",
    )


def _pod_facts(cast: Cast, rank: int, life: float, training: Training) -> PodFacts:
    waits = cast.waiting.get(rank)
    started = None if waits else START
    bound = START - timedelta(seconds=cast.queued)
    if waits and len(cast.waiting) == cast.nodes:
        bound = START
    attempts: tuple[Attempt, ...] = ()
    if cast.attempt is not None:
        ended, again = cast.attempt
        attempts = (Attempt(started_at=START, finished_at=START + timedelta(seconds=ended)),)
        started = START + timedelta(seconds=again)
    return PodFacts(
        name=_name(rank),
        attempts=attempts,
        restarts=len(attempts),
        host_network=cast.host_network,
        uid=f"pod-{rank}",
        rank=rank,
        node=f"gpu-{rank + 1}",
        gpus=cast.per_node,
        started_at=started,
        finished_at=START + timedelta(seconds=life) if cast.finished else None,
        ready=not cast.finished and not waits,
        scheduled_at=bound,
        waiting_for=waits,
        cpu_limit=training.cpu_limit if training.limited and cast.limits_known else None,
        cpu_request=training.cpu_limit if cast.limits_known else None,
    )


def cast(draw: Draw, story: Story, **others: Any) -> Cast:
    """A story on the pods that its training is spread over."""
    training = story.training
    per_node = training.ranks_per_pod
    options: dict[str, Any] = {
        "nodes": max(1, training.ranks // per_node),
        "per_node": per_node,
        "finished": draw.chance(0.35),
        "queued": draw.scale(2, 60),
    }
    return Cast(stories=[story], **(options | others))


def begin(draw: Draw, training: Training, **others: Any) -> Story:
    """A story that has started up as jobs do: imports, weights, the first slow steps."""
    story = Story(draw.rng, training, **others)
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(5, 45))
    story.warm_up(draw.scale(5, 60), cores=draw.between(1, 4))
    return story


def hours(draw: Draw, low: float = 1.5, high: float = 5.0) -> float:
    """A job's length in seconds."""
    return 3600 * draw.scale(low, high)
