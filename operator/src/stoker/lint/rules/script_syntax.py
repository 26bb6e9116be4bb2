"""The script has a syntax error.

## What it flags

The rule flags a script in which `if`, `for`, `while`, `until`, `select` or `case` is not closed (`fi`, `done` or
`esac` is missing), or in which `fi`, `done`, `esac`, `then`, `else`, `elif` or `do` does not belong to anything.

## Why it costs GPU time

The shell runs the lines before the error and then stops with exit code 2. The job ends without its training, or fails
after it, and is restarted. All GPUs of all pods are held meanwhile.

## When it stays silent

- Shells accept the script, or find the error only at run time.
- The error is of another kind, such as a missing quote: the rule cannot tell for certain whether a shell accepts it.
- The text is passed on (`bash -c`, `eval`, a here-document), or is in a file.

## Change

Close what is open, or remove the word that closes nothing. `bash -n FILE` reports the same for a file.

## References

- Bash Reference Manual, "Compound Commands" and "Reserved Words"
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first syntax error of the script: after it, the text no longer means what its author meant."""
    script = submission.script
    if script is None or not submission.script_field or submission.gpus < 1:
        return
    issue = next((one for one in script.syntax_issues if one.certain), None)
    if issue is None:
        return
    yield Problem(
        detail=f"{issue.message}: a shell stops here, with exit code 2.",
        evidence="bash and sh refuse to read on.",
        fix="Close what is open, or remove the word that closes nothing.",
        confidence=Confidence.LIKELY,
        location=submission.locate_span(issue.span),
        sources=(Source.SCRIPT,),
    )


RULE: Rule[Submission] = Rule(
    id="A116",
    name="script-syntax",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="The script has a syntax error: a compound command is not closed, or was never opened.",
    fix="Close what is open, or remove the word that closes nothing.",
    check=check,
    init_containers=True,
)
