"""From manifests to what `stoker lint` says of them: the same review as at admission, with positions in files.

Used by the command and by lint.fixes.fixer, which judges again after each change.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from stoker.api.names import POLICY_KIND
from stoker.api.schema import Violation
from stoker.api.structural import FaultKind
from stoker.findings.finding import Finding, Location
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action, Severity, Source
from stoker.lint.files.manifests import Manifest, Region
from stoker.lint.files.objects import is_ours, metadata, object_name
from stoker.lint.files.results import SCHEMA_RULE, SUPPRESSION_RULE, Entry, Report, Skipped
from stoker.lint.files.selection import Selection
from stoker.lint.kinds.kind import ManifestError, ManifestReader, WorkloadKind
from stoker.lint.kinds.registry import KINDS, readable_kind
from stoker.lint.review import allowance_of, context_of, failed, review_submissions
from stoker.lint.suppression import MARK
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.shell.model import Shortfall

IMAGE_MISSING = "image-missing"

Files = Mapping[str, Mapping[str, str]]
"""The data of a namespace's config maps, by their names."""

ConfigMaps = Mapping[str, Files]
"""By namespace."""

Objects = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""Objects that others refer to, by kind, namespace and name."""


def built_in_policy(namespace: str) -> EffectivePolicy:
    """What holds in every namespace where no policy says anything."""
    del namespace
    return BUILT_IN


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges manifests by the policy of each one's namespace.

    `policy_of`: what holds in a namespace; an empty name stands for the one called default. `namespace`: that of
    manifests which name none. `config_maps`: those of the input, which jobs take programs from; `objects`: what else of
    it others refer to. `kinds`: all that are known.
    """

    selection: Selection
    now: datetime
    policy_of: Callable[[str], EffectivePolicy] = built_in_policy
    namespace: str = ""
    config_maps: ConfigMaps = field(default_factory=dict)
    objects: Objects = field(default_factory=dict)
    kinds: Sequence[WorkloadKind] = KINDS

    def judge(self, manifest: Manifest) -> Report | Skipped:
        """What is said of one manifest. Never raises."""
        name, kind = object_name(manifest), readable_kind(manifest.value, self.kinds)
        if kind is None:
            what = (
                f"the {manifest.kind} {name}".rstrip()
                if manifest.kind
                else "a document that is not a Kubernetes object"
            )
            if is_ours(manifest, POLICY_KIND):
                what += ", which --policy checks"
            return _skipped(manifest, name, what)
        if (why := _not_read(kind, manifest)) is not None:
            return _skipped(manifest, name, f"the {manifest.kind} {name}, which is not read: {why}")
        namespace = str(metadata(manifest).get("namespace") or self.namespace)
        files = self.config_maps.get(namespace, {})
        report = self._report(manifest, kind, name, namespace, files)
        if files and kind.admitted:
            # Admission fetches no ConfigMap: what only one of them shows decides nothing there.
            in_cluster = self._report(manifest, kind, name, namespace, {}).outcome
            return report if in_cluster is report.outcome else replace(report, in_cluster=in_cluster)
        return report

    def _report(self, manifest: Manifest, kind: WorkloadKind, name: str, namespace: str, files: Files) -> Report:
        assert kind.reader is not None
        report = partial(Report, manifest=manifest, namespace=namespace, name=name)
        policy = self.policy_of(namespace)
        entries = [_violation(manifest, one) for one in kind.reader.violations(manifest.value)]
        try:
            verdict = self._verdict(kind.reader, manifest.value, policy, files, self._objects_of(namespace))
        except ManifestError:
            return report(entries=entries)
        if any(finding.rule == IMAGE_MISSING for finding in verdict.denied):  # it says more than the schema
            entries = [entry for entry in entries if entry.field_path != "spec.image"]
        if verdict.failures:
            _log_failures(manifest, name, verdict)
        return report(
            entries=[*entries, *_entries(manifest, verdict), *self._suppression_faults(manifest, verdict)],
            suppressed=[_entry(manifest, one.finding, Action.AUDIT, reason=one.reason) for one in verdict.suppressed],
            unfinished=verdict.unfinished,
            shortfall=verdict.not_analysed,
            on_unfinished=_on_unfinished(verdict, policy),
        )

    def _verdict(
        self,
        reader: ManifestReader,
        value: Mapping[str, Any],
        policy: EffectivePolicy,
        files: Files,
        objects: Mapping[tuple[str, str], Mapping[str, Any]],
    ) -> Verdict:
        """The verdict on a document. Raises ManifestError."""
        start = time.thread_time()
        try:
            context = replace(context_of(policy, allowance_of(policy, start), files), objects=objects)
            found = reader.submissions(value, context)
        except ManifestError:
            raise
        except MemoryError:
            raise  # only who has set the limit knows what it means
        except Exception as failure:  # a fault of ours is no fault of the manifest
            return failed(failure)
        return review_submissions(found, policy, now=self.now, rules=self.selection.rules, start=start)

    def _objects_of(self, namespace: str) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """The objects that a manifest in a namespace may refer to, by kind and name."""
        return {(kind, name): one for (kind, own, name), one in self.objects.items() if own in {namespace, ""}}

    def _suppression_faults(self, manifest: Manifest, verdict: Verdict) -> list[Entry]:
        if not self.selection.suppressions:
            return []
        unseen = [
            Entry(
                rule=SUPPRESSION_RULE,
                severity=Severity.ADVICE,
                action=Action.WARN,
                detail=f'"{written}" is a YAML comment, which the cluster does not see.',
                fix="Write it as an annotation: ignore.stoker.dev/RULE: REASON.",
                field_path="",
                region=region,
                in_text=True,
            )
            for region, written in manifest.comments(MARK)
        ]
        return unseen + [
            Entry(
                rule=SUPPRESSION_RULE,
                severity=Severity.ADVICE,
                action=Action.WARN,
                detail=fault.detail,
                fix=fault.fix,
                change=fault.change,
                sources=(Source.MANIFEST if fault.location.line is None else Source.SCRIPT,),
                **_place(manifest, fault.location),
            )
            for fault in verdict.suppression_faults
        ]


def config_maps(manifests: Iterable[Manifest], namespace: str = "") -> ConfigMaps:
    """The ConfigMaps among the input; `namespace` is that of those which name none."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for manifest in manifests:
        data = manifest.value.get("data") if manifest.kind == "ConfigMap" else None
        if isinstance(data, Mapping):
            texts = {str(name): text for name, text in data.items() if isinstance(text, str)}
            own = str(metadata(manifest).get("namespace") or namespace)
            found.setdefault(own, {})[object_name(manifest)] = texts
    return found


def referred_objects(manifests: Iterable[Manifest]) -> Objects:
    """The objects among the input that others refer to; those which name no namespace are for all."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for manifest in manifests:
        kind = readable_kind(manifest.value)
        if kind is not None and kind.referred:
            own = str(metadata(manifest).get("namespace") or "")
            found.setdefault((kind.name, own, object_name(manifest)), manifest.value)
    return found


def _not_read(kind: WorkloadKind, manifest: Manifest) -> str | None:
    """Why a manifest of another version than the known one can't be read; None where what is read of it is the same."""
    version = manifest.value.get("apiVersion")
    if kind.reader is None or kind.admitted or version == kind.api_version:
        return None
    wrong = [one for one in kind.reader.violations(manifest.value) if one.kind is not FaultKind.UNKNOWN_FIELD]
    return f"{kind.api_version} is known, and {version} differs in {wrong[0]}" if wrong else None


def _log_failures(manifest: Manifest, name: str, verdict: Verdict) -> None:
    import logging  # noqa: PLC0415 - rules hardly ever fail, and `stoker lint` must start fast

    for rule, failure in verdict.failures:
        logging.getLogger(__name__).debug("Rule %s failed on %s %s: %s", rule, manifest.path, name, failure)


def _skipped(manifest: Manifest, name: str, reason: str) -> Skipped:
    return Skipped(
        path=manifest.path,
        line=manifest.line,
        document=manifest.document,
        kind=manifest.kind,
        name=name,
        reason=reason,
    )


def _on_unfinished(verdict: Verdict, policy: EffectivePolicy) -> Action:
    """A fault of Stoker's is always warned of; what took too long is the policy's business."""
    shortfalls = (verdict.shortfall, Shortfall.FAULT if verdict.failures else None)
    actions = {policy.analysis.action(one) for one in shortfalls if one is not None}
    return next((action for action in Action if action in actions), Action.OFF)


def _violation(manifest: Manifest, violation: Violation) -> Entry:
    return Entry(
        rule=SCHEMA_RULE,
        severity=Severity.ERROR,
        action=Action.DENY,
        detail=str(violation),
        field_path=violation.field_path,
        region=manifest.region(violation.field_path),
    )


def _entries(manifest: Manifest, verdict: Verdict) -> list[Entry]:
    """The findings, each line of the file accused once: an alias makes two templates of one text."""
    entries = [
        _entry(manifest, finding, action)
        for action, findings in (
            (Action.DENY, verdict.denied),
            (Action.WARN, verdict.warned),
            (Action.AUDIT, verdict.audited),
        )
        for finding in findings
    ]
    seen: dict[tuple[str, str, Region, int | None], Entry] = {}
    for entry in entries:
        # A folded text's lines have no region of their own.
        seen.setdefault((entry.rule, entry.detail, entry.region, entry.script_line), entry)
    return list(seen.values())


def _entry(manifest: Manifest, finding: Finding, action: Action, **other: Any) -> Entry:
    return Entry(
        rule=finding.rule,
        category=finding.category,
        severity=finding.severity,
        confidence=finding.confidence,
        action=action,
        detail=finding.detail,
        evidence=finding.evidence,
        fix=finding.fix,
        docs=finding.docs,
        sources=finding.sources,
        change=finding.change,
        **_place(manifest, finding.location or Location(field_path="")),
        **other,
    )


def _place(manifest: Manifest, location: Location) -> dict[str, Any]:
    """A location of a field's text as one of the file."""
    region = _text_region(manifest, location)
    return {
        "field_path": location.field_path,
        "region": region or manifest.region(location.field_path),
        "in_text": region is not None,
        "script_line": location.line,
        "excerpt": location.excerpt,
    }


def _text_region(manifest: Manifest, location: Location) -> Region | None:
    """Where the words of a field's text stand in the file, as far as they can be followed."""
    if location.line is None:
        return None
    start = manifest.locate_text(location.field_path, location.line, location.column or 1)
    if start is None:
        return None
    width = max((location.end_column or 0) - (location.column or 1), 0)
    end = start.column + width if width else len(manifest.lines[start.line - 1].rstrip()) + 1
    return Region(start.line, start.column, start.line, end)


__all__ = ["ConfigMaps", "Judge", "Objects", "config_maps", "referred_objects"]
