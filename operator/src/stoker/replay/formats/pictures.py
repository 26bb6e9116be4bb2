"""The replay's picture: the GPUs over time, and when jobs would have worked again."""

from collections.abc import Sequence
from datetime import datetime

import matplotlib as mpl

from stoker.replay import Part
from stoker.report.formats.pictures import COLOURS, STYLE, days, fill, new_figure, svg_of, time_axis

KINDS = ("used", "idle", "given_back", "unknown")
FILLS = {"used": "used", "idle": "lost", "given_back": "given", "unknown": "unknown"}
HEADROOM = 1.14
"""Above the areas, for the marks."""


def timeline(parts: Sequence[Part], returns: Sequence[datetime]) -> str:
    """The mean number of GPUs that were used, idle, given back and unknown in each part, as stacked steps; a mark where
    a job that would have been reclaimed worked again.
    """
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(3.0)
        edges = [days(parts[0].period.start), *(days(part.period.end) for part in parts)]
        bottoms = [0.0] * len(parts)
        for kind in KINDS:
            tops = [low + getattr(part, kind) for low, part in zip(bottoms, parts, strict=True)]
            if any(high > low for low, high in zip(bottoms, tops, strict=True)):
                axes.stairs(tops, edges, baseline=bottoms, fill=True, **fill(FILLS[kind]))
            bottoms = tops
        highest = max(*bottoms, 1.0)
        time_axis(axes)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, highest * HEADROOM)
        for time in returns:
            at = days(time)
            axes.plot([at, at], [0, highest * 1.03], color=COLOURS["ink"], linewidth=0.9, linestyle=(0, (2, 2)))
            axes.plot([at], [highest * 1.07], marker="v", markersize=5.5, color=COLOURS["ink"], linestyle="none")
        return svg_of(figure, "replay")


__all__ = ["timeline"]
