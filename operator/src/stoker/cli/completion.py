"""`stoker completion`: what a shell needs to complete commands, options and the names of rules."""

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_STOKER_COMPLETE"
"""What click's completion sets for the program; its name follows from the program's."""


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for its start-up file.

    \b
    bash   echo 'eval "$(stoker completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(stoker completion zsh)"' >> ~/.zshrc
    fish   stoker completion fish > ~/.config/fish/completions/stoker.fish
    """  # noqa: D301 - click's mark for lines that stay as they are
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "stoker", VARIABLE).source())


def rule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The rules whose names begin so, with their summaries."""
    from stoker.catalogue import all_rules

    return [CompletionItem(rule.name, help=rule.summary) for rule in all_rules() if rule.name.startswith(incomplete)]


def selected_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What can be selected, for the last word of a list with commas."""
    from stoker.catalogue import admission_rules
    from stoker.lint.files.selection import words

    before, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{word}", help=meaning)
        for word, meaning in words(admission_rules()).items()
        if word.startswith(last)
    ]


__all__ = ["completion", "rule_names", "selected_names"]
