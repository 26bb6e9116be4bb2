"""What GPUs wait for: every mechanism that is known, what it would show, and how well that fits what was measured.

This is the one place where the evidence for causes inside training is weighed, for a low level of use
(`input_wait.py`) as for sudden drops (`interruption.py`). Each mechanism states what it would show, in seconds, bytes
and rates, with the tolerance of that statement and with how often jobs show the same for other reasons. Each statement
adds the logarithm of a likelihood ratio, at most as strong as `MOST_SURE` either way, because any assumption may be
wrong. A quantity that was not measured adds nothing. Scores are the shares that follow for the causes; they leave
a share to reasons that are no mechanism of the table.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.findings.vocabulary import Category, Confidence

MOST_SURE = 4.0
"""Natural logarithm of the strongest likelihood ratio that one statement may have: e^4 is 55 to 1."""
STANDS = 0.15
"""A cause with this share or more stands as an alternative: one in six or seven of such jobs has it."""
LISTED = 0.1
"""Where a cause is left open, those with this share or more are listed: one in ten of such jobs has it."""
NAMED = 0.5
"""The share from which a cause is named if no other one stands: it is more likely than all others together."""
PHASES = frozenset({Category.DATA_PREPROCESSING, Category.DATA_EXCHANGE})
"""The causes that look like phases of an algorithm in which the GPUs have nothing to do."""
LIKELY = 0.75
"""The share from which a named cause is likely, not merely possible: three of four."""


class Quantity(StrEnum):
    """What is measured. Rates are bytes/s, shares 0..1."""

    WAIT = "wait"
    """The share of the time in which the GPUs wait."""
    COPIED = "copied"
    """To each GPU, beyond what goes back."""
    COPY_SPEED = "copy speed"
    """The same by the share of the time in which the GPU waits: the speed of copies that take the whole wait."""
    STAGED_SPEED = "staged speed"
    """Both ways alike over a GPU's host link, by the share of the time in which it waits."""
    NVLINK_SPEED = "NVLink speed"
    """Over NVLink, both directions together, by the share of the time in which the GPU waits."""
    EXCHANGE_SPEED = "exchange speed"
    """Sent and received alike by a pod, by the share of the time in which its GPUs wait."""
    RECEIVED = "received"
    """By a pod, beyond what it sends meanwhile."""
    READ = "read"
    """From the pod's own disks."""
    FOLLOWS = "follows"
    """1 where the GPUs work more when more is received, 0 where they do not."""
    WRITTEN = "written"
    """Sent or written by a pod in half of the steps or more, beyond answers to what it receives."""
    WRITTEN_FROM_GPUS = "written from GPUs"
    """What the GPUs send to the host, for each byte written."""
    WRITTEN_FOLLOWS = "written follows"
    """1 where the GPUs work less when more is written, 0 where they do not."""
    CORES = "cores"
    """Busy CPU cores a GPU."""
    LOAD = "load"
    """Busy cores as a share of the limit, or of what the GPUs' own processes leave of it, whichever is larger."""
    CPU_STEADINESS = "CPU steadiness"
    """The variation of the busy cores by that of the GPUs' pace: small where the CPUs are always as busy."""
    HELD_UP = "held up"
    """The share of CFS periods in which the pod was throttled, or of the time in which a task waits for a CPU."""
    RECEIVED_IN_PAUSES = "received in pauses"
    """1 where the GPUs work less while more is received, 0 where they do not."""
    NVLINKED = "NVLink there"
    """1 where the GPUs are known to have NVLink, 0 where they are known to have none or nothing is known."""
    IO_PRESSURE = "IO pressure"
    """The share of the time in which a task waits for storage."""
    PAUSING = "pausing"
    """How much utilization over the last second swings, as a share of what pauses of many seconds would give: near 0
    for gaps of milliseconds, 1 for samples of either 0 or the full level.
    """
    PACE_VARIATION = "pace variation"
    """How much the GPUs' work varies from one interval mean to the next, by its mean."""
    MEMORY = "memory"
    """The largest share of GPU memory in use."""
    LEFT = "left in drops"
    """The work that goes on within drops, as a share of the level."""
    WRITES = "writes in drops"
    """1 where more is sent or written in drops of the GPUs' work than between them, 0 where not."""
    RECEIVES = "receives in drops"
    """1 where more is received in drops than between them, 0 where not."""
    LINKED = "links busy in drops"
    """1 where the links between the GPUs are busier in drops than between them, 0 where not."""
    PROCESSES = "CPUs busy in drops"
    """1 where the CPUs are at their limit in drops, or busier by some cores than between them, 0 where not."""
    ALL_DROP = "all GPUs drop"
    """1 where all GPUs that have work drop together, 0 where some spin meanwhile."""
    BURST = "burst"
    """Bytes that are sent or written for each drop."""
    BURST_OF_MEMORY = "burst of memory"
    """The same by the bytes that one GPU has in use."""
    BURST_VARIATION = "burst variation"
    """How much these vary, by their middle."""
    BURST_FROM_GPUS = "burst from GPUs"
    """Bytes that the GPUs send to the host in a drop, for each byte that is sent or written."""
    FROM_GPUS = "from GPUs"
    """Bytes that the GPUs send to the host in each drop."""
    GAP_VARIATION = "gap variation"
    """How much the time between drops varies, by its middle."""
    DROP_VARIATION = "drop variation"
    """How much the seconds that drops cost vary, by their middle."""


Observation = Mapping[Quantity, float]
"""What was measured; a quantity without samples is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A statement of a mechanism about one quantity.

    The quantity lies between `low` and `high`; `factor` is the ratio by which it may miss them at one standard
    deviation. `chance`: the share of jobs that show the same though they wait for something else.
    """

    quantity: Quantity
    low: float = 0.0
    high: float = math.inf
    factor: float = 1.6
    chance: float = 0.5

    def weight(self, value: float) -> float:
        """The logarithm of the likelihood ratio."""
        if self.low <= value <= self.high:
            misses = 0.0
        else:
            bound = self.low if value < self.low else self.high
            misses = abs(math.log(max(value, 1e-9) / max(bound, 1e-9))) / math.log(self.factor)
        return max(-misses * misses / 2 - math.log(self.chance), -MOST_SURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A statement of a mechanism about a quantity that is 1 or 0.

    often: how often it is 1 in jobs with the mechanism; chance: in jobs that wait for something else.
    """

    quantity: Quantity
    often: float
    chance: float

    def weight(self, value: float) -> float:
        """The logarithm of the likelihood ratio."""
        ratio = self.often / self.chance if value else (1 - self.often) / (1 - self.chance)
        return min(max(math.log(ratio), -MOST_SURE), MOST_SURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """One way in which GPUs are made to wait.

    expects: what it shows, those first without which nothing of it can be seen, `telling` many: where all of these are
    missing, nothing speaks for the mechanism. prior: its weight before anything is known, less for one of several ways
    to a cause.
    """

    category: Category
    name: str
    expects: Sequence[Expectation | Sign]
    prior: float = 1.0
    telling: int = 1

    def likelihood(self, observed: Observation) -> float:
        """How well it fits what was measured, against jobs that wait for something else."""
        weight = sum(one.weight(observed[one.quantity]) for one in self.expects if one.quantity in observed)
        seen = any(one.quantity in observed for one in self.expects[: self.telling])
        return self.prior * math.exp(weight if seen else min(weight, 0.0))


def expect(
    quantity: Quantity, *, low: float = 0.0, high: float = math.inf, factor: float = 1.6, chance: float = 0.5
) -> Expectation:
    """An expectation, in a line."""
    return Expectation(quantity=quantity, low=low, high=high, factor=factor, chance=chance)


def sign(quantity: Quantity, *, often: float, chance: float) -> Sign:
    """A sign, in a line."""
    return Sign(quantity=quantity, often=often, chance=chance)


Q = Quantity
NO_MORE_CORES = expect(Q.CORES, high=2.0, factor=1.4, chance=0.55)
"""One thread launches kernels and copies, another one may load a little."""
UNLOADED = expect(Q.LOAD, high=0.65, factor=1.15, chance=0.8)
"""The CPUs are not at their limit."""
NOTHING_IN = expect(Q.RECEIVED, high=2e6, factor=3.0, chance=0.65)
"""Logs, metrics and heartbeats."""

PIPELINED = expect(Q.PACE_VARIATION, high=0.25, factor=1.25, chance=0.85)
"""Batches are made ahead and taken from a queue, so that each half minute is like the other. Phases of tens of seconds,
as in reinforcement learning, are no pipeline.
"""
STORE_PACED = expect(Q.PACE_VARIATION, high=0.6, factor=1.4, chance=0.9)
"""A store's speed changes from minute to minute, and the pace of the training with it."""
UNPRESSED = expect(Q.IO_PRESSURE, high=0.1, factor=1.6, chance=0.85)
"""Tasks do not wait for storage."""
NOTHING_ELSE = (
    UNPRESSED,
    # Every job of several GPUs exchanges gradients; PCIe carries them at several GB/s, so that 1 GB/s is no wait.
    expect(Q.EXCHANGE_SPEED, high=0.1e9, factor=2.0, chance=0.9),
    expect(Q.STAGED_SPEED, high=1e9, factor=1.6, chance=0.85),
    expect(Q.WRITTEN, high=1e6, factor=3.0, chance=0.9),
)
"""No transfer is large enough to take a good part of the wait: what is left is the program itself."""

LEVEL: tuple[Mechanism, ...] = (
    Mechanism(
        category=Category.INEFFICIENT_HOST_GPU_TRANSFER,
        name="pageable or piecewise copies, staged by one thread",
        expects=(
            # One thread stages 0.5 GB/s of small pieces and 8 GB/s of whole batches on the fastest hosts.
            expect(Q.COPY_SPEED, low=0.5e9, high=8e9, factor=1.6, chance=0.08),
            NO_MORE_CORES,
            expect(Q.WRITTEN, high=5e6, factor=3.0, chance=0.9),
            UNPRESSED,
            UNLOADED,
            expect(Q.PACE_VARIATION, high=0.06, factor=1.4, chance=0.6),
            expect(Q.PAUSING, high=0.4, factor=1.4, chance=0.7),
            expect(Q.RECEIVED, high=20e6, factor=2.0, chance=0.75),
            sign(Q.FOLLOWS, often=0.05, chance=0.15),
        ),
    ),
    Mechanism(
        category=Category.INEFFICIENT_HOST_GPU_TRANSFER,
        name="copies so small that their calls take the time",
        expects=(
            expect(Q.COPY_SPEED, low=0.1e9, high=0.5e9, factor=1.4, chance=0.25),
            expect(Q.CORES, low=0.6, high=1.3, factor=1.3, chance=0.55),
            UNLOADED,
            expect(Q.PACE_VARIATION, high=0.06, factor=1.4, chance=0.6),
            sign(Q.FOLLOWS, often=0.05, chance=0.15),
            *NOTHING_ELSE,
        ),
        prior=0.3,
    ),
    Mechanism(
        category=Category.INEFFICIENT_HOST_GPU_TRANSFER,
        name="models that are moved to the host and back in turn",
        expects=(
            expect(Q.STAGED_SPEED, low=1e9, high=15e9, factor=1.6, chance=0.1),
            expect(Q.MEMORY, high=0.6, factor=1.2, chance=0.6),
            NO_MORE_CORES,
            UNLOADED,
            expect(Q.PAUSING, low=0.2, factor=1.5, chance=0.5),
            NOTHING_IN,
        ),
        prior=0.1,
    ),
    Mechanism(
        category=Category.IMPROPER_BATCH_SIZE,
        name="steps too small for the GPU",
        expects=(
            expect(Q.COPIED, high=120e6, factor=2.0, chance=0.6),
            expect(Q.MEMORY, high=0.25, factor=1.4, chance=0.2),
            # Beside the thread that launches, a loader that keeps up with many small steps.
            expect(Q.CORES, high=4.0, factor=1.5, chance=0.8),
            UNLOADED,
            expect(Q.PAUSING, high=0.12, factor=1.5, chance=0.3),
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
            expect(Q.RECEIVED, high=20e6, factor=2.0, chance=0.75),
            expect(Q.HELD_UP, high=0.1, factor=1.5, chance=0.8),
            sign(Q.FOLLOWS, often=0.05, chance=0.15),
            *NOTHING_ELSE,
        ),
        telling=2,  # memory says nothing where the framework reserves it
    ),
    Mechanism(
        category=Category.INSUFFICIENT_GPU_MEMORY,
        name="a batch that memory keeps small",
        expects=(
            expect(Q.MEMORY, low=0.8, factor=1.01, chance=0.25),
            expect(Q.COPIED, high=120e6, factor=2.0, chance=0.6),
            NO_MORE_CORES,
            UNLOADED,
            expect(Q.PAUSING, high=0.25, factor=1.5, chance=0.45),
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
            expect(Q.RECEIVED, high=20e6, factor=2.0, chance=0.75),
            expect(Q.HELD_UP, high=0.1, factor=1.5, chance=0.8),
            sign(Q.FOLLOWS, often=0.05, chance=0.15),
            *NOTHING_ELSE,
        ),
    ),
    Mechanism(
        category=Category.INSUFFICIENT_GPU_MEMORY,
        name="an allocator that frees and asks again",
        expects=(
            expect(Q.MEMORY, low=0.92, factor=1.01, chance=0.12),
            expect(Q.COPIED, high=120e6, factor=2.0, chance=0.6),
            NO_MORE_CORES,
            UNLOADED,
            expect(Q.PACE_VARIATION, high=0.2, factor=1.5, chance=0.8),
            expect(Q.RECEIVED, high=20e6, factor=2.0, chance=0.75),
            *NOTHING_ELSE,
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.INSUFFICIENT_GPU_MEMORY,
        name="states in host memory, where the CPUs update them",
        expects=(
            # There and back over PCIe, with the CPUs' own work between.
            expect(Q.STAGED_SPEED, low=0.3e9, high=15e9, factor=1.6, chance=0.08),
            expect(Q.MEMORY, low=0.8, factor=1.01, chance=0.2),
            expect(Q.CORES, low=3.0, factor=1.4, chance=0.25),
            NOTHING_IN,
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
        ),
        prior=0.7,
    ),
    Mechanism(
        category=Category.INSUFFICIENT_GPU_MEMORY,
        name="activations or parameters in host memory",
        expects=(
            expect(Q.STAGED_SPEED, low=0.3e9, high=15e9, factor=1.6, chance=0.08),
            expect(Q.MEMORY, low=0.8, factor=1.01, chance=0.2),
            NO_MORE_CORES,
            NOTHING_IN,
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
        ),
        prior=0.7,
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="CPUs at their limit",
        expects=(
            expect(Q.LOAD, low=0.8, factor=1.07, chance=0.08),
            expect(Q.CORES, low=2.0, factor=1.4, chance=0.4),
            PIPELINED,
            expect(Q.HELD_UP, low=0.2, factor=1.6, chance=0.25),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="CPUs held up by their limit",
        expects=(
            expect(Q.HELD_UP, low=0.25, factor=1.4, chance=0.1),
            expect(Q.LOAD, low=0.6, factor=1.1, chance=0.25),
            PIPELINED,
            expect(Q.CORES, low=2.0, factor=1.4, chance=0.4),
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="CPUs at a limit that is not known",
        expects=(
            expect(Q.CORES, low=3.0, factor=1.3, chance=0.2),
            expect(Q.CPU_STEADINESS, high=0.5, factor=1.5, chance=0.45),
            expect(Q.LOAD, low=0.8, factor=1.03, chance=0.5),
            expect(Q.PACE_VARIATION, low=0.02, high=0.25, factor=1.25, chance=0.6),
            NOTHING_IN,
            *NOTHING_ELSE,
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="too few workers",
        expects=(
            expect(Q.CORES, low=1.4, high=4.0, factor=1.3, chance=0.35),
            UNLOADED,
            expect(Q.COPY_SPEED, high=0.4e9, factor=1.8, chance=0.75),
            expect(Q.PACE_VARIATION, low=0.02, high=0.25, factor=1.25, chance=0.6),
            NOTHING_IN,
            *NOTHING_ELSE,
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="the training process makes its batches itself",
        expects=(
            expect(Q.COPY_SPEED, high=0.4e9, factor=1.8, chance=0.75),
            # One thread that is never blocked.
            expect(Q.CORES, low=0.9, high=1.3, factor=1.2, chance=0.45),
            UNLOADED,
            expect(Q.MEMORY, low=0.5, factor=1.15, chance=0.75),
            NOTHING_IN,
            *NOTHING_ELSE,
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.REMOTE_DATA_READ,
        name="objects behind a socket",
        expects=(
            expect(Q.RECEIVED, low=1.5e6, factor=1.3, chance=0.35),
            sign(Q.FOLLOWS, often=0.7, chance=0.12),
            expect(Q.CORES, high=3.0, factor=1.4, chance=0.65),
            STORE_PACED,
            UNLOADED,
            expect(Q.IO_PRESSURE, high=0.05, factor=1.6, chance=0.8),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.REMOTE_DATA_READ,
        name="a network file system",
        expects=(
            expect(Q.RECEIVED, low=1.5e6, factor=1.3, chance=0.35),
            sign(Q.FOLLOWS, often=0.5, chance=0.12),
            expect(Q.CORES, high=3.0, factor=1.4, chance=0.65),
            STORE_PACED,
            UNLOADED,
            expect(Q.IO_PRESSURE, low=0.2, factor=1.4, chance=0.1),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.REMOTE_DATA_READ,
        name="a volume whose traffic is the node's, not the pod's",
        expects=(
            # Tasks wait for storage, and the pod's own disks are at rest: NFS, CephFS and the like.
            expect(Q.IO_PRESSURE, low=0.3, factor=1.4, chance=0.05),
            # A thread that is blocked takes no core, one that copies or computes takes a whole one.
            expect(Q.CORES, high=0.85, factor=1.4, chance=0.4),
            expect(Q.READ, high=2e6, factor=3.0, chance=0.6),
            expect(Q.WRITTEN, high=1e6, factor=3.0, chance=0.8),
            expect(Q.PAUSING, low=0.25, factor=1.5, chance=0.5),
            expect(Q.PACE_VARIATION, low=0.05, high=0.6, factor=1.4, chance=0.55),
            NOTHING_IN,
            UNLOADED,
        ),
        prior=0.15,
        telling=2,
    ),
    Mechanism(
        category=Category.REMOTE_DATA_READ,
        name="training stops until the next part has come",
        expects=(
            sign(Q.RECEIVED_IN_PAUSES, often=0.8, chance=0.1),
            expect(Q.RECEIVED, low=1.5e6, factor=1.3, chance=0.35),
            expect(Q.PAUSING, low=0.3, factor=1.5, chance=0.5),
            UNLOADED,
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.DATA_EXCHANGE,
        name="between pods, over the network",
        expects=(
            expect(Q.EXCHANGE_SPEED, low=0.3e9, high=12e9, factor=1.6, chance=0.05),
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
            UNLOADED,
        ),
    ),
    Mechanism(
        category=Category.DATA_EXCHANGE,
        name="between the GPUs of a pod, over PCIe or through host memory",
        expects=(
            # Through host memory at 2 GB/s and more, directly at up to the link's own speed.
            expect(Q.STAGED_SPEED, low=2e9, high=15e9, factor=1.6, chance=0.12),
            sign(Q.NVLINKED, often=0.3, chance=0.5),
            expect(Q.CORES, high=3.0, factor=1.4, chance=0.75),
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
            UNLOADED,
            NOTHING_IN,
        ),
    ),
    Mechanism(
        category=Category.DATA_EXCHANGE,
        name="one process that scatters and gathers over NVLink",
        expects=(
            # Collectives over NVLink spin on the GPUs: of an idle GPU only one process's copies explain a wait.
            expect(Q.NVLINK_SPEED, low=30e9, factor=1.6, chance=0.25),
            expect(Q.CORES, high=0.75, factor=1.2, chance=0.15),
            expect(Q.PACE_VARIATION, high=0.1, chance=0.75),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.MODEL_CHECKPOINTING,
        name="checkpoints more frequent than the samples",
        expects=(
            expect(Q.WRITTEN, low=8e6, factor=1.5, chance=0.05),
            expect(Q.WRITTEN_FROM_GPUS, low=0.3, high=3.0, factor=1.25, chance=0.1),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.INTERMEDIATE_RESULT_UPLOAD,
        name="uploads more frequent than the samples",
        expects=(
            expect(Q.WRITTEN, low=0.3e6, high=30e6, factor=2.0, chance=0.15),
            sign(Q.WRITTEN_FOLLOWS, often=0.5, chance=0.12),
            expect(Q.WRITTEN_FROM_GPUS, high=0.25, factor=1.25, chance=0.5),
        ),
        prior=0.5,
    ),
)
"""What keeps the level of a training low between its drops."""

NOTHING_WRITTEN = sign(Q.WRITES, often=0.05, chance=0.4)
"""Saves and uploads are frequent among drops."""
STILL = expect(Q.LEFT, high=0.1, factor=1.4, chance=0.6)
"""No step is computed meanwhile."""
NOTHING_RECEIVED = sign(Q.RECEIVES, often=0.03, chance=0.25)
"""So are reads."""

DROPS: tuple[Mechanism, ...] = (
    Mechanism(
        category=Category.MODEL_CHECKPOINTING,
        name="a model is saved",
        expects=(
            sign(Q.WRITES, often=0.9, chance=0.1),
            # A model worth a GPU has 10 million parameters and more, in single precision; and beside its weights the
            # memory holds their gradients, the optimizer's states and activations.
            expect(Q.BURST, low=40e6, factor=1.4, chance=0.5),
            expect(Q.BURST_OF_MEMORY, low=0.01, factor=2.0, chance=0.7),
            # The counters of pods lose no byte: a model has the same size each time.
            expect(Q.BURST_VARIATION, high=0.15, factor=1.4, chance=0.4),
            expect(Q.GAP_VARIATION, high=0.25, factor=1.3, chance=0.5),
            # The optimizer's state may live on the host, a copy may be written twice, a scrape may miss a part.
            expect(Q.BURST_FROM_GPUS, low=0.3, high=3.0, factor=1.35, chance=0.3),
            STILL,
            NOTHING_RECEIVED,
        ),
    ),
    Mechanism(
        category=Category.MODEL_CHECKPOINTING,
        name="a model is saved where no counter of the pod shows it",
        expects=(
            expect(Q.FROM_GPUS, low=80e6, factor=1.25, chance=0.15),
            STILL,
            NOTHING_WRITTEN,
            NOTHING_RECEIVED,
            expect(Q.GAP_VARIATION, high=0.25, factor=1.4, chance=0.5),
            expect(Q.DROP_VARIATION, high=0.25, factor=1.4, chance=0.5),
        ),
        prior=0.5,
    ),
    Mechanism(
        category=Category.INTERMEDIATE_RESULT_UPLOAD,
        name="results of the host are sent or written",
        expects=(
            sign(Q.WRITES, often=0.9, chance=0.1),
            expect(Q.BURST, high=3e9, factor=2.5, chance=0.85),
            expect(Q.BURST_VARIATION, low=0.15, factor=2.0, chance=0.6),
            expect(Q.BURST_FROM_GPUS, high=0.25, factor=1.35, chance=0.4),
            STILL,
            NOTHING_RECEIVED,
        ),
    ),
    Mechanism(
        category=Category.INTERMEDIATE_RESULT_UPLOAD,
        name="results of the GPUs are sent or written",
        expects=(
            # What an evaluation leaves on the GPUs until it is over: predictions, embeddings, images.
            sign(Q.WRITES, often=0.9, chance=0.1),
            expect(Q.BURST, high=3e9, factor=2.5, chance=0.85),
            expect(Q.BURST_VARIATION, low=0.25, factor=1.35, chance=0.5),
            expect(Q.BURST_FROM_GPUS, low=0.3, high=3.0, factor=1.5, chance=0.2),
            STILL,
            NOTHING_RECEIVED,
        ),
        prior=0.4,
    ),
    Mechanism(
        category=Category.IMPROPER_BATCH_SIZE,
        name="an evaluation with small batches",
        expects=(
            expect(Q.LEFT, low=0.15, high=0.8, factor=1.4, chance=0.15),
            sign(Q.ALL_DROP, often=0.8, chance=0.7),
            NOTHING_WRITTEN,
            NOTHING_RECEIVED,
            sign(Q.PROCESSES, often=0.1, chance=0.25),
            expect(Q.GAP_VARIATION, high=0.15, factor=1.4, chance=0.5),
            expect(Q.DROP_VARIATION, high=0.15, factor=1.4, chance=0.5),
        ),
        prior=0.3,
    ),
    Mechanism(
        category=Category.REMOTE_DATA_READ,
        name="data is fetched",
        expects=(sign(Q.RECEIVES, often=0.9, chance=0.08), STILL),
    ),
    Mechanism(
        category=Category.DATA_PREPROCESSING,
        name="data is made",
        expects=(
            sign(Q.PROCESSES, often=0.9, chance=0.15),
            STILL,
            NOTHING_WRITTEN,
            NOTHING_RECEIVED,
        ),
    ),
    Mechanism(
        category=Category.DATA_EXCHANGE,
        name="ranks exchange",
        expects=(
            sign(Q.LINKED, often=0.9, chance=0.08),
            sign(Q.ALL_DROP, often=0.9, chance=0.7),
            NOTHING_WRITTEN,
            NOTHING_RECEIVED,
        ),
    ),
)
"""What makes the GPUs' work drop and recover."""
OTHER_PRIOR = 1.0
"""What remains for reasons that are in no table: the program's own thread, a neighbour, a fault of the hardware."""


def weigh(
    mechanisms: Iterable[Mechanism], observed: Observation, excluded: frozenset[Category] = frozenset()
) -> dict[Category, float]:
    """The share of each cause, 0..1, the largest first; what lacks to 1 is for reasons that no mechanism describes."""
    likelihoods: dict[Category, float] = {}
    for mechanism in mechanisms:
        if mechanism.category in excluded:
            continue
        found = likelihoods.get(mechanism.category, 0.0) + mechanism.likelihood(observed)
        likelihoods[mechanism.category] = found
    whole = sum(likelihoods.values()) + OTHER_PRIOR
    return {category: value / whole for category, value in sorted(likelihoods.items(), key=lambda item: -item[1])}


def decide(
    shares: Mapping[Category, float], least: float = NAMED
) -> tuple[Category | None, float, tuple[Category, ...]]:
    """The cause to name with its share and nothing beside it; or None, with the causes that stand, the likeliest first.

    A cause is named with a share of `least` or more, if no other one stands.
    """
    standing = tuple(category for category, share in shares.items() if share >= STANDS)
    if len(standing) == 1 and shares[standing[0]] >= least:
        return standing[0], shares[standing[0]], ()
    return None, 0.0, tuple(category for category, share in shares.items() if standing and share >= LISTED)


def confidence(category: Category | None, share: float, *, low: bool) -> Confidence:
    """How sure a decision is. Where the use is not low, busy CPUs and links may belong to phases of the algorithm, as
    in reinforcement learning: the job may be as its author wants it.
    """
    by_design = not low and category in PHASES
    return Confidence.LIKELY if category is not None and share >= LIKELY and not by_design else Confidence.POSSIBLE
