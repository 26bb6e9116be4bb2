"""What is asked of Prometheus for a period's usage, and how the answers become records."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.transport import LimitExceeded, Rows
from stoker.adapters.prometheus.usage import PrometheusUsage
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import MetricsUnavailable
from stoker.telemetry.usage import JobRecord, UsageRecord

END = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)
STEPS = 120


class Tape:
    """In place of Prometheus: constant rows of a term, by its origin, over some of the period's seconds."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.most = 1000
        """Parts of one query that the server allows."""
        self.rows: list[tuple[str, dict[str, str], float, datetime, datetime]] = []

    def add(self, origin: str, value: float, start: datetime, end: datetime, **labels: str) -> None:
        """`value` at each part that ends after `start` and not after `end`."""
        self.rows.append((origin, labels, value, start, end))

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        self.queries.append(query)
        if round((end - start) / step) + 1 > self.most:
            raise LimitExceeded(UnknownReason.PROMETHEUS_UNAVAILABLE, "query processing would load too many samples")
        answer: list[dict[str, Any]] = []
        for origin, labels, value, first, last in self.rows:
            if f'"stoker_origin", "{origin}"' not in query:
                continue
            times = [start + step * number for number in range(round((end - start) / step) + 1)]
            values = np.array([(time, value) for time in times if first.timestamp() < time - 1 <= last.timestamp()])
            if len(values):
                answer.append({"metric": {"stoker_origin": origin, **labels}, "values": values})
        return Rows(answer, (), None)

    async def off_loop(self, work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    async def close(self) -> None:
        pass


def add_job_metrics(tape: Tape, uid: str, start: datetime, end: datetime, *, name: str = "bert", gpus: int = 4) -> None:
    """The operator's metrics of a job; a part of a day's report is an hour of so many STEPS."""
    labels = {"uid": uid, "namespace": "nlp", "name": name, "gpus": str(gpus), "team": "nlp"}
    tape.add("info", 1, start, end, **labels)
    tape.add("held", STEPS * gpus, start, end, uid=uid)


def sampled(tape: Tape, start: datetime, end: datetime, *, name: str = "bert", gpus: int = 4, use: float = 0.5) -> None:
    """GPUs of the pods of this name, in each step of the parts."""
    tape.add("sampled", STEPS * gpus, start, end, namespace="nlp", stoker_dljob=name)
    tape.add("used", STEPS * gpus * use, start, end, namespace="nlp", stoker_dljob=name)


@pytest.fixture
def tape() -> Tape:
    tape = Tape()
    tape.add("DCGM_FI_DEV_GPU_UTIL", 97, END - 400 * DAY, END)
    tape.add("watched", STEPS, END - 400 * DAY, END)
    tape.add("recorded", STEPS, END - 400 * DAY, END)
    return tape


async def read(
    tape: Tape, *, start: datetime = END - DAY, end: datetime = END, namespaces: Sequence[str] = ()
) -> UsageRecord:
    usage = PrometheusUsage(PrometheusAccess(url="http://prometheus"))
    await usage.close()
    usage._connection = tape  # type: ignore[assignment]  # what it asks goes to the tape
    return await usage.read(start, end, namespaces)


def job(record: UsageRecord, uid: str | None) -> JobRecord:
    (found,) = (one for one in record.jobs if one.identity.uid == uid)
    return found


@pytest.mark.parametrize("length, most", [(DAY, 18), (7 * DAY, 36), (30 * DAY, 36), (210 * DAY, 40)])
async def test_how_many_queries_it_takes_depends_on_the_period_and_not_on_the_jobs(
    tape: Tape, length: timedelta, most: int
) -> None:
    await read(tape, start=END - length)
    few = len(tape.queries)
    for number in range(200):
        add_job_metrics(tape, f"uid-{number}", END - DAY, END, name=f"job-{number}")
        sampled(tape, END - DAY, END, name=f"job-{number}")
    tape.queries.clear()
    record = await read(tape, start=END - length)
    assert len(tape.queries) == few <= most
    assert len(record.jobs) == 200


@pytest.mark.parametrize("days, minutes", [(1, 60), (7, 360), (30, 1440)])
async def test_a_period_of_whole_days_is_cut_where_people_would_cut_it(tape: Tape, days: int, minutes: int) -> None:
    record = await read(tape, start=END - days * DAY)
    assert record.parts[0].length == timedelta(minutes=minutes)
    assert record.period.start == END - days * DAY
    assert record.parts[0].start == END - 2 * days * DAY
    assert record.parts[-1].end == END


@pytest.mark.parametrize("seconds", [12 * 60, 3 * 3600 + 7 * 60, 100_001, 1_000_003, 9_999_999])
async def test_any_other_period_is_met_within_a_hundredth(tape: Tape, seconds: float) -> None:
    length = timedelta(seconds=seconds)
    record = await read(tape, start=END - length)
    assert abs(record.period.length - length) <= max(0.01 * length, timedelta(minutes=1))
    assert 12 <= len(record.parts) / 2 <= 31
    assert len({part.length for part in record.parts}) == 1


async def test_jobs_that_had_one_name_after_another_have_each_its_own_time(tape: Tape) -> None:
    change = END - timedelta(hours=10)
    add_job_metrics(tape, "first", END - DAY, change)
    add_job_metrics(tape, "second", change, END)
    sampled(tape, END - DAY, change, use=1.0)
    sampled(tape, change, END, use=0.0)
    record = await read(tape)
    assert sum(job(record, "first").used) == pytest.approx(14 * 4)
    assert sum(job(record, "first").sampled) == pytest.approx(14 * 4)
    assert sum(job(record, "second").used) == 0
    assert sum(job(record, "second").sampled) == pytest.approx(10 * 4)


async def test_samples_before_a_job_was_on_record_are_its_own_and_those_after_the_last_are_the_lasts(
    tape: Tape,
) -> None:
    add_job_metrics(tape, "first", END - timedelta(hours=20), END - timedelta(hours=16))
    add_job_metrics(tape, "second", END - timedelta(hours=8), END - timedelta(hours=4))
    sampled(tape, END - DAY, END)
    record = await read(tape)
    assert sum(job(record, "first").sampled) == pytest.approx(8 * 4)
    assert sum(job(record, "second").sampled) == pytest.approx(16 * 4)


async def test_pods_of_no_job_on_record_are_nobodys(tape: Tape) -> None:
    add_job_metrics(tape, "uid", END - DAY, END)
    sampled(tape, END - DAY, END, name="other")
    record = await read(tape)
    nobodys = job(record, None)
    assert (nobodys.identity.name, nobodys.identity.namespace) == ("other", "nlp")
    assert sum(job(record, "uid").held) == pytest.approx(24 * 4)
    assert sum(job(record, "uid").sampled) == 0


async def test_of_a_job_whose_labels_changed_the_last_ones_count(tape: Tape) -> None:
    change = END - timedelta(hours=6)
    for team, start, end in (("old", END - DAY, change), ("new", change, END)):
        tape.add("info", 1, start, end, uid="uid", namespace="nlp", name="bert", gpus="4", team=team)
    record = await read(tape)
    assert job(record, "uid").identity.team == "new"
    assert job(record, "uid").first_seen == 24


async def test_the_jobs_own_namespace_counts_where_the_scrape_has_one_of_its_target(tape: Tape) -> None:
    labels = {"uid": "uid", "namespace": "stoker-system", "exported_namespace": "nlp", "name": "bert", "gpus": "4"}
    tape.add("info", 1, END - DAY, END, **labels)
    record = await read(tape, namespaces=["nlp"])
    assert job(record, "uid").identity.namespace == "nlp"


async def test_a_job_that_lost_its_pods_keeps_the_gpus_model_that_they_chose(tape: Tape) -> None:
    labels = {"uid": "uid", "namespace": "nlp", "name": "bert", "gpus": "4"}
    tape.add("info", 1, END - DAY, END - DAY / 2, **labels, product="NVIDIA-H100-80GB-HBM3")
    tape.add("info", 1, END - DAY / 2, END, **labels, product="", team="speech")
    identity = job(await read(tape), "uid").identity
    assert (identity.product, identity.team) == ("NVIDIA-H100-80GB-HBM3", "speech")


async def test_the_jobs_type_is_read_from_the_label_that_the_operator_writes(tape: Tape) -> None:
    tape.add("info", 1, END - DAY / 24, END, uid="u1", namespace="nlp", name="bert", gpus="4", job_type="Interactive")
    (job,) = (await read(tape)).jobs
    assert job.identity.job_type == "Interactive"


async def test_causes_and_stages_that_this_version_does_not_know_are_left_out(tape: Tape) -> None:
    add_job_metrics(tape, "uid", END - DAY, END)
    tape.add("cause", 3, END - DAY, END, uid="uid", category="TooMuchCoffee", rule="coffee")
    tape.add("cause", 5, END - DAY, END, uid="uid", category="Straggler", rule="straggler")
    tape.add("stage", 5, END - DAY, END, uid="uid", stage="Lunch")
    found = job(await read(tape), "uid")
    assert [cause.rule for cause in found.causes] == ["straggler"]
    assert not found.stages


async def test_running_sums_are_known_from_where_the_period_before_begins(tape: Tape) -> None:
    add_job_metrics(tape, "uid", END - 3 * DAY, END)
    tape.add("cause", 3, END - 3 * DAY, END - 2 * DAY, uid="uid", category="Straggler", rule="straggler")
    tape.add("cause", 8, END - 2 * DAY, END, uid="uid", category="Straggler", rule="straggler")
    record = await read(tape)
    (sums,) = job(record, "uid").causes.values()
    assert sums == (3.0, *[8.0] * len(record.parts))
    assert job(record, "uid").first_seen == 0


async def test_a_server_that_allows_less_is_asked_in_smaller_slices(tape: Tape) -> None:
    add_job_metrics(tape, "uid", END - DAY, END)
    sampled(tape, END - DAY, END)
    tape.most = 3
    assert sum(job(await read(tape), "uid").sampled) == pytest.approx(24 * 4)


async def test_a_server_that_allows_nothing_is_not_asked_for_ever(tape: Tape) -> None:
    tape.most = 0
    with pytest.raises(MetricsUnavailable, match="too many samples"):
        await read(tape)


async def test_a_hostile_namespace_ends_no_string_of_a_query(tape: Tape) -> None:
    await read(tape, namespaces=['x"} or vector(1) #'])
    assert all('x"}' not in query for query in tape.queries)
    assert any('x\\"\\\\} or vector\\\\(1\\\\) #' in query for query in tape.queries)


async def test_without_any_gpu_metric_what_was_held_is_unknown(tape: Tape) -> None:
    tape.rows = [row for row in tape.rows if row[0] not in {"DCGM_FI_DEV_GPU_UTIL", "watched"}]
    add_job_metrics(tape, "uid", END - DAY, END)
    record = await read(tape)
    assert set(record.watched) == {0.0}
    assert sum(job(record, "uid").held) == pytest.approx(24 * 4)
