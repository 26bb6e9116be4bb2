"""The GPUs wait for data that is read over the network during training.

## What it flags

The rule flags training at 70 % or less of each GPU while a pod receives 1 MB/s or more, beyond what ranks exchange,
if either

- the GPUs work more when more data arrives, over at least twenty minutes of samples; or
- tasks of the pod wait for storage for a fifth of the time (pressure stall information).

It also flags training in which the GPUs' work drops, for a tenth of the time or more, whenever the pod receives.

## Why it costs GPU time

Each batch waits for the network and the store. If the data does not fit into memory, each epoch reads it again.

## When it stays silent

- The GPUs do not wait, however much data streams in.
- The pace of the GPUs does not follow the incoming data. From 20 MB/s on the cause is then a candidate among others
  (see input-bound).
- As much is sent as is received: ranks exchange gradients (see gradient-exchange).
- The CPUs are at their limit (see input-preprocessing), or the copies to the GPU fill their link.
- The pod uses its host's network, whose traffic is that of the node, or no counter shows the reads (NFS mounted by
  the node, RDMA).
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or samples are missing.

Series do not show who sends. A public site is named as the alternative (ExternalDataUsage). The finding is only
possible if less than 15 MB/s come in, and nothing at all for a minute or more three times: a site that limits its
clients does so, and a store in the same network hardly.

## Change

Copy the data to a local disk before the training, or stream it with enough prefetching (WebDataset, tf.data, FFCV),
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
    """Report a low level of the GPUs' work, or drops of it, that reads over the network explain."""
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
