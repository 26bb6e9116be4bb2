"""The declared job type has no effect in this namespace.

## What it flags

The rule flags `jobType: Interactive` or `jobType: Serving` in a namespace whose policy does not trust these types
(`trustedJobTypes`).

## Why it costs GPU time

An interactive or serving job may be idle for hours without being reclaimed. If the policy does not trust the type,
the job is checked and reclaimed like a training job. Its owner should know that at submission.

## When it stays silent

- The policy trusts job types in this namespace. By default it does.
- The type is Training or Evaluation, or is not given.
- The job has no GPUs.

## Change

Submit the job in a namespace for such jobs, or with the type of what it does.

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
            detail=f"{submission.paths.job_type}: {submission.job_type} is not trusted in the namespace"
            f" {submission.namespace or 'default'}: the job is monitored and reclaimed like a training job.",
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
