"""The declared job type does not count here.

## What it flags

`jobType: Interactive` or `jobType: Serving` in a namespace whose policy does not take these at their word
(`trustedJobTypes`).

## Why it costs GPU time

An interactive or serving job may be idle for hours without being reclaimed. Where the policy does not trust the
declaration, the job is watched and reclaimed like a training job: better known at submission than when it happens.

## When it stays silent

- the policy trusts job types in this namespace (it does by default);
- Training, Evaluation, or no type; jobs without GPUs.

## Change

Submit it in a namespace meant for such jobs, or as what it does.

## References

- `kubectl explain utilizationpolicy.spec.trustedJobTypes`
"""

from collections.abc import Iterator

from stoker.findings.finding import Location, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, JobType, Severity
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report a declared type that the policy does not trust."""
    if submission.job_type_trusted or submission.gpus < 1:
        return
    if submission.job_type in {JobType.INTERACTIVE, JobType.SERVING}:
        yield Problem(
            detail=f"{submission.paths.job_type}: {submission.job_type} does not count in the namespace"
            f" {submission.namespace or 'default'}: the job is watched and reclaimed as a training job is.",
            location=Location(field_path=submission.paths.job_type),
        )


RULE: Rule[Submission] = Rule(
    id="A303",
    name="job-type-untrusted",
    category=Category.INTERACTIVE_JOB,
    severity=Severity.WARNING,
    summary="The declared job type is not trusted in this namespace.",
    fix="Submit it in a namespace whose policy trusts job types, or leave jobType out.",
    check=check,
)
