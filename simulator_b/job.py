"""A job drawn by its seed: facts, tracks, and a label that the account of its time supports."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zlib import crc32

import numpy as np

from simulator_b.draft import Draft
from simulator_b.hardware import Card
from simulator_b.mechanism import MECHANISMS, Mechanism
from simulator_b.track import GPU_FLOWS, GPU_LEVELS, POD_FLOWS, POD_LEVELS, Track
from stoker.findings.vocabulary import Category, Framework, JobType
from stoker.telemetry.series import JobFacts, PodFacts

LOW = 0.5
"""The study's jobs used their GPUs for at most so much of their life (section 3.2)."""
MAIN = 0.25
"""A cause that is in a label explains at least so much of the time without a kernel; chosen so that two may."""
FINE = 0.58
"""A healthy job that is no server uses its GPUs for at least so much of its life; chosen clearly over LOW."""
TRIES = 40
"""Draws until one fits its label; a mechanism that needs more is written wrongly."""
EPOCH = datetime(2026, 2, 2, tzinfo=UTC)
SUFFIXES = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of Kubernetes' generated names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """What a job does, what is known of it, and what it should be called.

    Tracks are by the GPU's number in the job, and by the pod's. `lost` is the share of GPU time without a kernel by
    cause ("none": by no fault). `utilization` is 0..1.
    """

    mechanism: Mechanism
    seed: int
    facts: JobFacts
    card: Card
    started_at: datetime
    life: float
    gpus: tuple[Track, ...]
    pods: tuple[Track, ...]
    utilization: float
    lost: Mapping[str, float]

    @property
    def truth(self) -> frozenset[Category]:
        """Its causes."""
        return self.mechanism.truth

    @property
    def acceptable(self) -> frozenset[Category]:
        """For an ambiguous job all causes that its telemetry fits, else empty."""
        return self.mechanism.acceptable


def draw(name: str, seed: int) -> DrawnJob:
    """The job of a mechanism that a seed stands for. Raises KeyError for a name that no mechanism has."""
    chosen = MECHANISMS[name]
    for attempt in range(TRIES):
        rng = np.random.default_rng([seed, crc32(name.encode()), attempt])
        draft = Draft(rng, chosen.cards, chosen.shapes)
        chosen.write(draft)
        if _fits(draft, chosen):
            return _job(draft, chosen, seed)
    raise ValueError(f"{name}, seed {seed}: none of {TRIES} draws fits its label")


def _fits(draft: Draft, chosen: Mechanism) -> bool:
    """Whether what happened in the draft deserves the mechanism's label."""
    lost = sum(draft.lost.values())
    if chosen.low and draft.utilization > LOW:
        return False
    if not chosen.truth:
        return draft.utilization >= FINE or draft.facts.get("job_type") is JobType.SERVING
    return all(draft.lost[cause.value] >= MAIN * lost or not chosen.low for cause in chosen.truth)


def _job(draft: Draft, chosen: Mechanism, seed: int) -> DrawnJob:
    rng = draft.rng
    started = EPOCH + timedelta(seconds=float(rng.uniform(0, 86_400 * 90)))
    life = draft.life
    gpu_blocks, pod_blocks = draft.blocks()
    total = draft.worked + sum(draft.lost.values())
    return DrawnJob(
        mechanism=chosen,
        seed=seed,
        facts=_facts(draft, chosen, seed, started, started + timedelta(seconds=life)),
        card=draft.card,
        started_at=started,
        life=life,
        gpus=tuple(Track.of(blocks, GPU_FLOWS, GPU_LEVELS) for blocks in gpu_blocks),
        pods=tuple(Track.of(blocks, POD_FLOWS, POD_LEVELS) for blocks in pod_blocks),
        utilization=draft.utilization,
        lost={cause: seconds / total for cause, seconds in draft.lost.items() if seconds > 0},
    )


def _facts(draft: Draft, chosen: Mechanism, seed: int, started: datetime, ended: datetime) -> JobFacts:
    rng = draft.rng
    name = f"run-{crc32(f'{chosen.name} {seed}'.encode()):08x}"  # which says nothing of the mechanism
    trains = Category.NON_DL_JOB not in chosen.truth | chosen.acceptable
    framework = {"framework": Framework.PYTORCH} if rng.random() < 0.5 and trains else {}
    mounts = {"mounts_storage": bool(rng.random() < 0.2), "has_persistent_volume": bool(rng.random() < 0.25)}
    host_network = draft.nodes > 1 and bool(rng.random() < 0.15)
    pods = tuple(
        PodFacts(
            name=f"{name}-{rank}-{''.join(rng.choice(list(SUFFIXES), 5))}",
            uid=f"{name}-{rank}",
            rank=rank,
            node=f"node-{int(rng.integers(100))}-{rank}",
            gpus=draft.per_node,
            started_at=started,
            finished_at=ended if draft.finished else None,
            ready=not draft.finished,
            scheduled_at=started - timedelta(seconds=float(rng.uniform(2, 60))),
            cpu_limit=draft.limit,
            cpu_request=draft.limit,
            host_network=host_network,
        )
        for rank in draft.pods
    )
    return JobFacts(
        namespace="research",
        name=name,
        uid=name,
        nodes=draft.nodes,
        gpus_per_node=draft.per_node,
        gpu_product=draft.card.product if rng.random() < 0.7 else None,
        pods=pods,
        **(mounts | framework | draft.facts),
    )
