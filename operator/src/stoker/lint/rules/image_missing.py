"""The job names no image.

## What it flags

The rule flags an empty `spec.image`, and a container of a DLJob's `spec.podTemplate` that is not `trainer` and names no
image.

## Why it costs GPU time

The pods are scheduled and hold their GPUs, but their containers cannot be created.

## When it stays silent

The field holds any text. `image-invalid` checks whether it is a valid reference.

## Change

Name an image that holds the framework and the program's libraries.

## References

- Kubernetes documentation, "Images"
"""

from collections.abc import Iterator

from stoker.api.dljob import TRAINER
from stoker.findings.finding import Location, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Severity
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report an empty image, and each container of the pod that has none."""
    if not submission.image.text.strip():
        yield Problem(
            detail=f"{submission.paths.image} is empty: an image reference such as registry.example.com/team/train:1.4"
            " is required.",
            location=submission.locate_image(),
        )
    # In the templates of other kinds a controller or a webhook may fill it in.
    for path in submission.pod.without_image if submission.kind == "DLJob" else ():
        yield Problem(
            detail=f"{path} is not set: a container beside {TRAINER} needs an image of its own.",
            fix=f"Name its image, or call it {TRAINER} if it is the training's own.",
            location=Location(field_path=path),
        )


RULE: Rule[Submission] = Rule(
    id="A201",
    name="image-missing",
    category=Category.STARTUP_HOLD,
    severity=Severity.ERROR,
    summary="The job names no image.",
    fix="Name an image that holds the framework, with a tag that never moves.",
    check=check,
    init_containers=True,
    action=Action.DENY,
)
