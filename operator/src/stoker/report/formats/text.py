"""The summary that `stoker report` prints on the terminal."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from stoker.adapters.terminal import Terminal, bold, bullets, clean, cut, styled
from stoker.report import Balance, Dimension, Row, Statement, hours
from stoker.report.formats import words

TOP = 5
MAX_WIDTH = 110
BAR = 28
TEAM_BAR = 14
INDENT = " " * 25
COLOURS = {"used": "blue", "lost": "red", "unknown": "white"}


def render(statement: Statement, place: Terminal) -> str:
    """The headline, the causes, the jobs that lost most, the teams, and what had to be assumed."""
    return "\n".join([*(line.rstrip() for line in _lines(statement, place)), ""])


def _lines(statement: Statement, place: Terminal) -> Iterator[str]:
    width = min(place.width, MAX_WIDTH)
    total, before = statement.total, statement.before
    scope = words.scope(statement.namespaces)
    yield clean(
        f"{scope[0].upper()}{scope[1:]}, {words.when(statement.period)} ({words.span(statement.period.length)})"
    )
    yield ""
    yield bold(words.headline(total), place)
    if total.requested > 0:
        yield f"  {_bar(total, place, BAR)}"
        for name in ("requested", "used", "lost", "unknown"):
            value: float = getattr(total, name)
            share = words.share(value, total.requested) if name != "requested" else ""
            moved = words.change(value, getattr(before, name)) if before is not None else ""
            moved = f"   {moved} from the previous period" if moved not in {"", "new"} else ""
            yield f"  {name:<10}{hours(value):>9} GPU-hours{share:>7}{moved}"
        yield from _causes(statement, place)
        yield from _jobs(statement, place, width)
        yield from _rows(statement.groups[Dimension.TEAM], place, width)
    if statement.assumed:
        yield ""
        yield bold("Assumed", place)
        for one in statement.assumed:
            yield from bullets(one.text, width)


def _causes(statement: Statement, place: Terminal) -> Iterator[str]:
    if not statement.causes:
        return
    yield ""
    yield bold("Lost to", place)
    lost = statement.total.lost
    for line in statement.causes:
        jobs = "1 job" if line.jobs == 1 else f"{line.jobs} jobs"
        yield (
            f"  {line.category.value:<26}{hours(line.lost):>9}{words.share(line.lost, lost):>7}   "
            f"{words.CAUSES[line.category]}, {jobs}"
        )
    yield f"  {'no finding':<26}{hours(statement.unexplained):>9}{words.share(statement.unexplained, lost):>7}"


def _jobs(statement: Statement, place: Terminal, width: int) -> Iterator[str]:
    top = statement.top(TOP)
    if not top:
        return
    yield ""
    yield bold("Lost GPU-hours of the jobs that lost most", place)
    for job in top:
        one = job.identity
        name = f"{one.namespace}/{one.name or 'pods without a DLJob'}"
        yield cut(f"  {hours(job.balance.lost):>8} of {hours(job.balance.requested):>8}   {clean(name)}", width)
        if job.main_cause is not None:
            fix = statement.fix(job, job.main_cause.rule)
            text = clean(f"{job.main_cause.category.value}: {fix}")
            yield from wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)
        for rule, fix in statement.unmeasured(job).items():
            text = clean(f"{rule} (no GPU-hours measured): {fix}")
            yield from wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)


def _rows(rows: Sequence[Row], place: Terminal, width: int) -> Iterator[str]:
    if not any(row.value for row in rows):
        return
    yield ""
    yield bold("Lost GPU-hours by team", place)
    for row in rows[:TOP]:
        figures = f"{hours(row.balance.lost):>8} of {hours(row.balance.requested):>8}"
        bar = f"   {_bar(row.balance, place, TEAM_BAR)}   "
        yield f"  {figures}{bar}{cut(clean(row.value or '(no team)'), width - len(figures) - TEAM_BAR - 8)}"
    if len(rows) > TOP:
        yield f"  and {len(rows) - TOP} more"


def _bar(balance: Balance, place: Terminal, length: int) -> str:
    """Used, lost and unknown as one bar; none where the terminal can't draw one."""
    signs = {"used": "█", "lost": "▒", "unknown": "░"} if place.unicode else {"used": "#", "lost": "-", "unknown": "?"}
    ends = [
        round(length * sum((balance.used, balance.lost, balance.unknown)[: place_ + 1]) / balance.requested)
        for place_ in range(3)
    ]
    starts = (0, *ends[:-1])
    pieces = (
        styled(signs[name] * (end - start), place, colour=COLOURS[name])
        for name, start, end in zip(signs, starts, ends, strict=True)
    )
    return "".join(pieces)


__all__ = ["render"]
