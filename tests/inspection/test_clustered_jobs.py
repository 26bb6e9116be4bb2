"""How jobs are found in a cluster, over an API server in memory; a real one is asked end to end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    PODS,
    POLICIES,
    ApiError,
    ForbiddenError,
    NotFoundError,
    Object,
    Resource,
)
from stoker.findings.vocabulary import Category, Framework, JobType
from stoker.inspection.clustered import Wanted, find
from stoker.inspection.workload import Workload
from stoker.reclaim import idle_after
from tests.workload.test_pod_groups import indexed, of_jobset, of_ray, pod

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters")
SCRIPT = "torchrun --standalone --nproc_per_node=4 train.py"


def dljob(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": name, "namespace": "nlp", "uid": f"dl-{name}", "labels": {"team": "nlp"}},
        "spec": {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:2026.11", "script": SCRIPT, **spec},
        "status": {"jobUID": f"job-{name}"},
    }


def pod_of(name: str) -> Object:
    """The pod of a DLJob's Job."""
    made = indexed(
        f"{name}-0-x7k2p",
        0,
        owner=("Job", name),
        labels={"stoker.dev/dljob": name},
        containers=[{"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    )
    made["metadata"]["ownerReferences"][0]["uid"] = f"job-{name}"
    return made


@dataclass
class Api:
    """Objects by resource; resources that are refused, or that the server does not have."""

    objects: Mapping[Resource, list[Object]]
    forbidden: frozenset[Resource] = frozenset()
    missing: frozenset[Resource] = frozenset()
    asked: list[tuple[Resource, str | None]] = field(default_factory=list)

    def _check(self, resource: Resource) -> None:
        if resource in self.forbidden:
            raise ForbiddenError(f"GET {resource.plural}", code=403, reason="Forbidden")
        if resource in self.missing:
            raise NotFoundError(f"GET {resource.plural}", code=404, reason="NotFound")

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        self._check(resource)
        for one in self.objects.get(resource, []):
            if one["metadata"]["name"] == name:
                return one
        raise NotFoundError(f"GET {resource.plural}", code=404, reason="NotFound")

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        self._check(resource)
        self.asked.append((resource, labels))
        wanted = [] if labels is None else [tuple(part.split("=")) for part in labels.split(",")]
        found = [
            one
            for one in self.objects.get(resource, [])
            if all(one["metadata"].get("labels", {}).get(key) == value for key, value in wanted)
        ]
        return found, "1"


async def found(api: Api, **wanted: Any) -> dict[str, Workload]:
    workloads = await find(api, Wanted(namespace="nlp", **wanted), NOW)  # type: ignore[arg-type]  # it only reads
    return {one.facts.name: one for one in workloads}


@pytest.fixture
def api() -> Api:
    return Api(
        {
            DLJOBS: [dljob("bert"), dljob("gpt")],
            PODS: [pod_of("bert"), pod_of("gpt"), indexed("other-0", 0, owner=("Job", "other")), pod("x", owner=None)],
        }
    )


async def test_all_jobs_of_a_namespace_are_found_each_once(api: Api) -> None:
    jobs = await found(api)
    assert {name: one.owner for name, one in jobs.items()} == {
        "bert": "DLJob",
        "gpt": "DLJob",
        "other": "Job",
        "x": "Pod",
    }
    bert = jobs["bert"]
    assert [one.name for one in bert.facts.pods] == ["bert-0-x7k2p"]
    assert "launcher-too-few" in [finding.rule for finding in bert.static_findings]
    assert bert.candidate is not None
    assert bert.candidate.labels == {"team": "nlp"}


class Counted(list[Object]):
    """A list that counts how often it is gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[Object]:
        self.rounds += 1
        return super().__iter__()


@pytest.mark.parametrize("number", [1, 50])
async def test_the_pods_are_gone_through_as_often_whatever_the_number_of_jobs(api: Api, number: int) -> None:
    names = [f"job-{place}" for place in range(number)]
    pods = Counted(map(pod_of, names))
    api.objects = {DLJOBS: [dljob(name) for name in names]}

    async def dljobs_and_pods(resource: Resource, *_: Any, **__: Any) -> tuple[list[Object], str]:
        return (pods if resource == PODS else api.objects.get(resource, [])), "1"

    api.list = dljobs_and_pods  # type: ignore[method-assign]  # the list itself, not a copy of it
    jobs = await found(api)
    assert {name: [pod.name for pod in one.facts.pods] for name, one in jobs.items()} == {
        name: [f"{name}-0-x7k2p"] for name in names
    }
    assert pods.rounds == 2


async def test_a_name_is_a_dljobs_first_and_then_anybodys(api: Api) -> None:
    assert list(await found(api, job="bert")) == ["bert"]
    assert {name: one.owner for name, one in (await found(api, job="other")).items()} == {"other": "Job"}
    assert await found(api, job="nobody") == {}


async def test_a_selector_picks_whole_dljobs(api: Api) -> None:
    jobs = await found(api, selector="stoker.dev/dljob=gpt")
    assert [(name, len(one.facts.pods)) for name, one in jobs.items()] == [("gpt", 1)]


async def test_without_stoker_in_the_cluster_pods_are_found_all_the_same(api: Api) -> None:
    api.missing = frozenset({DLJOBS, POLICIES})
    jobs = await found(api)
    assert set(jobs) == {"other", "x"}
    assert jobs["other"].notes == ()


async def test_policies_that_may_not_be_read_are_said(api: Api) -> None:
    api.forbidden = frozenset({POLICIES})
    jobs = await found(api)
    assert all("built-in thresholds" in one.notes[0] for one in jobs.values())


async def test_pods_that_may_not_be_read_are_an_error(api: Api) -> None:
    api.forbidden = frozenset({PODS})
    with pytest.raises(ApiError):
        await found(api)


async def test_the_policy_of_the_namespace_counts(api: Api) -> None:
    policy = {"metadata": {"name": "default"}, "spec": {"thresholds": {"lowPercent": 20}}}
    api.objects = {**api.objects, POLICIES: [policy, {"metadata": {"name": "broken"}, "spec": {"priority": "x"}}]}
    assert {one.policy.thresholds.low_percent for one in (await found(api)).values()} == {20}


async def test_a_dljob_of_another_version_has_an_error_and_the_others_none(api: Api) -> None:
    api.objects = {**api.objects, DLJOBS: [dljob("bert", gpusPerNode="eight"), dljob("gpt")]}
    jobs = await found(api)
    assert "another version" in (jobs["bert"].error or "")
    assert jobs["gpt"].error is None


async def test_pods_of_another_job_of_that_name_are_not_the_dljobs(api: Api) -> None:
    stranger = pod_of("bert")
    stranger["metadata"] |= {"name": "bert-0-older", "ownerReferences": [{"kind": "Job", "name": "bert", "uid": "old"}]}
    api.objects = {**api.objects, PODS: [stranger]}
    jobs = await found(api, job="bert")
    assert (jobs["bert"].facts.pods, "--jobs FILE" in jobs["bert"].notes[0]) == ((), True)


async def test_the_owners_manifest_is_read_where_it_may_be_and_else_the_pods(api: Api) -> None:
    template = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/pytorch/pytorch:2.4.0-cuda12.4",
                "command": ["sh", "-c", f"{SCRIPT}\n"],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
            }
        ],
        "restartPolicy": "Never",
    }
    other = indexed("other-0", 0, owner=("Job", "other"), containers=template["containers"])
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "other", "namespace": "nlp"},
        "spec": {"template": {"spec": template}},
    }
    api.objects = {PODS: [other], JOBS: [job]}
    (read,) = (await found(api)).values()
    api.objects = {PODS: [other]}
    (guessed,) = (await found(api)).values()
    for one in (read, guessed):
        assert "launcher-too-few" in [finding.rule for finding in one.static_findings]
        assert one.facts.processes_per_node == 4
        assert one.facts.framework in {Framework.PYTORCH, None}
    places = [str(one.static_findings[0].location) for one in (read, guessed)]
    assert places[0].startswith("spec.template.spec.containers[0]")
    assert places[1].startswith("spec.containers[0]")


def made_by(kind: str, name: str, resource_kind: str, resource_name: str, uid: str) -> Object:
    """An object that another one made."""
    owner = {"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"kind": resource_kind, "metadata": {"name": resource_name, "uid": uid, "ownerReferences": [owner]}}


async def test_a_jobset_is_one_job_that_its_own_name_its_makers_and_its_childrens_find(api: Api) -> None:
    pods = [of_jobset("a", "leader", 0, 0, gpus=1), of_jobset("b", "worker", 0, 0), of_jobset("c", "worker", 0, 1)]
    api.objects = {PODS: pods}
    for wanted in ("set", "set-worker-0"):
        (job,) = (await found(api, job=wanted)).values()
        assert (job.owner, job.facts.name, job.facts.gpus, len(job.facts.pods)) == ("JobSet", "set", 17, 3)
    api.objects = {PODS: pods, JOB_SETS: [made_by("TrainJob", "train", "JobSet", "set", "set-1")]}
    for wanted in ("set", "train"):
        (job,) = (await found(api, job=wanted)).values()
        assert (job.owner, job.facts.name) == ("TrainJob", "train")


@pytest.mark.parametrize(
    "kind, job_type", [("RayJob", JobType.TRAINING), ("RayService", JobType.SERVING), ("RayCluster", JobType.TRAINING)]
)
async def test_what_a_ray_cluster_is_for_is_its_makers_to_say(api: Api, kind: str, job_type: JobType) -> None:
    maker = [] if kind == "RayCluster" else [made_by(kind, "tune", "RayCluster", "ray", "")]
    api.objects = {PODS: [of_ray("head", "headgroup"), of_ray("worker", "gpu")], RAY_CLUSTERS: maker}
    (job,) = (await found(api)).values()
    assert (job.owner, job.facts.job_type, job.facts.nodes) == (kind, job_type, 2)


async def test_an_object_of_the_same_name_that_did_not_make_the_pods_is_not_read(api: Api) -> None:
    script = {"command": ["sh", "-c", "torchrun --standalone --nproc_per_node=4 train.py"], "image": "a/b:1"}
    other = indexed("other-0", 0, owner=("Job", "other"), owner_uid="mine")
    other["spec"]["containers"][1] |= script
    stranger = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "other", "uid": "yours"}, "spec": {}}
    api.objects = {PODS: [other], JOBS: [stranger]}
    (job,) = (await found(api)).values()
    assert "launcher-too-few" in [finding.rule for finding in job.static_findings]


async def test_what_is_said_of_a_jobsets_manifest_counts_all_its_pods(api: Api) -> None:
    ends = {"command": ["sh", "-c", "torchrun --nproc_per_node=8 train.py\nsleep infinity"], "image": "a/b:1"}
    pods = [of_jobset(str(number), "worker", number, 0) for number in range(2)]
    for one in pods:
        one["spec"]["containers"][1] |= ends
    api.objects = {PODS: pods}
    (job,) = (await found(api)).values()
    (finding,) = [one for one in job.static_findings if one.category is Category.UNRELEASED_JOB]
    assert "16 GPUs" in finding.detail


async def test_pods_of_a_former_self_are_listed_apart_and_say_so(api: Api) -> None:
    later = "2026-11-21T08:00:00Z"
    api.objects = {PODS: [of_jobset("a", "worker", 0, 0), of_jobset("b", "worker", 0, 0, uid="set-2", created=later)]}
    old, new = await find(api, Wanted(namespace="nlp"), NOW)  # type: ignore[arg-type]  # it only reads
    assert ([one.name for one in old.facts.pods], [one.name for one in new.facts.pods]) == (["a"], ["b"])
    assert ("an earlier JobSet of this name" in old.notes[0], new.notes) == (True, ())


async def test_a_class_by_priority_or_gpus_counts_as_for_the_controller(api: Api) -> None:
    classes = [
        {"name": "low", "priorityClasses": ["batch-low"], "idleAfter": "20m"},
        {"name": "h100", "gpuProducts": ["NVIDIA-H100-80GB-HBM3"], "idleAfter": "30m"},
    ]
    policy = {"metadata": {"name": "default"}, "spec": {"reclaim": {"idleAfter": "2h", "classes": classes}}}
    chosen = pod_of("gpt")
    chosen["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    low = dljob("bert", podTemplate={"spec": {"priorityClassName": "batch-low"}})
    api.objects = {DLJOBS: [low, dljob("gpt")], PODS: [pod_of("bert"), chosen], POLICIES: [policy]}
    windows = {}
    for name, one in (await found(api)).items():
        assert one.candidate is not None
        windows[name] = idle_after(None, one.candidate.traits, one.policy)
    assert windows == {"bert": timedelta(minutes=20), "gpt": timedelta(minutes=30)}
