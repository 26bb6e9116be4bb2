"""`--select` and `--ignore`: which rules `stoker lint` runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.catalogue import admission_rules
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category
from stoker.lint.files.results import SCHEMA_RULE, SUPPRESSION_RULE
from stoker.lint.submission import Submission


class SelectionError(Exception):
    """A word that names no rule, id or category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rules to run, and whether suppressions without effect are told of."""

    rules: tuple[Rule[Submission], ...]
    suppressions: bool = True


def select(selected: Sequence[str] = (), ignored: Sequence[str] = ()) -> Selection:
    """The rules that are selected and not ignored.

    Each word is a rule's name or id, or a category; several stand with commas between them. Without `selected` all
    rules are; `ignored` takes away. Raises SelectionError, with the nearest name, for any other word. Violations of the
    schema are always told: nothing can be judged without it.
    """
    rules = admission_rules()
    wanted = _named(rules, selected) if selected else {*(rule.name for rule in rules), SUPPRESSION_RULE}
    wanted -= _named(rules, ignored)
    return Selection(
        rules=tuple(rule for rule in rules if rule.name in wanted), suppressions=SUPPRESSION_RULE in wanted
    )


def words(rules: Iterable[Rule[Any]]) -> dict[str, str]:
    """Everything that can be selected, and what it stands for."""
    rules = tuple(rules)
    return {
        **{rule.name: rule.summary for rule in rules},
        SUPPRESSION_RULE: "Suppressions without effect.",
        **{
            category.value: "A category of rules."
            for category in Category
            if any(r.category == category for r in rules)
        },
        **{rule.id: rule.name for rule in rules},
    }


def _named(rules: Sequence[Rule[Any]], given: Sequence[str]) -> set[str]:
    names: set[str] = set()
    for word in (word.strip() for text in given for word in text.split(",")):
        if word == SCHEMA_RULE:
            raise SelectionError(
                f'"{SCHEMA_RULE}" cannot be chosen: a manifest that violates the schema is never checked further'
            )
        found = {rule.name for rule in rules if word in (rule.name, rule.id, rule.category.value)}
        if word == SUPPRESSION_RULE:
            found = {word}
        if not found:
            from difflib import get_close_matches  # noqa: PLC0415 - for an error alone

            near = get_close_matches(word, words(rules), n=1)
            meant = f": did you mean {near[0]}?" if near else ": see stoker rules list"
            raise SelectionError(f'there is no rule or category "{word}"{meant}')
        names |= found
    return names


__all__ = ["Selection", "SelectionError", "select", "words"]
