"""The cards and hosts that jobs run on. The figures are of the makers' data sheets, unless a field says otherwise."""

from dataclasses import dataclass

GB = 1e9
MIB = 1024.0 * 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One model of GPU.

    memory: MiB. idle, context, limit: watts without a process, with a CUDA context and no work, and at most. pageable,
    pinned: bytes/s of one copy between host and card. link: bytes/s of NVLink, both directions; 0 without NVLink.
    clock, slow_clock: MHz at work and at rest. passes: into how many groups DCGM splits the profiling counters, each
    of which it reads for that part of an interval only (older cards cannot read all at once).
    """

    product: str
    memory: float
    idle: float
    context: float
    limit: float
    pageable: float
    pinned: float
    link: float
    clock: float
    slow_clock: float
    passes: int = 1


CARDS = {
    "T4": Card(
        product="Tesla-T4", memory=15360, idle=10, context=27, limit=70, pageable=4.2 * GB, pinned=12 * GB, link=0,
        clock=1590, slow_clock=300, passes=3,
    ),
    "V100": Card(
        product="Tesla-V100-SXM2-32GB", memory=32768, idle=40, context=58, limit=300, pageable=4.8 * GB,
        pinned=12 * GB, link=300 * GB, clock=1530, slow_clock=135, passes=3,
    ),
    "A10": Card(
        product="NVIDIA-A10", memory=23028, idle=17, context=57, limit=150, pageable=7 * GB, pinned=24 * GB, link=0,
        clock=1695, slow_clock=210,
    ),
    "A100": Card(
        product="NVIDIA-A100-SXM4-80GB", memory=81920, idle=56, context=78, limit=400, pageable=8 * GB,
        pinned=24.5 * GB, link=600 * GB, clock=1410, slow_clock=210,
    ),
    "L40S": Card(
        product="NVIDIA-L40S", memory=46068, idle=34, context=98, limit=350, pageable=8 * GB, pinned=25 * GB, link=0,
        clock=2520, slow_clock=210,
    ),
    "H100": Card(
        product="NVIDIA-H100-80GB-HBM3", memory=81559, idle=70, context=118, limit=700, pageable=11 * GB,
        pinned=52 * GB, link=900 * GB, clock=1980, slow_clock=345,
    ),
    "H200": Card(
        product="NVIDIA-H200", memory=143771, idle=76, context=124, limit=700, pageable=11 * GB, pinned=53 * GB,
        link=900 * GB, clock=1980, slow_clock=345,
    ),
}  # fmt: skip
"""By a short name. Idle and context watts vary from card to card by some percent, which a job's draw adds."""

CONTEXT_MIB = {"T4": 310.0, "V100": 380.0, "A10": 330.0, "A100": 470.0, "L40S": 480.0, "H100": 560.0, "H200": 600.0}
"""MiB that a CUDA context with cuBLAS loaded takes; chosen from what people report of each generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One node. nic, disk: bytes/s of the pod's network card in one direction, and of the local disk."""

    cores: int
    nic: float
    disk: float


HOSTS = (
    Host(cores=32, nic=1.25 * GB, disk=0.9 * GB),
    Host(cores=48, nic=3.125 * GB, disk=2.0 * GB),
    Host(cores=64, nic=3.125 * GB, disk=1.6 * GB),
    Host(cores=96, nic=6.25 * GB, disk=3.2 * GB),
    Host(cores=128, nic=12.5 * GB, disk=5.5 * GB),
)
