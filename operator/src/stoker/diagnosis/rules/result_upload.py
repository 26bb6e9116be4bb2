"""The GPUs wait while results are uploaded.

## What it flags

The rule flags at least three drops of the GPUs' work that cost a tenth of the training time or more. In each drop a
pod sends or writes more than between them, by 20 kB/s at least: many small files take much time at a low rate. It is
no checkpoint: the amounts are small or differ, and the GPUs did not send them to the host before.

If uploads follow one another faster than the metrics are sampled, drops cannot be seen. Then the rule flags training
at 70 % or less of each GPU that works less whenever more is sent.

## Why it costs GPU time

A training loop that uploads validation outputs, images, tables or artifacts itself starts the next step only after
the store has confirmed the last upload. Each upload is short, but there are many.

## When it stays silent

- Uploads run in the background: their traffic shows without a drop.
- The drops cost less than a tenth of the time.
- The bursts are large, of equal size and at regular intervals (see checkpoint-stall).
- The GPUs are MIG slices or shared, or any GPU has too few samples.

Series only show that two things happen at the same time, so the finding is likely at most. Without samples of what
leaves the GPUs, a large upload may be a checkpoint: then both are named.

## Change

Upload in a background thread or process, and collect results so that one upload carries many.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Intermediate Result Upload
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import loss, stalled_hours
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Report drops of the GPUs' work, or a low level of it, that uploads explain."""
    found = loss(exam, Category.INTERMEDIATE_RESULT_UPLOAD)
    if found is None:
        return
    if found.drops is None:
        yield found.claim()
        return
    hours = stalled_hours(exam, found.drops)
    yield found.claim(
        recoverable=Recoverable(
            min=hours / 2, max=hours, basis="the pauses, of which writing the results may take half"
        )
    )


RULE = Rule(
    id="D306",
    name="result-upload",
    category=Category.INTERMEDIATE_RESULT_UPLOAD,
    severity=Severity.WARNING,
    summary="The GPUs wait while intermediate results are uploaded.",
    fix="Upload results in a background thread or process, many at a time.",
    check=check,
)
