"""The image is not a valid image reference.

## What it flags

The rule flags a `spec.image` that no container runtime accepts: upper case in the repository, a scheme
(`https://...`), spaces, an empty tag, or an unexpanded `${VARIABLE}`.

## Why it costs GPU time

The pods are scheduled and hold their GPUs, but their containers stay in InvalidImageName as long as the job exists.

## When it stays silent

The text is a valid reference. The rule does not check whether the image exists in the registry.

## Change

Write `registry/repository:tag` or `registry/repository@sha256:...`.

## References

- OCI Distribution Specification, "Pulling manifests": names, tags and digests
- Kubernetes documentation, "Images": image names
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Severity
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report a text that is not a valid image reference."""
    image = submission.image
    if image.text.strip() and image.error is not None:
        yield Problem(
            detail=f'"{image.text}" is not an image reference: it {image.error.rstrip(".")}.',
            location=submission.locate_image(),
        )


RULE: Rule[Submission] = Rule(
    id="A202",
    name="image-invalid",
    category=Category.STARTUP_HOLD,
    severity=Severity.ERROR,
    summary="The image is not a valid image reference.",
    fix="Write it as registry/repository:tag or registry/repository@sha256:DIGEST.",
    check=check,
    init_containers=True,
    action=Action.DENY,
)
