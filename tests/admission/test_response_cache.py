import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from stoker.adapters.workers import TaskEnd
from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse
from stoker.admission.job_review import JobReviewer
from stoker.admission.response_cache import MAX_RESPONSE, OVERHEAD, SERVER_FIELDS, ResponseCache, ReviewKey
from stoker.cluster.view import ClusterView
from stoker.policy.effective import BUILT_IN
from tests.admission.malformed_reviews import OBJECT, review
from tests.inline_workers import InlineWorkers

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOO_FEW = "torchrun --nproc_per_node=4 train.py\n"
SUPPRESSED = "torchrun --nproc_per_node=4 train.py  # stoker: ignore[launcher-too-few] the other half runs elsewhere\n"


def read(document: dict[str, Any]) -> AdmissionRequest:
    return AdmissionRequest.read(json.dumps(document).encode())


def job(script: str = TOO_FEW, **metadata: Any) -> dict[str, Any]:
    return {
        **OBJECT,
        "metadata": {**OBJECT["metadata"], **metadata},
        "spec": {**OBJECT["spec"], "image": "registry.example/nlp/bert:latest", "script": script},
    }


class Door:
    """A reviewer with its own policies and time; `judged` counts what a worker was asked."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.now = NOW
        self.cache = ResponseCache()
        self.workers = InlineWorkers()
        self.reviewer = JobReviewer(self.view, self.workers, lambda: self.now, self.cache)
        self.namespace("team")
        self.namespace("others")

    def namespace(self, name: str, version: int = 1, **labels: str) -> None:
        metadata = {"name": name, "resourceVersion": str(version), "labels": labels}
        self.view.namespaces.watched(None, {"metadata": metadata})

    def policy(self, version: int, **spec: Any) -> None:
        metadata = {"name": "default", "uid": "u", "generation": version, "resourceVersion": str(version + 1)}
        self.view.policies.watched(None, {"metadata": metadata, "spec": spec})

    @property
    def judged(self) -> int:
        return len(self.workers.asked)

    async def ask(self, document: dict[str, Any]) -> AdmissionResponse:
        return await self.reviewer(read(document))


@pytest.fixture
def door() -> Door:
    return Door()


# ------------------------------------------------------------------------------------------- the same answer, always

_SCRIPTS = st.sampled_from(
    [TOO_FEW, SUPPRESSED, "torchrun train.py\n", "sleep infinity\n", "python a.py\nif", "", "\x1b"]
)
_VALUES: SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 8, -1, 2**40, 1.5, "", "x", "2026-11-21T12:00:00Z", "2026-02-30T12:00:00Z", [], {}]
)
_METADATA = st.dictionaries(
    st.sampled_from([*sorted(SERVER_FIELDS), "resource_version", "finalizers", "generateName", "name", "namespace"]),
    _VALUES | st.just([{"manager": "kubectl"}]),
    max_size=4,
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["ignore.stoker.dev/image-unpinned", "ignore.stoker.dev/launcher-too-few", "note"]),
    st.sampled_from(["", "the tag is immutable", "x"]),
    max_size=2,
)
_SPEC = st.dictionaries(
    st.sampled_from(["gpusPerNode", "nodes", "maxRestarts", "image", "env", "command", "podTemplate"]),
    _VALUES | st.just([{"name": "N", "value": "4"}]),
    max_size=2,
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """A DLJob, which may be malformed."""
    made = copy.deepcopy(job(draw(_SCRIPTS), annotations=draw(_ANNOTATIONS)))
    made["metadata"].update(draw(_METADATA))
    made["spec"].update(draw(_SPEC))
    return made


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """A creation, a dry run or an update."""
    new = draw(objects())
    old = draw(st.none() | objects() | st.just(copy.deepcopy(new)))
    return review("CREATE" if old is None else "UPDATE", new=new, old=old, dryRun=draw(st.booleans()))


@settings(max_examples=60, deadline=None)
@given(st.lists(reviews(), min_size=2, max_size=5))
def test_a_remembered_response_is_what_a_new_review_would_say(documents: list[dict[str, Any]]) -> None:
    async def compare() -> None:
        door = Door()
        for document in [*documents, *documents]:
            fresh = await Door().ask(document)
            given = await door.ask(document)
            request = read(document)
            assert given.write(request) == fresh.write(request)
            assert given.verdict == fresh.verdict

    asyncio.run(compare())


@settings(max_examples=60, deadline=None)
@given(objects(), _METADATA, _METADATA)
def test_objects_with_the_same_key_get_the_same_response(
    made: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = ({**made, "metadata": {**made["metadata"], **metadata}} for metadata in (one, other))
    keys = [ReviewKey.of(read(review(new=document)), BUILT_IN, NOW) for document in (first, second)]
    if keys[0] == keys[1]:
        answers = [asyncio.run(Door().ask(review(new=document))) for document in (first, second)]
        assert answers[0] == answers[1]


async def test_a_dry_run_and_a_repeated_request_cost_one_review(door: Door) -> None:
    dry = await door.ask(review(new=job(uid="a", creationTimestamp="2026-11-21T12:00:00Z"), dryRun=True))
    real = await door.ask(review(new=job(uid="b", creationTimestamp="2026-11-21T12:00:05Z"), uid="another"))
    assert (dry.allowed, real.allowed) == (False, False)
    assert dry == real
    assert real.verdict == dry.verdict
    assert (door.judged, door.cache.hits, door.cache.misses) == (1, 1, 1)


# ------------------------------------------------------------------------------------------ what makes it another one

CREATED = review(new=job())
UPDATED = review("UPDATE", new=job(), old=job("torchrun train.py\n"))


def changed(document: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    inner: Any = made["request"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


DIFFERENT = {
    "script": (CREATED, changed(CREATED, "object", "spec", "script", value="torchrun train.py\n")),
    "a blank in the script": (CREATED, changed(CREATED, "object", "spec", "script", value=f"{TOO_FEW} ")),
    "image": (CREATED, changed(CREATED, "object", "spec", "image", value="bert:1")),
    "a number of another type": (CREATED, changed(CREATED, "object", "spec", "gpusPerNode", value=8.0)),
    "environment": (CREATED, changed(CREATED, "object", "spec", "env", value=[{"name": "A", "value": "1"}])),
    "labels": (CREATED, changed(CREATED, "object", "metadata", "labels", value={"stoker.dev/owner": "bob"})),
    "a suppression by annotation": (
        CREATED,
        changed(CREATED, "object", "metadata", "annotations", value={"ignore.stoker.dev/image-unpinned": "pinned"}),
    ),
    "the reason of a suppression": (
        review(new=job(annotations={"ignore.stoker.dev/image-unpinned": ""})),
        review(new=job(annotations={"ignore.stoker.dev/image-unpinned": "pinned"})),
    ),
    "a suppression in the script": (CREATED, changed(CREATED, "object", "spec", "script", value=SUPPRESSED)),
    "name in the metadata": (CREATED, changed(CREATED, "object", "metadata", "name", value="gpt")),
    "name of the request": (CREATED, changed(CREATED, "name", value="gpt")),
    "namespace": (CREATED, changed(CREATED, "namespace", value="others")),
    "update in place of a creation": (CREATED, review("UPDATE", new=job(), old=job())),
    "old object": (UPDATED, changed(UPDATED, "oldObject", "spec", "script", value=TOO_FEW)),
    "padding": (CREATED, changed(CREATED, "object", "metadata", "annotations", value={"note": "x" * 300_000})),
    "a field of the server of a wrong type": (CREATED, changed(CREATED, "object", "metadata", "uid", value=5)),
    "the order of two variables": (
        changed(CREATED, "object", "spec", "env", value=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        changed(CREATED, "object", "spec", "env", value=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]),
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
async def test_whatever_may_change_the_verdict_makes_another_request(what: str, door: Door) -> None:
    first, second = DIFFERENT[what]
    await door.ask(first)
    given = await door.ask(second)
    assert door.cache.hits == 0
    assert given == await Door().ask(second)


def stricter(door: Door) -> None:
    door.policy(2, rules={"launcher-too-few": {"action": "Warn"}})


def relabelled(door: Door) -> None:
    door.namespace("team", 2, stage="lab")


def deleted(door: Door) -> None:
    door.view.policies.watched("DELETED", {"metadata": {"name": "default", "resourceVersion": "9"}})


SELECTED = {"rules": ["launcher-too-few"], "reason": "x", "namespaceSelector": {"matchLabels": {"stage": "lab"}}}


@pytest.mark.parametrize("change", [stricter, relabelled, deleted])
async def test_another_policy_or_other_labels_of_the_namespace_ask_again(
    change: Callable[[Door], None], door: Door
) -> None:
    door.policy(1, exemptions=[SELECTED], rules={"image-unpinned": {"action": "Deny"}})
    before = await door.ask(CREATED)
    change(door)
    after = await door.ask(CREATED)
    assert door.judged == 2
    assert before != after


async def test_the_end_of_an_exemption_asks_again_and_a_clock_set_back_does_not_mislead(door: Door) -> None:
    until = NOW + timedelta(hours=1)
    door.policy(1, exemptions=[{**SELECTED, "until": until.isoformat()}])
    door.namespace("team", 2, stage="lab")
    answers = []
    for now in (NOW, until - timedelta(seconds=1), until, NOW):
        door.now = now
        answers.append((await door.ask(CREATED)).allowed)
    assert answers == [True, True, False, True]
    assert door.judged == 2


async def test_a_review_that_was_cut_short_is_not_remembered(door: Door) -> None:
    door.workers.end, door.workers.results = TaskEnd.TIME, 1
    assert (await door.ask(CREATED)).allowed
    door.workers.end = None
    assert not (await door.ask(CREATED)).allowed
    await door.ask(review(new=job("f(){ f|f& };f")))
    await door.ask(review(new=job("f(){ f|f& };f")))
    assert door.cache.hits == 0


async def test_an_update_whose_old_object_was_cut_short_is_not_remembered(door: Door) -> None:
    update = review("UPDATE", new=job(), old=job("f(){ f|f& };f"))
    await door.ask(update)
    await door.ask(update)
    assert (door.cache.hits, door.judged) == (0, 2)


async def test_a_policy_that_changes_during_a_review_leaves_nothing_behind(door: Door) -> None:
    old = door.view.in_force.of("team")
    request = read(CREATED)
    early = ReviewKey.of(request, old, NOW)
    assert early is not None
    answer = await door.ask(CREATED)
    stricter(door)
    late = replace(early, policy=door.view.in_force.of("team"))
    assert door.cache.get(late) is None
    door.cache.put(late, answer)
    door.cache.put(replace(early, digest=b"another"), answer)
    assert door.cache.get(replace(late, digest=b"another")) is None


# --------------------------------------------------------------------------------------------------- room and fairness


def key(namespace: str, number: int) -> ReviewKey:
    return ReviewKey(namespace=namespace, policy=BUILT_IN, digest=number.to_bytes(4, "big"))


def response(size: int = 1000) -> AdmissionResponse:
    return AdmissionResponse(allowed=True, message="x" * size, repeatable=True)


def test_whoever_submits_a_thousand_objects_displaces_his_own() -> None:
    cache = ResponseCache(room=100_000)
    cache.put(key("quiet", 0), response())
    for number in range(1000):
        cache.put(key("flood", number), response())
        assert cache.size <= 100_000
    assert cache.get(key("quiet", 0)) == response()
    assert cache.get(key("flood", 999)) == response()
    assert cache.get(key("flood", 0)) is None


def test_what_was_asked_for_last_stays_longest() -> None:
    cache = ResponseCache(room=3 * (1300 + OVERHEAD))
    for number in range(3):
        cache.put(key("team", number), response())
    cache.get(key("team", 0))
    cache.put(key("team", 3), response())
    assert [cache.get(key("team", number)) is not None for number in range(4)] == [True, False, True, True]


def test_another_namespace_does_not_find_it() -> None:
    cache = ResponseCache()
    cache.put(key("team", 1), response())
    assert cache.get(key("others", 1)) is None


def test_what_is_too_large_or_not_repeatable_is_not_remembered() -> None:
    cache = ResponseCache()
    cache.put(key("team", 1), response(MAX_RESPONSE))
    cache.put(key("team", 2), replace(response(), repeatable=False))
    assert cache.size == 0


def test_the_size_is_that_of_what_is_remembered() -> None:
    cache = ResponseCache(room=10 * (1300 + OVERHEAD))
    for number in range(100):
        cache.put(key(f"team-{number % 7}", number), response())
        cache.put(key(f"team-{number % 7}", number), response())
    for namespace in range(7):
        cache.get(replace(key(f"team-{namespace}", 0), policy=replace(BUILT_IN)))
    assert cache.size == 0


def test_an_object_nested_too_deep_to_be_written_has_no_key() -> None:
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    old = {**OBJECT, "status": {"x": nested}}
    request = replace(read(UPDATED), old_object=old)
    assert ReviewKey.of(request, BUILT_IN, NOW) is None
