"""How Prometheus' answers become jobs' pasts; the questions themselves are tried on a real one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.past import PrometheusPast
from stoker.adapters.prometheus.transport import LimitExceeded, Rows
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.past import Outlines
from stoker.telemetry.series import GpuSignal

END = datetime(2026, 11, 21, tzinfo=UTC)
UTIL = "DCGM_FI_DEV_GPU_UTIL"


class Tape:
    """In place of Prometheus: constant rows of a term, by its origin, over some time."""

    def __init__(self) -> None:
        self.most = 100_000
        """Steps of one query that the server allows."""
        self.rows: list[tuple[str, Mapping[str, str], float, datetime, datetime]] = []
        self.warnings: tuple[str, ...] = ()
        self.queries = 0

    def add(self, origin: str, value: float, start: float, end: float, **labels: str) -> None:
        """`value` between two times, in hours before the end."""
        self.rows.append((origin, labels, value, hours_ago(start), hours_ago(end)))

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        self.queries += 1
        times = [start + step * number for number in range(round((end - start) / step) + 1)]
        if len(times) > self.most:
            raise LimitExceeded(UnknownReason.PROMETHEUS_UNAVAILABLE, "too many samples")
        answer: list[dict[str, Any]] = []
        for origin, labels, value, first, last in self.rows:
            if f'"stoker_origin", "{origin}"' in query:
                values = np.array([(time, value) for time in times if first.timestamp() < time <= last.timestamp()])
                answer += [{"metric": {"stoker_origin": origin, **labels}, "values": values}] if len(values) else []
        return Rows(answer, self.warnings, None)

    async def off_loop(self, work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    async def close(self) -> None:
        pass


def hours_ago(hours: float) -> datetime:
    return END - timedelta(hours=hours)


@pytest.fixture
def tape() -> Tape:
    return Tape()


def source(tape: Tape) -> PrometheusPast:
    past = PrometheusPast(PrometheusAccess(url="http://127.0.0.1:1"))
    past._connection = tape  # type: ignore[assignment]  # a tape answers in its place
    return past


def job(tape: Tape, uid: str, start: float, end: float, *, name: str = "bert") -> None:
    tape.add("info", 1, start + 1, end, uid=uid, namespace="nlp", name=name, gpus="2", owner="mina")
    tape.add("held", 1, start, end, uid=uid)


def pod(tape: Tape, name: str, start: float, end: float, *, util: float = 80, gpus: float = 2) -> None:
    labels = {"namespace": "nlp", "pod": name}
    tape.add(f"peak/{UTIL}", util, start, end, **labels)
    tape.add(f"used/{UTIL}", util * gpus, start, end, **labels)
    tape.add(f"sampled/{UTIL}", gpus, start, end, **labels)


async def outlines(tape: Tape, *namespaces: str) -> Outlines:
    return await source(tape).outlines(hours_ago(48), END, namespaces)


async def test_pods_belong_to_the_job_of_their_name_and_time(tape: Tape) -> None:
    """A job was deleted, and another of its name was made."""
    job(tape, "first", 40, 20)
    job(tape, "second", 19, 0)
    pod(tape, "bert-0-aaaaa", 40, 20)
    pod(tape, "bert-0-bbbbb", 19, 0)
    pod(tape, "bert-1-bbbbb", 19, 0)
    found = {one.identity.uid: one for one in (await outlines(tape)).jobs}
    assert [pod.name for pod in found["first"].pods] == ["bert-0-aaaaa"]
    assert [(pod.name, pod.rank) for pod in found["second"].pods] == [("bert-0-bbbbb", 0), ("bert-1-bbbbb", 1)]


async def test_what_is_used_is_a_number_of_gpus_over_all_pods(tape: Tape) -> None:
    job(tape, "one", 10, 0)
    pod(tape, "bert-0-aaaaa", 10, 0, util=80)
    pod(tape, "bert-1-aaaaa", 10, 5, util=40)
    (one,) = (await outlines(tape)).jobs
    assert one.peak[-1] == 80
    assert one.used[-1] == pytest.approx(1.6)
    assert one.used[-80] == pytest.approx(2.4)
    assert np.isnan(one.used[0])


async def test_pods_of_jobs_that_nobody_told_of_are_named(tape: Tape) -> None:
    pod(tape, "stray-0-aaaaa", 10, 0)
    pod(tape, "exporter", 10, 0)
    assert (await outlines(tape)).unrecorded == ("nlp/stray",)
    assert (await outlines(tape, "vision")).unrecorded == ()


async def test_a_refused_query_is_asked_in_halves(tape: Tape) -> None:
    job(tape, "one", 10, 0)
    pod(tape, "bert-0-aaaaa", 10, 0)
    whole = await outlines(tape)
    tape.most = 100
    halved = await outlines(tape)
    assert np.array_equal(whole.jobs[0].peak, halved.jobs[0].peak, equal_nan=True)


async def test_fine_steps_tell_samples_from_values_that_are_none(tape: Tape) -> None:
    job(tape, "one", 10, 0)
    pod(tape, "bert-0-aaaaa", 10, 0)
    device = {"namespace": "nlp", "pod": "bert-0-aaaaa", "UUID": "GPU-1", "gpu": "0"}
    tape.add(UTIL, 0, 3, 2, **device)
    tape.add(UTIL, 2.0**63, 2, 1, **device)
    tape.add("ready", 1, 3, 0, uid="one")
    tape.add("shared", 2, 1, 0.5, UUID="GPU-1")
    (one,) = (await outlines(tape)).jobs
    past = await source(tape).job(one, hours_ago(3), END, timedelta(seconds=30))
    (gpu,) = past.devices
    at = past.grid.first_at
    assert gpu.peaks[GpuSignal.UTIL][at(hours_ago(2.5))] == 0
    assert not gpu.doubtful[at(hours_ago(2.5))]
    assert gpu.sampled[at(hours_ago(1.5))]
    assert gpu.doubtful[at(hours_ago(1.5))]
    assert np.isnan(gpu.peaks[GpuSignal.UTIL][at(hours_ago(1.5))])
    assert not gpu.sampled[at(hours_ago(0.5))]
    assert gpu.shared[at(hours_ago(0.75))]
    assert not gpu.shared[at(hours_ago(0.25))]
    assert past.ready[-1] == 1


async def test_a_partial_answer_says_so(tape: Tape) -> None:
    job(tape, "one", 10, 0)
    pod(tape, "bert-0-aaaaa", 10, 0)
    (one,) = (await outlines(tape)).jobs
    tape.warnings = ("a store could not be read",)
    assert not (await source(tape).job(one, hours_ago(3), END, timedelta(seconds=30))).complete
    assert (await outlines(tape)).warnings == tape.warnings


async def test_another_namespaces_jobs_are_left_out(tape: Tape) -> None:
    job(tape, "one", 10, 0)
    assert (await outlines(tape, "vision")).jobs == ()
