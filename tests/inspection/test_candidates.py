"""`stoker diagnose` and `stoker explain` judge the same job as the controller: whatever reclaim must know of it reaches
all three.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, NAMESPACES, PODS, POLICIES, WORKLOADS, Object
from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller import reclaimer
from stoker.controller.assembly import Substitutes
from stoker.controller.status_findings import recorded
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import JobType, Source
from stoker.inspection.clustered import Wanted, find
from stoker.inspection.look import Looker, ReadPeriod
from stoker.inspection.reclaim_report import reclaim_report
from stoker.policy.resolution import resolve
from stoker.reclaim import FACTS, Candidate, Case, Execution, Plan, Record, plan
from stoker.reclaim.action_gates import NOTHING_LOST
from stoker.reclaim.gates import GATES
from tests.cli.test_diagnose import END, START, STOPS, TRAINS, Tape
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock
from tests.workload.building import JOB_UID, WITH_VOLUME, dljob_object, job, pod

POD = "bert-0-abcde"
FINDING = {
    "category": "UnreleasedJob",
    "rule": "unreleased-job",
    "severity": "Warning",
    "confidence": "Likely",
    "detail": "idle",
    "sources": ["Metrics"],
}
IDLE_SINCE = START + timedelta(hours=2)
POLICY = {
    "apiVersion": "stoker.dev/v1alpha1",
    "kind": "UtilizationPolicy",
    "metadata": {"name": "default", "uid": "p"},
    "spec": {
        "reclaim": {"mode": "Suspend"},
        "exemptions": [{"rule": "*", "reason": "kept", "jobSelector": {"matchLabels": {"keep": "yes"}}}],
    },
}


@dataclass
class Cluster:
    """A job that holds eight GPUs for four hours and is idle for the last two, and what was recorded of them."""

    dljob: Object = field(
        default_factory=lambda: dljob_object(
            podTemplate=deepcopy(WITH_VOLUME),
            status={
                "phase": "Running",
                "jobUID": JOB_UID,
                "conditions": [
                    {"type": "Idle", "status": "True", "reason": "AllGPUsIdle", "lastTransitionTime": rfc3339(END)}
                ],
                "findings": [FINDING],
                "reclaim": {"state": "None", "idleSince": rfc3339(IDLE_SINCE)},
            },
        )
    )
    job: Object = field(default_factory=job)
    pod: Object = field(default_factory=lambda: pod(started=rfc3339(START)))
    workloads: list[Object] = field(default_factory=list)
    gpus: str = STOPS

    def __post_init__(self) -> None:
        self.pod["spec"]["terminationGracePeriodSeconds"] = 60

    def annotate(self, name: str, value: str) -> None:
        self.dljob["metadata"].setdefault("annotations", {})[f"stoker.dev/{name}"] = value

    @property
    def template(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.dljob["spec"]["podTemplate"]["spec"]
        return spec

    def api(self) -> FakeApi:
        api = FakeApi()
        api.store(DLJOBS, "team", self.dljob)
        api.store(JOBS, "team", self.job)
        api.store(PODS, "team", self.pod)
        api.store(POLICIES, None, POLICY)
        api.store(NAMESPACES, None, {"metadata": {"name": "team", "labels": {}}})
        for workload in self.workloads:
            api.store(WORKLOADS[0], "team", workload)
        return api

    # ----------------------------------------------------------------------------------- who asks whether it is idle

    async def controlled(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Candidate, Plan]:
        """The candidate of the controller's last plan, and the plan."""
        cases: list[Case] = []

        def planned(case: Case) -> Plan:
            cases.append(case)
            return plan(case)

        monkeypatch.setattr(reclaimer, "plan", planned)
        api, cache = self.api(), ClusterCache(Faults())
        cache.policies.put(api.objects[POLICIES, None, "default"])
        cache.namespaces.put(api.objects[NAMESPACES, None, "team"])
        parts = assembled(api, HeldClock(END), metrics=self.tape, substitutes=Substitutes(cache=cache))
        known = DLJob.model_validate(self.dljob)
        await parts.manifests.review(known)
        assert known.status is not None
        idle = Idleness(
            state=IdlenessState.IDLE,
            observed_at=END,
            since=IDLE_SINCE,
            pod_uids=frozenset({self.pod["metadata"]["uid"]}),
        )
        made = await parts.reclaimer.plan(
            known,
            self.job,
            [self.pod],
            recorded(known),
            idle,
            Record.from_status(known.status.reclaim),
            Execution(examination_age=timedelta(0)),
        )
        return cases[-1].job, made

    async def diagnosed(self, end: datetime | None = None) -> tuple[Candidate, bool]:
        """The candidate of `stoker diagnose`, at that time or now, and whether it is said to be reclaimable."""
        (workload,) = await find(self.api(), Wanted(namespace="team"), END)
        (looked,) = await Looker(source=self.tape, period=ReadPeriod(end=end, now=END)).look_at([workload])
        assert looked.candidate is not None, looked.error
        return looked.candidate, looked.eligibility.eligible

    def explained(self) -> tuple[Candidate, str | None]:
        """The candidate of `stoker explain`, and the gate that it names."""
        policy = resolve([UtilizationPolicy.model_validate(POLICY)], "team", {})
        report = reclaim_report(DLJob.model_validate(self.dljob), self.job, [self.pod], policy, END)
        return report.case.job, report.decisive.gate if report.decisive is not None else None

    @property
    def tape(self) -> Tape:
        return Tape(pods={POD: [self.gpus] * 8})


def _of_another_job(it: Cluster) -> None:
    uid = "33333333-3333-3333-3333-333333333333"
    it.job["metadata"]["uid"] = it.dljob["status"]["jobUID"] = uid
    it.pod["metadata"]["ownerReferences"][0]["uid"] = uid


def _working(it: Cluster) -> None:
    it.gpus, it.dljob["status"]["findings"] = TRAINS, []


def _serving(it: Cluster) -> None:
    it.dljob["spec"]["jobType"], it.dljob["status"]["findings"] = JobType.SERVING, []


def _starts_a_server(it: Cluster) -> None:
    it.dljob["spec"]["script"], it.dljob["status"]["findings"] = "vllm serve meta-llama/Llama-3.1-8B", []


DRAWS: dict[str, Callable[[Cluster], object]] = {
    "job_type": _serving,
    "gpus": lambda it: it.dljob["spec"].update(gpusPerNode=4),
    "job_uid": _of_another_job,
    "pod_uids": lambda it: it.pod["metadata"].update(uid="pod-9"),
    "last_start": lambda it: it.pod["status"]["containerStatuses"][0]["state"]["running"].update(
        startedAt=rfc3339(START + timedelta(hours=1))
    ),
    "labels": lambda it: it.dljob["metadata"].update(labels={"keep": "yes"}),
    "priority_class": lambda it: it.template.update(priorityClassName="batch-low"),
    "gpu_product": lambda it: it.pod["spec"].update(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
    "findings": _working,
    "idle_after": lambda it: it.dljob["spec"].update(reclaim={"idleAfter": "3h"}),
    "resume": lambda it: it.annotate("resume", "again"),
    "unsuspended": lambda it: it.dljob["status"].update(observedSuspend=True),
    "snooze": lambda it: it.annotate("snooze-until", rfc3339(END + timedelta(hours=1))),
    "snooze_reason": lambda it: it.annotate("snooze-reason", "a demo tomorrow"),
    "has_persistent_volume": lambda it: it.template.update(volumes=[]),
    "serves": _starts_a_server,
    "offers": lambda it: it.template["containers"][0].update(ports=[{"containerPort": 8000}]),
    "termination_grace": lambda it: it.pod["spec"].update(terminationGracePeriodSeconds=5),
    "presence": lambda it: it.dljob["status"].update(lastSession=rfc3339(END - timedelta(minutes=5))),
    "unsuspendable": lambda it: it.job["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": "gpus"}),
    "untouchable": lambda it: it.dljob["metadata"].update(deletionTimestamp=rfc3339(END)),
}
"""For each field of a candidate a change of the objects or series by which it gets another value."""
ONLY_THE_CONTROLLER_ASKS = frozenset({"unsuspendable"})
"""Fields that take requests which nobody else may make. `stoker explain` marks their gates (Reads.CLUSTER)."""


def test_every_field_is_drawn() -> None:
    assert set(DRAWS) == {one.name for one in fields(Candidate)}


def values(candidate: Candidate) -> dict[str, Any]:
    """Of the findings only the rules: the status may remember the figures of an earlier time."""
    own = {one.name: getattr(candidate, one.name) for one in fields(Candidate)}
    return {**own, "findings": {one.rule for one in candidate.findings if Source.METRICS in one.sources}}


@pytest.mark.parametrize("name", DRAWS)
async def test_whatever_is_known_of_a_job_reaches_all_who_judge_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = Cluster(), Cluster()
    DRAWS[name](after)
    plain, _ = await before.controlled(monkeypatch)
    controlled, planned = await after.controlled(monkeypatch)
    (diagnosed, eligible), (explained, gate) = await after.diagnosed(), after.explained()
    assert getattr(controlled, name) != getattr(plain, name), "the draw has no effect"
    expected = {**values(controlled), **dict.fromkeys(ONLY_THE_CONTROLLER_ASKS)}
    assert values(diagnosed) == expected
    assert values(explained) == expected

    by_itself = next((one for one in GATES if one.name == planned.gate), None)
    assert eligible is (by_itself is None or (by_itself.group not in FACTS and by_itself is not NOTHING_LOST))
    if name not in ONLY_THE_CONTROLLER_ASKS:
        assert gate == planned.gate


async def test_a_job_in_none_of_these_situations_is_reclaimable(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Cluster()
    (_, planned), (_, eligible) = await known.controlled(monkeypatch), await known.diagnosed()
    assert (planned.gate, eligible, known.explained()[1]) == ("warned", True, "warned")


async def test_what_the_objects_say_of_the_present_is_not_said_of_an_earlier_time() -> None:
    known = Cluster()
    known.job["spec"]["suspend"] = True
    (now, eligible), (then, was_eligible) = await known.diagnosed(), await known.diagnosed(END - timedelta(minutes=5))
    assert (now.untouchable, eligible) == ("it is suspended", False)
    assert (then.untouchable, was_eligible) == (None, True)


async def test_a_port_of_pods_that_no_dljob_owns_is_seen() -> None:
    known = Cluster()
    del known.pod["metadata"]["labels"], known.pod["metadata"]["ownerReferences"]
    known.pod["spec"]["containers"][0].update(name="main", ports=[{"containerPort": 8000}])
    api = known.api()
    del api.objects[DLJOBS, "team", "bert"]
    (workload,) = await find(api, Wanted(namespace="team"), END)
    assert workload.candidate is not None
    assert (workload.owner, workload.candidate.offers) == ("Pod", "port 8000")
