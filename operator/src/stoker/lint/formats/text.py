"""Text for people: the offending line of the file underlined, what is wrong, the change, and the rule's page."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from stoker.adapters.terminal import clean, columns, styled
from stoker.api.dljob import KIND
from stoker.findings.vocabulary import ReviewOutcome
from stoker.lint.files.results import Entry, Level, Report, Results
from stoker.lint.formats import Terminal

COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.ADVICE: "cyan", Level.NOTE: "cyan"}
TAB = 4
MIN_WIDTH = 40
ELLIPSIS = "..."


def render(results: Results, terminal: Terminal) -> str:
    """All findings in the order of the input, and a summary; nothing where there was nothing to read."""
    painter = Painter(terminal)
    blocks = [
        *(f"{clean(one.path)}:{one.line}: skipped {clean(one.reason)}\n" for one in results.skipped),
        *(block for report in results.reports for block in painter.report(report)),
    ]
    if results.reports or results.skipped or not results.errors:
        blocks.append(_summary(results))
    return "".join(blocks)


class Painter:
    """Draws findings on a terminal of some width, with or without colours."""

    def __init__(self, terminal: Terminal) -> None:
        self._style = partial(styled, terminal=terminal)
        self._width = max(terminal.width, MIN_WIDTH)

    def report(self, report: Report) -> Iterator[str]:
        """The blocks of one manifest, each ending in an empty line."""
        for entry in report.entries:
            yield self._entry(report, entry)
        if report.not_analysed is not None:
            place = f"{report.manifest.path}:{report.manifest.line}:"
            yield f"{self._style(clean(place), bold=True)} {report.not_analysed}\n\n"
        if report.in_cluster is not None:
            place = f"{report.manifest.path}:{report.manifest.line}:"
            said = (
                f"the verdict here is {report.outcome}, in the cluster {report.in_cluster}: the cluster does "
                "not read files of ConfigMaps"
            )
            yield f"{self._style(clean(place), bold=True)} {said}\n\n"

    def _entry(self, report: Report, entry: Entry) -> str:
        region = entry.region
        place = self._style(clean(f"{report.manifest.path}:{region.line}:{region.column}:"), bold=True)
        label = self._style(f"{entry.level}[{entry.rule}]", colour=COLOURS[entry.level], bold=True)
        lines = [f"{place} {label} {clean(entry.detail)}"]
        margin = " " * len(str(region.line))
        bar, equals = (self._style(sign, colour="blue") for sign in "|=")
        shown = self._source(report, entry)
        if shown is not None:
            text, marker = shown
            lines.append(f"{region.line} {bar} {text}".rstrip())
            lines.append(f"{margin} {bar} {marker[0]}{self._style(marker[1], colour=COLOURS[entry.level], bold=True)}")
        lines += [f"{margin} {equals} {clean(said)}" for said in (entry.fix, entry.docs) if said]
        return "\n".join(lines) + "\n\n"

    def _source(self, report: Report, entry: Entry) -> tuple[str, tuple[str, str]] | None:
        """The line and, beneath it, the blanks and the marker; None where there is nothing to show."""
        lines, region = report.manifest.lines, entry.region
        text = lines[region.line - 1] if region.line <= len(lines) else ""
        start = region.column - 1
        end = region.end_column - 1 if region.end_line == region.line else len(text.rstrip())
        if entry.excerpt is not None and not entry.in_text:
            # The script's text stands folded or quoted in the file: its own line says more than the field's.
            text, _, marker = entry.excerpt.partition("\n")
            start, end = len(marker) - len(marker.lstrip()), len(marker)
        if not text.strip():
            return None
        return _clipped(text, start, max(end, start + 1), self._width - len(str(region.line)) - 3)


def _clipped(text: str, start: int, end: int, width: int) -> tuple[str, tuple[str, str]]:
    """The text with a marker under the characters start..end, cut to `width` columns around them.

    Wide characters take two columns, combining ones none, tabs go on to the next stop, and what a terminal would obey
    is written out.
    """
    cells = [*_cells(text.rstrip())]
    cells += [" "] * (end - len(cells))
    widths = [columns(cell) for cell in cells]
    first, last = 0, len(cells)
    if sum(widths) > width:
        # More cells than columns are never shown, however long the line; then the side that shows more is cut.
        first, last = max(0, start - width), min(len(cells), start + width)
        shown, room = sum(widths[first:last]), width - 2 * len(ELLIPSIS)
        while shown > room:
            if start - first > max(last - end, 0):
                shown -= widths[first]
                first += 1
            else:
                last -= 1
                shown -= widths[last]
    left, right = ELLIPSIS if first else "", ELLIPSIS if last < len(cells) else ""
    end = min(end, last)
    blank = len(left) + sum(widths[first:start])
    return f"{left}{''.join(cells[first:last])}{right}".rstrip(), (" " * blank, "^" * max(sum(widths[start:end]), 1))


def _cells(text: str) -> Iterator[str]:
    """What each character is shown as."""
    column = 0
    for character in text:
        cell = " " * (TAB - column % TAB) if character == "\t" else clean(character)
        column += columns(cell)
        yield cell


def _summary(results: Results) -> str:
    reports, skipped = results.reports, len(results.skipped)
    words = ((ReviewOutcome.DENY, "denied"), (ReviewOutcome.WARN, "with warnings"), (ReviewOutcome.ALLOW, "clean"))
    outcomes = Counter(report.outcome for report in reports)
    counts = [f"{outcomes[outcome]} {word}" for outcome, word in words if outcomes[outcome]]
    kinds = {report.manifest.kind for report in reports} or {KIND}
    noun = next(iter(kinds)) if len(kinds) == 1 else "job"
    parts = [f"{_number(len(reports), noun)}" + (f": {', '.join(counts)}" if counts else "")]
    if suppressed := sum(len(report.suppressed) for report in reports):
        parts.append(f"{_number(suppressed, 'finding')} suppressed")
    if skipped:
        parts.append(f"{_number(skipped, 'other document')} skipped")
    return "; ".join(parts) + ".\n" + _fixable(results)


def _fixable(results: Results) -> str:
    """How many findings --fix would fix; nothing for none."""
    changes = [entry.change for report in results.reports for entry in report.entries if entry.change is not None]
    safe = sum(change.safe for change in changes)
    if not changes:
        return ""
    if not safe:
        return f"{_number(len(changes), 'finding')} fixable with --fix --unsafe-fixes.\n"
    more = f" ({len(changes) - safe} more with --unsafe-fixes)" if len(changes) > safe else ""
    return f"{_number(safe, 'finding')} fixable with --fix{more}.\n"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


__all__ = ["Painter", "render"]
