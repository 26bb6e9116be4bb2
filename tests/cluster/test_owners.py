from typing import Any

import pytest

from stoker.adapters.kubernetes.client import Answer, ForbiddenError, NotFoundError, Object, Resource, UnavailableError
from stoker.cluster.owners import MAX_OWNERS, Owners


def reference(api_version: str, kind: str, name: str, *, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


def owned(name: str, *references: dict[str, Any]) -> Object:
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}", "ownerReferences": list(references)}
    return {"metadata": metadata}


class Server:
    """Knows objects by their path, and the resources of groups."""

    def __init__(self, **objects: Object) -> None:
        self.objects = objects
        self.resources: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.error: Exception | None = None

    async def get_metadata(self, resource: Resource, namespace: str | None, name: str) -> Object:
        self.asked.append(resource.path(namespace, name))
        if self.error is not None:
            raise self.error
        if name not in self.objects:
            raise NotFoundError("get", code=404, reason="NotFound")
        return self.objects[name]

    async def read(self, path: str) -> Answer:
        self.asked.append(path)
        if path not in self.resources:
            raise NotFoundError("get", code=404, reason="NotFound")
        return Answer(content={"resources": self.resources[path]}, server_time=None)


TRAIN_JOB = reference("trainer.kubeflow.org/v1alpha1", "TrainJob", "llm")
JOB_SET = reference("jobset.x-k8s.io/v1alpha2", "JobSet", "set")
JOB = reference("batch/v1", "Job", "node")


async def test_the_topmost_controller_is_the_owner_of_all_below() -> None:
    server = Server(node=owned("node", JOB_SET), set=owned("set", TRAIN_JOB), llm=owned("llm"))
    owners = Owners(server)
    for pod in ("a", "b"):
        owner = await owners.topmost(owned(pod, JOB))
        assert (owner.namespace, owner.kind, owner.name, owner.uid) == ("team", "TrainJob", "llm", "uid-llm")
    assert server.asked == [
        "/apis/batch/v1/namespaces/team/jobs/node",
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/set",
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/llm",
    ], "each owner once"


async def test_a_pod_without_a_controller_is_its_own_owner() -> None:
    server = Server()
    owner = await Owners(server).topmost(owned("alone", reference("v1", "ConfigMap", "other", controller=False)))
    assert (owner.api_version, owner.kind, owner.name) == ("v1", "Pod", "alone")
    assert server.asked == []


@pytest.mark.parametrize(
    "error",
    [NotFoundError("get", code=404, reason="NotFound"), ForbiddenError("get", code=403, reason="Forbidden")],
)
async def test_an_owner_that_may_not_be_read_counts_as_the_topmost(error: Exception) -> None:
    server = Server(node=owned("node", JOB_SET))
    server.error = error
    assert (await Owners(server).topmost(owned("a", JOB))).kind == "Job"


async def test_an_outage_is_not_taken_for_an_answer() -> None:
    server = Server(node=owned("node", JOB_SET))
    server.error = UnavailableError("get", code=None, reason="ClientError")
    owners = Owners(server)
    with pytest.raises(UnavailableError):
        await owners.topmost(owned("a", JOB))
    server.error = None
    assert (await owners.topmost(owned("a", JOB))).kind == "JobSet"


async def test_another_object_of_the_owners_name_owns_nothing() -> None:
    other = owned("node", JOB_SET)
    other["metadata"]["uid"] = "of-another-one"
    assert (await Owners(Server(node=other)).topmost(owned("a", JOB))).kind == "Job"


async def test_a_kind_that_is_not_known_is_found_by_discovery() -> None:
    runs = reference("ml.example.com/v1", "Run", "sweep")
    server = Server(trial=owned("trial", runs), sweep=owned("sweep"))
    server.resources["/apis/ml.example.com/v1"] = [
        {"name": "trials/status", "kind": "Trial", "namespaced": True},
        {"name": "trials", "kind": "Trial", "namespaced": True},
        {"name": "runs", "kind": "Run", "namespaced": True},
    ]
    owner = await Owners(server).topmost(owned("a", reference("ml.example.com/v1", "Trial", "trial")))
    assert (owner.kind, owner.name) == ("Run", "sweep")


@pytest.mark.parametrize("api_version", ["../v1", "apps/v1/../../v1", "apps/v1?x=1", "", "apps/ v1"])
async def test_a_version_that_a_tenant_made_up_is_not_asked_for(api_version: str) -> None:
    server = Server()
    owner = await Owners(server).topmost(owned("a", reference(api_version, "Made", "up")))
    assert owner.kind == "Made"
    assert server.asked == []


@pytest.mark.parametrize("name", ["../../other/pods/secret", "..", "", "a/b"])
async def test_a_name_that_a_tenant_made_up_is_not_asked_for(name: str) -> None:
    server = Server()
    assert (await Owners(server).topmost(owned("a", reference("batch/v1", "Job", name)))).kind == "Job"
    assert server.asked == []


async def test_owners_in_a_circle_are_followed_for_a_while_only() -> None:
    server = Server(one=owned("one", reference("batch/v1", "Job", "two")), two=owned("two", JOB))
    server.objects["node"] = owned("node", reference("batch/v1", "Job", "one"))
    assert (await Owners(server).topmost(owned("a", JOB))).kind == "Job"
    assert len(server.asked) <= MAX_OWNERS
