"""`stoker lint`: the verdict of admission, without a cluster."""

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

    from stoker.cli.manifests import Manifest
    from stoker.cli.report import Report
    from stoker.models.policy import EffectivePolicy

EXIT_FINDINGS = 1
EXIT_USAGE = 2

logger = logging.getLogger(__name__)


@click.command(short_help="Check DLJob manifests as admission does, without a cluster.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--policy", "policy_file", metavar="FILE", help="A UtilizationPolicy to judge by. [default: the built-in one]"
)
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
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@click.pass_context
def lint(context: click.Context, paths: tuple[str, ...], policy_file: str | None, fail_on: str, form: str) -> None:
    """Check DLJob manifests as admission does, without a cluster.

    PATH is a file of YAML or JSON documents, a directory, or - for standard input. Other kinds are listed and skipped.

    The exit code is 0 for clean manifests, 1 for findings, 2 for input that can't be read.
    """
    from stoker.cli.manifests import InputError, read
    from stoker.cli.report import to_json, to_text
    from stoker.models.policy import BUILT_IN

    try:
        policy = BUILT_IN if policy_file is None else _policy(policy_file)
    except InputError as error:
        click.echo(f"stoker: {error}", err=True)
        context.exit(EXIT_USAGE)

    now = datetime.now(UTC)
    reports: list[Report] = []
    unreadable = False
    for item in read(paths):
        if isinstance(item, InputError):
            click.echo(f"stoker: {item}", err=True)
            unreadable = True
        else:
            reports.append(report(item, policy, now))
    if form == "json":
        click.echo(to_json(reports))
        for skipped in (one for one in reports if one.skipped):
            manifest = skipped.manifest
            click.echo(f"{manifest.path}: document {manifest.document} skipped: no DLJob", err=True)
    elif reports or not unreadable:
        click.echo(to_text(reports))
    if unreadable:
        context.exit(EXIT_USAGE)
    if any(one.fails_on(fail_on) for one in reports):
        context.exit(EXIT_FINDINGS)


def report(manifest: "Manifest", policy: "EffectivePolicy", now: datetime) -> "Report":
    """Judge one manifest."""
    from pydantic import ValidationError

    from stoker.admission import review
    from stoker.cli.report import Entry, Report, Violation
    from stoker.models.dljob import DLJob
    from stoker.models.vocabulary import Outcome

    value = manifest.value
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    metadata = metadata if isinstance(metadata, Mapping) else {}
    namespace, name = (str(metadata.get(key) or "") for key in ("namespace", "name"))
    blank = partial(Report, manifest=manifest, namespace=namespace, name=name)
    if not _is_ours(manifest, "DLJob"):
        return blank(skipped=True)
    wrong = [
        Violation(field_path=path, message=message, position=manifest.locate(path))
        for path, message in _violations(DLJob, value)
    ]
    try:
        job = DLJob.model_validate(value)
    except ValidationError:
        return blank(violations=wrong)
    verdict = review(job, policy, now=now)
    for rule, failure in verdict.failures:
        logger.debug("Rule %s failed on %s %s.", rule, manifest.path, name, exc_info=failure)
    entries: list[Entry] = []
    for taken, findings in (
        (Outcome.DENY, verdict.denied),
        (Outcome.WARN, verdict.warned),
        (Outcome.ALLOW, verdict.audited),
    ):
        for finding in findings:
            location = finding.location
            position = manifest.locate(location.field_path if location is not None else "")
            script_line = location.line if location is not None else None
            if location is not None and location.line is not None:
                found = manifest.locate_text(location.field_path, location.line, location.column or 1)
                position = found or position
            entries.append(Entry(finding=finding, taken=taken, position=position, script_line=script_line))
    return blank(entries=entries, violations=wrong, unfinished=verdict.unfinished)


def _is_ours(manifest: "Manifest", kind: str) -> bool:
    from stoker.models.meta import GROUP

    version = manifest.value.get("apiVersion") if isinstance(manifest.value, Mapping) else None
    return manifest.kind == kind and (not isinstance(version, str) or version.partition("/")[0] == GROUP)


def _violations(model: "type[BaseModel]", document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where a manifest breaks the schema, unknown fields included; what the server alone writes is let pass."""
    from stoker.models.schema import violations

    found = [(one.field_path, one.message) for one in violations(model, document)]
    found = [
        (path, message)
        for path, message in found
        if not (path.startswith(("metadata.", "status")) and message == "unknown field")
    ]
    missing = [key for key in ("apiVersion", "kind") if key not in document]
    return [*((key, "required") for key in missing), *_name_violations(model, document), *found]


def _name_violations(model: "type[BaseModel]", document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the CRD's own rule says of a DLJob's name."""
    from stoker.models.dljob import MAX_NAME_LENGTH, NAME_PATTERN, DLJob

    metadata = document.get("metadata")
    if model is not DLJob or not isinstance(metadata, Mapping):
        return []
    name = metadata.get("name")
    if not name:
        return [] if metadata.get("generateName") else [("metadata.name", "required")]
    if not isinstance(name, str):
        return []
    if len(name) > MAX_NAME_LENGTH or not re.match(NAME_PATTERN, name):
        allowed = f"lower-case letters, digits and -, a letter first, at most {MAX_NAME_LENGTH} characters"
        return [("metadata.name", f'"{name}" is not allowed: {allowed}')]
    return []


def _policy(file: str) -> "EffectivePolicy":
    """The policy of a file. Raises InputError for what is none, or an invalid one."""
    from stoker.cli.manifests import InputError, read
    from stoker.models.policy import BASE, UtilizationPolicy, resolve

    manifests = []
    for item in read([file]):
        if isinstance(item, InputError):
            raise item
        if _is_ours(item, "UtilizationPolicy"):
            manifests.append(item)
    if len(manifests) != 1:
        raise InputError(f"{file}: holds {len(manifests)} UtilizationPolicies, one is needed")
    (manifest,) = manifests
    for path, message in _violations(UtilizationPolicy, manifest.value):
        raise InputError(f"{file}:{manifest.locate(path).line}: {path}: {message}")
    policy = UtilizationPolicy.model_validate(manifest.value)
    # The namespace's labels are not known here: the policy that was asked for is the one that counts.
    renamed = policy.metadata.model_copy(update={"name": BASE})
    return resolve([policy.model_copy(update={"metadata": renamed})], "", {})


__all__ = ["lint", "report"]
