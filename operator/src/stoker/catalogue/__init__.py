"""Finds the rules: every module of `stoker.lint.rules` and `stoker.diagnosis.rules` is one rule, its `RULE`.

Nothing is registered. Used by whatever runs rules (lint, admission, diagnosis), by the admission of policies, which
name rules, and by the generator of the rules' pages (catalogue/pages.py).
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from stoker.findings.rule import Rule

ADMISSION = "stoker.lint.rules"
DIAGNOSIS = "stoker.diagnosis.rules"


class CatalogueError(Exception):
    """A module of rules has no rule or one of another name, or two rules share an id or a name."""


@cache
def admission_rules() -> tuple[Rule[Any], ...]:
    """The rules over submissions (`stoker.lint.submission.Submission`), by id."""
    return _rules(ADMISSION)


@cache
def diagnosis_rules() -> tuple[Rule[Any], ...]:
    """The rules over the series of a running or finished job, by id."""
    return _rules(DIAGNOSIS)


def diagnosis_names() -> frozenset[str]:
    """The names of the rules over series, without loading them and what they compute with."""
    return frozenset(module.name.replace("_", "-") for module in iter_modules(import_module(DIAGNOSIS).__path__))


def all_rules() -> tuple[Rule[Any], ...]:
    """Every rule, those of admission first. Raises CatalogueError where two share an id or a name."""
    return _unique((*admission_rules(), *diagnosis_rules()))


def _rules(package: str) -> tuple[Rule[Any], ...]:
    """The `RULE` of each module of a package, by id. Raises CatalogueError."""
    rules: list[Rule[Any]] = []
    for module in iter_modules(import_module(package).__path__):
        name = f"{package}.{module.name}"
        rule = getattr(import_module(name), "RULE", None)
        if not isinstance(rule, Rule):
            raise CatalogueError(f"{name} defines no RULE")
        if rule.name.replace("-", "_") != module.name:
            raise CatalogueError(f"{name} defines the rule {rule.name!r}: a module has the name of its rule")
        rules.append(rule)
    return _unique(tuple(sorted(rules, key=lambda rule: rule.id)))


def _unique(rules: tuple[Rule[Any], ...]) -> tuple[Rule[Any], ...]:
    """The rules as they are. Raises CatalogueError where two share an id or a name."""
    for attribute, hint in (("id", "; docs/rules/README.md lists the free ones"), ("name", "")):
        seen: dict[str, Rule[Any]] = {}
        for rule in rules:
            first = seen.setdefault(getattr(rule, attribute), rule)
            if first is not rule:
                modules = f"{first.check.__module__} and {rule.check.__module__}"
                raise CatalogueError(f"{modules} have the same {attribute} {getattr(rule, attribute)!r}{hint}")
    return rules


__all__ = ["CatalogueError", "admission_rules", "all_rules", "diagnosis_names", "diagnosis_rules"]
