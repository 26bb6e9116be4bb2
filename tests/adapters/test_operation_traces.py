"""Files of operation traces: what is read, and what is said of those that can't be."""

import gzip
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.operation_trace import Columns, TraceShape, main, simulate_trace, write
from stoker.adapters.operation_traces import NO_PYARROW, read_trace
from stoker.telemetry.operations import OperationType, TraceError, read_operations

SHAPE = TraceShape(replicas=2, stages=2, micro_batches=2, steps=5, ranks_each=4)
TRACE = simulate_trace(SHAPE)


def changed(**entries: object) -> Columns:
    """The trace with other values in its third row."""
    return {name: [*values[:2], entries.get(name, values[2]), *values[3:]] for name, values in TRACE.items()}


def where(keep: list[bool]) -> Columns:
    return {name: [value for value, kept in zip(values, keep, strict=True) if kept] for name, values in TRACE.items()}


def test_a_csv_file_has_the_same_trace_plain_or_compressed(tmp_path: Path) -> None:
    write(tmp_path / "trace.csv", TRACE)
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress((tmp_path / "trace.csv").read_bytes()))
    wanted = read_operations(TRACE)
    for name in ("trace.csv", "trace.csv.gz"):
        trace = read_trace(tmp_path / name)
        assert trace.ranks.tolist() == wanted.ranks.tolist() == [[0, 4], [8, 12]]
        assert (trace.gpus, trace.ranks_each, trace.steps, trace.left_out) == (16, 4, 5, 0)
        assert len(trace.operations) == len(wanted.operations)
        for one, other in zip(trace.operations, wanted.operations, strict=True):
            assert (one.type, one.stage, one.number) == (other.type, other.stage, other.number)
            assert one.start == pytest.approx(other.start)


def test_a_parquet_file_is_read_where_pyarrow_is_installed_and_else_the_way_is_told(tmp_path: Path) -> None:
    file = tmp_path / "trace.parquet"
    if importlib.util.find_spec("pyarrow") is None:
        file.write_bytes(b"PAR1")
        with pytest.raises(TraceError, match=re.escape(NO_PYARROW)):
            read_trace(file)
        return
    from pyarrow import parquet, table

    parquet.write_table(table(TRACE), file)
    assert read_trace(file).step_seconds == pytest.approx(read_operations(TRACE).step_seconds)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TraceError, match="is not a Parquet file that can be read"):
        read_trace(file)


def test_without_pyarrow_the_way_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceError, match="a Parquet file needs pyarrow: install it"):
        read_trace(tmp_path / "trace.parquet")


def test_the_simulators_command_writes_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    main([str(file), "--replicas", "2", "--stages", "2", "--slow-rank", "3=1.5", "--steps", "6", "--stage-work", "1,2"])
    assert read_trace(file).ranks.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "has no column dp_rank, stage, rank, step, seq_id, optype, start_ts, duration; a trace has"),
        (b"step,rank\n1,2\n", "has no column dp_rank, stage, seq_id, optype, start_ts, duration; a trace has"),
        (b"step,rank\n1,2\n1\n", "row 2: has 1 values; the first line names 2 columns"),
        (b'step,"rank\n1,2\n', "is not a CSV file"),
        (b"PAR1\x15\x04\xff\xfe", "is not a CSV file in UTF-8 (a Parquet file's name ends in .parquet)"),
        (b"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id\n", "has 0 operations; allowed: 1 to 2000000"),
    ],
)
def test_a_file_that_is_no_trace(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(content)
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(file)


@pytest.mark.parametrize("name", ["nothing.csv", ".", "plain.csv.gz", "cut.csv.gz"])
def test_a_file_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "plain.csv.gz").write_text("step")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"step,rank\n" * 1000)[:-12])
    with pytest.raises(TraceError, match=r"^can't be read: "):
        read_trace(tmp_path / name)


@pytest.mark.parametrize(
    "columns, message",
    [
        (changed(duration=-1), "row 3: duration: '-1': must be a number of seconds, 0 or more"),
        (changed(start_ts="soon"), "row 3: start_ts: 'soon': must be a number of seconds, 0 or more"),
        (changed(start_ts=float("nan")), "row 3: start_ts: 'nan': must be a number of seconds, 0 or more"),
        (changed(step=1.5), "row 3: step: '1.5': must be a whole number, 0 or more"),
        (changed(stage=None), "row 3: stage: 'None': must be a whole number, 0 or more"),
        (changed(rank=10**30), "row 3: rank: '1000000000000000000000000000000': must be a whole number, 0 or more"),
        (changed(optype="sleep"), "row 3: optype: 'sleep': must be one of forward-compute, backward-compute, "),
        (changed(rank=99), "a rank must belong to one stage of one replica (dp_rank), and each of them to one rank"),
        (changed(dp_rank=7, rank=99), "5 ranks have operations; 2 stages of 8 replicas (dp_rank) need 16"),
        (
            {name: [*values, values[4]] for name, values in TRACE.items()},
            "this operation (rank, step, optype, seq_id) is listed twice",
        ),
        (
            where([int(str(step)) < 3 for step in TRACE["step"]]),
            "3 steps have the same operations; at least 5 are needed",
        ),
        (
            where(
                [
                    (kind, replica) != ("optimizer", 1)
                    for kind, replica in zip(TRACE["optype"], TRACE["dp_rank"], strict=True)
                ]
            ),
            "the replicas (dp_rank) have different operations",
        ),
    ],
)
def test_a_table_that_is_no_trace(columns: Columns, message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_operations(columns)


def test_a_step_with_other_operations_is_left_out() -> None:
    columns = simulate_trace(TraceShape(replicas=2, stages=2, micro_batches=2, steps=7))
    cut = {name: values[:-3] for name, values in columns.items()}
    trace = read_operations(cut)
    assert (trace.steps, trace.left_out) == (6, 1)


def test_times_may_count_from_anywhere() -> None:
    later = TRACE | {
        "start_ts": [
            1.7e9 + 60 * int(str(step)) + float(str(start))
            for step, start in zip(TRACE["step"], TRACE["start_ts"], strict=True)
        ]
    }
    assert read_operations(later).step_seconds == pytest.approx(read_operations(TRACE).step_seconds, abs=1e-5)


def test_the_micro_batch_may_be_missing() -> None:
    without = {name: values for name, values in TRACE.items() if name != "mb_id"}
    empty = TRACE | {"mb_id": [None if number == -1 else number for number in TRACE["mb_id"]]}
    for columns in (without, empty):
        found = read_operations(columns).operations
        for one, other in zip(found, read_operations(TRACE).operations, strict=True):
            assert one.micro_batch == other.micro_batch
            assert np.array_equal(one.end, other.end)


@given(
    row=st.fixed_dictionaries(
        {
            "dp_rank": st.integers(-2, 3) | st.text(max_size=3),
            "stage": st.integers(-2, 3) | st.none(),
            "optype": st.sampled_from(OperationType) | st.text(max_size=3),
            "start_ts": st.floats() | st.text(max_size=3),
            "duration": st.floats() | st.just("1e400"),
            "seq_id": st.integers(),
        }
    )
)
def test_any_row_is_read_or_refused_with_a_sentence(row: dict[str, object]) -> None:
    try:
        read_operations(changed(**row))
    except TraceError as error:
        assert str(error)  # noqa: PT017 - a trace that happens to be right is fine, too
