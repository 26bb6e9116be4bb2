"""Bystander jobs, and rounds in which tenants, nodes and administrators write hostile objects beside them.

In each round one bystander is submitted, refused, examined, warned, reclaimed and resumed, and another one works. What
the bystanders are told must be what they are told in the first round, in which nobody else is there.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.change_recorder import ChangeRecorder
from e2e.cluster.api import ApiClient, ApiError
from e2e.cluster.provider import Cluster, Taint
from e2e.cluster.waiting import wait_for
from e2e.hostile.objects import OWNER, Hostile, Kind, hostile_objects
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import BUSY, IDLE, PAST, RESTS, TRAINS, Idling, past, scenario

ALONE = "alone"
ROUND = "e2e.stoker.dev/round"
"""The label of a bystander's namespace, which its round's policy selects."""
TENANT = "e2e.stoker.dev/tenant"
"""The label of a tenant's namespace, which hostile policies select."""
APART = Taint(key="e2e.stoker.dev/bystanders")
TOLERATIONS = [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", APART.key)]
UNREADABLE = 299
"""In place of the status where the API server answers with more warnings than this client takes headers."""
MERGE = "application/merge-patch+json"
REFUSED = "torchrun --nproc_per_node=4 train.py"
"""Refused on two GPUs."""
WRITERS = 4
"""Hostile writes at a time."""
LEAST = 20
"""Submissions of the bystander's that are timed in a round."""
PATIENCE = 300.0
"""Seconds that a bystander's next step may take before the test gives up on it: for machines that are busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What bystanders are told in a round: the same in every round."""

    refusal: str
    warnings: str
    causes: frozenset[str]
    states: tuple[str, ...]
    worker_states: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round as it went: what bystanders were told, and how many seconds they waited for it."""

    answers: Answers
    seconds: Mapping[str, float]


@dataclass(slots=True)
class Trial:
    """All rounds in one cluster. `rounds`: by name, the classes of hostile objects that are written in it; what was
    written stays.
    """

    operator: Operator
    recorder: ChangeRecorder
    rounds: Mapping[str, Sequence[str]]
    homes: dict[str, Idling] = field(default_factory=dict)
    tenants: dict[str, "Tenant"] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    """The HTTP status that each hostile write was answered with."""
    results: dict[str, Round] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        """Where it happens."""
        return self.operator.cluster

    def prepare(self) -> None:
        """Start the bystanders of all rounds, and the tenants' jobs whose pods are made hostile later; give them a
        past, and find the cause of each bystander's idleness.
        """
        objects = hostile_objects()
        for name, groups in self.rounds.items():
            self.homes[name] = Idling(self.operator, self.cluster, self.cluster.create_namespace("by", {ROUND: name}))
            mine = [one for one in objects if one.group in groups]
            self.tenants[name] = Tenant.enter(self.cluster, name, mine)
        for home in self.homes.values():
            self._begin(home, "idle", IDLE)
            self._begin(home, "busy", BUSY)
        for tenant in self.tenants.values():
            tenant.prepare()
        for name, home in self.homes.items():
            home.wait_phase("idle", "Running", timeout=PATIENCE)
            home.wait_phase("busy", "Running", timeout=PATIENCE)
            self.tenants[name].wait_prepared()
        self.cluster.backfill()
        # What was examined before it had a past would be slow to be examined again.
        self.operator.crash()
        for name in self.homes:
            self._rule(name, "Observe")
        for home in self.homes.values():
            home.wait_state("Idle", "idle", action="Observe", timeout=PATIENCE)

    def run(self, report: Callable[[str], object]) -> None:
        """All rounds, one after the other."""
        for name in self.rounds:
            self.results[name] = self._round(name)
            told = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in self.results[name].seconds.items())
            report(f"hostile: {name}: {told}")

    def _begin(self, home: Idling, name: str, phases: Any, since: timedelta = PAST) -> None:
        home.begin(
            name, phases, since=since, pod_template={"tolerations": TOLERATIONS, "nodeSelector": {APART.key: "yes"}}
        )

    def _rule(self, name: str, mode: str) -> None:
        self.homes[name].policy(mode, name=f"round-{name}", selector={ROUND: name})

    def _round(self, name: str) -> Round:
        home, tenant = self.homes[name], self.tenants[name]
        before = self._ticks()
        refusal, warnings, submitted = self._submit_beside(home, tenant)
        seconds = {"submitted (median)": _median(submitted), "submitted (slowest)": max(submitted)}
        self._begin(home, "fresh", BUSY, since=timedelta(0))
        seconds["running"] = self._seconds(lambda: home.wait_phase("fresh", "Running", timeout=PATIENCE))
        seconds["seen at work"] = self._seconds(
            lambda: home.wait_condition("fresh", "Idle", "False", "Active", timeout=PATIENCE)
        )
        causes = frozenset(one["category"] for one in home.status("idle").get("findings", ()) if "until" not in one)
        started = time.monotonic()
        self._rule(name, "Suspend")
        home.wait_state("Warned", "idle", timeout=PATIENCE)
        seconds["warned"] = time.monotonic() - started
        deadline = home.deadline("idle")
        home.wait_state("Reclaimed", "idle", timeout=PATIENCE)
        seconds["reclaimed after the deadline"] = (datetime.now(UTC) - deadline).total_seconds()
        home.annotate("idle", resume=name)
        seconds["resumed"] = self._seconds(lambda: self._wait_resumed(home))
        after = self._ticks()
        seconds["mean tick"] = (after[0] - before[0]) / max(after[1] - before[1], 1)
        states = self.recorder.states(home.namespace, "idle")
        answers = Answers(
            refusal=refusal,
            warnings=warnings,
            causes=causes,
            states=tuple(state for state in states if state in {"Warned", "Reclaiming", "Reclaimed"}),
            worker_states=frozenset(self.recorder.states(home.namespace, "busy")) & {"Warned", "Reclaimed"},
        )
        return Round(answers=answers, seconds=seconds)

    def _submit_beside(self, home: Idling, tenant: "Tenant") -> tuple[str, str, list[float]]:
        """Have the tenant write, and meanwhile submit dry runs of a wrong and of a right job again and again."""
        client = self.cluster.client()
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{home.namespace}/dljobs?dryRun=All"
        wrong, right = _submission(home, REFUSED), _submission(home, "torchrun train.py")
        refusals, warned, seconds = set[str](), set[str](), list[float]()
        with ThreadPoolExecutor(WRITERS) as pool:
            writes = {one.name: pool.submit(tenant.write, one) for one in tenant.objects}
            while len(seconds) < LEAST or not all(write.done() for write in writes.values()):
                started = time.monotonic()
                refusals.add(_answer(client, path, wrong))
                seconds.append(time.monotonic() - started)
                warned.add(_answer(client, path, right))
        client.close()
        self.answers |= {name: write.result() for name, write in writes.items()}
        assert len(refusals) == 1, refusals
        assert len(warned) == 1, warned
        return refusals.pop(), warned.pop(), seconds

    def _wait_resumed(self, home: Idling) -> None:
        wait_for("the bystander's Job to run again", lambda: not home.is_suspended("idle"), timeout=PATIENCE)
        home.wait_phase("idle", "Running", timeout=PATIENCE)

    def _ticks(self) -> tuple[float, float]:
        """The seconds of all looks at the metrics so far, and how many there were."""
        of = self.operator.metric
        name = "stoker_scan_tick_seconds"
        return of(f"{name}_sum", process=CONTROLLER), of(f"{name}_count", process=CONTROLLER)

    @staticmethod
    def _seconds(wait: Callable[[], object]) -> float:
        started = time.monotonic()
        wait()
        return time.monotonic() - started


@dataclass(slots=True)
class Tenant:
    """Somebody with the role `edit` in one namespace, and whoever else writes there: nodes and administrators."""

    cluster: Cluster
    home: Idling
    client: ApiClient
    objects: Sequence[Hostile]

    @classmethod
    def enter(cls, cluster: Cluster, name: str, objects: Sequence[Hostile]) -> "Tenant":
        """Make the namespace and the account."""
        namespace = cluster.create_namespace("tenant", {TENANT: name})
        cluster.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": namespace}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "tenant", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
            },
        )
        kubeconfig = cluster.service_account_kubeconfig(namespace, "tenant")
        return cls(cluster, Idling(None, cluster, namespace), cluster.client(kubeconfig), objects)  # type: ignore[arg-type]  # it starts nothing

    def prepare(self) -> None:
        """Start the jobs whose Job, pods and series are to be made hostile, and don't wait for them."""
        for one in self.objects:
            if one.kind is Kind.SERIES:
                self._play(one)
            elif one.kind in VICTIMS:
                self.home.begin(one.name, IDLE, gpus=1)

    def wait_prepared(self) -> None:
        """Wait for them to run."""
        for one in self.objects:
            if one.kind in {*VICTIMS, Kind.SERIES}:
                self.home.wait_phase(one.name, "Running", timeout=PATIENCE)

    def write(self, one: Hostile) -> int:
        """Write one hostile object; the HTTP status of the answer."""
        try:
            match one.kind:
                case Kind.JOB:
                    self._post(f"{DLJOBS}/dljobs", self._named(one))
                case Kind.POD | Kind.POD_STATUS:
                    self._patch_pods(one)
                case Kind.STRAY:
                    self._post("/api/v1/namespaces/{}/pods", self._stray(one))
                case Kind.CHILD:
                    self._request("PATCH", f"/apis/batch/v1/namespaces/{{}}/jobs/{one.name}", one.manifest)
                case Kind.NAMESPACE:
                    self.cluster.api("PATCH", self._namespace, dict(one.manifest), MERGE)
                case Kind.POLICY:
                    self.cluster.api("POST", "/apis/stoker.dev/v1alpha1/utilizationpolicies", self._policy(one))
                case Kind.SERIES:
                    pass  # It is shown since the beginning.
        except ApiError as error:
            return error.status
        except http.client.HTTPException:
            return UNREADABLE
        return 200

    def _play(self, one: Hostile) -> None:
        labels = ",".join(f"{key}={value}" for key, value in one.manifest.get("labels", {}).items())
        phases = (TRAINS, {**RESTS, **one.manifest["phase"]})
        clock = one.manifest.get("clock", "0s")
        play = {"scenario": scenario(phases, clock=clock), "started_at": past(timedelta(hours=2))}
        self.home.create(one.name, play={**play, "device_labels": labels}, gpusPerNode=1)

    def _named(self, one: Hostile) -> dict[str, Any]:
        """The DLJob; its name is that of the hostile object, unless the name is what is hostile."""
        if "-name-" in one.name or one.name.endswith("generated"):
            return dict(one.manifest)
        return {**one.manifest, "metadata": {**one.manifest["metadata"], "name": one.name}}

    def _stray(self, one: Hostile) -> dict[str, Any]:
        uid = self.home.job(one.name)["metadata"]["uid"]
        body: dict[str, Any] = json.loads(json.dumps(one.manifest).replace(OWNER, uid))
        metadata = {**body["metadata"], "name": f"stray-{one.name}", "labels": {"stoker.dev/dljob": one.name}}
        return {"apiVersion": "v1", "kind": "Pod", **body, "metadata": metadata}

    def _policy(self, one: Hostile) -> dict[str, Any]:
        selector = {"matchLabels": {TENANT: self.cluster.api("GET", self._namespace)["metadata"]["labels"][TENANT]}}
        spec = {"namespaceSelector": selector, **one.manifest}
        metadata = {"name": one.name}
        return {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "UtilizationPolicy",
            "metadata": metadata,
            "spec": spec,
        }

    @property
    def _namespace(self) -> str:
        return f"/api/v1/namespaces/{self.home.namespace}"

    def _patch_pods(self, one: Hostile) -> None:
        """As the tenant; of the status, as the node does."""
        for pod in self.home.pods(one.name):
            path = f"/api/v1/namespaces/{{}}/pods/{pod['metadata']['name']}"
            if one.kind is Kind.POD:
                self._request("PATCH", path, one.manifest)
            else:
                self.cluster.api("PATCH", path.format(self.home.namespace) + "/status", dict(one.manifest), MERGE)

    def _post(self, path: str, body: Mapping[str, Any]) -> None:
        self.client.request("POST", path.format(self.home.namespace), body)

    def _request(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        self.client.request(method, path.format(self.home.namespace), body, MERGE)


DLJOBS = "/apis/stoker.dev/v1alpha1/namespaces/{}"
VICTIMS = frozenset({Kind.POD, Kind.POD_STATUS, Kind.STRAY, Kind.CHILD})
"""What needs a running job of the tenant's."""


def groups(objects: Iterable[Hostile]) -> list[str]:
    """The classes of hostile objects, in their order."""
    return list(dict.fromkeys(one.group for one in objects))


def _submission(home: Idling, script: str) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": "submitted", "namespace": home.namespace},
        "spec": {"gpusPerNode": 2, "image": "registry.example.com/nlp/bert:2026.11", "script": script},
    }


def _answer(client: ApiClient, path: str, body: Mapping[str, Any]) -> str:
    """What a submission is told: why it is refused, else the warnings."""
    try:
        return "; ".join(client.request("POST", path, body).warnings)
    except ApiError as error:
        return error.message


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
