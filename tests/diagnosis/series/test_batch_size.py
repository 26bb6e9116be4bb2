import time

import pytest

from stoker.api.dljob import DLJob
from stoker.diagnosis.series.batch_size import larger_batch
from stoker.telemetry.series import BatchSize
from stoker.workload import program_facts


def batch_size(arguments: str) -> BatchSize | None:
    spec = {"gpusPerNode": 2, "image": "registry.example.com/a:1", "script": f"torchrun train.py {arguments}"}
    return program_facts(DLJob.model_validate({"metadata": {"name": "x"}, "spec": spec})).batch_size


@pytest.mark.parametrize(
    "arguments,changed",
    [
        ("--batch-size 32", "Raise --batch-size from 32 (256 "),
        ("--train_batch_size=8", "Raise --train_batch_size from 8 (64 "),
        ("--batch-size 999999999", "Raise --batch-size from 999999999 "),
        ("--batch-size auto", "Raise the batch size (8 times the batch "),
        ("--batch-size 1234567890", "Raise the batch size (8 times the batch "),
    ],
)
def test_the_batch_size_is_told_as_it_is_written(arguments: str, changed: str) -> None:
    assert larger_batch(batch_size(arguments), 10.0, None).startswith(changed)


def test_a_batch_size_that_is_no_number_is_cut() -> None:
    written = batch_size("--batch-size " + "a-" * 8_000)
    assert written is not None
    assert len(written.value) == 64
    assert written.value.endswith("a-a…")


@pytest.mark.parametrize("written", ["9" * 60_000, "a-" * 30_000, "a" * 60_000, "-." * 30_000])
def test_no_batch_size_stops_a_rule(written: str) -> None:
    begin = time.thread_time()
    found = BatchSize(option="--batch-size", value=written)
    assert larger_batch(found, 10.0, None).startswith("Raise the batch size")
    assert time.thread_time() - begin < 1
