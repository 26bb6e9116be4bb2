"""The report's pictures, drawn by matplotlib as SVG that stands in a page: its colours and fonts are the page's own."""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stoker.adapters.terminal import columns
from stoker.report import Balance, hours
from stoker.telemetry.usage import Period

mpl.use("svg")

COLOURS = {
    "used": "#0072b2",
    "lost": "#d55e00",
    "unexplained": "#f0a063",
    "unknown": "#9a9a9a",
    "given": "#009e73",
    "ink": "#1b1b1b",
    "muted": "#5c5c5c",
    "grid": "#dcdcdc",
    "paper": "#fffffe",
}
"""Placeholders for the page's custom properties of these names, which differ between light and dark. Blue, vermilion
and green are told apart with any colour vision (Okabe and Ito), and unknown is hatched.
"""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,
    "hatch.linewidth": 0.7,
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.titlecolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.7,
}
WIDTH = 7.6
"""inches"""
LABEL_COLUMNS = 30
TIMES = ["%Y", "%b", "%a %d", "%H:%M", "%H:%M", "%H:%M:%S"]
TIMES_AT_ZERO = ["", "%Y", "%d %b", "%a %d", "%H:%M", "%H:%M"]
"""Labels of years, months, days, hours, minutes and seconds, and of the first of each (see ConciseDateFormatter)."""

_COLOUR = re.compile(r"(fill|stroke): (" + "|".join(COLOURS.values()) + r")\b")
_PROPERTIES = {value: f"var(--{name})" for name, value in COLOURS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a picture: its name, its value, and what it was in the period before, if that is known."""

    name: str
    value: float
    before: float | None = None
    colour: str = "lost"


def timeline(parts: Sequence[tuple[Period, Balance]]) -> str:
    """The mean number of GPUs that were used, lost and unknown in each part, as stacked columns."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(2.7)
        lefts = [days(part.start) for part, _ in parts]
        widths = [0.86 * (days(part.end) - days(part.start)) for part, _ in parts]
        spans = [part.length.total_seconds() / 3600 for part, _ in parts]
        bottoms = [0.0] * len(parts)
        for name in ("used", "lost", "unknown"):
            heights = [getattr(balance, name) / length for (_, balance), length in zip(parts, spans, strict=True)]
            drawn = [place for place, height in enumerate(heights) if height]  # nothing has no edges
            axes.bar(
                [lefts[place] for place in drawn],
                [heights[place] for place in drawn],
                [widths[place] for place in drawn],
                bottom=[bottoms[place] for place in drawn],
                align="edge",
                **fill(name),
            )
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        time_axis(axes)
        axes.set_xlim(lefts[0], days(parts[-1][0].end))
        axes.set_ylim(0, max(max(bottoms) * 1.06, 1.0))
        return svg_of(figure, "timeline")


def bars(rows: Sequence[Bar], *, salt: str) -> str:
    """Horizontal bars with their values, the first at the top; a mark shows where a bar ended in the period before."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(0.45 + 0.3 * len(rows))
        widest = max(max(row.value, row.before or 0.0) for row in rows)
        for place, row in enumerate(rows):
            axes.barh(place, row.value, 0.62, **fill(row.colour))
            mark = row.before or 0.0
            # the figure stands beside its bar, or beyond the mark where that would cross it
            beside = mark if row.value <= mark < row.value + 0.12 * widest else row.value
            axes.annotate(
                hours(row.value), (beside, place), xytext=(5, 0), textcoords="offset points", va="center_baseline"
            )
            if mark:
                axes.plot([mark, mark], [place - 0.4, place + 0.4], color=COLOURS["ink"], linewidth=1.6)
        _rows(axes, [row.name for row in rows], widest * 1.1)
        return svg_of(figure, salt)


def balances(rows: Sequence[tuple[str, Balance]], *, salt: str) -> str:
    """A horizontal bar for each name: used, lost and unknown GPU-hours, one after the other."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(0.45 + 0.3 * len(rows))
        for place, (_, balance) in enumerate(rows):
            left = 0.0
            for name in ("used", "lost", "unknown"):
                value: float = getattr(balance, name)
                if value:
                    axes.barh(place, value, 0.62, left=left, **fill(name))
                left += value
        _rows(axes, [name for name, _ in rows], max(balance.requested for _, balance in rows) * 1.02)
        return svg_of(figure, salt)


def time_axis(axes: Axes) -> None:
    """GPUs over time."""
    locator = AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]  # matplotlib's
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        ConciseDateFormatter(  # type: ignore[no-untyped-call]  # matplotlib's
            locator, formats=TIMES, zero_formats=TIMES_AT_ZERO, show_offset=False
        )
    )
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_ylabel("GPUs")
    axes.grid(visible=False, axis="x")
    axes.tick_params(length=0)


def days(time: datetime) -> float:
    """A time as matplotlib counts it."""
    return float(date2num(time))  # type: ignore[no-untyped-call]  # matplotlib's


def new_figure(height: float) -> tuple[Figure, Axes]:
    """A drawing of the page's width, so many inches high."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _rows(axes: Axes, names: Sequence[str], end: float) -> None:
    axes.set_yticks(range(len(names)), [shortened(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, max(end, 1e-9))
    axes.grid(visible=False, axis="y")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("GPU-hours")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")


def fill(name: str) -> dict[str, Any]:
    """How an area of this colour is drawn."""
    if name == "unknown":
        return {"color": "none", "edgecolor": COLOURS["unknown"], "hatch": "////", "linewidth": 0.5}
    return {"color": COLOURS[name], "linewidth": 0}


def shortened(name: str) -> str:
    """A name that fits beside a bar."""
    if columns(name) <= LABEL_COLUMNS:
        return name
    while columns(name) > LABEL_COLUMNS - 1:
        name = name[:-1]
    return f"{name}\N{HORIZONTAL ELLIPSIS}"


def svg_of(figure: Figure, salt: str) -> str:
    """The drawing as an element to stand in a page: no ids that another one has, no size, no colour of its own."""
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}), warnings.catch_warnings():
        # Matplotlib measures texts with its own font, which lacks many scripts; the browser's fonts draw them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _without(_without(svg, "<metadata>", "</metadata>"), "<!--", "-->")
    svg = re.sub(r'<(g|svg|text) id="[^"]*"', r"<\1", svg)
    root, _, content = svg.partition(">")
    box = root.partition('viewBox="')[2].partition('"')[0]
    svg = f'<svg viewBox="{box}" aria-hidden="true">{content}'
    svg = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", svg)
    return _COLOUR.sub(lambda found: f"{found[1]}: {_PROPERTIES[found[2]]}", svg)


def _without(svg: str, begin: str, end: str) -> str:
    """The drawing without what stands between two marks."""
    first, *others = svg.split(begin)
    return first + "".join(other.partition(end)[2] for other in others)


__all__ = [
    "COLOURS",
    "STYLE",
    "Bar",
    "balances",
    "bars",
    "days",
    "fill",
    "new_figure",
    "shortened",
    "svg_of",
    "time_axis",
    "timeline",
]
