"""The reader of logs over an API server that has them in memory; a real one serves them end to end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes import pod_logs
from stoker.adapters.kubernetes.client import ApiError, ForbiddenError, InvalidError, UnavailableError
from stoker.adapters.kubernetes.pod_logs import BYTES, PODS, PodLogs
from stoker.telemetry.series import JobFacts, LogMark, MarkKind, PodFacts

START = datetime(2026, 11, 21, 5, 40, tzinfo=UTC)
CHATTER = "x" * 100


def line(seconds: float, text: str) -> str:
    return f"{(START + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {text}\n"


@dataclass
class Clock:
    """Stands still until it is moved."""

    time: datetime = START
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    def move(self, **by: float) -> None:
        step = timedelta(**by)
        self.time += step
        self.seconds += step.total_seconds()


@dataclass
class Api:
    """Logs by pod, as an API server serves them."""

    logs: Mapping[str, str]
    error: ApiError | None = None
    asked: list[tuple[str, str, datetime | None, int]] = field(default_factory=list)

    async def log(
        self, namespace: str, pod: str, *, container: str, since: datetime | None, limit: int, timeout: float
    ) -> bytes:
        self.asked.append((pod, container, since, limit))
        if self.error is not None:
            raise self.error
        lines = self.logs.get(pod, "").splitlines(keepends=True)
        second = None if since is None else since.strftime("%Y-%m-%dT%H:%M:%S")
        return "".join(one for one in lines if second is None or one[:19] >= second).encode()[:limit]


def job(pods: int = 1, **changes: Any) -> JobFacts:
    members = tuple(
        PodFacts(name=f"bert-{rank}", uid=f"u{rank}", rank=rank, gpus=8, started_at=START, ready=True)
        for rank in range(pods)
    )
    facts = JobFacts(namespace="nlp", name="bert", uid="job", nodes=pods, gpus_per_node=8, pods=members)
    return replace(facts, pods=tuple(replace(pod, **changes) for pod in members))


def texts(marks: tuple[LogMark, ...]) -> list[str]:
    return [mark.text for mark in marks]


async def test_each_look_reads_on_where_the_last_one_ended() -> None:
    api = Api({"bert-0": line(0, "Collecting torch==2.4") + line(60, "Epoch 1/90")})
    clock = Clock()
    logs = PodLogs(api, clock)
    assert texts(await logs.marks(job())) == ["Collecting torch==2.4", "Epoch 1/90"]
    clock.move(minutes=2)
    api.logs = {"bert-0": api.logs["bert-0"] + line(90, "Saving model checkpoint to /ckpt")}
    found = await logs.marks(job())
    assert [mark.kind for mark in found] == [MarkKind.INSTALL, MarkKind.EPOCH, MarkKind.CHECKPOINT]
    assert [asked[2] for asked in api.asked] == [None, START + timedelta(seconds=60)]


async def test_only_the_trainer_of_the_first_ranks_is_read() -> None:
    api = Api({})
    await PodLogs(api, Clock()).marks(job(pods=64))
    assert [(pod, container) for pod, container, *_ in api.asked] == [
        (f"bert-{rank}", "trainer") for rank in range(PODS)
    ]


async def test_a_container_that_has_not_started_is_not_asked_for() -> None:
    api = Api({})
    assert await PodLogs(api, Clock()).marks(job(started_at=None)) == ()
    assert api.asked == []


async def test_a_piece_is_bounded_and_its_cut_line_is_left_for_the_next() -> None:
    chatter = "".join(line(number / 100, CHATTER) for number in range(4_000))
    api = Api({"bert-0": chatter + line(60, "Epoch 1/90")})
    clock = Clock(time=START + timedelta(minutes=1))
    logs = PodLogs(api, clock)
    assert await logs.marks(job()) == ()
    assert [asked[3] for asked in api.asked] == [BYTES]
    for _ in range(3):
        found = await logs.marks(job())
    assert texts(found) == ["Epoch 1/90"]


async def test_a_program_that_writes_faster_than_is_read_is_met_again_in_the_present() -> None:
    chatter = "".join(line(number / 7, CHATTER) for number in range(20_000))
    api = Api({"bert-0": line(0, "Collecting torch==2.4") + chatter + line(3_000, "Epoch 7/90")})
    clock = Clock(time=START + timedelta(seconds=3_010))
    logs = PodLogs(api, clock)
    for _ in range(8):
        found = await logs.marks(job())
    assert texts(found) == ["Collecting torch==2.4", "Epoch 7/90"]
    assert len(api.asked) == 8


@pytest.mark.parametrize("kind", [InvalidError, UnavailableError, ApiError])
async def test_a_failed_read_leaves_what_is_known(kind: type[ApiError]) -> None:
    api = Api({"bert-0": line(0, "Epoch 1/90")})
    logs = PodLogs(api, Clock())
    before = await logs.marks(job())
    api.error = kind("GET /log", code=500, reason="broken")
    assert await logs.marks(job()) == before
    api.error = None
    api.logs = {"bert-0": api.logs["bert-0"] + line(30, "Epoch 2/90")}
    assert texts(await logs.marks(job())) == ["Epoch 1/90", "Epoch 2/90"]


async def test_a_refusal_is_said_once_and_nothing_is_asked_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    api = Api({}, error=ForbiddenError("GET /log", code=403, reason="Forbidden"))
    clock = Clock()
    logs = PodLogs(api, clock)
    for _ in range(5):
        assert await logs.marks(job(pods=4)) == ()
        clock.move(minutes=1)
    assert len(api.asked) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "controller.readLogs" in caplog.text
    clock.move(minutes=10)
    await logs.marks(job())
    assert len(api.asked) == 2


async def test_a_slow_api_server_holds_a_job_up_for_no_longer_than_its_patience() -> None:
    class Slow(Api):
        async def log(self, *args: Any, **options: Any) -> bytes:
            if self.asked:
                await asyncio.Event().wait()
            return await super().log(*args, **options)

    api = Slow({"bert-0": line(0, "Epoch 1/90")})
    assert texts(await PodLogs(api, Clock(), patience=0.05).marks(job(pods=4))) == ["Epoch 1/90"]


async def test_reads_are_limited_for_all_jobs_together() -> None:
    api = Api({})
    clock = Clock()
    logs = PodLogs(api, clock, reads=10)
    for _ in range(20):
        await logs.marks(job(pods=2))
    assert len(api.asked) == 10
    clock.move(minutes=1)
    await logs.marks(job(pods=2))
    assert len(api.asked) == 12


async def test_the_log_of_a_pod_that_is_over_is_read_to_its_end_once() -> None:
    api = Api({"bert-0": line(0, "Epoch 1/90")})
    logs = PodLogs(api, Clock())
    over = job(finished_at=START + timedelta(hours=1))
    assert await logs.marks(over) == await logs.marks(over)
    assert len(api.asked) == 1


async def test_pods_are_forgotten_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "REMEMBERED", 3)
    logs = PodLogs(Api({}), Clock(), reads=1000)
    for number in range(10):
        await logs.marks(job(uid=f"other-{number}"))
    assert len(logs._readings) == 3


async def test_marks_are_forgotten_beyond_a_bound_those_read_least_lately_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_logs, "MARKS", 25)
    ten = "".join(line(60 * epoch, f"Epoch {epoch}/90") for epoch in range(1, 11))
    logs = PodLogs(Api({"bert-0": ten}), Clock(), reads=1000)
    for number in range(8):
        assert len(await logs.marks(job(uid=f"other-{number}"))) == 10
    assert list(logs._readings) == ["other-5", "other-6", "other-7"]


async def test_of_a_pod_that_only_the_status_remembers_no_log_is_asked_for() -> None:
    api = Api({"bert-0": line(0, "Epoch 1/90")})
    logs = PodLogs(api, Clock())
    assert await logs.marks(job(uid="")) == ()
    assert api.asked == []
