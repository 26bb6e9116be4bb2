"""Text for people: the picture of each job, what is wrong with it, and what to change."""

import textwrap
from collections.abc import Iterator, Sequence
from functools import partial

import click

from stoker.adapters.terminal import Terminal, clean, columns, styled
from stoker.diagnosis.words import UNKNOWN, stage_lines
from stoker.findings.diagnosis import Utilization
from stoker.findings.finding import Finding, single_line
from stoker.findings.vocabulary import Severity
from stoker.findings.wording import count, gpu_hours, interval, minutes, percent
from stoker.inspection import picture
from stoker.inspection.look import Looked

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
MIN_WIDTH = 60
INDENT = 6


def render(looked: Sequence[Looked], terminal: Terminal) -> str:
    """All jobs, in their order, and a summary where there are several."""
    writer = Writer(terminal)
    blocks = ["\n".join(writer.job(one)) + "\n" for one in looked]
    if len(blocks) != 1:
        blocks.append(_summary(looked))
    return "\n".join(blocks)


class Writer:
    """Writes for a terminal of some width, with or without colours and block elements."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._style = partial(styled, terminal=terminal)
        self._width = max(terminal.width, MIN_WIDTH)

    def job(self, one: Looked) -> Iterator[str]:
        """The lines of one job."""
        kind = f" ({one.workload.owner})" if not one.workload.ours else ""
        yield self._style(clean(f"{one.facts.namespace}/{one.facts.name}"), bold=True) + clean(kind)
        if one.error is not None:
            yield from self._wrapped(f"{self._style('error', colour='red', bold=True)}: ", one.error)
            return
        used = one.diagnosis.utilization if one.diagnosis is not None else None
        unknown = one.diagnosis.unknown if one.diagnosis is not None else None
        yield from self._wrapped("", _headline(one, used))
        if unknown is not None:
            yield from self._wrapped("", f"its present state is unknown: {UNKNOWN[unknown]}")
        for note in one.notes:
            yield from self._wrapped("note: ", note)
        findings = one.diagnosis.findings if one.diagnosis is not None else ()
        if one.picture is not None and one.picture.strips:
            yield ""
            stages = used.stages if used is not None else ()
            yield from map(self._row, picture.rows(one.picture, stages, findings, self._terminal))
            yield f"  {self._style(picture.legend(self._terminal), colour='bright_black')}"
        if used is not None and used.stages:
            yield ""
            yield from (f"  {line}" for line in stage_lines(used.stages))
        for number, finding in enumerate(findings, start=1):
            yield ""
            yield from self._finding(number, finding)
        for advice in one.diagnosis.advice if one.diagnosis is not None else ():
            yield ""
            yield from self._wrapped(
                f"{self._style(f'advice[{advice.rule}]', colour='cyan', bold=True)} ", advice.detail
            )
            yield from self._fix_lines(advice.fix, advice.docs)
        yield ""
        if one.diagnosis is not None and not findings:
            yield "  no finding" if unknown is None else "  no finding, as far as is known"
        yield from self._wrapped("reclaim: ", f"{'yes' if one.eligibility.eligible else 'no'}, {one.eligibility.why}")

    def _finding(self, number: int, finding: Finding) -> Iterator[str]:
        label = f"{finding.severity.value.lower()}[{finding.rule}]"
        head = f"[{number}] {self._style(label, colour=COLOURS[finding.severity], bold=True)} "
        sure = f"{finding.category}, {finding.confidence.value.lower()}"
        yield from self._wrapped(head, f"{sure}: {finding.detail}")
        if finding.evidence:
            yield from self._wrapped("    | ", finding.evidence)
        if lost := _lost(finding):
            yield from self._wrapped("    | ", lost)
        if finding.alternatives:
            others = ", ".join(category.value for category in finding.alternatives)
            yield from self._wrapped("    | ", f"it may also be {others}")
        yield from self._fix_lines(finding.fix, finding.docs)

    def _fix_lines(self, fix: str, docs: str) -> Iterator[str]:
        for text in (fix, docs):
            if text:
                yield from self._wrapped(f"    {self._style('=', colour='blue')} ", text)

    def _row(self, row: picture.PictureRow) -> str:
        label = f"{row.label}{' ' * (picture.MAX_LABEL - columns(row.label))}{row.figure:>{picture.FIGURE - 1}} "
        drawn = "".join(self._style(text, colour=colour) if colour is not None else text for text, colour in row.pieces)
        return f"{' ' * picture.MARGIN}{label}{drawn}".rstrip()

    def _wrapped(self, head: str, text: str) -> Iterator[str]:
        return wrapped(head, text, self._width)


def wrapped(head: str, text: str, width: int) -> Iterator[str]:
    """The text behind its head, indented by two columns, over as many lines of this width as it needs."""
    plain = click.unstyle(head)
    following = plain if plain.endswith("| ") else " " * min(len(plain), INDENT)
    lines = textwrap.wrap(
        clean(single_line(text)),
        width - 2,
        initial_indent="x" * len(plain),
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        yield f"  {line if number else head + line[len(plain) :]}"


def _headline(one: Looked, used: Utilization | None) -> str:
    gpus = count(one.facts.gpus, "GPU")
    if used is None or one.since is None or one.until is None:
        return f"{gpus}, utilization unknown"
    low = {True: " (low)", False: "", None: " (not known whether low)"}[one.is_low]
    life = f"{minutes((one.until - one.since).total_seconds())} ({interval(one.since, one.until)})"
    idle = "" if used.gpu_hours_idle is None else f"; {used.gpu_hours_idle:.1f} of {gpu_hours(used.gpu_hours)} idle"
    memory = "" if used.peak_memory_percent is None else f"; peak memory {percent(used.peak_memory_percent)}"
    covered = f"samples cover {percent(used.coverage_percent)}"
    return f"mean utilization {_average(used)}{low} on {gpus} over {life}{idle}{memory}; {covered}"


def _average(used: Utilization) -> str:
    if used.average_percent is not None:
        return percent(used.average_percent)
    if used.average_percent_range is None:
        return "unknown"
    low, high = used.average_percent_range
    return f"between {percent(low)} and {percent(high)}"


def _lost(finding: Finding) -> str:
    """The idle GPU-hours, a fact, and what the change may return, an estimate."""
    when = interval(finding.since, finding.until) if finding.since is not None else ""
    lost = "" if finding.gpu_hours_idle is None else f"{gpu_hours(finding.gpu_hours_idle)} idle"
    text = " ".join(part for part in (lost, when) if part)
    if (estimate := finding.recoverable) is not None:
        least, most = gpu_hours(estimate.min), gpu_hours(estimate.max)
        span = most if least == most else f"{estimate.min:.1f} to {most}"
        back = f"{span} recoverable: {estimate.basis}"
        text = f"{text}; {back}" if text else back
    return text


def _summary(looked: Sequence[Looked]) -> str:
    low = sum(one.is_low is True for one in looked)
    found = sum(one.has_findings for one in looked)
    failed = sum(one.error is not None for one in looked)
    parts = [f"{found} with findings", f"{low} low"]
    if failed:
        parts.append(f"{failed} could not be diagnosed")
    return f"{count(len(looked), 'job')}: {', '.join(parts)}.\n" if looked else "No jobs.\n"


__all__ = ["MIN_WIDTH", "Writer", "render", "wrapped"]
