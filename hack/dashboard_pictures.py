"""Draw the chart's Grafana dashboards as pictures for docs/dashboards.md, without Grafana.

    python hack/dashboard_pictures.py PROMETHEUS MINUTES [FOLDER]    writes dashboard-*.png to FOLDER (docs/images)

PROMETHEUS is the URL of a Prometheus that scrapes Stoker, such as the one that `make demo KEEP=1` leaves up. The
pictures show its last MINUTES. Places, queries, legends and units of the panels come from the dashboards' JSON;
colours, fonts and axes are matplotlib's and only resemble Grafana's. A panel without data raises NoDataError.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import requests
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
DASHBOARDS = ROOT / "charts" / "stoker" / "monitoring" / "dashboards"
GRID_COLUMNS = 24
COLUMN, ROW, MARGIN, HEADER = 56, 38, 8, 56
"""Pixels: Grafana's grid on a window of 1344 pixels, the space between panels, and the dashboard's title."""
DPI = 100
POINTS = 240
"""of a series at most"""
LEGEND_COLUMNS, LEGEND_ROWS = 3, 3
"""of a legend, which names so many series and counts the others"""
HIDDEN = {"__name__", "uid"}
"""Labels that a table leaves out, as the dashboards do by a transformation."""
INK, MUTED, GRID, PAPER, BACK = "#1b1b1b", "#5c5c5c", "#e4e4e4", "#ffffff", "#f4f5f5"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c8c8c")
"""Told apart with any colour vision (Okabe and Ito)."""
TIMEOUT = 30
"""s, for a query"""

Ask = Callable[[str, bool], Sequence[Mapping[str, Any]]]
"""Results of Prometheus for a query: of now where True, else over the pictured time."""


class NoDataError(Exception):
    """A panel has no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What a query returned for one set of labels: times in seconds since the epoch, oldest first."""

    legend: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


def asking(url: str, start: float, end: float) -> Ask:
    """Ask this Prometheus about the time between."""

    def ask(query: str, now: bool) -> Sequence[Mapping[str, Any]]:
        step = max(1.0, (end - start) / POINTS)
        when: dict[str, float] = {"time": end} if now else {"start": start, "end": end, "step": step}
        path = "query" if now else "query_range"
        answer = requests.get(
            f"{url}/api/v1/{path}",
            params={"query": query} | {name: str(value) for name, value in when.items()},
            timeout=TIMEOUT,
        )
        answer.raise_for_status()
        results: Sequence[Mapping[str, Any]] = answer.json()["data"]["result"]
        return results

    return ask


def read(panel: Mapping[str, Any], ask: Ask) -> list[Series]:
    """All series of a panel, in the order of its queries. Raises NoDataError."""
    series: list[Series] = []
    for target in panel["targets"]:
        for result in ask(target["expr"].replace("$__rate_interval", "1m"), target["instant"]):
            labels = result["metric"]
            points = result["values"] if "values" in result else [result["value"]]
            legend = _legend(target["legendFormat"], labels)
            series.append(Series(legend=legend, labels=labels, points=[(float(at), float(v)) for at, v in points]))
    if not series:
        msg = f"{panel['title']}: no data"
        raise NoDataError(msg)
    return series


def _legend(template: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda name: labels.get(name[1], ""), template)


def written(value: float, unit: str) -> str:
    """A value as a panel shows it."""
    match unit:
        case "percentunit":
            return f"{value:.0%}"
        case "s":
            return _duration(value)
        case "bytes":
            return f"{value / 2**20:.0f} MiB"
        case "reqps" | "ops":
            return f"{_short(value)} {'req' if unit == 'reqps' else 'ops'}/s"
        case _:
            return _short(value)


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    for length, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "mins"), (1.0, "s")):
        if seconds >= length:
            return f"{seconds / length:.3g} {name}"
    return "0 s" if seconds == 0 else f"{seconds * 1000:.3g} ms"


def draw(dashboard: Mapping[str, Any], ask: Ask) -> bytes:
    """The dashboard as a PNG. Raises NoDataError where a panel has no data."""
    with mpl.rc_context({"text.parse_math": False}):  # a name may contain $
        return _png(_figure(dashboard, ask))


def _figure(dashboard: Mapping[str, Any], ask: Ask) -> Figure:
    panels = dashboard["panels"]
    rows = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels)
    width, height = GRID_COLUMNS * COLUMN, rows * ROW + HEADER
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=BACK)
    figure.text(MARGIN * 2 / width, 1 - 24 / height, dashboard["title"], size=13, weight="bold", color=INK, va="center")
    figure.text(MARGIN * 2 / width, 1 - 44 / height, dashboard["description"], size=8.5, color=MUTED, va="center")
    for panel in panels:
        place = panel["gridPos"]
        box = Box(
            left=place["x"] * COLUMN + MARGIN / 2,
            bottom=height - HEADER - (place["y"] + place["h"]) * ROW + MARGIN / 2,
            width=place["w"] * COLUMN - MARGIN,
            height=place["h"] * ROW - MARGIN,
        )
        _draw_panel(figure, panel, read(panel, ask), box)
    return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A panel's place in the picture, in pixels from the lower left corner."""

    left: float
    bottom: float
    width: float
    height: float

    def axes(self, figure: Figure, *, left: float, right: float, top: float, bottom: float) -> Axes:
        """Axes in the box, so many pixels from its sides."""
        whole_width, whole_height = figure.get_size_inches() * DPI
        return figure.add_axes(
            (
                (self.left + left) / whole_width,
                (self.bottom + bottom) / whole_height,
                (self.width - left - right) / whole_width,
                (self.height - top - bottom) / whole_height,
            )
        )


def _draw_panel(figure: Figure, panel: Mapping[str, Any], series: Sequence[Series], box: Box) -> None:
    card = box.axes(figure, left=0, right=0, top=0, bottom=0)
    card.set_axis_off()
    card.add_patch(Rectangle((0, 0), 1, 1, transform=card.transAxes, facecolor=PAPER, edgecolor=GRID, linewidth=1))
    card.text(10 / box.width, 1 - 16 / box.height, panel["title"], size=9, weight="bold", color=INK, va="center")
    unit = panel["fieldConfig"]["defaults"]["unit"]
    match panel["type"]:
        case "stat":
            value = written(series[0].points[-1][1], unit)
            card.text(0.5, 0.42, value, size=24, weight="bold", color=COLOURS[2], ha="center", va="center")
        case "table":
            _draw_table(card, series, unit, box)
        case _:
            _draw_lines(box.axes(figure, left=76, right=16, top=32, bottom=82), series, unit)


def _draw_table(card: Axes, series: Sequence[Series], unit: str, box: Box) -> None:
    columns = sorted({name for one in series for name in one.labels} - HIDDEN)
    rows = [[*(one.labels.get(name, "") for name in columns), written(one.points[-1][1], unit)] for one in series]
    fitting = int((box.height - 60) // 24)
    for number, row in enumerate([[*columns, "Value"], *rows[:fitting]]):
        y = 1 - (44 + number * 24) / box.height
        for column, text in enumerate(row):
            x = (12 + column * (box.width - 24) / len(row)) / box.width
            card.text(x, y, text, size=8.5, color=INK if number else MUTED, va="center")
        card.axhline(y - 12 / box.height, 10 / box.width, 1 - 10 / box.width, color=GRID, linewidth=0.7)
    card.set_xlim(0, 1)
    card.set_ylim(0, 1)


def _draw_lines(axes: Axes, series: Sequence[Series], unit: str) -> None:
    for number, one in enumerate(series):
        times = [datetime.fromtimestamp(at, UTC) for at, _ in one.points]
        values = [value for _, value in one.points]
        axes.plot(times, values, color=COLOURS[number % len(COLOURS)], linewidth=1.4, label=one.legend)  # type: ignore[arg-type]  # matplotlib takes datetimes
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit)))
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]  # matplotlib's
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M", tz=UTC))  # type: ignore[no-untyped-call]  # matplotlib's
    axes.grid(color=GRID, linewidth=0.7)
    axes.tick_params(labelsize=8, labelcolor=MUTED, length=0)
    axes.spines[:].set_visible(False)
    handles, names = axes.get_legend_handles_labels()
    room = LEGEND_COLUMNS * LEGEND_ROWS
    if len(names) > room:
        names = [*names[: room - 1], f"and {len(names) - room + 1} more"]
    axes.legend(
        handles[: len(names)],
        names,
        loc="upper left",
        bbox_to_anchor=(-0.08, -0.14),
        ncols=LEGEND_COLUMNS,
        fontsize=7.5,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
        labelcolor=INK,
    )


def _png(figure: Figure) -> bytes:
    """Of few colours, which is a third of the size."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor=BACK)
    with Image.open(drawn) as whole:
        whole.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def write(url: str, minutes: float, folder: Path, *, end: float) -> list[Path]:
    """Draw every dashboard of the chart for the time up to `end` (seconds since the epoch); return the files."""
    ask = asking(url, end - 60 * minutes, end)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for path in sorted(DASHBOARDS.glob("*.json")):
        file = folder / f"dashboard-{path.stem.removeprefix('stoker-')}.png"
        file.write_bytes(draw(json.loads(path.read_text()), ask))
        files.append(file)
    return files


def main(url: str, minutes: str, folder: str = "") -> None:
    """Write the pictures and name them."""
    where = Path(folder) if folder else ROOT / "docs" / "images"
    for file in write(url, float(minutes), where, end=datetime.now(UTC).timestamp()):
        print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
