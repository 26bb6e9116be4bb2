"""A rule: one documented fault and the pure function that sees it."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from stoker.models.finding import Finding, Problem
from stoker.models.vocabulary import Action, Category, Maturity, Severity

Subject = TypeVar("Subject")

DOCS_BASE = "https://stoker.dev/rules/"
"""Where the rules' pages, generated into docs/rules/, are published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """One fault, one file.

    The module that defines a rule as `RULE` is named after it, and the module's docstring is its page.
    `check` is pure and stays silent on whatever it cannot decide. `action` is what happens at admission unless a policy
    says otherwise; Deny here takes effect only for problems that are Certain. Runtime rules leave it at Warn.
    """

    id: str
    name: str
    category: Category
    severity: Severity
    summary: str
    fix: str
    check: Callable[[Subject], Iterable[Problem]]
    action: Action = Action.WARN
    maturity: Maturity = Maturity.STABLE

    @property
    def docs(self) -> str:
        """The address of the rule's page."""
        return f"{DOCS_BASE}{self.name}"

    @property
    def page(self) -> str:
        """The rule's page: the docstring of its module."""
        return sys.modules[self.check.__module__].__doc__ or ""

    def findings(self, subject: Subject) -> Iterator[Finding]:
        """Run the check and sign what it reports with the rule's own facts."""
        for problem in self.check(subject):
            yield self.sign(problem)

    def sign(self, problem: Problem) -> Finding:
        """The finding that a problem becomes under this rule's name."""
        return Finding(
            rule=self.name,
            category=self.category,
            severity=problem.severity or self.severity,
            confidence=problem.confidence,
            detail=problem.detail,
            evidence=problem.evidence,
            fix=self.fix if problem.fix is None else problem.fix,
            docs=self.docs,
            sources=problem.sources,
            location=problem.location,
            since=problem.since,
            until=problem.until,
            gpu_hours_idle=problem.gpu_hours_idle,
            alternatives=problem.alternatives,
        )
