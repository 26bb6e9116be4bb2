"""The GPUs wait, and the series leave open for what.

## What it flags

Training uses at most 50 % of each GPU in a job that is low over its life, and what the series show speaks for some
causes without deciding among them; or for none, so that only the program's own thread is left, which prepares batches
itself, copies them piece by piece or launches many small kernels; or the GPUs' work drops for a tenth of the time and
nothing that was sampled happens meanwhile. The candidates are named, the likeliest as the category.

## Why it costs GPU time

Whatever it is that the GPUs wait for, they are bound meanwhile.

## When it stays silent

- where one cause is decided: its own rule names it;
- over 50 % of the GPU, where only a cause at its own ceiling is worth a word;
- in the first fifteen minutes of work, with MIG slices and shared GPUs, and where the GPUs' samples are missing.

The finding is only possible, and never leads to an action.

## Change

Find out with what is at hand: the loader alone in a loop without the model tells whether the input is the bottleneck,
a profile of some steps (`torch.profiler`) what it waits for. More metrics decide it from outside: PCIe traffic
(DCGM_FI_PROF_PCIE_RX_BYTES), the pods' CPU and network, pressure stall information.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3
"""

from collections.abc import Iterator
from dataclasses import replace

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import undecided
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity

UNEXPLAINED = (Category.MODEL_CHECKPOINTING, Category.DATA_PREPROCESSING, Category.REMOTE_DATA_READ)
"""What drops without a trace may be for: storage that the node mounts shows in no counter of the pod."""


def check(exam: Examination) -> Iterator[Claim]:
    """Name what is left open."""
    found = undecided(exam)
    if found is None:
        return
    candidates = found.alternatives or UNEXPLAINED
    yield replace(
        found.claim(),
        confidence=Confidence.POSSIBLE,
        category=candidates[0],
        alternatives=candidates[1:],
    )


RULE = Rule(
    id="D308",
    name="input-bound",
    category=Category.INEFFICIENT_HOST_GPU_TRANSFER,
    severity=Severity.WARNING,
    summary="The GPUs wait during training, and the series leave open for what.",
    fix="Time the loader alone, and profile some steps (torch.profiler): that decides among the candidates.",
    check=check,
)
