"""A job's utilization as a picture of characters: a strip per GPU under a ruler of times and stages, the findings'
intervals beneath.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stoker.adapters.terminal import Terminal, clean, columns
from stoker.diagnosis.timeline import Strip, Timeline
from stoker.findings.diagnosis import StageSpan
from stoker.findings.finding import Finding

SHOWN = 16
"""GPUs drawn of one job: more is no picture."""
MAX_LABEL = 22
"""Columns of the names at the left."""
MIN_COLUMNS, MAX_COLUMNS = 20, 240
MARGIN = 2
"""Columns at the left of everything."""
FIGURE = 7
"""Columns of ` 100 % `."""
TICKS = tuple(
    timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What the picture is drawn with. `levels` go from no use to full use; a missing sample is none of them."""

    levels: str
    missing: str
    span: str
    open_end: str
    tick: str
    bar: str
    edge: str


BLOCKS = Marks(levels="▁▂▃▄▅▆▇█", missing="·", span="━", open_end="▶", tick="│", bar="─", edge="├")
ASCII = Marks(levels="_.:-=+*#", missing="?", span="~", open_end=">", tick="|", bar="-", edge="|")


def room(terminal: Terminal) -> int:
    """How many columns a strip has."""
    return min(max(terminal.width - MARGIN - MAX_LABEL - FIGURE, MIN_COLUMNS), MAX_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRow:
    """One line: a label, a figure, and the picture in pieces of text with a colour each (None: the terminal's own)."""

    label: str = ""
    figure: str = ""
    pieces: tuple[tuple[str, str | None], ...]


def rows(
    timeline: Timeline, stages: Sequence[StageSpan], findings: Sequence[Finding], terminal: Terminal
) -> Iterator[PictureRow]:
    """The lines of the picture, from the ruler down."""
    marks = BLOCKS if terminal.unicode else ASCII
    day = f"{timeline.start.astimezone(UTC):%Y-%m-%d} UTC"
    yield PictureRow(label=day, pieces=((_ruler(timeline, marks), "bright_black"),))
    if stages:
        yield PictureRow(label="stages", pieces=((_stages(timeline, stages, marks), "blue"),))
    several = len({strip.pod for strip in timeline.strips}) > 1
    for strip in _chosen(timeline.strips):
        yield PictureRow(
            label=_name(strip, several=several), figure=_figure(strip.average_percent), pieces=_strip(strip, marks)
        )
    if rest := _rest(timeline.strips, timeline.columns):
        yield PictureRow(pieces=((rest, None),))
    for number, finding in enumerate(findings, start=1):
        if finding.since is not None:
            yield PictureRow(label=f"[{number}]", pieces=((_interval(timeline, finding, marks), "yellow"),))


def legend(terminal: Terminal) -> str:
    """What the signs mean."""
    marks = BLOCKS if terminal.unicode else ASCII
    return f"{marks.levels[0]} 0 %  {marks.levels[-1]} 100 %  {marks.missing} no sample"


def _strip(strip: Strip, marks: Marks) -> tuple[tuple[str, str | None], ...]:
    pieces: list[tuple[str, str | None]] = []
    for cell, alive in zip(strip.cells, strip.alive, strict=True):
        if not alive:
            sign, colour = " ", None
        elif cell is None:
            sign, colour = marks.missing, "bright_black"
        else:
            level = min(int(cell / 100 * len(marks.levels)), len(marks.levels) - 1)
            sign, colour = marks.levels[level], "red" if cell <= 0 else "yellow" if cell <= 50 else "green"
        if pieces and pieces[-1][1] == colour:
            pieces[-1] = (pieces[-1][0] + sign, colour)
        else:
            pieces.append((sign, colour))
    return tuple(pieces)


def _chosen(strips: Sequence[Strip]) -> Sequence[Strip]:
    """All of few; of many the least and the most used, in their order."""
    if len(strips) <= SHOWN:
        return strips
    ordered = sorted(strips, key=_use)
    kept = {id(strip) for strip in (*ordered[: SHOWN // 2], *ordered[-(SHOWN - SHOWN // 2) :])}
    return [strip for strip in strips if id(strip) in kept]


def _rest(strips: Sequence[Strip], width: int) -> str:
    """What is said of the GPUs that are not drawn; nothing without any, and their number alone where there is no room
    for more.
    """
    chosen = {id(strip) for strip in _chosen(strips)}
    left = [strip.average_percent for strip in strips if id(strip) not in chosen]
    if not left:
        return ""
    known = [use for use in left if use is not None]
    between = f", between {_figure(min(known))} and {_figure(max(known))}" if known else ""
    number = f"and {len(left)} more GPUs"
    return number + between if len(number + between) <= width else number


def _use(strip: Strip) -> float:
    return -1.0 if strip.average_percent is None else strip.average_percent


def _figure(percent: float | None) -> str:
    return "?" if percent is None else f"{percent:.0f} %"


def _name(strip: Strip, *, several: bool) -> str:
    gpu = clean(strip.gpu)
    name = f"rank {strip.rank} GPU {gpu}" if several else f"GPU {gpu}"
    return name if columns(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 3]}..."


def _ruler(timeline: Timeline, marks: Marks) -> str:
    """Times at round distances, each behind its tick; the day where it changes."""
    life = timeline.end - timeline.start
    # `│05:40 ` takes seven columns, `│11-21 05:40 ` thirteen.
    ticks = max(timeline.columns // 14, 1)
    step = next((step for step in TICKS if life / step <= ticks), max(life / ticks, TICKS[-1]))
    seconds = step.total_seconds()
    first = -(-timeline.start.timestamp() // seconds) * seconds
    line = ""
    day = timeline.start.astimezone(UTC).date()
    for number in range(ticks + 1):
        time = datetime.fromtimestamp(first + number * seconds, tz=UTC)
        if time > timeline.end:
            break
        text = f"{marks.tick}{time:%H:%M}" if time.date() == day else f"{marks.tick}{time:%m-%d %H:%M}"
        column = int(timeline.column(time))
        if column >= len(line) + bool(line) and column + len(text) <= timeline.columns:
            line = f"{line:<{column}}{text}"
            day = time.date()
    return line


def _stages(timeline: Timeline, stages: Sequence[StageSpan], marks: Marks) -> str:
    """The stages as a bar, each with its name where there is room."""
    line = ""
    for stage in stages:
        first = max(int(timeline.column(stage.start)), len(line))
        last = int(timeline.column(stage.end or timeline.end))
        if last <= first:
            continue
        name = next((text for text in (f" {stage.stage} ", stage.stage.value[0], "") if len(text) < last - first), "")
        line = f"{line:<{first}}{marks.edge}{name:{marks.bar}<{last - first - 1}}"
    return line


def _interval(timeline: Timeline, finding: Finding, marks: Marks) -> str:
    assert finding.since is not None
    first = min(int(timeline.column(finding.since)), timeline.columns - 1)
    last = max(int(timeline.column(finding.until or timeline.end)), first + 1)
    line = " " * first + marks.span * (last - first)
    return line if finding.until is not None else line[:-1] + marks.open_end


__all__ = ["PictureRow", "legend", "room", "rows"]
