"""The GPUs wait while gradients are exchanged.

## What it flags

The rule flags training on several GPUs in one of three cases:

- It uses 70 % or less of each GPU, and the exchanged data takes the whole wait at a speed that the link may have. The
  exchange shows as pods that send about as much as they receive (a quarter more at most), or GPUs that copy both ways
  over PCIe or NVLink.
- The work of all GPUs drops together, for a tenth of the time or more, while the links are busy.
- NCCL's kernels wait on the GPUs themselves: the GPUs show 80 % utilization or more, but their SMs are busy for half
  of that time at most (where SMs are not sampled: tensor cores for 15 % and memory for 25 % at most), and each pod
  sends and receives 300 MB/s or more.

## Why it costs GPU time

Each step ends with an exchange of all gradients. The smaller the batch of a GPU and the slower the link, the larger
is the share of the step in which the GPU computes nothing.

## When it stays silent

- The job has one GPU.
- The links are not busy, or only one rank drops (see checkpoint-stall).
- The data goes over NVLink and each GPU has its own process, as the CPU cores in use show. Then NCCL's kernels carry
  the data, and a GPU that runs them is not idle.
- Ranks wait in NCCL's kernels, and neither SMs nor tensor cores and memory are sampled.
- The data goes over RDMA or InfiniBand, whose traffic no counter of a pod shows.
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or samples are missing.

## Change

Exchange less often (gradient accumulation under `no_sync`, Horovod's `backward_passes_per_step`), use a larger batch
per GPU, or exchange less (compression, bf16). Use DistributedDataParallel instead of DataParallel. Put all ranks on
one node.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Exchange
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Report a low level of the GPUs' work, or drops of it, that an exchange between GPUs explains."""
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
