"""The pictures of the chart's dashboards: what is drawn, and what a panel without data says."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from PIL import Image

from hack.dashboard_pictures import COLUMN, DASHBOARDS, GRID_COLUMNS, NoDataError, draw, read, written

START = 1_795_000_000.0
LABELS = {"__name__": "stoker_dljobs", "uid": "u", "namespace": "team", "name": "a$b_$c", "state": "idle"}


def answer(query: str, now: bool) -> Sequence[Mapping[str, Any]]:
    """The same for every query: one sample now, or three over time."""
    if now:
        return [{"metric": LABELS, "value": [START, "3"]}]
    return [{"metric": LABELS, "values": [[START + 30 * number, str(number)] for number in range(3)]}]


@pytest.mark.parametrize("path", sorted(DASHBOARDS.glob("*.json")), ids=lambda path: path.stem)
def test_every_dashboard_becomes_a_picture_as_wide_as_its_grid(path: Any) -> None:
    with Image.open(io.BytesIO(draw(json.loads(path.read_text()), answer))) as picture:
        assert picture.width == GRID_COLUMNS * COLUMN


def test_a_legend_has_the_values_of_its_labels() -> None:
    panel = {
        "title": "T",
        "targets": [{"expr": "x", "instant": False, "legendFormat": "{{namespace}} {{state}}{{no}}"}],
    }
    (series,) = read(panel, answer)
    assert (series.legend, series.points[-1]) == ("team idle", (START + 60, 2.0))


def test_a_rate_is_asked_for_over_a_minute() -> None:
    asked: list[str] = []

    def ask(query: str, now: bool) -> Sequence[Mapping[str, Any]]:
        asked.append(query)
        return answer(query, now)

    read({"title": "T", "targets": [{"expr": "rate(x[$__rate_interval])", "instant": False, "legendFormat": ""}]}, ask)
    assert asked == ["rate(x[1m])"]


def test_a_panel_without_data_is_named() -> None:
    panel = {"title": "Queue", "targets": [{"expr": "x", "instant": True, "legendFormat": ""}]}
    with pytest.raises(NoDataError, match="Queue: no data"):
        read(panel, lambda query, now: [])


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0.514, "percentunit", "51%"),
        (7_776_000, "s", "90 days"),
        (0.0, "s", "0 s"),
        (0.0042, "s", "4.2 ms"),
        (2**27, "bytes", "128 MiB"),
        (0.25, "reqps", "0.25 req/s"),
        (1675.4, "short", "1,675"),
    ],
)
def test_values_have_their_unit(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text
