"""No program reads a text that Stoker wrote: a status with every text in other words leads to the same."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, POLICIES
from stoker.api.crds import dljob_definition
from stoker.api.dljob import DLJob
from stoker.cluster.faults import Faults
from stoker.cluster.policies import Policies
from stoker.controller.digest import DigestPeriod, digest
from stoker.controller.job_metrics import JobMetrics
from stoker.controller.notification_messages import notification, occasion
from stoker.controller.scan_results import ScanResult
from stoker.findings.diagnosis import Advice, Diagnosis, Idleness, IdlenessState
from stoker.findings.finding import Location
from stoker.findings.vocabulary import Category, NotificationEvent, Source
from stoker.inspection.reclaim_report import reclaim_report
from stoker.reclaim import Record
from tests.controller.passes import KEY, NOW, World
from tests.controller.test_hysteresis import finding, used
from tests.workload.building import JOB_UID, WITH_VOLUME, pod

TEXTS = {
    "advice[].detail",
    "advice[].docs",
    "advice[].fix",
    "conditions[].message",
    "findings[].detail",
    "findings[].docs",
    "findings[].evidence",
    "findings[].fix",
    "findingsSummary",
    "ready",
    "reclaim.history[].reason",
    "reclaim.reason",
}
"""The fields of a status that are for people."""
NAMES = {
    "advice[].rule",
    "conditions[].reason",
    "conditions[].type",
    "findings[].location.fieldPath",
    "findings[].rule",
    "jobUID",
    "pods[].name",
    "pods[].node",
    "reclaim.handledResume",
    "reclaim.handledSnooze",
    "reclaim.history[].policy",
    "reclaim.jobUID",
    "reclaim.podUIDs[]",
    "reclaim.policies[].name",
    "reclaim.rule",
    "utilization.nodes[].node",
    "utilization.nodes[].pod",
}
"""Names and identifiers of objects, rules, fields and reasons, and what an owner wrote."""
QUANTITIES = {"findings[].gpuHoursIdle", "utilization.gpuHours", "utilization.gpuHoursIdle"}
"""Decimal numbers, which a custom resource holds as strings."""
TIMES_OF_WRITES = {"lookedAt", "utilization.asOf"}
"""These follow the moment of a write: a text in other words is a reason to write."""


def strings(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of the fields that may hold any string."""
    for name, inner in schema.get("properties", {}).items():
        yield from strings(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from strings(schema["items"], f"{path}[]")
    if schema.get("type") == "string" and not {"enum", "format"} & schema.keys():
        yield path


def without(value: Any, left_out: set[str], path: str = "") -> Any:
    """A status without some fields."""
    if isinstance(value, dict):
        inner = {name: f"{path}.{name}" if path else name for name in value}
        return {name: without(one, left_out, inner[name]) for name, one in value.items() if inner[name] not in left_out}
    return [without(one, left_out, f"{path}[]") for one in value] if isinstance(value, list) else value


def reworded(value: Any, path: str = "") -> Any:
    """A status with other words in every text."""
    if isinstance(value, dict):
        return {name: reworded(one, f"{path}.{name}" if path else name) for name, one in value.items()}
    if isinstance(value, list):
        return [reworded(one, f"{path}[]") for one in value]
    return "Drei von 7 anderen Wörtern: 2001-01-01T00:00:00Z" if path in TEXTS else value


def data(status: Mapping[str, Any]) -> Any:
    """What of a status is for programs."""
    return without(status, TEXTS | TIMES_OF_WRITES)


def test_every_string_of_a_status_is_a_text_a_name_or_a_quantity() -> None:
    (version,) = dljob_definition()["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert set(strings(status)) == TEXTS | NAMES | QUANTITIES


# ------------------------------------------------------------------------------------------------------ a job's story


IDLE = Idleness(
    state=IdlenessState.IDLE,
    observed_at=NOW,
    since=NOW - timedelta(hours=3),
    message="all 8 GPUs have been idle",
    pod_uids=frozenset({"pod-0"}),
    coverage_percent=100,
)
BUSY = Idleness(state=IdlenessState.ACTIVE, observed_at=NOW, message="GPU 3 works", pod_uids=frozenset({"pod-0"}))
UNRELEASED = replace(finding("unreleased-job"), category=Category.UNRELEASED_JOB, since=NOW - timedelta(hours=3))
MEASURED = Diagnosis(
    utilization=used(NOW),
    findings=(UNRELEASED, replace(finding(), location=Location(field_path="spec.script", line=1))),
    advice=(Advice(rule="headroom", detail="Half of the memory is free.", fix="Raise the batch.", docs="d"),),
)


class Story(World):
    """A job whose GPUs are idle, under a policy that suspends such jobs."""

    def __init__(self, mode: str) -> None:
        super().__init__(status={"jobUID": JOB_UID}, podTemplate=WITH_VOLUME, script="torchrun --nproc_per_node=4 t.py")
        policy = {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "UtilizationPolicy",
            "metadata": {"name": "default", "uid": "p", "generation": 3},
            "spec": {"reclaim": {"mode": mode}, "rules": {"launcher-too-few": {"action": "Warn"}}},
        }
        self.cache.policies.put(self.api.store(POLICIES, None, policy))
        self.restart()
        self.put_job()
        self.put_pods(pod(node="gpu-0", started="2026-11-21T04:00:00Z"))

    async def pass_with(self, idleness: Idleness, diagnosis: Diagnosis | None = MEASURED) -> None:
        """One scan and the pass that follows."""
        self.clock.time += timedelta(seconds=30)
        seen = replace(idleness, observed_at=self.clock.time)
        if diagnosis is not None and diagnosis.utilization is not None:
            diagnosis = replace(diagnosis, utilization=replace(diagnosis.utilization, as_of=self.clock.time))
        self.scan_results.put(self.uid, ScanResult(idleness=seen, diagnosis=diagnosis))
        await self.reconcile()

    def annotate(self, **annotations: str) -> None:
        raw = self.api.objects[DLJOBS, "team", "bert"]
        metadata = {**raw["metadata"], "annotations": {f"stoker.dev/{key}": text for key, text in annotations.items()}}
        self.cache.dljobs.put(self.api.store(DLJOBS, "team", {**raw, "metadata": metadata}))

    def reword(self) -> None:
        """Replace every text of the status."""
        raw = self.api.objects[DLJOBS, "team", "bert"]
        self.cache.dljobs.put(self.api.store(DLJOBS, "team", {**raw, "status": reworded(raw["status"])}))


async def goes_on(story: Story) -> None:
    await story.pass_with(IDLE)


async def works_again(story: Story) -> None:
    await story.pass_with(BUSY, replace(MEASURED, findings=()))


async def is_snoozed(story: Story) -> None:
    story.annotate(**{"snooze-until": "2026-11-21T18:00:00Z"})
    await story.pass_with(IDLE)


async def is_kept(story: Story) -> None:
    story.annotate(resume="please")
    await story.pass_with(IDLE)


async def loses_its_pod(story: Story) -> None:
    story.cache.pods.remove({**pod(), "metadata": {**pod()["metadata"], "resourceVersion": "99"}})
    await story.reconcile()


async def ends(story: Story) -> None:
    end = {"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": "2026-11-21T12:00:30Z"}
    story.put_job(conditions=[end])
    await story.pass_with(BUSY)
    await story.reconcile()


async def loses_its_job(story: Story) -> None:
    story.cache.jobs.objects.clear()
    del story.api.objects[JOBS, "team", "bert"]
    await story.reconcile()


def conclusions(story: Story) -> dict[str, Any]:
    """All that Stoker makes of what it has written."""
    raw = story.api.objects[DLJOBS, "team", "bert"]
    job, now = DLJob.model_validate(raw), story.clock.now()
    policy = Policies(story.cache.policies, story.cache.namespaces).of("team")
    record = Record.of(raw)
    report = reclaim_report(job, story.cache.jobs.get(KEY), list(story.cache.pods), policy, now)
    due = occasion(record, (NotificationEvent.WARNED, NotificationEvent.RECLAIMED), now)
    found = digest("default", [raw], DigestPeriod(start=NOW - timedelta(days=1), end=NOW + timedelta(days=1)))
    return {
        "status": data(raw["status"]),
        "events": sorted(event["reason"] for event in story.events),
        "job": story.api.objects.get((JOBS, "team", "bert"), {}).get("spec"),
        "gates": [(one.gate, one.holds, one.until) for one in report.results],
        "cause": report.case.cause is not None and report.case.cause.rule,
        "notification": None if due is None else notification(due, job, record, policy),
        "digest": None if found is None else found.title,
        "metrics": JobMetrics(story.cache, story.scan_results, story.clock, Faults()).text(),
    }


CONTINUATIONS = [goes_on, works_again, is_snoozed, is_kept, loses_its_pod, ends, loses_its_job]


@pytest.mark.parametrize("mode", ["Suspend", "Observe"])
@pytest.mark.parametrize("continuation", CONTINUATIONS)
async def test_a_status_in_other_words_leads_to_the_same(mode: str, continuation: Callable[[Story], Any]) -> None:
    found = []
    for is_reworded in (False, True):
        story = Story(mode)
        await story.pass_with(IDLE)
        await story.pass_with(IDLE)
        assert story.status["reclaim"]["state"] == ("Warned" if mode == "Suspend" else "Idle")
        assert {Source.METRICS.value in one["sources"] for one in story.status["findings"]} == {True, False}
        if is_reworded:
            story.reword()
        before = conclusions(story)
        await continuation(story)
        await story.reconcile()
        found.append((before, conclusions(story)))
    assert found[0] == found[1]
