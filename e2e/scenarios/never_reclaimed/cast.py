"""Jobs whose GPUs all rest and of which none may be touched, beside twins of which the same numbers are enough."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from e2e.cluster.provider import Taint
from e2e.cluster.waiting import wait_for
from e2e.operator import Operator
from e2e.scenarios.reclaim.idling import RESTS, TRAINS, Idling, Phase, Phases

GRACE = 900
"""Seconds for which a pod ends, so that it is seen ending."""
NOW_AND_THEN: Phase = {"for": "10m", "util": 30, "memory": "40%", "cpu": 2}
USED_ONCE: Phases = (NOW_AND_THEN, RESTS)
"""What an interactive job looks like: little use, then none."""
TYPED_LATELY: Phases = (NOW_AND_THEN, {**RESTS, "for": "100m"}, {**RESTS, "cpu": 1.0})
"""Its GPUs rest as long, and somebody has used its CPUs in the last ten minutes."""
SPINS: Phase = {"util": 99, "memory": "70%", "tensor": 0, "dram": 0, "rx": 0, "tx": 0, "power": 125, "cpu": 1}
"""A collective operation that never ends."""
HOLD = "e2e.stoker.dev/hold"
"""A finalizer that nobody removes."""
ALONE = Taint(key="e2e.stoker.dev/alone")
"""Of the node on which one of two pods waits for the other: other jobs would take some of its GPUs."""
TYPING = {"e2e.stoker.dev/policy": "typing"}
SESSIONS = {
    "admission": {
        "sessionWebhook": {
            "enabled": True,
            "trustNetwork": True,
            "timeoutSeconds": 10,
            "ignoredUsers": ["system:serviceaccount:ci:runner"],
        }
    }
}

RECLAIMED = ("twin", "twin-interactive")


class Cast:
    """All the jobs, in two namespaces: one whose policy spares sessions without a volume, and one whose does not."""

    def __init__(self, operator: Operator) -> None:
        cluster = operator.cluster
        self.operator = operator
        self.main = Idling(operator, cluster, cluster.create_namespace("spared"))
        self.typing = self.main.beside(TYPING)
        self.opened_at = datetime.now(UTC)

    def of(self, name: str) -> Idling:
        """The namespace of a job."""
        return self.typing if name in TYPISTS else self.main

    def enter(self) -> None:
        """Create all jobs, and have happen to each what is to happen."""
        for name, options in {**OTHERS, **TYPISTS}.items():
            self.of(name).begin(name, **{"gpus": 1, **options})
        for name in {**OTHERS, **TYPISTS}:
            if name not in NEVER_RUNNING:
                self.of(name).wait_phase(name, "Running")
        # Of its two pods one has a node, where it waits for the other.
        wait_for("one pod to run alone", lambda: sum(map(_runs, self.main.pods("waiting"))) == 1)
        self.operator.cluster.backfill()
        for name, happens in HAPPENS.items():
            happens(self, name)

    def judge(self) -> None:
        """Reclaim what may be, once all rest; return when that has been done."""
        for mode in ("Observe", "Suspend"):
            self.main.policy(mode, trainingWithoutVolume=False)
            self.main.policy(mode, name="typing", selector=TYPING, interactiveWithoutVolume=True)
            for name in RECLAIMED:
                self.of(name).wait_condition(name, "Idle", "True", timeout=60)
        for name in RECLAIMED:
            self.of(name).wait_state("Reclaimed", name, timeout=180)

    def why(self, name: str) -> str:
        """What the status says of it: the record's state and reason, and the condition Idle."""
        record = self.of(name).record(name)
        idle: Mapping[str, str] = next(
            (one for one in self.of(name).status(name).get("conditions", ()) if one["type"] == "Idle"), {}
        )
        said = f"{record.get('state')}: {record.get('reason')}"
        return f"{said} | Idle={idle.get('status')} {idle.get('reason')}: {idle.get('message')}"

    def busiest(self, name: str) -> float | None:
        """The highest utilization of its GPUs in the last half hour, in percent; None without samples."""
        namespace = self.of(name).namespace
        found = self.operator.cluster.query(
            f'max(max_over_time(DCGM_FI_DEV_GPU_UTIL{{namespace="{namespace}",pod=~"{name}-[0-9].*"}}[30m]))'
        )
        return float(found[0]["value"][1]) if found else None

    # ---------------------------------------------------------------------------------------- what happens to them

    def delete_pod(self, name: str) -> None:
        """Its pod ends for a quarter of an hour."""
        home = self.of(name)
        pod = home.pods(name)[0]["metadata"]["name"]
        home.cluster.api("DELETE", f"/api/v1/namespaces/{home.namespace}/pods/{pod}")

    def delete_job(self, name: str) -> None:
        """Its Job is deleted, but for a finalizer."""
        home = self.of(name)
        home.patch_job(name, {"metadata": {"finalizers": [*home.job(name)["metadata"].get("finalizers", ()), HOLD]}})
        path = f"/apis/batch/v1/namespaces/{home.namespace}/jobs/{name}"
        home.cluster.api("DELETE", path, {"propagationPolicy": "Background"})

    def delete(self, name: str) -> None:
        """It is deleted, but for a finalizer."""
        self.of(name).patch(name, {"metadata": {"finalizers": [HOLD]}})
        self.of(name).delete(name)

    def end_trainer(self, name: str) -> None:
        """Its trainer ends, and the container beside it runs on."""
        self._end(name, rank=0, phase="Running")

    def end_leader(self, name: str) -> None:
        """Its first rank succeeds, which is enough; the second one takes its time to end."""
        self._end(name, rank=0, phase="Succeeded")
        self._wait_job(name, "SuccessCriteriaMet")

    def run_late(self, name: str) -> None:
        """It runs longer than it may from now on, and takes its time to end."""
        self.of(name).patch(name, {"spec": {"activeDeadlineSeconds": 1}})
        self._wait_job(name, "FailureTarget")

    def open_session(self, name: str) -> None:
        """Somebody runs a command in its pod. Behind the API server there is no container, so it fails there."""
        home = self.of(name)
        self.opened_at = datetime.now(UTC).replace(microsecond=0)
        pod = home.pods(name)[0]["metadata"]["name"]
        answer = home.cluster.run_kubectl(
            "exec", pod, f"--namespace={home.namespace}", "--container=trainer", "--", "ls"
        )
        assert answer.returncode != 0, "no simulated kubelet runs commands"
        wait_for("the session to be noted", lambda: home.status(name).get("lastSession"))

    def _end(self, name: str, *, rank: int, phase: str) -> None:
        home = self.of(name)
        pod = next(one for one in home.pods(name) if f"{name}-{rank}-" in one["metadata"]["name"])
        status = pod["status"]
        containers = [
            _ended(one) if one["name"] == "trainer" or phase != "Running" else one
            for one in status["containerStatuses"]
        ]
        conditions = [
            {**one, "status": "False"} if one["type"] in {"Ready", "ContainersReady"} else one
            for one in status["conditions"]
        ]
        body = {"status": {"phase": phase, "containerStatuses": containers, "conditions": conditions}}
        path = f"/api/v1/namespaces/{home.namespace}/pods/{pod['metadata']['name']}/status"
        home.cluster.api("PATCH", path, body, "application/merge-patch+json")

    def _wait_job(self, name: str, condition: str) -> None:
        def probe() -> bool:
            conditions = self.of(name).job(name).get("status", {}).get("conditions", ())
            return any(one["type"] == condition and one["status"] == "True" for one in conditions)

        wait_for(f"{condition} of {name}", probe, timeout=60)


def _runs(pod: Mapping[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _ended(container: Mapping[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": container["state"]["running"]["startedAt"]}
    return {**container, "ready": False, "started": False, "state": {"terminated": {**ended, "finishedAt": now}}}


def _beside(**container: Any) -> dict[str, Any]:
    """A pod template with another container beside the trainer."""
    return {"containers": [{"name": "logs", "image": "registry.example.com/ship:1", **container}]}


def _trainer(**fields: Any) -> dict[str, Any]:
    """A pod template that says this of the trainer."""
    return {"containers": [{"name": "trainer", **fields}]}


KEEPS: dict[str, Any] = {
    "volumes": [{"name": "results", "hostPath": {"path": "/data/results"}}],
    **_trainer(volumeMounts=[{"name": "results", "mountPath": "/results"}]),
}
"""A pod template under which results outlive the pods."""
SCRATCH: dict[str, Any] = {
    "volumes": [{"name": "results", "emptyDir": {}}],
    **_trainer(volumeMounts=[{"name": "results", "mountPath": "/results"}]),
}

OTHERS: dict[str, dict[str, Any]] = {
    "twin": {"pod_template": KEEPS},
    "without-volume": {},
    "scratch-only": {"pod_template": SCRATCH},
    "listening": {"pod_template": _trainer(ports=[{"containerPort": 8000}])},
    "slow-upload": {"phases": (TRAINS, {**RESTS, "cpu": 0.08}), "pod_template": KEEPS},
    "serving": {"jobType": "Serving"},
    "vllm": {"script": "vllm serve /models/llama"},
    "triton": {"script": "tritonserver --model-repository=/models"},
    "stalled": {"phases": (TRAINS, SPINS)},
    "shared": {"play": {"device_labels": "vgpu=1"}},
    "partitioned": {
        "phases": ({**TRAINS, "export": "driver"}, {**RESTS, "export": "driver"}),
        "play": {"device_labels": "GPU_I_ID=1,GPU_I_PROFILE=1g.10gb"},
    },
    "pulling": {"play": {"waiting_reason": "ImagePullBackOff"}},
    "initializing": {
        "play": {"start_delay": "2h"},
        "pod_template": {"initContainers": [{"name": "fetch", "image": "registry.example.com/fetch:1"}]},
    },
    "not-ready": {"play": {"ready": "false"}},
    "waiting": {
        "nodes": 2,
        "gpus": 8,
        "pod_template": {"nodeSelector": {ALONE.key: "yes"}, "tolerations": [{"key": ALONE.key, "operator": "Exists"}]},
    },
    "terminating": {"grace": GRACE},
    "deleted": {},
    "deleted-job": {},
    "succeeding": {"nodes": 2, "successPolicy": "Leader", "grace": GRACE},
    "failing": {"grace": GRACE},
    "sidecar": {"pod_template": _beside()},
    "interactive": {"phases": USED_ONCE, "jobType": "Interactive", "script": "sleep infinity"},
    "attended": {},
}
TYPISTS: dict[str, dict[str, Any]] = {
    "twin-interactive": {"phases": USED_ONCE, "jobType": "Interactive", "script": "sleep infinity"},
    "typing": {"phases": TYPED_LATELY, "jobType": "Interactive", "script": "sleep infinity"},
    "notebook": {"phases": USED_ONCE, "jobType": "Interactive", "script": "jupyter lab --ip=0.0.0.0"},
}
NEVER_RUNNING = frozenset({"pulling", "initializing", "not-ready", "waiting"})
HAPPENS: Mapping[str, Callable[[Cast, str], None]] = {
    "terminating": Cast.delete_pod,
    "deleted": Cast.delete,
    "deleted-job": Cast.delete_job,
    "sidecar": Cast.end_trainer,
    "succeeding": Cast.end_leader,
    "failing": Cast.run_late,
    "attended": Cast.open_session,
}
