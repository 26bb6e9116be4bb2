"""The GPUs wait for copies from host memory.

## What it flags

The rule flags training at 70 % or less of each GPU in which the copies from the host to each GPU would take the whole
wait at 0.5 to 8 GB/s. One thread stages 0.5 GB/s of small pieces, and 8 GB/s of whole batches from pageable memory on
the fastest hosts. The CPUs must have time left, no data may stream in, and each step must wait as long as the last one.
Other causes are weighed against it: the finding is likely only if it is three times as likely as all of them together.

## Why it costs GPU time

The CPU copies data from pageable memory through a small pinned buffer. The program waits until the copy is done, at
half of the link's speed or less, and so do the kernels of the next step. This is the study's most frequent category,
with 27.90 % of all issues.

## When it stays silent

- Little is copied: even slow copies cannot explain the wait.
- So much is copied that the copies must run beside the kernels.
- The CPUs are at their limit (see input-preprocessing), or ranks exchange gradients over the same link (see
  gradient-exchange).
- The framework is TensorFlow or JAX, which overlap these copies themselves.
- PCIe traffic is not sampled. Then the cause is at most a candidate (see input-bound).
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or samples are missing.

## Change

Use `DataLoader(..., pin_memory=True)` and `.to(device, non_blocking=True)`. Copy whole batches instead of samples.
Make the copy smaller: bytes or half precision, converted on the GPU.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Inefficient Host-GPU Data
  Transfer; section 4.5 for what the change gained
- PyTorch, A guide on good usage of non_blocking and pin_memory
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import loss
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity

SLOWEST, FASTEST = 1.02, 1.15
"""How much faster pinning alone made the study's jobs (section 4.5)."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report a low level of the GPUs' work that copies from host memory explain."""
    found = loss(exam, Category.INEFFICIENT_HOST_GPU_TRANSFER)
    if found is None:
        return
    hours = float(found.explains.sum()) * exam.step / 3600
    yield found.claim(
        recoverable=Recoverable(
            min=hours * (1 - 1 / SLOWEST),
            max=max(min(hours * (1 - 1 / FASTEST), found.hours), hours * (1 - 1 / SLOWEST)),
            basis="pinning alone made the jobs of ICSE 2024, section 4.5, 1.02 to 1.15 times as fast",
        )
    )


RULE = Rule(
    id="D301",
    name="host-transfer",
    category=Category.INEFFICIENT_HOST_GPU_TRANSFER,
    severity=Severity.WARNING,
    summary="The GPUs wait for copies from pageable host memory.",
    fix="Set pin_memory=True on the DataLoader and copy with .to(device, non_blocking=True), whole batches at a time.",
    check=check,
)
