"""`stoker lint`: the verdict of admission, without a cluster."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.formats import FORMATS, Screen, renderer

if TYPE_CHECKING:
    from stoker.cli.judgement import Judge
    from stoker.cli.report import Results

EXIT_FINDINGS = 1
EXIT_USAGE = 2


@click.command(short_help="Check manifests as admission does, without a cluster.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--policy",
    "policy_files",
    metavar="FILE",
    multiple=True,
    help="The policy to judge by, or several with the Namespaces they select. [default: the built-in one]",
)
@click.option("-n", "--namespace", default="", help="The namespace of manifests that name none.")
@click.option("--select", "selected", metavar="RULE,...", multiple=True, help="Run only these: names, ids, categories.")
@click.option("--ignore", "ignored", metavar="RULE,...", multiple=True, help="Leave these out, of all or the selected.")
@click.option(
    "--fail-on",
    type=click.Choice(["deny", "warn", "advice"]),
    default="warn",
    show_default=True,
    help="The least that makes the command exit with 1.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default=next(iter(FORMATS)),
    show_default=True,
    help="What to print.",
)
@click.option("--output", metavar="FILE", help="Where to write it. [default: standard output]")
@click.pass_context
def lint(
    context: click.Context,
    paths: tuple[str, ...],
    policy_files: tuple[str, ...],
    namespace: str,
    selected: tuple[str, ...],
    ignored: tuple[str, ...],
    fail_on: str,
    form: str,
    output: str | None,
) -> None:
    """Check manifests as admission does, without a cluster.

    PATH is a file of YAML or JSON documents, a directory, or - for standard input. What is no job is listed and
    skipped.

    The exit code is 0 for clean manifests, 1 for findings, 2 for input that can't be read.
    """
    from stoker.cli.judgement import Judge
    from stoker.cli.manifests import InputError
    from stoker.cli.policies import load
    from stoker.cli.selection import SelectionError, select

    try:
        policies = load(policy_files)
        selection = select(selected, ignored)
    except (InputError, SelectionError) as error:
        click.echo(f"stoker: {error}", err=True)
        context.exit(EXIT_USAGE)
    judge = Judge(policies=policies, selection=selection, now=datetime.now(UTC), namespace=namespace)
    results = check(paths, judge)
    for problem in results.errors:
        click.echo(f"stoker: {problem}", err=True)
    render = renderer(form)
    _write(render(results, _screen(output)), output, context)
    if results.errors:
        context.exit(EXIT_USAGE)
    if any(report.fails_on(fail_on) for report in results.reports):
        context.exit(EXIT_FINDINGS)


def check(paths: tuple[str, ...], judge: "Judge") -> "Results":
    """Read and judge all that the paths hold."""
    from stoker.cli.manifests import RENDER, InputError, Template, read
    from stoker.cli.report import Report, Results, Skipped

    reports: list[Report] = []
    skipped: list[Skipped] = []
    errors: list[InputError] = []
    for item in read(paths):
        if isinstance(item, InputError):
            errors.append(item)
        elif isinstance(item, Template):
            skipped.append(Skipped(path=item.path, line=item.line, reason=f"what looks like a Helm template: {RENDER}"))
        else:
            judged = judge.judge(item)
            if isinstance(judged, Report):
                reports.append(judged)
            else:
                skipped.append(judged)
    return Results(reports=reports, skipped=skipped, errors=errors)


def _screen(output: str | None) -> Screen:
    """What is known of the place where the text goes (https://no-color.org, https://force-color.org)."""
    import shutil

    terminal = output is None and sys.stdout.isatty()
    colour = terminal and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR"):
        colour = output is None
    if os.environ.get("NO_COLOR"):
        colour = False
    return Screen(colour=colour, width=shutil.get_terminal_size((Screen().width, 24)).columns)


def _write(text: str, output: str | None, context: click.Context) -> None:
    """Write the text as UTF-8, whatever the locale; a lone surrogate, which no encoding has, as its escape."""
    data = text.encode("utf-8", "backslashreplace")
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        click.echo(f"stoker: {output}: {error.strerror or error}", err=True)
        context.exit(EXIT_USAGE)


__all__ = ["check", "lint"]
