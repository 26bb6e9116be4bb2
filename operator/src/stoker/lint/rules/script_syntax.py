"""The shell can't read the script.

## What it flags

A script in which `if`, `for`, `while`, `until`, `select` or `case` is never closed (no `fi`, `done`, `esac` follows),
or in which `fi`, `done`, `esac`, `then`, `else`, `elif` or `do` stands where nothing was begun.

## Why it costs GPU time

A shell runs what stands before the fault, and stops there with exit code 2: the job ends without its training, or fails
after it, and is restarted. All GPUs of all pods are bound meanwhile.

## When it stays silent

- scripts that shells accept, however odd; what the shell only finds out while it runs;
- faults in other words, such as a missing quote: whether a shell accepts them can't be told surely;
- texts that the script hands on (`bash -c`, `eval`, a here-document), and files.

## Change

Close what is open, or remove the word that closes nothing. `bash -n FILE` says the same of a file.

## References

- Bash Reference Manual, "Compound Commands" and "Reserved Words"
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the fault, one to a script: what follows it is read otherwise than it was meant."""
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
    summary="The script ends in the middle of a compound command, or closes one that it never began.",
    fix="Close what is open, or remove the word that closes nothing.",
    check=check,
    init_containers=True,
)
