"""The rules' pages: each rule's docstring under its name and facts, and an index of all."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.catalogue import admission_rules, diagnosis_rules
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Action, Category


def page(rule: Rule[Any]) -> str:
    """A rule's page in Markdown."""
    title, _, body = rule.page.strip().partition("\n")
    facts = [
        ("Category", rule.category.value),
        ("Severity", rule.severity.value),
        *([("At admission", rule.action.value)] if rule in admission_rules() else [("Seen in", "metrics")]),
        ("Maturity", rule.maturity.value),
        ("Id", rule.id),
    ]
    table = "\n".join(["|  |  |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts)])
    return f"# {rule.name}\n\n{title}\n\n{table}\n\n{body.strip()}\n{_parameters(rule)}"


def _parameters(rule: Rule[Any]) -> str:
    """What a policy may set of a rule; empty of most."""
    if not rule.parameters:
        return ""
    rows = [f"| {one.name} | {_value(one.default)} | {_allowed(one)} | {one.description} |" for one in rule.parameters]
    header = ["| Name | Default | Allowed | What it is |", "|---|---|---|---|"]
    place = f"Set in a policy, under `spec.rules.{rule.name}.parameters`."
    return "\n".join(["", "## Parameters", "", place, "", *header, *rows, ""])


def _value(value: float | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{text}`" for text in value) or "none"
    return f"{value:g}"


def _allowed(parameter: Parameter) -> str:
    if isinstance(parameter.default, tuple):
        return "a list of texts"
    if parameter.maximum == math.inf:
        return f"a number from {parameter.minimum:g}"
    return f"a number from {parameter.minimum:g} to {parameter.maximum:g}"


def pages() -> Mapping[str, str]:
    """All pages by file name, `README.md` (the index) first; what `docs/rules/` holds."""
    admission, diagnosis = admission_rules(), diagnosis_rules()
    index = "\n".join(
        [
            "# Rules",
            "",
            "Generated from the rules' docstrings. `stoker rules show RULE` prints a page.",
            "",
            "## Which door sees which cause",
            "",
            "A cause without a rule at a door is not looked for there. Rules in **bold** deny by default.",
            "",
            "| Category | Before a job runs: `stoker lint`, admission | While it runs: diagnosis |",
            "|---|---|---|",
            *(
                f"| {category} | {_linked(admission, category)} | {_linked(diagnosis, category)} |"
                for category in Category
            ),
            "",
            "## Before a job runs: `stoker lint` and admission",
            "",
            "By default Deny applies to what is certain; what is only likely is warned of.",
            "",
            "| Rule | Category | Action | What it says |",
            "|---|---|---|---|",
            *(f"| [{r.name}]({r.name}.md) | {r.category} | {r.action} | {r.summary} |" for r in admission),
            "",
            "## While a job runs: diagnosis",
            "",
            "| Rule | Category | What it says |",
            "|---|---|---|",
            *(f"| [{r.name}]({r.name}.md) | {r.category} | {r.summary} |" for r in diagnosis),
            "",
        ]
    )
    every: Iterable[Rule[Any]] = (*admission, *diagnosis)
    return {"README.md": index, **{f"{rule.name}.md": page(rule) for rule in every}}


def _linked(rules: Iterable[Rule[Any]], category: Category) -> str:
    """The rules of a category, as links; those that deny are in bold."""
    links = []
    for rule in rules:
        if rule.category is category:
            link = f"[{rule.name}]({rule.name}.md)"
            links.append(f"**{link}**" if rule.action is Action.DENY else link)
    return ", ".join(links) or "-"


__all__ = ["page", "pages"]
