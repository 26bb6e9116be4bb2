"""The GPUs wait for copies from the host.

## What it flags

Training uses at most 70 % of each GPU, and so much is copied from the host to each of them that the copies take two
fifths of the wait or more at the 6 GB/s that pageable memory reaches, while the CPUs have time and no data streams in.

## Why it costs GPU time

A copy from pageable memory is staged by the CPU through a small pinned buffer, holds up the program until it is done,
and reaches half of the link's speed or less. The kernels of the next step wait for it. This is the study's most
frequent category, with 27.90 % of all issues.

## When it stays silent

- where little is copied: then even slow copies can't be what the GPUs wait for;
- where so much is copied that it must run beside the kernels;
- where the GPUs' pace varies, though copies take as long in each step: then it is a candidate at most (see
  input-bound);
- where the CPUs are at their limit or ranks exchange gradients over the same link: see input-preprocessing and
  gradient-exchange;
- for TensorFlow and JAX, which place and overlap these copies themselves;
- without samples of the PCIe traffic, where it is at most named among the candidates (see input-bound);
- in the first fifteen minutes of work, with MIG slices and shared GPUs, and where samples are missing.

## Change

`DataLoader(..., pin_memory=True)` and `.to(device, non_blocking=True)`; copy whole batches and not samples; make the
copy smaller (bytes or half precision, converted on the GPU).

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
    """Read the verdict on the job's level."""
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
