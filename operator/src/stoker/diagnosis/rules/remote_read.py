"""The GPUs wait for data that is read from elsewhere while they train.

## What it flags

Training uses at most 70 % of each GPU while a pod receives 1 MB/s or more, beyond what ranks exchange, and either the
GPUs work the more the more comes in, which twenty minutes of samples or more must show, or tasks of the pod wait for
storage for a fifth of the time (pressure stall information). Or: the GPUs' work drops, for a tenth of the time or
more, whenever the pod receives.

## Why it costs GPU time

Each batch waits for the network and the store, and each epoch reads the same again when the data does not fit into
memory.

## When it stays silent

- where the GPUs do not wait, however much streams in;
- where their pace doesn't follow what comes in: from 20 MB/s on it is then a candidate among others (see
  input-bound);
- where as much is sent as is received: ranks exchange gradients (see gradient-exchange);
- where the CPUs are at their limit (see input-preprocessing) or the copies to the GPU fill their link;
- where the pod is on its host's network, whose traffic is everybody's, and for reads that no counter shows (NFS
  mounted by the node, RDMA);
- in the first fifteen minutes of work, with MIG slices and shared GPUs, and where samples are missing.

## Change

Copy the data to a local disk before training begins, or stream it with enough prefetching (WebDataset, tf.data, FFCV),
so that the next batches arrive while the GPU computes.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Remote Data Read
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Read the verdicts on the job's level and on its drops."""
    found = loss(exam, Category.REMOTE_DATA_READ)
    if found is not None:
        yield found.claim()


RULE = Rule(
    id="D303",
    name="remote-read",
    category=Category.REMOTE_DATA_READ,
    severity=Severity.WARNING,
    summary="The GPUs wait for data that is read over the network during training.",
    fix="Copy the data to a local disk before training, or stream it with prefetching (WebDataset, tf.data, FFCV).",
    check=check,
)
