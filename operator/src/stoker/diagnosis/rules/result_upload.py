"""The GPUs wait while results are uploaded.

## What it flags

Drops of the GPUs' work, three at least, that cost a tenth of their time in training or more, while a pod sends or
writes what is too small for a model (under 100 MB), or comes irregularly, and did not leave the GPUs before.

Or, where uploads follow one another faster than the metrics are sampled: training uses at most 70 % of each GPU, and
less whenever more is sent.

## Why it costs GPU time

Validation outputs, images, tables or artifacts that the training loop uploads itself hold up the next step until the
store has confirmed the last of them. Each is short; they add up because they are many.

## When it stays silent

- for uploads in the background: their traffic shows without a drop;
- where the drops cost less than a tenth of the time;
- for large bursts of equal size at regular intervals (see checkpoint-stall);
- with MIG slices and shared GPUs, and where any GPU has too few samples.

Series show that two things coincide, so the finding is likely at most; without samples of what leaves the GPUs a
large upload may be a checkpoint, and both are named.

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
    """Read the verdicts on the job's drops and on its level."""
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
    summary="The GPUs stand still while intermediate results are uploaded.",
    fix="Upload results in a background thread or process, many at a time.",
    check=check,
)
