"""What the CustomResourceDefinitions refuse, default, prune and show, on the API server, with no webhook."""

import json
from typing import Any

import pytest

from e2e.cluster.provider import Cluster
from e2e.scenarios.api.applying import Applier, dljob, policy
from e2e.scenarios.versions import minor, missing, require_newest
from hack import kubernetes_schema

pytestmark = pytest.mark.e2e


def trainer(**fields: Any) -> dict[str, Any]:
    """A podTemplate that says something about the container `trainer`."""
    return {"spec": {"containers": [{"name": "trainer", **fields}]}}


REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    # What is missing or of the wrong kind.
    ("no image", {"image": None}, ["spec.image: Required value"]),
    ("an empty image", {"image": ""}, ["spec.image: Invalid value", "at least 1 char"]),
    ("no GPUs", {"gpusPerNode": None}, ["spec.gpusPerNode: Required value"]),
    ("an unknown field", {"gpuPerNode": 8}, ['unknown field "spec.gpuPerNode"']),
    ("a text for a number", {"nodes": "2"}, ["spec.nodes", "must be of type integer"]),
    # Bounds.
    ("no node", {"nodes": 0}, ["spec.nodes: Invalid value: 0", "greater than or equal to 1"]),
    ("too many nodes", {"nodes": 1025}, ["spec.nodes: Invalid value: 1025", "less than or equal to 1024"]),
    ("negative GPUs", {"gpusPerNode": -1}, ["spec.gpusPerNode: Invalid value: -1", "greater than or equal to 0"]),
    ("too many GPUs", {"gpusPerNode": 65}, ["spec.gpusPerNode: Invalid value: 65", "less than or equal to 64"]),
    ("too many restarts", {"maxRestarts": 101}, ["spec.maxRestarts: Invalid value: 101", "less than or equal to 100"]),
    ("a deadline of nothing", {"activeDeadlineSeconds": 0}, ["spec.activeDeadlineSeconds: Invalid value: 0"]),
    ("a negative TTL", {"ttlSecondsAfterFinished": -1}, ["spec.ttlSecondsAfterFinished: Invalid value: -1"]),
    ("a resource without a vendor", {"gpuResource": "gpu"}, ['spec.gpuResource: Invalid value: "gpu"']),
    ("a product that is no label", {"gpuProduct": "A 100"}, ['spec.gpuProduct: Invalid value: "A 100"']),
    # Enumerations.
    ("an unknown framework", {"framework": "Torch"}, ['spec.framework: Unsupported value: "Torch"', '"PyTorch"']),
    ("an unknown job type", {"jobType": "Train"}, ['spec.jobType: Unsupported value: "Train"', '"Evaluation"']),
    ("an unknown success policy", {"successPolicy": "Any"}, ['spec.successPolicy: Unsupported value: "Any"']),
    # What excludes one another.
    ("script and command", {"script": "x", "command": ["y"]}, ["spec.script", "cannot be combined with spec.command"]),
    (
        "script and args",
        {"script": "x", "args": ["y"]},
        ["spec.script", "cannot be combined with spec.command and spec.args"],
    ),
    # 32,769 characters of two bytes each.
    ("a script too long", {"script": "ä" * 32_769}, ["spec.script", "65538 bytes, at most 65536 are allowed"]),
    (
        "a product of an unknown vendor",
        {"gpuResource": "habana.ai/gaudi", "gpuProduct": "Gaudi3"},
        ["spec.gpuProduct", "habana.ai/gaudi", "nvidia.com/", "spec.podTemplate.spec.nodeSelector"],
    ),
    ("too short an idle time", {"reclaim": {"idleAfter": "9m"}}, ['spec.reclaim.idleAfter: Invalid value: "9m"']),
    ("too long an idle time", {"reclaim": {"idleAfter": "25h"}}, ["spec.reclaim.idleAfter", "from 10m to 24h"]),
    ("not a duration", {"reclaim": {"idleAfter": "soon"}}, ['spec.reclaim.idleAfter: Invalid value: "soon"', "1h30m"]),
    ("no quantity", {"resources": {"limits": {"memory": "8X"}}}, ["spec.resources.limits.memory"]),
    ("a fraction without quotes", {"resources": {"limits": {"cpu": 0.5}}}, ["spec.resources.limits.cpu", "string"]),
    ("a variable without a name", {"env": [{"value": "x"}]}, ["spec.env[0].name: Required value"]),
    # What is set by the operator in a pod template.
    (
        "the trainer's image",
        {"podTemplate": trainer(image="x")},
        ["spec.podTemplate.spec.containers", "set spec.image"],
    ),
    ("the trainer's command", {"podTemplate": trainer(command=["x"])}, ["set spec.command"]),
    ("the trainer's args", {"podTemplate": trainer(args=["x"])}, ["set spec.args"]),
    (
        "the trainer's GPUs",
        {"podTemplate": trainer(resources={"limits": {"nvidia.com/gpu": 4}})},
        ["spec.podTemplate.spec.containers", "set spec.gpusPerNode"],
    ),
    (
        "the trainer's requested GPUs",
        {"gpuResource": "amd.com/gpu", "podTemplate": trainer(resources={"requests": {"amd.com/gpu": "4"}})},
        ["set spec.gpusPerNode"],
    ),
    (
        "an injected variable",
        {"podTemplate": trainer(env=[{"name": "PET_NPROC_PER_NODE", "value": "4"}])},
        ["spec.podTemplate.spec.containers", "PET_*"],
    ),
    (
        "an injected variable in a sidecar",
        {"podTemplate": {"spec": {"containers": [{"name": "x", "env": [{"name": "STOKER_NODES", "value": "4"}]}]}}},
        ["spec.podTemplate.spec.containers", "STOKER_*"],
    ),
    (
        "an injected variable in an init container",
        {"podTemplate": {"spec": {"initContainers": [{"name": "x", "env": [{"name": "MASTER_PORT", "value": "4"}]}]}}},
        ["spec.podTemplate.spec.initContainers", "MASTER_*"],
    ),
    ("a typo in the pod", {"podTemplate": {"spec": {"tolerationz": []}}}, ['"spec.podTemplate.spec.tolerationz"']),
    ("a typo in a container", {"podTemplate": trainer(volumeMount=[])}, ['.containers[0].volumeMount"']),
    ("a volume without a name", {"podTemplate": {"spec": {"volumes": [{}]}}}, ["volumes[0].name: Required value"]),
    ("a port that is none", {"podTemplate": trainer(ports=[{"containerPort": "x"}])}, ["containerPort", "integer"]),
    ("no quantity in a pod", {"podTemplate": {"spec": {"overhead": {"cpu": "1X"}}}}, ["spec.overhead.cpu"]),
    ("nesting", {"podTemplate": {"spec": {"a": {"a": {"a": {"a": {}}}}}}}, ['unknown field "spec.podTemplate.spec.a"']),
    (
        "too much text",
        {"args": ["x" * 100_000] * 3},
        ["script, command, args and env may have at most 262144 characters together"],
    ),
    (
        "too much text in containers",
        {"podTemplate": {"spec": {"containers": [{"name": f"c{n}", "args": ["x" * 60_000]} for n in range(5)]}}},
        ["command, args and env of all containers may have at most 262144 characters together"],
    ),
    (
        "too much text in init containers",
        {
            "podTemplate": {
                "spec": {"initContainers": [{"name": "c", "env": [{"name": "A", "value": "x" * 60_000}] * 5}]}
            }
        },
        ["command, args and env of all initContainers may have at most 262144 characters together"],
    ),
    (
        "too many annotations",
        {"podTemplate": {"metadata": {"annotations": {f"a{n}": "x" * 60_000 for n in range(5)}}}},
        ["the annotations may have at most 262144 characters together"],
    ),
    (
        "a restart policy",
        {"podTemplate": {"spec": {"restartPolicy": "Always"}}},
        ["spec.podTemplate.spec.restartPolicy", "spec.maxRestarts"],
    ),
    ("a host name", {"podTemplate": {"spec": {"hostname": "x"}}}, ["spec.podTemplate.spec.hostname"]),
    ("a subdomain", {"podTemplate": {"spec": {"subdomain": "x"}}}, ["spec.podTemplate.spec.subdomain"]),
    (
        "a completion label",
        {"podTemplate": {"metadata": {"labels": {"batch.kubernetes.io/job-completion-index": "0"}}}},
        ["spec.podTemplate.metadata.labels", "batch.kubernetes.io/job-completion-index"],
    ),
    (
        "a container without a name",
        {"podTemplate": {"spec": {"containers": [{"image": "x"}]}}},
        ["spec.podTemplate.spec.containers[0].name: Required value"],
    ),
]


@pytest.mark.parametrize("spec, expected", [pytest.param(spec, expected, id=name) for name, spec, expected in REFUSED])
def test_a_wrong_job_is_refused_by_field_value_and_what_is_allowed(
    applier: Applier, spec: dict[str, Any], expected: list[str]
) -> None:
    said = applier.refusal(dljob(**spec), "--dry-run=server")
    assert missing(applier.cluster, expected, said) == [], said


B59 = "b" * 59


@pytest.mark.parametrize(
    "name, expected",
    [
        (B59, f'"{B59}" has 59 characters, at most 58 are allowed: its pods are called NAME-RANK'),
        ("my.job", '"my.job" must have no dots, because it becomes part of host names; use for example my-job'),
    ],
)
def test_a_name_that_could_not_become_a_host_name_is_refused(applier: Applier, name: str, expected: str) -> None:
    said = applier.refusal(dljob(name), "--dry-run=server")
    assert "metadata.name" in said
    assert expected in said


@pytest.mark.parametrize("name", ["b" * 58, "7b-sft", "7" * 58])
def test_a_name_that_can_become_a_host_name_is_accepted(applier: Applier, name: str) -> None:
    applier.create(dljob(name), "--dry-run=server")


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("the largest script", {"script": "#" * 65_536}),
    ("no GPU at all", {"gpusPerNode": 0}),
    ("a MIG profile", {"gpuResource": "nvidia.com/mig-1g.10gb"}),
    ("a sidecar of its own", {"podTemplate": {"spec": {"containers": [{"name": "x", "image": "y", "args": ["z"]}]}}}),
    ("other resources of the trainer", {"podTemplate": trainer(resources={"limits": {"rdma/hca_shared": 1}})}),
    ("a variable that only looks injected", {"podTemplate": trainer(env=[{"name": "PETS", "value": "2"}])}),
    ("a whole pod", {"podTemplate": {"spec": {"hostIPC": True, "volumes": [{"name": "x", "emptyDir": {}}]}}}),
    ("the bounds of an idle time", {"reclaim": {"idleAfter": "24h"}}),
    ("everything at once", {"script": "x", "env": [{"name": "A"}], "resources": {"limits": {"cpu": "0.5"}}}),
]


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED])
def test_a_right_job_is_accepted(applier: Applier, spec: dict[str, Any]) -> None:
    applier.create(dljob(**spec), "--dry-run=server")


FULL: dict[str, Any] = {
    "nodes": 2,
    "gpusPerNode": 8,
    "gpuResource": "nvidia.com/gpu",
    "gpuProduct": "NVIDIA-H100-80GB-HBM3",
    "image": "registry.example.com/nlp/bert:2026.11",
    "command": ["torchrun"],
    "args": ["train.py"],
    "env": [{"name": "A", "value": "b"}],
    "resources": {"limits": {"cpu": 8}},
    "sources": {"configMap": "source"},
    "framework": "PyTorch",
    "jobType": "Training",
    "maxRestarts": 1,
    "successPolicy": "All",
    "podTemplate": {"spec": {"hostIPC": True}},
}
CHANGED: dict[str, Any] = {
    "nodes": 4,
    "gpusPerNode": 4,
    "gpuResource": "amd.com/gpu",
    "gpuProduct": "NVIDIA-A100-SXM4-80GB",
    "image": "registry.example.com/nlp/bert:2026.12",
    "command": ["python"],
    "args": ["test.py"],
    "env": [{"name": "A", "value": "c"}],
    "resources": {"limits": {"cpu": 9}},
    "sources": {"configMap": "other"},
    "framework": "JAX",
    "jobType": "Evaluation",
    "maxRestarts": 2,
    "successPolicy": "Leader",
    "podTemplate": {"spec": {"hostIPC": False}},
}
REMOVABLE = sorted(FULL.keys() - {"nodes", "gpusPerNode", "gpuResource", "image", "successPolicy"})


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_a_field_of_the_spec_cannot_change(applier: Applier, field: str) -> None:
    applier.create(dljob(**FULL))
    done = applier.patch("bert", {field: CHANGED[field]})
    assert done.returncode != 0
    assert f"spec.{field}: Invalid value" in done.stderr
    assert "immutable" in done.stderr


@pytest.mark.parametrize("field", REMOVABLE)
def test_a_field_of_the_spec_cannot_be_removed(applier: Applier, field: str) -> None:
    applier.create(dljob(**FULL))
    done = applier.patch("bert", {field: None})
    assert done.returncode != 0
    assert f"spec.{field}: Invalid value" in done.stderr


@pytest.mark.parametrize("field", REMOVABLE)
def test_a_field_of_the_spec_cannot_be_added(applier: Applier, field: str) -> None:
    applier.create(dljob())
    done = applier.patch("bert", {field: FULL[field]})
    assert done.returncode != 0
    assert f"spec.{field}: Invalid value" in done.stderr


def test_a_script_cannot_be_added_changed_or_removed(applier: Applier) -> None:
    applier.create(dljob("without"))
    applier.create(dljob("with", script="torchrun train.py"))
    for name, script in (("without", "x"), ("with", "y"), ("with", None)):
        assert "spec.script: Invalid value" in applier.patch(name, {"script": script}).stderr


def test_the_refusal_of_a_change_shows_both_values_of_short_fields_and_no_content_of_long_ones(
    applier: Applier,
) -> None:
    applier.create(dljob(env=[{"name": "TOKEN", "value": "confidential"}]))
    assert "4 cannot replace 8" in applier.patch("bert", {"gpusPerNode": 4}).stderr
    assert "5 cannot replace the default" in applier.patch("bert", {"maxRestarts": 5}).stderr
    assert "Training cannot replace the default" in applier.patch("bert", {"jobType": "Training"}).stderr
    said = applier.patch("bert", {"env": [{"name": "TOKEN", "value": "other"}]}).stderr
    assert "spec.env" in said
    assert "confidential" not in said


def test_what_may_change_may_be_added_changed_and_removed(applier: Applier) -> None:
    applier.create(dljob(script="torchrun train.py"))
    for patch in (
        {
            "suspend": True,
            "reclaim": {"idleAfter": "30m"},
            "activeDeadlineSeconds": 60,
            "ttlSecondsAfterFinished": 60,
        },
        {"suspend": False, "reclaim": {"idleAfter": "2h"}, "activeDeadlineSeconds": 90, "ttlSecondsAfterFinished": 0},
        {"suspend": None, "reclaim": None, "activeDeadlineSeconds": None, "ttlSecondsAfterFinished": None},
    ):
        done = applier.patch("bert", patch)
        assert done.returncode == 0, done.stderr


def test_exactly_the_documented_defaults_are_filled_in(applier: Applier) -> None:
    applier.create(dljob(gpusPerNode=1, image="a/b:1"))
    assert applier.get("bert")["spec"] == {
        "gpuResource": "nvidia.com/gpu",
        "gpusPerNode": 1,
        "image": "a/b:1",
        "nodes": 1,
        "successPolicy": "All",
    }


def test_a_policy_gets_no_defaults(applier: Applier) -> None:
    applier.create(policy(reclaim={"mode": "Suspend"}))
    stored = json.loads(applier.run("get", "utilizationpolicy", "default", "-o", "json").stdout)
    assert stored["spec"] == {"reclaim": {"mode": "Suspend"}}


def test_get_shows_what_is_done_with_idle_jobs_under_a_policy_that_leaves_it_out(applier: Applier) -> None:
    applier.create(policy())
    patch = json.dumps({"status": {"reclaimMode": "Observe"}})
    done = applier.run("patch", "upol", "default", "--subresource=status", "--type=merge", f"--patch={patch}")
    assert done.returncode == 0, done.stderr
    header, row = applier.run("get", "upol").stdout.splitlines()
    assert dict(zip(header.split(), row.split(), strict=False))["NAME"] == "default"
    assert "Observe" in row


POLICY_REFUSED: list[tuple[str, str, dict[str, Any], list[str]]] = [
    (
        "a grace too short",
        "default",
        {"reclaim": {"warningGrace": "59s"}},
        ["spec.reclaim.warningGrace", '"59s"', "1m"],
    ),
    ("an idle time too short", "default", {"reclaim": {"idleAfter": "5m"}}, ["spec.reclaim.idleAfter", '"5m"', "10m"]),
    ("an unknown mode", "default", {"reclaim": {"mode": "Kill"}}, ["spec.reclaim.mode", '"Observe"']),
    ("an unknown action", "default", {"rules": {"a": {"action": "Refuse"}}}, ["spec.rules.a.action", '"Deny"']),
    (
        "busy as idle",
        "default",
        {"thresholds": {"idlePercent": 11}},
        ["spec.thresholds.idlePercent: Invalid value: 11"],
    ),
    ("coverage too low", "default", {"thresholds": {"minCoveragePercent": 49}}, ["minCoveragePercent", "49", "50"]),
    ("a share over 100", "default", {"reclaim": {"maxGPUPercentPerWindow": 101}}, ["maxGPUPercentPerWindow", "101"]),
    ("an exemption of nobody", "default", {"exemptions": [{"reason": "r"}]}, ["spec.exemptions[0]", "jobSelector"]),
    ("no reason", "default", {"exemptions": [{"jobSelector": {}}]}, ["spec.exemptions[0].reason: Required value"]),
    (
        "no time",
        "default",
        {"exemptions": [{"jobSelector": {}, "reason": "r", "until": "Friday"}]},
        ["spec.exemptions[0].until", "date-time"],
    ),
    (
        "no time of day",
        "default",
        {"reclaim": {"schedule": [{"start": "8:00", "end": "18:00"}]}},
        ["spec.reclaim.schedule[0].start"],
    ),
    ("a base that selects", "default", {"namespaceSelector": {}}, ["spec.namespaceSelector", "absent in the policy"]),
    ("an override that does not select", "other", {}, ["spec.namespaceSelector", "required in every other policy"]),
]


@pytest.mark.parametrize(
    "name, spec, expected", [pytest.param(name, spec, parts, id=case) for case, name, spec, parts in POLICY_REFUSED]
)
def test_a_wrong_policy_is_refused_by_field_value_and_what_is_allowed(
    applier: Applier, name: str, spec: dict[str, Any], expected: list[str]
) -> None:
    said = applier.refusal(policy(name, **spec), "--dry-run=server")
    assert missing(applier.cluster, expected, said) == [], said


STATUS: dict[str, Any] = {
    "phase": "Running",
    "observedGeneration": 1,
    "observedSuspend": False,
    "ready": "2/2",
    "readyPods": 2,
    "gpus": 16,
    "restarts": 0,
    "jobUID": "4b8d0c1e-0000-4000-8000-000000000000",
    "startTime": "2026-11-21T05:40:00Z",
    "conditions": [
        {
            "type": "Idle",
            "status": "Unknown",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-21T05:40:00Z",
            "reason": "NoSamples",
            "message": "no samples yet",
        }
    ],
    "findingsSummary": "2: ImproperBatchSize +1",
    "findings": [
        {
            "category": "ImproperBatchSize",
            "rule": "small-batch",
            "severity": "Warning",
            "confidence": "Likely",
            "location": {"fieldPath": "spec.script", "line": 2},
            "detail": "The active stage uses 33 % of each GPU and at most 38 % of its 80 GiB.",
            "evidence": "2026-11-21T05:52:00Z to 2026-11-21T09:40:00Z, 16 GPUs, steady; --batch-size 32",
            "fix": "Raise --batch-size from 32.",
            "docs": "stoker rules show small-batch",
            "gpuHoursIdle": "38.1",
            "since": "2026-11-21T05:52:00Z",
            "sources": ["Script", "Metrics"],
            "alternatives": ["DataExchange"],
        }
    ],
    "advice": [{"rule": "headroom", "detail": "Half of the memory is free.", "fix": "Try a larger batch."}],
    "reclaim": {
        "state": "Warned",
        "reason": "Idle for 61 minutes.",
        "rule": "unreleased-job",
        "handledResume": "1",
        "idleSince": "2026-11-21T09:40:00Z",
        "warnedAt": "2026-11-21T10:41:00Z",
        "deadline": "2026-11-21T10:56:00Z",
        "action": "Suspend",
        "podUIDs": ["u1", "u2"],
        "policies": [{"name": "default", "generation": 3}],
        "notified": [
            {
                "event": "Warned",
                "eventTime": "2026-11-21T10:41:00Z",
                "result": "Sent",
                "time": "2026-11-21T10:41:02Z",
            }
        ],
        "history": [
            {
                "time": "2026-11-21T10:41:00Z",
                "event": "ReclaimWarning",
                "reason": "UnreleasedJob (likely), 16 GPUs idle since 2026-11-21T09:41:00Z",
                "policy": "default",
                "generation": 3,
            }
        ],
    },
    "utilization": {
        "averagePercent": 31,
        "averagePercentRange": [29, 34],
        "recentPercent": 33,
        "peakMemoryPercent": 38,
        "coveragePercent": 98,
        "gpuHours": "64.0",
        "gpuHoursIdle": "44.2",
        "asOf": "2026-11-21T09:40:00Z",
        "stages": [
            {
                "stage": "Initialization",
                "start": "2026-11-21T05:40:00Z",
                "end": "2026-11-21T05:52:00Z",
                "averagePercent": 0,
            },
            {"stage": "Active", "start": "2026-11-21T05:52:00Z", "averagePercent": 33},
        ],
        "nodes": [
            {
                "pod": "bert-large-0",
                "node": "gpu-1",
                "gpuPercents": [[31, 30, 33, 31, 32, 31, 30]],
            },
            {"pod": "bert-large-1", "node": "gpu-2", "gpuPercents": [[31, None]]},
        ],
    },
    "pods": [
        {
            "name": "bert-large-0-x7k2p",
            "rank": 0,
            "node": "gpu-1",
            "gpus": 8,
            "since": "2026-11-21T05:40:00Z",
            "until": "2026-11-21T09:40:00Z",
        }
    ],
}


def test_status_survives_a_round_trip_whole(applier: Applier) -> None:
    """A field that the schema does not know would be pruned without a word."""
    applier.create(dljob())
    applier.set_status("bert", STATUS)
    assert applier.get("bert")["status"] == STATUS


def test_status_is_not_writable_with_the_spec(applier: Applier) -> None:
    applier.create(dljob() | {"status": STATUS})
    assert "status" not in applier.get("bert")


def test_get_shows_phase_readiness_gpus_utilization_and_findings(applier: Applier) -> None:
    applier.create(dljob(nodes=2))
    applier.set_status("bert", STATUS)
    header, row = applier.run("get", "dlj").stdout.splitlines()
    assert header.split() == ["NAME", "PHASE", "READY", "GPUS", "UTIL%", "IDLE", "FINDINGS", "AGE"]
    cells = [" ".join(cell.split()) for cell in _cells(header, row)]
    assert cells[:5] == ["bert", "Running", "2/2", "16", "31"]
    assert cells[6] == "2: ImproperBatchSize +1"


def test_get_leaves_what_is_unknown_empty(applier: Applier) -> None:
    applier.create(dljob())
    header, row = applier.run("get", "dlj").stdout.splitlines()
    assert [cell.strip() for cell in _cells(header, row)][1:7] == [""] * 6


def _cells(header: str, row: str) -> list[str]:
    """A row of kubectl's table, cut where the header's words begin."""
    starts = [0] + [at for at in range(1, len(header)) if header[at] != " " and header[at - 1] == " "]
    return [row[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


@pytest.mark.parametrize(
    "selector",
    [
        "spec.jobType=Interactive",
        "spec.gpuProduct=NVIDIA-L4",
        "status.phase=Reclaimed",
        "status.reclaim.state=Reclaimed",
    ],
)
def test_jobs_are_selectable_by_field(applier: Applier, selector: str) -> None:
    applier.create(dljob("one", jobType="Interactive", gpuProduct="NVIDIA-L4"))
    applier.create(dljob("two"))
    applier.set_status("one", {"phase": "Reclaimed", "reclaim": {"state": "Reclaimed"}})
    done = applier.run("get", "dljobs", "--field-selector", selector, "-o", "name")
    assert done.stdout.split() == ["dljob.stoker.dev/one"]


def test_explain_shows_descriptions_bounds_and_defaults(applier: Applier) -> None:
    job = " ".join(applier.run("explain", "dljob.spec").stdout.split())
    assert "Number of pods, each with the same GPUs, from 1 to 1024. Default: 1." in job
    assert "gpusPerNode <integer> -required-" in job
    assert "Default: 3 at one node, 0 on several" in job
    reclaim = " ".join(applier.run("explain", "utilizationpolicy.spec.reclaim").stdout.split())
    assert "enum: Observe, Suspend, Delete" in reclaim
    assert "Default: Observe." in reclaim
    assert "Default: 60m." in reclaim


def test_explain_knows_the_fields_of_a_pod(applier: Applier) -> None:
    pod = applier.run("explain", "dljob.spec.podTemplate.spec").stdout
    assert "tolerations\t<[]Object>" in pod
    assert "ephemeralContainers" not in pod


def test_the_schema_of_pods_is_the_api_servers(installed: Cluster) -> None:
    """Else run hack/kubernetes_schema.py against the cluster of the new version."""
    require_newest(installed, "the committed schema is that of the newest")
    committed = json.loads(kubernetes_schema.TARGET.read_text())
    assert kubernetes_schema.document(lambda path: installed.api("GET", path)) == committed


def test_a_template_written_from_gos_types_is_accepted_by_both_kinds_of_apply(applier: Applier) -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [{"name": "trainer", "resources": {}}]}}
    # Kubernetes 1.33 keeps the null of a server-side apply, and then takes the same template for another one.
    kinds = ([], ["--server-side"]) if minor(applier.cluster) > 33 else ([],)
    for number, options in enumerate(kinds):
        job = dljob(f"job-{number}", podTemplate=template)
        for _ in range(2):  # nothing of it changes by applying it again
            done = applier.run("apply", "-f", "-", *options, manifest=job)
            assert done.returncode == 0, done.stderr


def test_a_large_job_can_still_be_suspended(applier: Applier) -> None:
    applier.create(dljob(args=["x" * 130_000, "y" * 130_000]))
    assert applier.patch("bert", {"suspend": True}).returncode == 0


def test_delete_all_does_not_reach_jobs(applier: Applier) -> None:
    """`kubectl delete all --all` is a habit; a job that ran for weeks must not fall to it."""
    applier.create(dljob())
    assert applier.run("delete", "all", "--all").returncode == 0
    assert applier.get("bert")["metadata"]["name"] == "bert"


def test_a_generated_name_is_accepted(applier: Applier) -> None:
    manifest = dljob() | {"metadata": {"generateName": "bert-"}}
    applier.create(manifest)


def test_jobs_are_namespaced_and_policies_are_not(applier: Applier) -> None:
    listed = applier.run("api-resources", "--api-group=stoker.dev", "--no-headers").stdout.splitlines()
    rows = {row.split()[0]: row.split() for row in listed}
    assert rows["dljobs"] == ["dljobs", "dlj", "stoker.dev/v1alpha1", "true", "DLJob"]
    assert rows["utilizationpolicies"] == [
        "utilizationpolicies",
        "upol",
        "stoker.dev/v1alpha1",
        "false",
        "UtilizationPolicy",
    ]
