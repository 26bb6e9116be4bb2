"""What is known of a job's pods, also of those that are gone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.api.status import MAX_PODS
from stoker.telemetry.series import Attempt, JobFacts, PodFacts
from stoker.workload import ProgramFacts, facts_of, job_facts, pod_facts, remembered, run_to_status
from tests.workload.building import dljob, job, pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-21T{text}Z")


def facts(
    pods: list[dict[str, Any]], *, runs: tuple[dict[str, Any], ...] = (), child: Any = None, **spec: Any
) -> JobFacts:
    owner = dljob(status={"pods": list(runs)}, **spec)
    return job_facts(owner, pods, ProgramFacts(), child=child or job(), now=NOW)


def past_run(name: str, start: str, end: str | None = None) -> dict[str, Any]:
    """An entry of `status.pods` of rank 0."""
    entry = {"name": name, "rank": 0, "node": "gpu-3", "gpus": 8, "since": f"2026-11-21T{start}Z"}
    return entry if end is None else {**entry, "until": f"2026-11-21T{end}Z"}


def named(suffix: str, rank: int = 0, **options: Any) -> dict[str, Any]:
    made = pod(rank, **options)
    made["metadata"] |= {"name": f"bert-{rank}-{suffix}", "uid": f"uid-{suffix}"}
    return made


def ended(suffix: str, start: str, end: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 1, "startedAt": f"2026-11-21T{start}Z", "finishedAt": f"2026-11-21T{end}Z"}}
    return named(suffix, ready=False, phase="Failed", state=state)


def condition(kind: str, status: str, time: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": f"2026-11-21T{time}Z"}


def test_a_run_can_be_read_back() -> None:
    run = PodFacts(name="bert-12-x7k2p", uid="", rank=12, node="gpu-1", gpus=8, started_at=at("05:00:00"))
    entry = run_to_status(run)
    assert entry == {"name": "bert-12-x7k2p", "rank": 12, "node": "gpu-1", "gpus": 8, "since": "2026-11-21T05:00:00Z"}
    (former,) = facts([named("new", 12, started="2026-11-21T07:00:00Z")], runs=(entry,)).former_pods
    assert (former.name, former.rank, former.node, former.gpus) == ("bert-12-x7k2p", 12, "gpu-1", 8)


@pytest.mark.parametrize(
    "entry",
    [
        "bert-0-aaaaa on gpu-3: 8 GPUs from 2026-11-21T02:00:00Z",
        {},
        {**past_run("bert-0-a", "02:00:00"), "since": "yesterday"},
        {**past_run("bert-0-a", "02:00:00"), "rank": "first"},
        {**past_run("bert-0-a", "02:00:00"), "since": "0001-01-01T00:00:00Z"},
        {**past_run("bert-0-a", "02:00:00"), "until": "9999-12-31T23:59:59Z"},
    ],
)
def test_an_entry_that_can_not_be_read_is_left_out(entry: Any) -> None:
    assert facts([], runs=(entry,)).pods == ()


def test_of_each_rank_the_latest_pod_counts_and_those_before_are_former_ones() -> None:
    old, new = ended("aaaaa", "05:00:00", "05:30:00"), named("bbbbb", started="2026-11-21T05:31:00Z")
    old["metadata"]["creationTimestamp"], new["metadata"]["creationTimestamp"] = (
        "2026-11-21T04:59:00Z",
        "2026-11-21T05:30:10Z",
    )
    found = facts([new, old])
    assert [one.name for one in found.pods] == ["bert-0-bbbbb"]
    assert [(one.name, one.finished_at) for one in found.former_pods] == [("bert-0-aaaaa", at("05:30:00"))]


def test_a_pod_that_only_the_status_remembers_is_a_former_pod_with_what_its_template_says() -> None:
    found = facts([named("bbbbb")], runs=(past_run("bert-0-aaaaa", "02:00:00", "03:00:00"),))
    (former,) = found.former_pods
    assert (former.started_at, former.finished_at, former.cpu_limit) == (at("02:00:00"), at("03:00:00"), 0.5)


def test_without_any_pod_the_status_tells_of_the_last_ones() -> None:
    done = job(conditions=[{**condition("Complete", "True", "11:00:00"), "reason": "Done"}])
    found = facts([], runs=(past_run("bert-0-aaaaa", "02:00:00"),), child=done)
    (last,) = found.pods
    assert (last.name, last.finished_at, found.former_pods) == ("bert-0-aaaaa", at("11:00:00"), ())


@pytest.mark.parametrize(
    "child, present, end",
    [
        (job(), [], "12:00:00"),
        (job(suspend=True, conditions=[condition("Suspended", "True", "10:00:00")]), [], "10:00:00"),
        (job(conditions=[{**condition("Failed", "True", "09:00:00"), "reason": "x"}]), [], "09:00:00"),
        (job(), [named("bbbbb", started="2026-11-21T08:00:00Z")], "08:00:00"),
        (job(), [named("bbbbb", rank=1, started="2026-11-21T08:00:00Z")], "12:00:00"),
        # It was suspended before the run began.
        (job(conditions=[condition("Suspended", "True", "01:00:00")]), [], "12:00:00"),
        (None, [], "12:00:00"),
    ],
)
def test_a_run_that_vanished_ended_when_something_is_known_to_have_ended_it(
    child: Any, present: list[dict[str, Any]], end: str
) -> None:
    owner = dljob(nodes=2, status={"pods": [past_run("bert-0-aaaaa", "02:00:00")]})
    runs = remembered(owner.status, facts_of(present, "nvidia.com/gpu"), child, NOW)
    assert runs[0].finished_at == at(end)


def test_what_is_remembered_is_bounded_and_the_oldest_runs_fall_out() -> None:
    entries = [past_run(f"bert-0-a{number:04}", "02:00:00", "03:00:00") for number in range(MAX_PODS)]
    owner = dljob(status={"pods": entries})
    runs = remembered(owner.status, [pod_facts(named("fresh"), "nvidia.com/gpu")], job(), NOW)
    assert len(runs) == MAX_PODS
    assert runs[-1].name == "bert-0-fresh"


def test_a_pod_that_never_started_is_no_run() -> None:
    owner = dljob()
    assert remembered(owner.status, [pod_facts(pod(started=None), "nvidia.com/gpu")], job(), NOW) == ()


# --------------------------------------------------------------------------------------------------- one pod


def test_a_container_that_was_started_anew_has_an_earlier_attempt() -> None:
    again = named("aaaaa", started="2026-11-21T06:00:00Z")
    again["status"]["containerStatuses"][0] |= {
        "restartCount": 1,
        "lastState": {"terminated": {"startedAt": "2026-11-21T05:00:00Z", "finishedAt": "2026-11-21T05:59:00Z"}},
    }
    found = pod_facts(again, "nvidia.com/gpu")
    assert found.attempts == (Attempt(started_at=at("05:00:00"), finished_at=at("05:59:00")),)
    (run,) = remembered(dljob().status, [found], job(), NOW)
    assert run.started_at == at("05:00:00")


def test_a_pod_that_waits_holds_its_gpus_since_it_was_scheduled_and_says_what_it_waits_for() -> None:
    waits = named("aaaaa", started=None, ready=False, conditions=[condition("PodScheduled", "True", "05:00:00")])
    waits["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ImagePullBackOff"}}
    found = pod_facts(waits, "nvidia.com/gpu")
    assert (found.scheduled_at, found.waiting_for, found.started_at) == (at("05:00:00"), "ImagePullBackOff", None)


def test_nothing_started_before_it_was_scheduled() -> None:
    """The scheduler's clock and the node's differ."""
    late = named("aaaaa", started="2026-11-21T05:00:00Z", conditions=[condition("PodScheduled", "True", "05:00:02")])
    assert pod_facts(late, "nvidia.com/gpu").scheduled_at == at("05:00:00")


def test_a_pod_of_a_lost_node_ended_when_it_was_last_ready() -> None:
    lost = named("aaaaa", ready=False, phase="Failed")
    lost["status"]["conditions"] = [condition("Ready", "False", "07:00:00")]
    assert pod_facts(lost, "nvidia.com/gpu").finished_at == at("07:00:00")


def test_the_gpus_of_all_containers_that_run_beside_one_another_are_the_pods() -> None:
    """Of each a sample is needed before the job counts as idle."""
    several = named("aaaaa")
    held = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    several["spec"]["containers"].append({"name": "evaluation", **held})
    several["spec"]["initContainers"] = [
        {"name": "cache", "restartPolicy": "Always", **held},
        {"name": "fetch", **held},
    ]
    assert pod_facts(several, "nvidia.com/gpu").gpus == 8 + 1 + 1


def test_requests_of_cpu_and_the_product_are_read() -> None:
    asks = named("aaaaa")
    asks["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "12"}
    assert pod_facts(asks, "nvidia.com/gpu").cpu_request == 12
    assert facts([asks], gpuProduct="NVIDIA-H100").gpu_product == "NVIDIA-H100"
    asks["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-A100"}
    assert facts([asks]).gpu_product == "NVIDIA-A100"


def test_a_pod_that_is_gone_before_it_began_by_this_clock_has_taken_no_time() -> None:
    (run,) = facts([], runs=(past_run("bert-0-x7k2p", "12:01:00"),)).pods
    assert run.started_at == run.finished_at == at("12:01:00")
