"""The rules' pages: each rule's docstring under its name and facts, and an index of all rules and their ids.

`hack/generate.py` writes them to docs/rules/, `stoker rules show` prints one.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.catalogue import admission_rules, all_rules, diagnosis_rules
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Action, Category

FAMILIES: Mapping[str, str] = {
    "A1": "How the program is started: launchers, devices, configuration",
    "A2": "The image",
    "A3": "What the job is: its commands and its type",
    "A4": "The start: installations and downloads",
    "A5": "The end: what keeps GPUs after the work",
    "A6": "The script's interpreter",
    "A7": "CPUs and shared memory",
    "D1": "unused GPUs",
    "D2": "Batch size, GPU memory and checkpoints",
    "D3": "GPUs that wait for data or for copies",
    "D4": "The start: installations",
    "D5": "Held GPUs, hangs, duplicates and stragglers",
    "D6": "Advice",
}
"""What the first two characters of a rule's id stand for: A is seen at admission, D in metrics."""


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
    admission, diagnosis, every = admission_rules(), diagnosis_rules(), all_rules()
    index = "\n".join(
        [
            "# Rules",
            "",
            "Generated from the rules' docstrings. `stoker rules show RULE` prints a page.",
            "",
            "## Which stage checks which cause",
            "",
            "A `-` means that no rule checks this cause at this stage. Rules in **bold** deny by default.",
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
            "By default, Deny refuses a job only for a certain finding; for a likely one it warns.",
            "",
            "| Id | Rule | Category | Action | What it says |",
            "|---|---|---|---|---|",
            *(f"| {r.id} | [{r.name}]({r.name}.md) | {r.category} | {r.action} | {r.summary} |" for r in admission),
            "",
            "## While a job runs: diagnosis",
            "",
            "| Id | Rule | Category | What it says |",
            "|---|---|---|---|",
            *(f"| {r.id} | [{r.name}]({r.name}.md) | {r.category} | {r.summary} |" for r in diagnosis),
            "",
            "## Ids for new rules",
            "",
            "A new rule takes the next free id of its family.",
            "",
            "| Ids | What they are about | Next free |",
            "|---|---|---|",
            *(f"| {family} | {about} | {next_id(family, every)} |" for family, about in FAMILIES.items()),
            "",
        ]
    )
    return {"README.md": index, **{f"{rule.name}.md": page(rule) for rule in every}}


def next_id(family: str, rules: Iterable[Rule[Any]]) -> str:
    """The first id of a family (such as "A1") after those that rules have."""
    taken = [int(rule.id.removeprefix(family)) for rule in rules if rule.id.startswith(family)]
    return f"{family}{max(taken, default=0) + 1:02}"


def _linked(rules: Iterable[Rule[Any]], category: Category) -> str:
    """The rules of a category, as links; those that deny are in bold."""
    links = []
    for rule in rules:
        if rule.category is category:
            link = f"[{rule.name}]({rule.name}.md)"
            links.append(f"**{link}**" if rule.action is Action.DENY else link)
    return ", ".join(links) or "-"


__all__ = ["FAMILIES", "next_id", "page", "pages"]
