"""`stoker rules`: the catalogue and its pages."""

import click

from stoker.cli.completion import rule_names


@click.group(short_help="List the rules and show their pages.")
def rules() -> None:
    """List the rules and show their pages."""


@rules.command("list")
def list_rules() -> None:
    """Print every rule: name, id, the stage that checks it, category, what it does by default, and summary."""
    from stoker.catalogue import admission_rules, diagnosis_rules

    staged = [("admission", rule.action.value, rule) for rule in admission_rules()]
    staged += [("diagnosis", "-", rule) for rule in diagnosis_rules()]
    rows = [(rule.name, rule.id, stage, rule.category.value, action, rule.summary) for stage, action, rule in staged]
    header = ("RULE", "ID", "STAGE", "CATEGORY", "ACTION", "SUMMARY")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@rules.command("show")
@click.argument("name", metavar="RULE", shell_complete=rule_names)
@click.pass_context
def show_rule(context: click.Context, name: str) -> None:
    """Print a rule's page."""
    from difflib import get_close_matches

    from stoker.catalogue import all_rules
    from stoker.catalogue.pages import page

    known = {rule.name: rule for rule in all_rules()}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        meant = f": did you mean {near[0]}?" if near else ": see stoker rules list"
        click.echo(f'stoker: there is no rule "{name}"{meant}', err=True)
        context.exit(2)
    click.echo(page(known[name]), nl=False)


__all__ = ["rules"]
