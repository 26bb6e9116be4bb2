"""The image may change while the job exists.

## What it flags

The rule flags an image without a tag or digest, or with the tag `latest`.

## Why it costs GPU time

The kubelet pulls such an image again at each start, while the pod already holds its GPUs. A pod that is replaced, or
a job that is resumed, may get another version of the framework than its peers, and then fails or hangs.

## When it stays silent

The image has a digest or any other tag. The rule cannot see whether a tag is moved to another image.

## Change

Name a version or a digest.

## References

- Kubernetes documentation, "Images": imagePullPolicy defaults to Always for `latest` and for no tag
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report an image without tag or digest, or with the tag latest."""
    image = submission.image
    if image.reference is None or not image.reference.floating or submission.gpus < 1:
        return
    what = "has no tag and no digest" if image.reference.tag is None else 'has the tag "latest"'
    yield Problem(
        detail=f"{image.text} {what}: it is pulled again at each start and may change between the job's pods.",
        location=submission.locate_image(),
    )


RULE: Rule[Submission] = Rule(
    id="A203",
    name="image-unpinned",
    category=Category.STARTUP_HOLD,
    severity=Severity.WARNING,
    summary="The image has no tag, or the tag latest.",
    fix="Name a version, such as :2026.11, or a digest, @sha256:....",
    check=check,
)
