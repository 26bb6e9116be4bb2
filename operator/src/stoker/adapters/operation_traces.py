"""Reads the files of operation traces: CSV, also compressed with gzip, and Parquet, for which pyarrow must be
installed.

Used by `stoker diagnose --trace`. What a trace must contain is checked in telemetry.operations.
"""

import csv
import gzip
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path

from stoker.telemetry.operations import (
    MICRO_BATCH,
    MOST_OPERATIONS,
    REQUIRED,
    OperationTrace,
    TraceError,
    read_operations,
)

PARQUET = ".parquet"
GZIP = ".gz"
NO_PYARROW = "a Parquet file needs pyarrow: install it (pip install pyarrow), or convert the file to CSV"
_COLUMNS = frozenset({*REQUIRED, MICRO_BATCH})


def read_trace(path: Path) -> OperationTrace:
    """The trace in a file. Raises TraceError, which does not name the file, for one that can't be read or judged."""
    try:
        columns = _parquet(path) if path.suffix == PARQUET else _csv(path)
    except (OSError, EOFError) as error:
        raise TraceError(f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise TraceError("is not a CSV file in UTF-8 (a Parquet file's name ends in .parquet)") from None
    except csv.Error as error:
        raise TraceError(f"is not a CSV file: {error}") from None
    return read_operations(columns)


def _csv(path: Path) -> Mapping[str, list[object]]:
    opened = gzip.open if path.suffix == GZIP else open
    with opened(path, "rb") as file, TextIOWrapper(file, encoding="utf-8", newline="") as lines:
        return _rows(lines)


def _rows(lines: Iterable[str]) -> Mapping[str, list[object]]:
    reader = csv.reader(lines, strict=True)
    header = next(reader, [])
    columns: dict[str, list[object]] = {name: [] for name in header if name in _COLUMNS}
    kept = [(place, columns[name]) for place, name in enumerate(header) if name in columns]
    for number, row in enumerate(reader, start=1):
        if len(row) != len(header):
            raise TraceError(f"row {number}: has {len(row)} values; the first line names {len(header)} columns")
        if number > MOST_OPERATIONS:
            raise TraceError(f"has more than {MOST_OPERATIONS} operations")
        for place, values in kept:
            values.append(row[place])
    return columns


def _parquet(path: Path) -> Mapping[str, list[object]]:
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - not installed with Stoker
    except ImportError:
        raise TraceError(NO_PYARROW) from None
    try:
        with parquet.ParquetFile(path) as file:
            if file.metadata.num_rows > MOST_OPERATIONS:
                raise TraceError(f"has more than {MOST_OPERATIONS} operations")
            table = file.read(columns=[name for name in file.schema_arrow.names if name in _COLUMNS])
            return {name: table.column(name).to_pylist() for name in table.column_names}
    except ArrowException as error:
        raise TraceError(f"is not a Parquet file that can be read: {error}") from None


__all__ = ["read_trace"]
