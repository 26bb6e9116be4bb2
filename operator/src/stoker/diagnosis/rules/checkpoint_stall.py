"""The GPUs wait while a checkpoint is saved.

## What it flags

The rule flags at least three drops of the GPUs' work that cost a tenth of the training time or more. In each drop a
pod sends or writes 40 MB or more, and the amounts are equal and come at regular intervals, or match what the GPUs
sent to the host just before. The bytes decide, not their rate: a mount may take 2 MB/s. In a job with several GPUs,
often only the GPU that saves drops. The others stay at 100 % in a collective operation while their tensor cores are
idle. The rule counts these as waiting, too.

If checkpoints follow one another faster than the metrics are sampled, drops cannot be seen. Then the rule flags
training at 70 % or less of each GPU while a pod writes or sends 10 MB/s or more all the time, and the GPUs send as
much to the host.

The rule also flags jobs with a mean utilization above 50 %: a tenth of the GPU time is lost all the same.

## Why it costs GPU time

`torch.save` to a mounted or remote path returns after the last byte is written. In the study's example a save took 96
of each 168 seconds, and the job used 39.57 % of its GPU.

## When it stays silent

- Checkpoints are asynchronous: their traffic shows without a drop.
- The drops cost less than a tenth of the time, or there are fewer than three.
- The work drops to another level than zero and nothing is written: that is an evaluation.
- The GPUs are MIG slices or shared, or any GPU has too few samples.

Series only show that two things happen at the same time, so the finding is likely and not certain. A log line or the
program's source makes it surer. Small or irregular traffic has another cause (see result-upload).

## Change

Save to a local disk and copy in a background thread or process. Or save with
`torch.distributed.checkpoint.async_save`, which stops training only while the state leaves the GPU. Or save less
often.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.2, Model Checkpointing;
  section 4.5 for what the change gained
- PyTorch, Asynchronous Saving with Distributed Checkpoint
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.interruption import Interruption
from stoker.diagnosis.series.losses import loss, stalled_hours
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity
from stoker.findings.wording import minutes

SMALL_SHARE = 0.05
"""Share of the training time that saving should cost after the change. Chosen as half of the tenth from which the rule
reports.
"""
SNAPSHOT_BYTES = 1e9
"""bytes/s from a GPU to pageable host memory. Chosen as a low rate: even an asynchronous save stops training for this
copy.
"""


def check(exam: Examination) -> Iterator[Claim]:
    """Report drops of the GPUs' work, or a low level of it, that saving explains."""
    found = loss(exam, Category.MODEL_CHECKPOINTING)
    if found is None:
        return
    if found.drops is None:
        yield found.claim()
    else:
        yield found.claim(fix=_fix(found.drops), recoverable=_recoverable(exam, found.drops))


def _fix(stalls: Interruption) -> str:
    rarely = minutes(stalls.drops.length / SMALL_SHARE)
    return (
        "Save to a local disk and copy in a background thread, or use torch.distributed.checkpoint.async_save; "
        f"or save once in {rarely}, which would cost 5 % at {minutes(stalls.drops.length)} a save."
    )


def _recoverable(exam: Examination, stalls: Interruption) -> Recoverable:
    """The GPU time that the change returns: at most all stalls; at least those minus the copy of the state to the
    host.
    """
    hours = stalled_hours(exam, stalls)
    least = 0.0
    if stalls.carried is not None:
        snapshots = stalls.carried / SNAPSHOT_BYTES * stalls.drops.count
        least = hours * max(1 - snapshots / sum(stalls.drops.lost), 0.0)
    return Recoverable(
        min=least,
        max=hours,
        basis="the stalls themselves, less the time in which a snapshot leaves the GPU at 1 GB/s or more",
    )


RULE = Rule(
    id="D203",
    name="checkpoint-stall",
    category=Category.MODEL_CHECKPOINTING,
    severity=Severity.WARNING,
    summary="The GPUs wait while checkpoints are saved.",
    fix="Save to a local disk and copy in a background thread, save asynchronously, or save less often.",
    check=check,
)
