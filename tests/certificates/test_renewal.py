"""The webhook's certificate: made, renewed with both authorities trusted, and put right when somebody changed it."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from stoker.adapters.certificates import issue, read_all, serves
from stoker.adapters.kubernetes.client import ConflictError, UnavailableError
from stoker.certificates.renewal import SECRETS, SETTLE, WEBHOOKS, CertificateKeeper, CertificateLocation, Kept, renewed
from tests.controller.cluster import FakeApi, HeldClock

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PLACE = CertificateLocation(
    namespace="stoker-system", secret="tls", webhook="hook", names=("a.b.svc", "a.b.svc.c"), valid=90 * DAY
)


class World:
    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), HeldClock(NOW)
        self.api.store(SECRETS, "stoker-system", {"metadata": {"name": "tls"}})
        hooks: list[dict[str, Any]] = [{"name": name, "clientConfig": {"service": {"name": "a"}}} for name in "xy"]
        self.api.store(WEBHOOKS, None, {"metadata": {"name": "hook"}, "webhooks": hooks})
        self.keeper = CertificateKeeper(self.api, PLACE, self.clock)

    @property
    def kept(self) -> Kept:
        return Kept.of(self.api.objects[SECRETS, "stoker-system", "tls"])

    @property
    def trusted(self) -> list[x509.Certificate]:
        hooks = self.api.objects[WEBHOOKS, None, "hook"]["webhooks"]
        [bundle] = {one["clientConfig"]["caBundle"] for one in hooks}
        assert all(one["clientConfig"]["service"] == {"name": "a"} for one in hooks), "the rest stays as it was"
        return read_all(base64.b64decode(bundle).decode())

    def assert_served_is_trusted(self) -> None:
        assert serves(self.kept.certificate, self.kept.key, self.trusted, PLACE.names)


@pytest.fixture
def world() -> World:
    return World()


async def test_an_empty_secret_is_filled_and_trusted(world: World) -> None:
    await world.keeper.look()
    world.assert_served_is_trusted()
    assert world.keeper.expires == NOW + 90 * DAY
    assert "key" not in {key for key in world.kept.data() if key.startswith("ca")}, "the authority's key is nowhere"


async def test_nothing_is_written_while_all_is_well(world: World) -> None:
    await world.keeper.look()
    world.api.requests.clear()
    world.clock.time += 59 * DAY
    await world.keeper.look()
    assert [one for one in world.api.requests if not one.startswith("get")] == []


async def test_a_renewal_is_trusted_before_it_is_served_and_the_old_one_stays_trusted(world: World) -> None:
    await world.keeper.look()
    first = world.kept
    world.clock.time += 61 * DAY
    await world.keeper.look()
    assert world.kept.certificate == first.certificate
    assert serves(world.kept.next_certificate, world.kept.next_key, world.trusted, PLACE.names)
    world.assert_served_is_trusted()
    world.clock.time += SETTLE - timedelta(seconds=1)
    await world.keeper.look()
    assert world.kept.certificate == first.certificate
    world.clock.time += timedelta(seconds=1)
    await world.keeper.look()
    assert world.kept.certificate != first.certificate
    assert world.kept.next_certificate == ""
    world.assert_served_is_trusted()
    assert serves(first.certificate, first.key, world.trusted, PLACE.names), "pods may still serve with the old one"


async def test_a_certificate_that_is_not_trusted_yet_is_not_served_however_late_it_is(world: World) -> None:
    await world.keeper.look()
    first = world.kept
    world.clock.time += 61 * DAY

    def fail(request: str) -> None:
        if request == "patch validatingwebhookconfigurations":
            raise UnavailableError(request, code=503, reason="later")

    world.api.before = fail
    for _ in range(5):
        with pytest.raises(UnavailableError):
            await world.keeper.look()
        world.clock.time += DAY
    assert world.kept.certificate == first.certificate
    world.api.before = lambda _: None
    await world.keeper.look()
    assert world.kept.certificate == first.certificate, "trusted first"
    await world.keeper.look()
    assert world.kept.certificate != first.certificate
    world.assert_served_is_trusted()


async def test_over_years_what_is_served_is_always_trusted_and_the_bundle_stays_short(world: World) -> None:
    served: dict[str, str] = {}
    for _ in range(3 * 365 * 4):
        await world.keeper.look()
        served[world.kept.certificate] = world.kept.key
        world.assert_served_is_trusted()
        assert read_all(world.kept.certificate)[0].not_valid_after_utc > world.clock.time
        assert len(world.trusted) <= 3
        world.clock.time += DAY / 4
    assert len(served) >= 3 * 365 // 90


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("value", ["", "bm9uc2Vuc2U=", "%%%"], ids=["gone", "nonsense", "not base64"])
async def test_what_somebody_broke_is_put_right(world: World, broken: str, value: str) -> None:
    await world.keeper.look()
    world.api.objects[SECRETS, "stoker-system", "tls"]["data"][broken] = value
    await world.keeper.look()
    world.assert_served_is_trusted()


async def test_a_caBundle_that_somebody_changed_is_put_right(world: World) -> None:  # noqa: N802 - the field's name
    await world.keeper.look()
    del world.api.objects[WEBHOOKS, None, "hook"]["webhooks"][0]["clientConfig"]["caBundle"]
    await world.keeper.look()
    world.assert_served_is_trusted()


async def test_of_two_who_renew_at_once_one_writes(world: World) -> None:
    def fail(request: str) -> None:
        if request == "replace secrets":
            raise ConflictError(request, code=409, reason="Conflict")

    world.api.before = fail
    await world.keeper.look()
    assert "patch validatingwebhookconfigurations" not in world.api.requests, "nothing is trusted that is not kept"


def test_another_name_or_a_foreign_authority_makes_a_new_one() -> None:
    made = issue(["other.svc"], now=NOW, valid=90 * DAY)
    kept = Kept(certificate=made.certificate, key=made.key, authorities=made.authority)
    assert renewed(kept, PLACE, NOW).certificate != made.certificate
    foreign = issue(PLACE.names, now=NOW, valid=90 * DAY)
    kept = Kept(certificate=foreign.certificate, key=foreign.key, authorities=made.authority)
    assert renewed(kept, PLACE, NOW).certificate != foreign.certificate
