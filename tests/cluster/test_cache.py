import random
from typing import Any

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, PODS, Object
from stoker.cluster.cache import ClusterCache, Collection, Key, concerned, owner_key, version_of
from stoker.cluster.faults import Faults
from tests.workload.building import JOB_UID, job, pod


def obj(name: str, version: int, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "resourceVersion": str(version)}, **fields}


KEY = Key("team", "a")


def test_the_newest_version_wins_whichever_way_it_came() -> None:
    collection = Collection()
    assert collection.put(obj("a", 5, n=5))
    assert not collection.put(obj("a", 4, n=4))
    assert not collection.put(obj("a", 5, n=5))
    assert collection.watched("MODIFIED", obj("a", 10, n=10))
    assert collection.objects[KEY]["n"] == 10


def test_a_late_event_or_answer_does_not_bring_a_deleted_object_back() -> None:
    collection = Collection()
    collection.put(obj("a", 5))
    assert collection.watched("DELETED", obj("a", 7))
    assert not collection.put(obj("a", 6))
    assert collection.get(KEY) is None
    assert collection.put(obj("a", 8))


def test_the_deletion_of_an_earlier_namesake_does_not_remove_the_new_one() -> None:
    collection = Collection()
    collection.put(obj("a", 9))
    assert not collection.watched("DELETED", obj("a", 7))
    assert collection.get(KEY) is not None


def test_a_list_finds_what_the_watch_has_missed() -> None:
    collection = Collection()
    collection.put(obj("a", 1))
    collection.put(obj("b", 2))
    changed = collection.compare([obj("b", 4), obj("c", 3)], version=5)
    assert {one["metadata"]["name"] for one in changed} == {"a", "b", "c"}
    assert sorted(key.name for key in collection.objects) == ["b", "c"]


def test_a_list_does_not_undo_what_is_newer_than_it() -> None:
    collection = Collection()
    collection.put(obj("new", 9))
    collection.watched("DELETED", obj("gone", 8))
    collection.compare([obj("gone", 3)], version=5)
    assert [key.name for key in collection.objects] == ["new"]


def test_it_is_not_listed_before_a_list_even_of_nothing() -> None:
    collection = Collection()
    collection.watched("ADDED", obj("a", 1))
    before = collection.is_listed
    collection.compare([], version=2)
    assert (before, collection.is_listed) == (False, True)
    assert list(collection) == []


def test_a_late_event_does_not_undo_a_newer_list() -> None:
    collection = Collection()
    collection.compare([obj("a", 7, n=7)], version=8)
    collection.watched("MODIFIED", obj("a", 5, n=5))
    assert collection.objects[KEY]["n"] == 7


def test_a_late_list_does_not_undo_a_newer_event() -> None:
    collection = Collection()
    collection.watched("MODIFIED", obj("a", 9, n=9))
    collection.compare([obj("a", 7, n=7)], version=8)
    assert collection.objects[KEY]["n"] == 9


def test_a_deletion_is_forgotten_after_the_next_list() -> None:
    collection = Collection()
    collection.watched("ADDED", obj("a", 5))
    collection.watched("DELETED", obj("a", 9))
    collection.compare([], version=10)
    assert collection.deleted == {}


def test_what_is_created_again_is_there_again() -> None:
    collection = Collection()
    collection.watched("ADDED", obj("a", 5))
    collection.watched("DELETED", obj("a", 9))
    collection.watched("ADDED", obj("a", 10, n=10))
    assert collection.objects[KEY]["n"] == 10


def test_any_order_of_events_and_lists_ends_in_what_the_last_list_says() -> None:
    """A history of one object, told in any order and with any gaps, then a list: the collection agrees with it."""
    for seed in range(300):
        rng = random.Random(seed)
        collection = Collection()
        history: list[tuple[str, Object]] = []
        for version in range(1, 20):
            exists = bool(history) and history[-1][0] != "DELETED"
            kind = rng.choice(["MODIFIED", "DELETED"]) if exists else "ADDED"
            history.append((kind, obj("a", version, n=version)))
        told = [event for event in history if rng.random() < 0.7]
        steps: list[tuple[str, Object] | int] = [*told, *rng.sample(range(1, 20), 3)]
        rng.shuffle(steps)
        steps.append(20)
        for step in steps:
            if isinstance(step, int):
                kind, last = history[min(step, 19) - 1]
                collection.compare([] if kind == "DELETED" else [last], step)
            else:
                collection.watched(*step)
        kind, last = history[-1]
        known = collection.get(KEY)
        assert (known and known["n"]) == (None if kind == "DELETED" else last["n"]), f"seed {seed}"


def test_a_follower_is_told_of_what_is_there_and_of_every_change_once() -> None:
    collection = Collection()
    collection.put(obj("a", 1))
    told: list[tuple[str, int | None]] = []
    collection.follow(lambda key, one: told.append((key.name, None if one is None else version_of(one))))
    collection.watched("ADDED", obj("b", 2))
    collection.watched("MODIFIED", obj("b", 3))
    collection.compare([obj("b", 3), obj("c", 4)], version=5)
    collection.watched("ADDED", obj("c", 4))
    collection.watched("DELETED", obj("b", 6))
    collection.watched("DELETED", obj("b", 6))
    assert told == [("a", 1), ("b", 2), ("b", 3), ("a", None), ("c", 4), ("b", None)]


def test_a_watch_that_does_not_tell_until_the_next_list_is_silent() -> None:
    collection = Collection()
    collection.compare([obj("a", 1), obj("b", 1)], version=1)
    collection.watched(None, obj("a", 1))
    assert collection.overdue == 0
    collection.compare([obj("a", 1), obj("b", 1)], version=2)
    assert collection.overdue == 1
    collection.compare([obj("a", 1), obj("b", 1)], version=3)
    assert collection.overdue == 1, "as long as it has not told"
    collection.watched("ADDED", obj("b", 1))
    collection.compare([obj("a", 1), obj("b", 1)], version=4)
    assert collection.overdue == 0


def test_a_watch_that_tells_late_but_before_the_next_list_is_not() -> None:
    collection = Collection()
    collection.compare([obj("a", 1)], version=1)
    collection.watched("MODIFIED", obj("a", 2))
    collection.compare([obj("a", 2)], version=3)
    assert collection.overdue == 0


def test_managed_fields_are_not_kept() -> None:
    collection = Collection()
    given = obj("a", 1)
    given["metadata"]["managedFields"] = [{}]
    collection.put(given)
    assert "managedFields" not in collection.objects[KEY]["metadata"]
    assert "managedFields" in given["metadata"], "the caller's object is not changed"


def test_what_nobody_reads_is_not_kept() -> None:
    """A flood of large objects: the copies that kubectl keeps, and the script in each pod and in the Job's template."""
    cache = ClusterCache(Faults())
    large = "x" * 100_000
    big = pod(0)
    big["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = large
    big["spec"]["containers"][0] |= {"command": ["sh", "-c", large], "args": [large]}
    cache.pods.put(big)
    made = job()
    made["spec"]["template"] = {"spec": {"containers": [{"command": [large]}]}}
    cache.jobs.put(made)
    for collection in (cache.pods, cache.jobs):
        (kept,) = collection
        assert len(str(kept)) < 5_000
    (kept,) = cache.pods_of(Key("team", "bert"), JOB_UID)
    assert kept["spec"]["containers"][0]["resources"] == big["spec"]["containers"][0]["resources"]
    assert kept["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "0"}
    assert len(str(big)) > 300_000, "the caller's object is not changed"


def test_of_a_pod_that_no_job_made_only_its_name_is_kept() -> None:
    """Anybody may make pods with the label."""
    cache = ClusterCache(Faults())
    fake = pod(0)
    fake["metadata"]["ownerReferences"] = [{"uid": JOB_UID, "controller": False}]
    cache.pods.put(fake)
    (kept,) = cache.pods
    assert kept.keys() == {"metadata"}
    assert cache.pods_of(Key("team", "bert"), JOB_UID) == []
    assert cache.pods.compare([fake], version=20) == [], "it is known"


def test_where_versions_go_back_the_list_counts() -> None:
    """As after a restore of etcd from a backup: nothing that is known can be compared with what there is."""
    collection = Collection()
    told: list[tuple[str, bool]] = []
    collection.compare([obj("a", 90, n=90), obj("gone", 95)], version=100)
    collection.watched("DELETED", obj("back", 97))
    collection.follow(lambda key, one: told.append((key.name, one is not None)))
    told.clear()
    changed = collection.compare([obj("a", 40, n=40), obj("back", 30)], version=50)
    assert {key.name: one.get("n") for key, one in collection.objects.items()} == {"a": 40, "back": None}
    assert told == [("gone", False), ("a", True), ("back", True)]
    assert {one["metadata"]["name"] for one in changed} == {"a", "gone", "back"}
    assert collection.watched("MODIFIED", obj("a", 51, n=51)), "events count as ever"
    collection.compare([obj("a", 51, n=51), obj("back", 30)], version=52)
    assert (collection.overdue, collection.objects[KEY]["n"]) == (0, 51)


def test_a_follower_that_fails_on_an_object_keeps_nobody_from_being_told() -> None:
    collection = Collection()
    told: list[str] = []

    def fails(key: Key, _: Object | None) -> None:
        if key.name == "odd":
            raise ValueError(key.name)

    collection.follow(fails)
    collection.follow(lambda key, _: told.append(key.name))
    collection.compare([obj("odd", 1), obj("a", 2)], version=3)
    assert told == ["odd", "a"]


def test_pods_are_those_of_the_job_and_not_of_an_earlier_one() -> None:
    cache = ClusterCache(Faults())
    cache.pods.put(pod(0))
    cache.pods.put(pod(1))
    other = pod(2)
    other["metadata"]["ownerReferences"] = [{"controller": True, "uid": "an earlier Job"}]
    cache.pods.put(other)
    names = {one["metadata"]["name"] for one in cache.pods_of(Key("team", "bert"), JOB_UID)}
    assert names == {"bert-0-abcde", "bert-1-abcde"}
    cache.pods.watched("DELETED", pod(0) | {"metadata": pod(0)["metadata"] | {"resourceVersion": "99"}})
    assert len(cache.pods_of(Key("team", "bert"), JOB_UID)) == 1


def test_an_event_leads_to_the_dljob_it_concerns() -> None:
    assert concerned(DLJOBS, obj("a", 1)) == KEY
    assert concerned(PODS, pod()) == concerned(JOBS, pod()) == owner_key(pod()) == Key("team", "bert")
    assert concerned(JOBS, obj("unlabelled", 1)) is None
    assert concerned(NAMESPACES, obj("team", 1)) is None
