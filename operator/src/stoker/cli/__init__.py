"""The command line: each command parses its arguments, calls the core and prints what it answers.

A command's module is imported when the command is asked for: `stoker lint` starts without what the controller needs.
"""

import os
from importlib import import_module
from typing import NamedTuple

import click

from stoker import __version__

EXIT_INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""
SITE_WORD_LISTS = "STOKER_WORD_LISTS"
"""The environment variable of lint.word_lists.loader, which is imported only where it is set."""


class _Place(NamedTuple):
    """Where a command is defined, and its line in `stoker --help`, which is printed without importing it."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "lint": _Place("stoker.cli.lint", "lint", "Check manifests as admission does, without a cluster."),
    "diagnose": _Place("stoker.cli.diagnose", "diagnose", "Show why running or recorded jobs use their GPUs poorly."),
    "report": _Place("stoker.cli.report", "report", "Report where the GPU-hours of a period went."),
    "replay": _Place("stoker.cli.replay", "replay", "Show what a policy would have reclaimed."),
    "rules": _Place("stoker.cli.rules", "rules", "List the rules and show their pages."),
    "completion": _Place("stoker.cli.completion", "completion", "Print the completion script of bash, zsh or fish."),
    "run": _Place("stoker.cli.run", "run", "Run a part of the operator: controller, admission or certificates."),
    "doctor": _Place("stoker.cli.doctor", "doctor", "Check an installation and say what to do."),
    "explain": _Place("stoker.cli.explain", "explain", "Show why a job was or was not reclaimed."),
    "resume": _Place("stoker.cli.reclaim", "resume", "Start a reclaimed job again."),
    "snooze": _Place("stoker.cli.reclaim", "snooze", "Protect a job from reclaim for some time."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(place.module), place.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            if not near or self.get_command(ctx, args[0]) is not None:
                raise
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{near[0]}'?", ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package in {"", "stoker"}:
                raise
            # Installed without its dependencies, for `stoker lint` alone (requirements/lint.txt).
            message = f"this command needs {package}, which is not installed: install Stoker with all its dependencies"
            raise click.UsageError(message, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version=__version__, message="%(prog)s %(version)s")
def stoker() -> None:
    """Keep the GPUs of deep-learning jobs fed."""
    if os.environ.get(SITE_WORD_LISTS):
        _check_site_word_lists()


def _check_site_word_lists() -> None:
    """Refuse to start with a word list that is broken: else every review would fail by it."""
    from stoker.lint.word_lists.loader import WordListError, check_site_lists

    try:
        check_site_lists()
    except WordListError as error:
        raise click.UsageError(str(error)) from None


__all__ = ["COMMANDS", "LazyGroup", "stoker"]
