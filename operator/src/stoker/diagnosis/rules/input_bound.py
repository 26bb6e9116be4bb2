"""The GPUs wait, and the series do not show for what.

## What it flags

The rule flags training at 50 % or less of each GPU, in a job with low utilization over its life, in one of three
cases:

- The series fit several causes.
- The series fit no cause. What remains is the program's own thread, which prepares batches itself, copies them piece
  by piece or launches many small kernels.
- The GPUs' work drops for a tenth of the time, and nothing that is sampled happens meanwhile.

The finding names the candidates; its category is the most likely one.

## Why it costs GPU time

The GPUs are held while they wait, whatever they wait for.

## When it stays silent

- One cause is decided: its own rule reports it.
- More than 50 % of the GPU is used.
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or GPU samples are missing.

The finding is only possible, and never leads to an action.

## Change

Measure: run the data loader alone in a loop, without the model, to see whether the input is the bottleneck, and
profile some steps (`torch.profiler`) to see what it waits for. More metrics let Stoker decide: PCIe traffic
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

LEAST_CANDIDATES = 2
"""An open question has two answers at least."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report the causes that the series leave open, as one finding with candidates."""
    found = undecided(exam)
    if found is None:
        return
    # One cause alone that is not likely enough to be named stands for all that leave as little.
    candidates = found.alternatives
    if len(candidates) < LEAST_CANDIDATES:
        candidates = tuple(dict.fromkeys((*candidates, *UNEXPLAINED)))
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
    summary="The GPUs wait during training, and the series do not show for what.",
    fix="Time the loader alone, and profile some steps (torch.profiler): that decides among the candidates.",
    check=check,
)
