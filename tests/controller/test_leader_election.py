from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import JOBS, LEASES, TooManyRequestsError, UnavailableError
from stoker.controller.leader_election import (
    DURATION,
    RENEW_DEADLINE,
    REQUEST_TIMEOUT,
    RETRY,
    LeaderElector,
    LeaderOnlyApi,
    LeadershipLostError,
)
from tests.controller.cluster import FakeApi, failing

DOWN = UnavailableError("replace", code=None, reason="ConnectionRefused")


class HeldClock:
    """A clock that moves when a sleep says so; the time of day may be wrong by `skew`."""

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        self.seconds = 0.0
        self.skew = skew

    def now(self) -> datetime:
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.seconds) + self.skew

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def elector(api: FakeApi, clock: HeldClock, identity: str = "a") -> LeaderElector:
    return LeaderElector(api, clock, namespace="stoker-system", name="lease", identity=identity, sleep=clock.sleep)


def holder(api: FakeApi) -> str:
    return str(api.objects[LEASES, "stoker-system", "lease"]["spec"]["holderIdentity"])


def test_a_request_ends_before_the_lease_may_be_taken_over() -> None:
    assert RETRY + REQUEST_TIMEOUT < RENEW_DEADLINE
    assert RENEW_DEADLINE + REQUEST_TIMEOUT < DURATION


async def test_the_first_one_leads() -> None:
    api = FakeApi()
    first = elector(api, HeldClock())
    await first.acquire()
    assert first.is_leader
    assert holder(api) == "a"


@pytest.mark.parametrize("skew", [timedelta(0), timedelta(hours=5), timedelta(hours=-5)])
async def test_a_lease_that_stands_still_is_taken_over_after_its_duration_whatever_its_times_say(
    skew: timedelta,
) -> None:
    api = FakeApi()
    await elector(api, HeldClock()).acquire()
    clock = HeldClock(skew)
    second = elector(api, clock, "b")
    await second.acquire()
    assert clock.seconds >= DURATION
    assert holder(api) == "b"


async def test_a_lease_that_is_renewed_is_not_taken_over() -> None:
    api = FakeApi()
    clock = HeldClock()
    first, second = elector(api, clock), elector(api, clock, "b")
    await first.acquire()
    for _ in range(20):
        clock.seconds += RETRY
        assert await first._try()
        assert not await second._try()
    assert holder(api) == "a"


async def test_a_released_lease_is_taken_at_once() -> None:
    api = FakeApi()
    first = elector(api, HeldClock())
    await first.acquire()
    await first.release()
    clock = HeldClock()
    await elector(api, clock, "b").acquire()
    assert clock.seconds == 0


async def test_without_an_answer_the_leader_gives_up_at_its_deadline_and_before_anybody_can_lead() -> None:
    api = FakeApi()
    clock = HeldClock()
    leader = elector(api, clock)
    await leader.acquire()
    api.before = failing(DOWN)
    with pytest.raises(LeadershipLostError):
        await leader.hold()
    assert RENEW_DEADLINE <= clock.seconds < DURATION
    assert not leader.is_leader


async def test_one_missed_renewal_is_not_a_loss() -> None:
    api = FakeApi()
    clock = HeldClock()
    leader = elector(api, clock)
    await leader.acquire()
    clock.seconds += RETRY
    api.before = failing(DOWN)
    assert await leader._try()
    api.before = lambda _: None
    clock.seconds += RETRY
    assert await leader._try()
    assert leader.is_leader


async def test_a_renewal_that_was_written_though_its_answer_did_not_come_is_not_another_ones() -> None:
    api = FakeApi()
    clock = HeldClock()
    leader = elector(api, clock)
    await leader.acquire()
    api.store(LEASES, "stoker-system", await api.get(LEASES, "stoker-system", "lease"))
    clock.seconds += RENEW_DEADLINE - 1
    assert await leader._try()
    clock.seconds += RENEW_DEADLINE - 1
    assert await leader._try()
    assert (leader.is_leader, holder(api)) == (True, "a")


async def test_a_lease_is_given_back_though_a_renewal_was_written_whose_answer_did_not_come() -> None:
    api = FakeApi()
    leader = elector(api, HeldClock())
    await leader.acquire()
    api.store(LEASES, "stoker-system", await api.get(LEASES, "stoker-system", "lease"))
    await leader.release()
    assert holder(api) == ""


async def test_the_lease_of_another_one_is_not_given_back() -> None:
    api = FakeApi()
    leader = elector(api, HeldClock())
    await leader.acquire()
    lease = await api.get(LEASES, "stoker-system", "lease")
    api.store(LEASES, "stoker-system", lease | {"spec": lease["spec"] | {"holderIdentity": "b"}})
    await leader.release()
    assert holder(api) == "b"


async def test_whoever_finds_another_ones_write_stops_at_once() -> None:
    api = FakeApi()
    clock = HeldClock()
    leader = elector(api, clock)
    await leader.acquire()
    lease = await api.get(LEASES, "stoker-system", "lease")
    api.store(LEASES, "stoker-system", {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}})
    with pytest.raises(LeadershipLostError):
        await leader.hold()
    assert clock.seconds == RETRY


async def test_a_stopped_process_that_wakes_up_late_does_not_lead() -> None:
    clock = HeldClock()
    leader = elector(FakeApi(), clock)
    await leader.acquire()
    clock.seconds += RENEW_DEADLINE
    assert not leader.is_leader


async def test_two_candidates_for_no_lease_do_not_both_lead() -> None:
    api = FakeApi()
    first, second = elector(api, HeldClock()), elector(api, HeldClock(), "b")
    assert [await first._try(), await second._try()] == [True, False]


async def test_release_without_a_lease_asks_nobody() -> None:
    api = FakeApi()
    await elector(api, HeldClock()).release()
    assert not api.requests


async def test_a_process_that_stood_still_writes_nothing_however_far_it_had_come() -> None:
    """It is stopped between its look and its action; before its next renewal it knows by its steady clock alone."""
    api = FakeApi()
    api.store(JOBS, "team", {"metadata": {"name": "job", "namespace": "team"}, "spec": {"suspend": False}})
    clock = HeldClock()
    first = elector(api, clock)
    await first.acquire()
    leaders = LeaderOnlyApi(api, lambda: first.is_leader, sleep=clock.sleep)
    body = {"spec": {"suspend": True}}
    assert (await leaders.patch(JOBS, "team", "job", body))["spec"]["suspend"]
    clock.seconds += RENEW_DEADLINE
    before = await api.get(JOBS, "team", "job")
    for write in (
        leaders.create(JOBS, "team", {"metadata": {"name": "other"}}),
        leaders.patch(JOBS, "team", "job", {"spec": {"suspend": False}}),
        leaders.replace(JOBS, "team", "job", before),
        leaders.delete(JOBS, "team", "job", uid=before["metadata"]["uid"]),
    ):
        with pytest.raises(UnavailableError, match="NotLeading"):
            await write
    assert await leaders.get(JOBS, "team", "job") == before
    assert (await leaders.list(JOBS, "team"))[0] == [before]


async def test_a_write_waits_for_a_renewal_that_is_late() -> None:
    api, clock = FakeApi(), HeldClock()
    api.store(JOBS, "team", {"metadata": {"name": "job", "namespace": "team"}, "spec": {"suspend": False}})
    leaders = LeaderOnlyApi(api, lambda: clock.seconds >= RETRY, sleep=clock.sleep)
    assert (await leaders.patch(JOBS, "team", "job", {"spec": {"suspend": True}}))["spec"]["suspend"]
    assert clock.seconds >= RETRY


async def test_a_refused_write_is_repeated_only_while_this_process_leads() -> None:
    class Throttling(FakeApi):
        refusals = 1

        async def patch(self, *args: Any, **options: Any) -> dict[str, Any]:
            if self.refusals:
                self.refusals -= 1
                raise TooManyRequestsError("patch", retry_after=20.0, reason="TooManyRequests")
            return await super().patch(*args, **options)

    api, clock = Throttling(), HeldClock()
    api.store(JOBS, "team", {"metadata": {"name": "job", "namespace": "team"}, "spec": {"suspend": False}})
    leaders = LeaderOnlyApi(api, lambda: clock.seconds < 20, sleep=clock.sleep)
    with pytest.raises(UnavailableError, match="NotLeading"):
        await leaders.patch(JOBS, "team", "job", {"spec": {"suspend": True}})
    assert not (await api.get(JOBS, "team", "job"))["spec"]["suspend"]
    api.refusals, clock.seconds = 1, -1000.0
    assert (await leaders.patch(JOBS, "team", "job", {"spec": {"suspend": True}}))["spec"]["suspend"]
    assert clock.seconds == -980.0
