"""A replay on the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping
from textwrap import wrap

from stoker.adapters.terminal import Terminal, bold, bullets, clean, padded
from stoker.api.duration import format_duration
from stoker.findings.finding import rfc3339
from stoker.findings.wording import count
from stoker.reclaim import GATES
from stoker.replay import Figures, ReplaySummary
from stoker.replay.formats import words
from stoker.replay.idle_history import LENGTHS
from stoker.report import hours
from stoker.report.formats.words import scope, span, when

MAX_WIDTH = 110
TOP = 10


def render(summary: ReplaySummary, terminal: Terminal) -> str:
    """The headline, the figures, every regret, what was held back, by whom, and what had to be assumed."""
    return "\n".join([*(line.rstrip() for line in _lines(summary, terminal)), ""])


def _lines(summary: ReplaySummary, terminal: Terminal) -> Iterator[str]:
    width = min(terminal.width, MAX_WIDTH)
    total = summary.total
    of = scope(summary.namespaces)
    yield clean(f"{of[0].upper()}{of[1:]}, {when(summary.period)} ({span(summary.period.length)})")
    for policy in summary.policies:
        yield clean(f"Policy {policy.name}, mode {policy.mode}: {count(policy.jobs, 'job')}")
    yield ""
    yield bold(words.headline(summary), terminal)
    if not summary.acts:
        yield from wrap(
            "The policy is in mode Observe. To replay what it would do in mode Suspend, add --mode Suspend.",
            width,
            initial_indent="  ",
        )
    yield f"  {'held by jobs':<24}{hours(summary.held):>9} GPU-hours"
    yield f"  {'of these idle':<24}{hours(summary.idle):>9} GPU-hours"
    yield f"  {'given back':<24}{hours(total.given_back):>9} GPU-hours"
    yield f"  {'work interrupted':<24}{hours(total.interrupted):>9} GPU-hours"
    yield ""
    yield f"  {total.warnings:>6} {'warning' if total.warnings == 1 else 'warnings'}"
    ends = Counter(one.outcome for outcome in summary.outcomes for one in outcome.warnings)
    for outcome, number in ends.most_common():
        yield f"  {number:>6}   {words.ended(outcome)}"
    yield from _regrets(summary, terminal)
    yield from _reclaims(summary, terminal)
    if summary.held_back:
        yield ""
        yield bold("GPU-hours that were idle for long enough and not reclaimed", terminal)
        for line in summary.held_back:
            yield f"  {hours(line.gpu_hours):>9}   {words.held_back(line.gate)}, {count(line.jobs, 'job')}"
    for policy_name, time, message in summary.brakes:
        yield clean(f"  {rfc3339(time)}: policy {policy_name}: {message}")
    yield from _groups("By namespace", summary.by_namespace, "(none)", terminal)
    yield from _groups("By owner", summary.by_owner, "(no owner)", terminal)
    if set(summary.by_class) - {""}:
        yield from _groups("By class", summary.by_class, "(no class)", terminal)
    yield from _idle_histories(summary, terminal)
    yield ""
    yield bold("Assumed", terminal)
    for one in summary.assumed:
        yield from bullets(one.text, width)
    yield ""
    yield bold("Assumed of the conditions of a reclaim", terminal)
    for gate in GATES:
        if gate.replay:
            yield from bullets(f"{gate.name}: {gate.replay}", width)


def _regrets(summary: ReplaySummary, terminal: Terminal) -> Iterator[str]:
    regrets = [(outcome, one) for outcome, one in summary.reclaims if one.returned_at is not None]
    if not regrets:
        return
    yield ""
    yield bold("Would have worked again after the reclaim", terminal)
    for outcome, one in regrets:
        assert one.returned_at is not None
        job = f"{outcome.identity.namespace}/{outcome.identity.name}"
        yield (
            f"  {rfc3339(one.at)}  after {words.after(one.returned_at - one.at):<14}"
            f"{hours(one.interrupted):>8} GPU-hours of work   {clean(job)}"
        )


def _reclaims(summary: ReplaySummary, terminal: Terminal) -> Iterator[str]:
    reclaims = sorted(summary.reclaims, key=lambda pair: -pair[1].given_back)
    if not reclaims:
        return
    yield ""
    yield bold("GPU-hours given back, the most first", terminal)
    for outcome, one in reclaims[:TOP]:
        job = f"{outcome.identity.namespace}/{outcome.identity.name}"
        yield (
            f"  {hours(one.given_back):>9}   {rfc3339(one.at)}, {count(outcome.identity.gpus, 'GPU')} idle since "
            f"{rfc3339(one.idle_since)}   {clean(job)}"
        )
    if len(reclaims) > TOP:
        yield f"  and {len(reclaims) - TOP} more (--format json has all)"


def _idle_histories(summary: ReplaySummary, terminal: Terminal) -> Iterator[str]:
    """How many of the rests of each length ended in work, by type and owner, and what idleAfter that speaks for."""
    if not summary.idle_histories:
        return
    lengths = "".join(f"{format_duration(length):>9}" for length in LENGTHS)
    yield ""
    yield bold(f"{'Rests that ended in work':<26}{lengths}  idleAfter by this past", terminal)
    for history in summary.idle_histories[:TOP]:
        rests = "".join(f"{f'{one.resumed}/{one.number}' if one.number else '-':>9}" for one in history.rests)
        proposed = history.proposed_idle_after
        name = clean(f"{history.job_type}, {history.owner or 'no owner'}")
        yield f"  {padded(name, 24)}{rests}  {format_duration(proposed) if proposed is not None else 'not known'}"
    if len(summary.idle_histories) > TOP:
        yield f"  and {len(summary.idle_histories) - TOP} more"


def _groups(title: str, groups: Mapping[str, Figures], nobody: str, terminal: Terminal) -> Iterator[str]:
    if not groups:
        return
    yield ""
    yield bold(f"{title:<26}{'given back':>12}{'reclaims':>10}{'regrets':>9}{'warnings':>10}{'saved':>7}", terminal)
    for name, one in list(groups.items())[:TOP]:
        yield (
            f"  {padded(clean(name or nobody), 24)}{hours(one.given_back):>12}{one.reclaims:>10}{one.regrets:>9}"
            f"{one.warnings:>10}{one.saved:>7}"
        )
    if len(groups) > TOP:
        yield f"  and {len(groups) - TOP} more"


__all__ = ["render"]
