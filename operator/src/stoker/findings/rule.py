"""A rule: one documented fault and the pure function that sees it."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Concatenate, Generic, TypeVar

from stoker.findings.finding import Finding, Problem
from stoker.findings.vocabulary import Action, Category, Maturity, Severity

Subject = TypeVar("Subject")

SHOW_PAGE = "stoker rules show"
"""The command that prints a rule's page. The pages come with the command; nobody serves them at an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What a policy may set of a rule: a number between two bounds, or a list of texts.

    The rule's check takes it as a keyword argument: `minimumSeconds` as `minimum_seconds`.
    """

    name: str
    default: float | tuple[str, ...]
    description: str
    minimum: float = 0
    maximum: float = math.inf

    @property
    def keyword(self) -> str:
        """The name of the check's argument."""
        return re.sub(r"[A-Z]", lambda capital: f"_{capital.group().lower()}", self.name)

    def read(self, value: object) -> float | tuple[str, ...]:
        """The value that a policy gives. Raises ValueError, with the value and what is allowed, for any other."""
        if isinstance(self.default, tuple):
            if isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value):
                return tuple(value)
            raise ValueError(f"{value!r} is not allowed: give a list of texts")
        if isinstance(value, int | float) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
            return value
        most = f"from {self.minimum:g} to {self.maximum:g}" if self.maximum < math.inf else f"from {self.minimum:g}"
        raise ValueError(f"{value!r} is not allowed: give a number {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """One fault, one file.

    The module that defines a rule as `RULE` is named after it, and the module's docstring is its page.
    `check` takes the subject, and each of the rule's parameters by keyword; it is pure and stays silent on whatever it
    cannot decide. `action` is what happens at admission unless a policy
    says otherwise; Deny here takes effect only for problems that are Certain. Runtime rules leave it at Warn.
    `init_containers`: it judges them as well; the others are about the program that the GPUs are for. `drivers`: it
    judges containers without GPUs that start programs on those of other pods, as init containers are.
    `without_samples`: of rules over series, it judges by the job's facts where the series have nothing or are partial.
    """

    id: str
    name: str
    category: Category
    severity: Severity
    summary: str
    fix: str
    check: Callable[Concatenate[Subject, ...], Iterable[Problem]]
    parameters: tuple[Parameter, ...] = ()
    action: Action = Action.WARN
    maturity: Maturity = Maturity.STABLE
    init_containers: bool = False
    drivers: bool = False
    without_samples: bool = False

    @property
    def docs(self) -> str:
        """How to read the rule's page."""
        return f"{SHOW_PAGE} {self.name}"

    @property
    def page(self) -> str:
        """The rule's page: the docstring of its module."""
        return sys.modules[self.check.__module__].__doc__ or ""

    def findings(self, subject: Subject, parameters: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Finding]:
        """Run the check and sign what it reports with the rule's own facts.

        `parameters` are a policy's, by name; one that the rule does not have, or not with this value, is ignored: the
        admission of policies refuses it.
        """
        for problem in self.check(subject, **self._settings(parameters)):
            yield self.sign(problem)

    def _settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        for parameter in self.parameters:
            try:
                settings[parameter.keyword] = parameter.read(given.get(parameter.name, parameter.default))
            except ValueError:
                settings[parameter.keyword] = parameter.default
        return settings

    def sign(self, problem: Problem) -> Finding:
        """The finding that a problem becomes under this rule's name."""
        return Finding(
            rule=self.name,
            category=problem.category or self.category,
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
            recoverable=problem.recoverable,
            alternatives=problem.alternatives,
            weighed=problem.weighed,
            change=problem.change,
        )
