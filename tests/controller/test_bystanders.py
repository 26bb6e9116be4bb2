"""No single object, however odd, changes what is said of another job, or keeps it from being looked at."""

import asyncio
from copy import deepcopy
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.adapters.kubernetes.client import DLJOBS
from stoker.cluster.cache import Key
from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import Requeue, WorkQueue
from stoker.controller import scan, scanned_job
from stoker.controller.scan import FAILING, NOT_READY_AFTER, RESTART_AFTER
from stoker.findings.diagnosis import IdlenessState
from stoker.findings.vocabulary import UnknownReason
from tests.controller.passes import KEY
from tests.controller.passes import World as Passes
from tests.controller.test_scan import World
from tests.workload.building import JOB_UID, pod

INDEX = "batch.kubernetes.io/job-completion-index"
BYSTANDERS = ("resting", "busy", "starting")
GUILTY = "guilty"


def world() -> World:
    """Three bystanders in as many states, and a job of somebody else's."""
    made = World()
    made.add("resting")
    made.add("busy")
    made.add("starting", phase="Starting", started=None, ready=False)
    made.add(GUILTY)
    made.metrics.resting |= {"resting", GUILTY}
    made.metrics.summaries["busy"] = 90
    return made


def newer(made: World, collection: str, name: str) -> dict[str, Any]:
    """The next version of an object, to be changed and put."""
    objects = getattr(made.cache, collection)
    (found,) = (
        obj for obj in objects if obj["metadata"]["name"].rpartition("-")[0] == name or name == obj["metadata"]["name"]
    )
    copy: dict[str, Any] = deepcopy(found)
    copy["metadata"]["resourceVersion"] = str(int(copy["metadata"]["resourceVersion"]) + 100_000)
    return copy


async def results(made: World) -> dict[str, tuple[Any, ...]]:
    """What a tick says of the bystanders, whom it examines of them, and which of them it has passed over."""
    await made.scanner.tick()
    queued = made.queue.take()
    found = {}
    for name in BYSTANDERS:
        look = made.scan_results.get(f"uid-{name}")
        assert look is not None
        found[name] = (look.idleness, name in made.metrics.examined, name in queued)
    return found


def set_in(obj: Any, path: tuple[str | int, ...], value: Any) -> None:
    *parents, last = path
    for parent in parents:
        obj = obj[parent] if isinstance(parent, int) else obj.setdefault(parent, {})
    obj[last] = value


POD_FIELDS: tuple[tuple[str | int, ...], ...] = (
    ("metadata", "annotations"),
    ("metadata", "annotations", INDEX),
    ("metadata", "ownerReferences"),
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("spec", "nodeName"),
    ("spec", "nodeSelector"),
    ("spec", "initContainers"),
    ("spec", "ephemeralContainers"),
    ("spec", "resourceClaims"),
    ("spec", "terminationGracePeriodSeconds"),
    ("spec", "hostNetwork"),
    ("spec", "containers"),
    ("spec", "containers", 0, "name"),
    ("spec", "containers", 0, "env"),
    ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "resources", "limits"),
    ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
    ("spec", "containers", 0, "resources", "limits", "cpu"),
    ("status",),
    ("status", "phase"),
    ("status", "conditions"),
    ("status", "conditions", 0, "type"),
    ("status", "conditions", 0, "lastTransitionTime"),
    ("status", "containerStatuses"),
    ("status", "containerStatuses", 0, "restartCount"),
    ("status", "containerStatuses", 0, "state"),
    ("status", "containerStatuses", 0, "state", "running", "startedAt"),
    ("status", "containerStatuses", 0, "lastState"),
    ("status", "initContainerStatuses"),
)
DLJOB_FIELDS: tuple[tuple[str | int, ...], ...] = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "podTemplate"),
    ("spec", "podTemplate", "spec"),
    ("spec", "podTemplate", "spec", "containers"),
    ("spec", "podTemplate", "spec", "priorityClassName"),
    ("spec", "podTemplate", "spec", "terminationGracePeriodSeconds"),
    ("spec", "nodeSelector"),
    ("spec", "script"),
    ("spec", "args"),
    ("spec", "env"),
    ("spec", "resources"),
    ("spec", "reclaim"),
    ("spec", "gpuResource"),
    ("spec", "gpuProduct"),
    ("status", "startTime"),
    ("status", "pods"),
    ("status", "findings"),
    ("status", "utilization"),
    ("status", "reclaim"),
    ("status", "conditions"),
    ("status", "completionTime"),
)
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "-1",
        "٣",
        "1e3",
        "1k",
        "4Ki",
        "1e999999999",
        "9" * 5000,
        "NaN",
        "Infinity",
        "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-11-21T05:00:00",
        "\x00\x1b[2J\ud800",
        "guilty-0 on n: 8 GPUs from 0001-01-01T00:00:00Z",
        "stoker.dev/dljob",
        "a" * 70_000,
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS
WORDS = (
    "name type status nvidia.com/gpu limits resources restartPolicy state running startedAt terminated key value uid"
)
KEYS = st.sampled_from(WORDS.split(" "))
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
CHANGES = st.tuples(st.sampled_from(POD_FIELDS), ANYTHING).map(lambda one: ("pods", *one)) | st.tuples(
    st.sampled_from(DLJOB_FIELDS), ANYTHING
).map(lambda one: ("dljobs", *one))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
async def test_no_single_object_changes_what_is_said_of_another(changes: list[tuple[Any, ...]]) -> None:
    alone, beside = world(), world()
    for collection, path, value in changes:
        odd = newer(beside, collection, GUILTY)
        try:
            set_in(odd, path, value)
        except (TypeError, AttributeError, IndexError, KeyError):
            continue  # an earlier change has taken away what this one is in
        getattr(beside.cache, collection).put(odd)
    assert await results(beside) == await results(alone)


QUANTITIES: list[Any] = ["x", "1k", "4Ki", "1e3", "-8", "1E", "9" * 40, None, {}, ["8"], 2**70]


@pytest.mark.parametrize("amount", QUANTITIES)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
async def test_a_pods_quantity_concerns_its_own_job_alone(amount: Any, where: str) -> None:
    made = world()
    odd = newer(made, "pods", GUILTY)
    container = {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": amount}}}
    odd["spec"].setdefault(where, []).append(container)
    made.cache.pods.put(odd)
    assert await results(made) == await results(world())


@pytest.mark.parametrize("index", ["x", "", "-1", "1.5", "٣", "9" * 5000, "0x10", None])
async def test_an_index_that_is_none_concerns_nobody(index: str | None) -> None:
    """The pod's name tells its rank as well."""
    made = world()
    odd = newer(made, "pods", GUILTY)
    odd["metadata"]["annotations"] = {INDEX: index}
    made.cache.pods.put(odd)
    assert await results(made) == await results(world())
    look = made.scan_results.get(f"uid-{GUILTY}")
    assert look is not None
    assert look.idleness.state is IdlenessState.IDLE


async def test_a_job_that_can_not_be_read_is_unknown_says_why_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = world()
    odd = newer(made, "pods", GUILTY)
    odd["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "a\x1b[2Jb"
    made.cache.pods.put(odd)
    for _ in range(3):
        await made.scanner.tick()
    look = made.scan_results.get(f"uid-{GUILTY}")
    assert look is not None
    assert (look.idleness.state, look.idleness.reason) == (IdlenessState.UNKNOWN, UnknownReason.INTERNAL_ERROR)
    assert "is not a number of GPUs" in look.idleness.message
    assert [record.message.count("left out (scan)") for record in caplog.records if "guilty" in record.message] == [1]
    mended = newer(made, "pods", GUILTY)
    mended["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8"
    made.cache.pods.put(mended)
    await made.scanner.tick()
    look = made.scan_results.get(f"uid-{GUILTY}")
    assert look is not None
    assert look.idleness.state is IdlenessState.IDLE


@pytest.mark.parametrize(
    "module, name",
    [(scanned_job, "screen_request"), *((scan, name) for name in ("works", "_activity", "_looks_low", "diagnose"))],
)
async def test_a_fault_at_any_step_of_the_scan_concerns_one_job_and_is_logged_once(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = getattr(module, name)

    def fails(subject: Any, *args: Any, **options: Any) -> Any:
        facts = getattr(subject, "facts", subject)
        if facts.name == GUILTY:
            raise ArithmeticError(name)
        return real(subject, *args, **options)

    alone, beside = world(), world()
    expected = await results(alone)
    with monkeypatch.context() as patched:
        patched.setattr(module, name, fails)
        assert await results(beside) == expected
        for _ in range(3):
            await beside.tick()
    messages = [record.message for record in caplog.records if "because of an internal error" in record.message]
    assert len(messages) <= 1
    assert all(GUILTY in message for message in messages)


async def test_a_pod_that_only_names_the_job_as_its_owner_is_not_its_pod() -> None:
    made = world()
    fake = newer(made, "pods", "resting")
    fake["metadata"] |= {"name": "resting-0-fake", "uid": "fake"}
    fake["metadata"]["ownerReferences"][0]["controller"] = False
    made.cache.pods.put(fake)
    assert await results(made) == await results(world())


async def test_a_tick_that_fails_shows_in_the_jobs_and_in_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    assert await made.scanner.try_to_tick()
    made.queue.take()

    async def fails(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(made.metrics, "screen", fails)
        for failed in range(1, FAILING + 1):
            assert not await made.scanner.try_to_tick()
            assert (made.queue.take() != []) == (failed == FAILING)
        look = made.scan_results.get("uid-resting")
        assert look is not None
        assert (look.idleness.state, look.idleness.reason) == (IdlenessState.UNKNOWN, UnknownReason.SCAN_FAILED)
        assert not await made.scanner.try_to_tick()
        assert made.queue.take() == [], "it is told once"
        assert (made.scanner.failing(), made.scanner.stalled()) == (None, None)
        for seconds, ready, live in ((NOT_READY_AFTER + 31, False, True), (RESTART_AFTER + 31, False, False)):
            made.clock.seconds = seconds
            assert not await made.scanner.try_to_tick()
            assert (made.scanner.failing() is None, made.scanner.stalled() is None) == (ready, live)
    assert await made.scanner.try_to_tick()
    assert (made.scanner.failing(), made.scanner.stalled()) == (None, None)
    assert {name: look[0].state for name, look in (await results(made)).items()} == {
        name: look[0].state for name, look in (await results(world())).items()
    }


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
async def test_a_pass_over_an_odd_job_ends_in_an_answer_or_in_a_fault_that_its_status_tells(
    changes: list[tuple[Any, ...]],
) -> None:
    """On the real reconciler: whatever it is, it is this key's alone, and the queue goes on with the next."""
    guilty = Passes(status={"jobUID": JOB_UID, "phase": "Running"})
    guilty.put_job()
    guilty.put_pods(pod(0))
    for collection, path, value in changes:
        (known,) = getattr(guilty.cache, collection)
        odd = deepcopy(known)
        try:
            set_in(odd, path, value)
        except (TypeError, AttributeError, IndexError, KeyError):
            continue
        odd["metadata"]["resourceVersion"] = str(int(odd["metadata"]["resourceVersion"]) + 1)
        getattr(guilty.cache, collection).put(odd)
        if collection == "dljobs":
            guilty.api.objects[DLJOBS, "team", "bert"] = odd
    queue: WorkQueue[Key] = WorkQueue(faults=Faults())
    done = asyncio.Event()

    async def handle(key: Key) -> Requeue:
        if key.name == "bystander":
            done.set()
            return None
        return await guilty.reconciler.reconcile(key)

    queue.add(KEY)
    queue.add(Key("other", "bystander"))
    task = asyncio.create_task(queue.run(handle, workers=1))
    await done.wait()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
