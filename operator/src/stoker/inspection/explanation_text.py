"""Text for people: where the job stands, why, what comes next, and every condition with its result."""

import textwrap
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from stoker.adapters.terminal import Terminal, clean, styled
from stoker.api.duration import format_duration
from stoker.controller.scan_results import NOT_RUNNING
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ConditionType, Phase, ReclaimMode, ReclaimState
from stoker.findings.wording import count
from stoker.inspection.reclaim_report import ReclaimReport
from stoker.reclaim import GateResult

CONDITION_LABELS = {
    (ConditionType.PODS_READY, "False"): "pods",
    (ConditionType.PODS_READY, "Unknown"): "pods",
    (ConditionType.SUSPENDED, "False"): "suspension",
    (ConditionType.CREATED_WITH_WARNINGS, "True"): "warnings",
    ("Analysed", "False"): "analysis",
}
"""Labels of the conditions that are told, by type and status."""
EXPECTED = frozenset({"Suspended", "Succeeded", "Failed"})
"""Reasons that the phase says, too."""
MIN_WIDTH = 60
LABEL = 16
TELLING = frozenset({Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED})
"""Phases that say more than Active, which a job is for reclaim when it must not be touched."""
MARKS = {True: ("[x]", "green"), False: ("[ ]", "yellow"), None: ("[?]", "bright_black")}
"""Of a condition that holds, that does not, and that nobody can result here and now."""


def render(one: ReclaimReport, terminal: Terminal) -> str:
    """The whole result."""
    return "\n".join(_ExplanationWriter(terminal).lines(one)) + "\n"


class _ExplanationWriter:
    def __init__(self, terminal: Terminal) -> None:
        self._style = partial(styled, terminal=terminal)
        self._width = max(terminal.width, MIN_WIDTH)

    def lines(self, one: ReclaimReport) -> Iterator[str]:
        record = one.record
        state = record.state.value if record.state is not None else "not scanned yet"
        if one.job.status is not None and one.job.status.phase in TELLING:
            state = one.job.status.phase.value
        yield self._style(clean(f"{one.job.namespace}/{one.job.name}"), bold=True) + f"  {state}"
        yield from self._wrapped("  ", record.reason or "the controller has not reported on it yet")
        yield ""
        for label, text in _facts(one):
            yield from self._wrapped(f"  {label:<{LABEL}}", text)
        for note in one.notes:
            yield from self._wrapped(f"  {'note':<{LABEL}}", note)
        yield ""
        yield "Conditions of a reclaim" + (", which it has passed" if record.state is ReclaimState.RECLAIMED else "")
        for group, results in groupby(one.results, key=lambda result: result.group):
            yield f"  {group.value}"
            for result in results:
                yield from self._result(
                    result, is_decisive=one.decisive is not None and result.gate == one.decisive.gate
                )
        if record.history:
            yield ""
            yield "History"
            for entry in record.history:
                yield from self._wrapped("  ", f"{rfc3339(entry.time)} {entry.text}")

    def _result(self, result: GateResult, *, is_decisive: bool) -> Iterator[str]:
        word, colour = MARKS[result.holds]
        mark = self._style(f"{word:<4}", colour=colour, bold=is_decisive)
        until = "" if result.until is None or result.reason_names_until else f" (until {rfc3339(result.until)})"
        why = f": {result.reason}{until}" if result.reason else ""
        yield from self._wrapped(f"    {mark}", f"{result.demand}{why}", indent=8)

    def _wrapped(self, label: str, text: str, *, indent: int | None = None) -> Iterator[str]:
        space = len(label) if indent is None else indent
        rows = textwrap.wrap(clean(text), width=self._width - space) or [""]
        yield (label + rows[0]).rstrip()
        yield from (" " * space + row for row in rows[1:])


def _facts(one: ReclaimReport) -> Iterator[tuple[str, str]]:
    """The numbers that it rests on, and what follows."""
    case, record, settings = one.case, one.record, one.case.settings
    cause, found = case.cause, case.policy.class_of(case.job.traits)
    gpus = count(one.job.gpus, "GPU")
    if one.idle is not None and one.idle.reason == NOT_RUNNING:
        yield "gpus", f"{gpus} requested, none held now"
    else:
        yield "gpus", f"{gpus}; {case.idleness.message or case.idleness.state.value}"
    if (at := one.looked_at) is not None:
        ago = format_duration(max(case.now - at, timedelta(0)))
        late = ": no controller has scanned it since; what is shown may be out of date"
        yield "last scan", f"{rfc3339(at)} ({ago} ago){late if one.is_out_of_date else ''}"
    yield from _condition_lines(one)
    if one.idle is not None and one.idle.reason != NOT_RUNNING:
        yield "since", f"{rfc3339(one.idle.last_transition_time)} (condition Idle)"
    if cause is not None:
        yield "cause", f"{cause.category}, {cause.confidence.lower()}: {cause.detail}"
    named = f", class {found.name}" if found is not None else ""
    grace = f"warned {format_duration(case.warning_grace)} before" if settings.mode is not ReclaimMode.OBSERVE else ""
    parts = [f"{settings.mode}", f"after {format_duration(case.idle_after)} of idleness", *([grace] if grace else [])]
    settings_text = ", ".join(parts) if one.is_policy_seen else "you may not read it"
    yield "policy", f"{case.policy.revision}{named}: {settings_text}"
    if record.has_warning and record.warned_at is not None:
        yield "warned", rfc3339(record.warned_at)
    if record.snoozes:
        yield "snoozed", f"{count(record.snoozes, 'time')} so far"
    if record.state is ReclaimState.RECLAIMED:
        yield (
            "back",
            f"stoker resume {one.job.name} -n {one.job.namespace}" if _may_return(one) else "it was deleted for good",
        )
        return
    if one.next_deadline is not None:
        yield (
            "next deadline",
            f"{rfc3339(one.next_deadline)}{_distance(one.next_deadline, case.now)}",
        )
    if one.decisive is not None and one.decisive.change:
        yield "what changes it", one.decisive.change


def _condition_lines(one: ReclaimReport) -> Iterator[tuple[str, str]]:
    """What the conditions of the job say beside its idleness, where something is not as it should be."""
    conditions = one.job.status.conditions if one.job.status is not None else ()
    for condition in conditions:
        label = CONDITION_LABELS.get((condition.type, condition.status.value))
        if label is not None and condition.message and condition.reason not in EXPECTED:
            yield label, f"{condition.reason}: {condition.message}"


def _may_return(one: ReclaimReport) -> bool:
    return one.record.action is not ReclaimMode.DELETE


def _distance(time: datetime, now: datetime) -> str:
    return f" (in {format_duration(time - now)})" if time > now else ""
