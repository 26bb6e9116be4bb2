"""RayClusters, RayJobs and RayServices: heads, groups of workers, and entry points."""

from textwrap import indent

import pytest

from stoker.findings.vocabulary import JobType
from tests.lint.kinds.manifests import faults, findings, read

CLUSTER = """
headGroupSpec:
  rayStartParams: {dashboard-host: 0.0.0.0}
  template:
    spec:
      containers:
      - {name: ray-head, image: "rayproject/ray:2.46.0", resources: {limits: {cpu: 2}}}
workerGroupSpecs:
- groupName: a100
  replicas: 3
  minReplicas: 1
  maxReplicas: 8
  rayStartParams: {num-gpus: "4"}
  template:
    spec:
      containers:
      - name: ray-worker
        image: rayproject/ray:2.46.0-gpu
        resources: {limits: {cpu: 8, nvidia.com/gpu: 4}}
"""
KINDS = [("RayCluster", ""), ("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")]


def ray(kind: str = "RayCluster", field: str = "", *, cluster: str = CLUSTER, more: str = "") -> str:
    spec = indent(cluster, "    ") if field else indent(cluster, "  ")
    head = f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: tune}}\nspec:\n"
    return head + (f"  {more}\n" if more else "") + (f"  {field}:\n" if field else "") + spec


@pytest.mark.parametrize("kind, field", KINDS)
def test_groups_of_workers_are_read_where_the_cluster_stands(kind: str, field: str) -> None:
    (seen,) = read(ray(kind, field))
    assert (seen.kind, seen.name, seen.copies, seen.gpus, seen.nodes_known) == (kind, "tune", 3, 12, False)
    assert seen.job_type is (JobType.SERVING if kind == "RayService" else JobType.TRAINING)
    at = f"spec.{field}.workerGroupSpecs[0]" if field else "spec.workerGroupSpecs[0]"
    assert seen.paths.image == f"{at}.template.spec.containers[0].image"
    assert [text for _, text in seen.argv] == ["ray", "start", "--num-gpus=4", "--block"]
    assert seen.argv[2][0] == f"{at}.rayStartParams[num-gpus]"
    assert faults(ray(kind, field)) == []


def test_a_worker_with_an_image_for_cpus_is_found() -> None:
    (found,) = findings(ray(cluster=CLUSTER.replace("2.46.0-gpu", "2.46.0")))
    assert found.rule == "image-cpu-only"
    assert found.field_path == "spec.workerGroupSpecs[0].template.spec.containers[0].image"
    assert "12 GPUs" in found.detail


def test_a_host_group_has_as_many_pods_as_hosts() -> None:
    (seen,) = read(ray(cluster=CLUSTER.replace("replicas: 3", "numOfHosts: 2")))
    assert seen.copies == 2


def test_ray_has_all_of_the_pods_memory_to_share() -> None:
    (seen,) = read(ray())
    assert (seen.pod.shared_memory.kind, seen.pod.shared_memory.size) == ("memory", None)
    mounted = CLUSTER.replace(
        "        resources: {limits: {cpu: 8",
        "        volumeMounts: [{name: shm, mountPath: /dev/shm}]\n        resources: {limits: {cpu: 8",
    )
    (seen,) = read(ray(cluster=mounted + "      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]\n"))
    assert seen.pod.shared_memory.size == 2**30


def test_a_container_with_a_command_runs_that() -> None:
    own = CLUSTER.replace("name: ray-worker\n", "name: ray-worker\n        command: [sh, -c, 'pip install torch']\n")
    (seen,) = read(ray(cluster=own))
    assert [text for _, text in seen.argv] == ["sh", "-c", "pip install torch"]


def test_the_entry_point_of_a_job_drives_the_gpus_of_its_cluster() -> None:
    worker, driver = read(ray("RayJob", "rayClusterSpec", more="entrypoint: python train.py"))
    assert (worker.drives, driver.drives, driver.gpus_per_node) == (False, True, 4)
    assert driver.image.text == "rayproject/ray:2.46.0"
    assert faults(ray("RayJob", "rayClusterSpec", more="entrypoint: python train.py")) == []


def test_an_entry_point_that_keeps_the_cluster_is_found() -> None:
    text = ray("RayJob", "rayClusterSpec", more="entrypoint: python train.py; sleep infinity")
    (found,) = findings(text)
    assert (found.rule, found.field_path) == ("endless-tail", "spec.entrypoint")


def test_a_job_for_a_cluster_that_is_there_has_no_pods() -> None:
    selector = (
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: a}\nspec: {clusterSelector: {a: b}, entrypoint: x}\n"
    )
    assert read(selector) == []
    assert faults(selector) == []


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("replicas: 3", "replicas: three", "spec.workerGroupSpecs[0].replicas"),
        ('num-gpus: "4"', "num-gpus: 4", "spec.workerGroupSpecs[0].rayStartParams[num-gpus]"),
        ("headGroupSpec:", "headGroup:", "spec.headGroupSpec"),
        ("image: rayproject/ray:2.46.0-gpu", "imag: x", "spec.workerGroupSpecs[0].template.spec.containers[0].imag"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(ray(cluster=CLUSTER.replace(old, new, 1)))
