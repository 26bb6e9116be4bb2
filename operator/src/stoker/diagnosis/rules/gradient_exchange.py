"""The GPUs wait for one another's gradients.

## What it flags

Training on several GPUs uses at most 70 % of each, and what they exchange takes two fifths of the wait or more at the
speed that the link carries at best: pods send as much as they receive, or GPUs copy both ways over PCIe or NVLink. Or:
all GPUs' work drops together, for a tenth of the time or more, while the links are busy.

Or, where NCCL's kernels wait on the GPUs themselves: these look busy for 80 % of the time or more while their SMs are
for half of it at most (or tensor cores for 15 % and memory for 25 %, where SMs are not sampled), and each pod sends and
receives 300 MB/s or more.

## Why it costs GPU time

Each step ends with an exchange of all gradients. The smaller a GPU's part of the batch and the slower the link, the
larger is the share of the step in which it computes nothing.

## When it stays silent

- for jobs with one GPU;
- where the links have time, or only one rank falls (see checkpoint-stall);
- for what goes over NVLink where each GPU has a process of its own, by the CPU cores in use: NCCL's kernels carry it,
  and a GPU that runs them is not idle;
- where ranks spin in NCCL's kernels and neither SMs nor tensor cores and memory are sampled;
- over RDMA or InfiniBand, whose traffic no pod's counter shows;
- in the first fifteen minutes of work, with MIG slices and shared GPUs, and where samples are missing.

## Change

Exchange less often (gradient accumulation under `no_sync`, Horovod's `backward_passes_per_step`), a larger batch per
GPU, or less each time (compression, bf16); DistributedDataParallel in place of DataParallel; all ranks on one node.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Exchange
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Read the verdicts on the job's level and on its drops."""
    found = loss(exam, Category.DATA_EXCHANGE)
    if found is None:
        return
    nodes = exam.facts.nodes
    place = f"; or put the same GPUs on fewer nodes (now {nodes})" if nodes > 1 else ""
    yield found.claim(
        fix="Exchange less often (gradient accumulation under no_sync, backward_passes_per_step), give each GPU a "
        f"larger batch, or compress the gradients{place}."
    )


RULE = Rule(
    id="D307",
    name="gradient-exchange",
    category=Category.DATA_EXCHANGE,
    severity=Severity.WARNING,
    summary="The GPUs wait while gradients are exchanged.",
    fix="Exchange less often (gradient accumulation), give each GPU a larger batch, or compress the gradients.",
    check=check,
)
