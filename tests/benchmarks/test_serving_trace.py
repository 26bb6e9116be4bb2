"""The trace's rests, and what is counted of a rule's stops."""

import io
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving_trace import STEP, Pod, Stop, archive, plain, pods, rests, result
from stoker.telemetry.past import Grid

START = datetime(2026, 11, 16, tzinfo=UTC)
GRID = Grid(start=START, step=STEP, size=1000)


def pod(*spans: tuple[float, int]) -> Pod:
    """Values with their numbers of steps."""
    util = np.concatenate([np.full(steps, value) for value, steps in spans])
    known = np.flatnonzero(np.isfinite(util))
    return Pod(name="one", util=util, first=int(known[0]), last=int(known[-1]))


def test_a_rest_begins_after_work_and_ends_in_work_or_with_the_trace() -> None:
    assert list(rests(pod((0, 5), (80, 3), (0, 10), (70, 1), (0, 4)))) == [(8, 18, True), (19, 23, False)]


def test_a_long_gap_ends_a_rest_of_which_no_more_is_known() -> None:
    gap = float("nan")
    assert list(rests(pod((80, 1), (0, 5), (gap, 2), (0, 5), (gap, 9), (0, 2), (80, 1)))) == [
        (1, 13, False),
        (22, 24, True),
    ]


def test_a_plain_rule_stops_a_pod_once_it_has_rested_for_so_long() -> None:
    busy = pod((80, 3), (0, 10), (80, 1), (0, 30))
    assert plain(GRID, [busy], 8 * STEP) == [
        Stop(at=GRID.time(11), again=GRID.time(13)),
        Stop(at=GRID.time(22), again=None),
    ]


def test_stops_near_the_end_of_the_trace_are_not_judged() -> None:
    early, late = GRID.time(10), GRID.time(990)
    found = [Stop(at=early, again=late), Stop(at=early, again=None), Stop(at=late, again=None)]
    counted = result("any", GRID, found)
    assert (counted.stopped, counted.again, counted.judged, counted.judged_again) == (3, 1, 2, 1)


def test_the_pods_are_on_one_grid() -> None:
    rows = "value,timestamp_anon,container_ip\n0.0,1000.0,aa\n50.0,1057.0,aa\n10.0,1114.0,bb\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        entry = tarfile.TarInfo("trace.csv")
        entry.size = len(rows)
        out.addfile(entry, io.BytesIO(rows.encode()))
    grid, (first, second) = pods(packed.getvalue())
    assert (grid.start, grid.step, grid.size) == (datetime.fromtimestamp(1000, UTC), timedelta(seconds=57), 3)
    assert (first.first, first.last, second.first) == (0, 1, 2)
    np.testing.assert_array_equal(first.util, [0, 50, np.nan])


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.tar.gz"
    path.write_bytes(b"not the trace")
    with pytest.raises(ValueError, match="SHA-256"):
        archive(path)
