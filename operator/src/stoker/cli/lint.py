"""`stoker lint`: the verdict of admission, without a cluster."""

import gc
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.adapters.terminal import EXIT_USAGE, complain, detect_terminal, write
from stoker.cli.completion import selected_names
from stoker.lint.formats import FORMATS, renderer

if TYPE_CHECKING:
    from stoker.lint.files.judgement import Judge
    from stoker.lint.files.manifests import File, InputError, ManifestText
    from stoker.lint.files.policies import PolicyFiles
    from stoker.lint.files.results import Results
    from stoker.lint.fixes.fixer import Fixer

EXIT_FINDINGS = 1
GC_THRESHOLD = 100_000
"""Objects that are made before the garbage collector looks through them (Python: 700). Chosen because a start makes
some 300,000 that all stay: to look through them every 700 takes a twentieth of the start.
"""


@click.command(short_help="Check manifests as admission does, without a cluster.")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(allow_dash=True))
@click.option(
    "--policy",
    "policy_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="The policy to apply, or several with the Namespaces that they select. [default: the built-in policy]",
)
@click.option("-n", "--namespace", default="", help="Namespace of manifests without one.")
@click.option(
    "--kinds",
    "kind_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Further kinds of workload, as data: where each has its pod templates.",
)
@click.option(
    "--select",
    "selected",
    metavar="RULE,...",
    multiple=True,
    shell_complete=selected_names,
    help="Run only these rules: names, ids or categories.",
)
@click.option(
    "--ignore",
    "ignored",
    metavar="RULE,...",
    multiple=True,
    shell_complete=selected_names,
    help="Skip these rules: names, ids or categories.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["deny", "warn", "advice"]),
    default="warn",
    show_default=True,
    help="The mildest result that makes the command exit with 1.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default=next(iter(FORMATS)),
    show_default=True,
    help="Output format.",
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="File to write. [default: standard output]")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the files, then report the remaining findings.")
@click.option("--diff", is_flag=True, help="Show the fixes as a diff, and write nothing.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff: also apply fixes that change results or resources."
)
@click.pass_context
def lint(
    context: click.Context,
    paths: tuple[str, ...],
    policy_files: tuple[str, ...],
    kind_files: tuple[str, ...],
    namespace: str,
    selected: tuple[str, ...],
    ignored: tuple[str, ...],
    fail_on: str,
    form: str,
    output: str | None,
    fix: bool,
    diff: bool,
    unsafe_fixes: bool,
) -> None:
    """Check manifests as admission does, without a cluster.

    PATH is a file of YAML or JSON documents, a directory, or - for standard input. What is no job is listed and
    skipped. Without a PATH the policies themselves are checked.

    The exit code is 0 for clean manifests, 1 for findings (with --diff: for changes), 2 for input that can't be read.
    """
    # Not set back: that would begin a collection at once, and the process ends with this command.
    gc.set_threshold(GC_THRESHOLD)
    from stoker.lint.files.judgement import Judge, built_in_policy, config_maps, referred_objects
    from stoker.lint.files.kind_files import load_kinds
    from stoker.lint.files.manifests import File, InputError, read
    from stoker.lint.files.selection import SelectionError, select

    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes needs --fix or --diff.")
    if not paths and not policy_files:
        raise click.UsageError("Give what to check: a file, a directory, - for standard input, or --policy FILE.")
    now = datetime.now(UTC)
    try:
        policies = _policies(policy_files, now) if policy_files else None
        selection = select(selected, ignored)
        kinds = load_kinds(kind_files)
    except (InputError, SelectionError) as error:
        complain(error)
        context.exit(EXIT_USAGE)
    files = list(read(paths))
    manifests = [one for file in files if isinstance(file, File) for one in file.manifests]
    judge = Judge(
        policy_of=built_in_policy if policies is None else policies.effective,
        selection=selection,
        now=now,
        namespace=namespace,
        config_maps=config_maps(manifests, namespace),
        objects=referred_objects(manifests),
        kinds=kinds,
    )
    fixer = _fixer(judge, unsafe=unsafe_fixes) if fix or diff else None
    results = check(files, judge, fixer)
    if policies is not None:
        for doubtful in (*policies.remarks, *policies.unsure(report.namespace for report in results.reports)):
            click.echo(f"stoker: {doubtful}", err=True)
    errors = [*results.errors, *(fixer.write() if fixer is not None and not diff else ())]
    for problem in errors:
        click.echo(f"stoker: {problem}", err=True)
    if fixer is not None:
        click.echo(fixer.summary(made=not diff), err=True)
    if fixer is not None and diff:
        write("".join(file.diff() for file in fixer.files), output, context)
        context.exit(EXIT_USAGE if errors else EXIT_FINDINGS if fixer.fixed else 0)
    piped = fixer.piped if fixer is not None else None
    if piped is not None:
        write(piped, None, context)
    if not paths and policies is not None and form == "text":
        number = len(policies.policies)
        write(f"{number} {'policy is' if number == 1 else 'policies are'} valid.\n", output, context)
        return
    render = renderer(form)
    write(render(results, detect_terminal(output)), output, context, error=piped is not None)
    if errors:
        context.exit(EXIT_USAGE)
    if any(report.fails_on(fail_on) for report in results.reports):
        context.exit(EXIT_FINDINGS)


def _policies(paths: tuple[str, ...], now: datetime) -> "PolicyFiles":
    from stoker.lint.files.policies import load

    return load(paths, now)


def _fixer(judge: "Judge", *, unsafe: bool) -> "Fixer":
    from stoker.lint.fixes.fixer import Fixer

    return Fixer(judge=judge, unsafe=unsafe)


def check(
    files: "Iterable[File | ManifestText | InputError]", judge: "Judge", fixer: "Fixer | None" = None
) -> "Results":
    """Judge all documents of the files; with a fixer, of what the files become."""
    from stoker.lint.files.manifests import InputError, ManifestText, parse
    from stoker.lint.files.results import Report, Results, Skipped

    reports: list[Report] = []
    skipped: list[Skipped] = []
    errors: list[InputError] = []
    for file in files:
        if isinstance(file, InputError):
            errors.append(file)
            continue
        if isinstance(file, ManifestText):
            skipped.append(Skipped(path=file.path, line=file.line, reason=file.reason))
            continue
        try:
            manifests = file.manifests if fixer is None else parse(fixer.rewrite(file.path, file.text), file.path)
        except InputError as error:
            errors.append(error)
            continue
        for manifest in manifests:
            judged = judge.judge(manifest)
            if isinstance(judged, Report):
                reports.append(judged)
            else:
                skipped.append(judged)
    return Results(reports=reports, skipped=skipped, errors=errors)


__all__ = ["check", "lint"]
