import asyncio

import pytest

from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, UnavailableError
from stoker.cluster import watch
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.cluster.watch import Resync, SilentWatchError, feeding, kopf_settings, queue_jobs
from stoker.cluster.workqueue import WorkQueue
from tests.controller.cluster import FakeApi
from tests.workload.building import dljob_object, job


def world() -> tuple[FakeApi, ClusterCache, WorkQueue[Key], Resync]:
    api, cache, queue = FakeApi(), ClusterCache(Faults()), WorkQueue[Key](faults=Faults())
    return api, cache, queue, Resync(api, cache, queue, SystemClock())


async def test_a_list_fills_the_store_and_has_every_job_looked_at() -> None:
    api, cache, queue, resync = world()
    api.store(DLJOBS, None, dljob_object())
    assert resync.not_listed() is not None
    await resync.once()
    assert resync.not_listed() is None
    assert cache.dljobs.get(Key("team", "bert")) is not None
    assert len(queue) == 1


async def test_what_was_deleted_in_a_gap_of_the_watch_goes() -> None:
    api, cache, _, resync = world()
    raw = api.store(DLJOBS, None, dljob_object())
    await resync.once()
    cache.dljobs.watched(None, raw)
    del api.objects[DLJOBS, None, "bert"]
    api.store(JOBS, None, job())  # time goes on
    await resync.once()
    assert cache.dljobs.get(Key("team", "bert")) is None


async def test_a_watch_that_stays_silent_from_one_list_to_the_next_ends_the_process() -> None:
    api, _, _, resync = world()
    api.store(DLJOBS, None, dljob_object())
    await resync.once()
    with pytest.raises(SilentWatchError, match="dljobs has missed 1"):
        await resync.once()


async def test_the_list_after_a_watch_has_begun_anew_does_not_judge_it() -> None:
    api, _, _, resync = world()
    api.store(DLJOBS, None, dljob_object())
    await resync.once()
    resync.watch_began_anew()
    await resync.once()
    with pytest.raises(SilentWatchError, match="dljobs has missed 1"):
        await resync.once()


async def test_nor_does_the_list_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    api, _, _, resync = world()
    api.store(DLJOBS, None, dljob_object())
    await resync.once()
    resync.watch_began_anew()

    def refuse(request: str) -> None:
        raise UnavailableError(request, code=None, reason="ClientError")

    api.before = refuse
    with pytest.raises(UnavailableError):
        await resync.once()
    api.before = lambda _: None
    await resync.once()
    with pytest.raises(SilentWatchError, match="dljobs has missed 1"):
        await resync.once()


async def test_a_watch_that_has_begun_anew_is_followed_by_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BEGUN_ANEW", 0.0)
    api, cache, _, resync = world()
    raw = api.store(DLJOBS, None, dljob_object())
    running = asyncio.create_task(resync.run(interval=3600.0, retry=3600.0))
    await resync.done.wait()
    del api.objects[DLJOBS, None, "bert"]
    api.store(JOBS, None, job())  # time goes on
    cache.dljobs.watched(None, raw)
    resync.watch_began_anew()
    async with asyncio.timeout(60):
        while cache.dljobs.get(Key("team", "bert")) is not None:
            await asyncio.sleep(0)
    running.cancel()


def test_a_watch_has_begun_anew_when_its_initial_list_has_what_it_delivered_before() -> None:
    _, cache, queue, _ = world()
    begun_anew = list[int]()
    handle = feeding(DLJOBS, cache, queue, lambda: begun_anew.append(1))
    first = dljob_object()
    handle(None, first)
    handle("MODIFIED", first)
    assert not begun_anew
    handle(None, first)
    assert len(begun_anew) == 1
    handle("DELETED", first)
    handle(None, first)
    assert len(begun_anew) == 1, "made again under the same name"


@pytest.mark.parametrize("namespace, looked_at", [("team", 1), ("other", 0)])
async def test_where_another_policy_may_hold_the_jobs_are_looked_at(namespace: str, looked_at: int) -> None:
    _, cache, queue, _ = world()
    Policies(cache.policies, cache.namespaces).follow(queue_jobs(cache, queue))
    cache.dljobs.put(dljob_object())
    metadata = {"resourceVersion": "1", "uid": "u", "generation": 1}
    cache.namespaces.watched("MODIFIED", {"metadata": {"name": namespace, **metadata}})
    assert len(queue) == looked_at
    cache.policies.watched("ADDED", {"metadata": {"name": "default", **metadata}, "spec": {}})
    assert len(queue) == 1


async def test_the_status_of_a_policy_wakes_no_job() -> None:
    _, cache, queue, _ = world()
    Policies(cache.policies, cache.namespaces).follow(queue_jobs(cache, queue))
    metadata = {"name": "default", "uid": "u", "generation": 1}
    cache.policies.watched("ADDED", {"metadata": {**metadata, "resourceVersion": "1"}, "spec": {}})
    cache.dljobs.put(dljob_object())
    cache.policies.watched("MODIFIED", {"metadata": {**metadata, "resourceVersion": "2"}, "spec": {}, "status": {}})
    assert len(queue) == 0


def test_kopf_only_watches_and_reads_only_labelled_jobs_and_pods() -> None:
    settings = kopf_settings(exit_timeout=1)
    for plural in ("jobs", "pods"):
        group = "batch" if plural == "jobs" else ""
        assert settings.watching.label_selectors[group, "v1", plural] == "stoker.dev/dljob"
    assert len(settings.watching.label_selectors) == 2
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.admission.managed is None


async def test_in_some_namespaces_only_their_objects_are_listed() -> None:
    api, cache, queue = FakeApi(), ClusterCache(Faults()), WorkQueue[Key](faults=Faults())
    resync = Resync(api, cache, queue, SystemClock(), namespaces=["team", "empty"])
    api.store(DLJOBS, "team", dljob_object())
    api.store(DLJOBS, "other", dljob_object("elsewhere"))
    api.store(NAMESPACES, None, {"metadata": {"name": "team", "uid": "u", "generation": 1}})
    await resync.once()
    assert list(cache.dljobs.objects) == [Key("team", "bert")]
    assert list(cache.namespaces.objects) == [Key("", "team")]
