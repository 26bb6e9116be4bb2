"""When a pass is to be followed by another one, and what it does not do. What Kubernetes makes of it: end to end."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, ConflictError, ForbiddenError, UnavailableError
from stoker.api.dljob import DLJobStatus
from stoker.cluster.workqueue import Transient
from stoker.controller.children import FIRST_PAUSE
from stoker.controller.reclaimer import Reclaimer
from stoker.controller.requeue import AT_ONCE, REFUSED, UNANSWERED
from stoker.controller.scan_results import ScanResult
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState, Utilization
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import Category, Confidence, Severity, Source, UnknownReason
from stoker.reclaim.case import CLOCKS_APART
from stoker.workload.observation import SUSPENDED_BY
from tests.controller.cluster import failing
from tests.controller.passes import NOW, World
from tests.workload.building import JOB_UID, WITH_VOLUME, dljob_object, job, pod


async def test_a_second_pass_over_what_has_not_changed_writes_nothing() -> None:
    world = World(nodes=2)
    await world.reconcile()
    made = ["create services", "create jobs", "replace dljobs", "create events"]
    assert world.writes == made
    assert world.status["jobUID"] == world.api.objects[JOBS, "team", "bert"]["metadata"]["uid"]
    await world.reconcile()
    assert world.writes == made


async def test_a_pass_that_was_cut_off_after_the_creation_finds_the_job() -> None:
    world = World()
    world.api.store(JOBS, "team", job())
    await world.reconcile()
    assert world.status["jobUID"] == JOB_UID
    assert "create jobs" in world.writes


ENDED = [{"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": "2026-11-21T11:59:50Z"}]


async def test_the_end_is_followed_by_its_time_to_live_though_no_event_comes_any_more() -> None:
    world = World(status={"jobUID": JOB_UID}, ttlSecondsAfterFinished=60)
    world.put_job(conditions=ENDED)
    assert await world.reconcile() == AT_ONCE
    assert world.status["phase"] == "Succeeded"
    assert await world.reconcile() == 50
    world.clock.time += timedelta(seconds=50)
    await world.reconcile()
    assert (DLJOBS, "team", "bert") not in world.api.objects


async def test_a_suspension_whose_answer_was_lost_is_recorded_and_not_undone() -> None:
    """The watch has not told of it yet; the store still has the running Job."""
    record = {"state": "Reclaiming", "action": "Suspend", "warnedAt": "2026-11-21T11:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    world.put_job()
    suspended = world.api.objects[JOBS, "team", "bert"]
    suspended["spec"]["suspend"] = True
    suspended["metadata"].setdefault("annotations", {})["stoker.dev/suspended-by"] = "reclaim"
    world.api.store(JOBS, "team", suspended)
    await world.reconcile()
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Reclaimed"
    assert world.api.objects[JOBS, "team", "bert"]["spec"]["suspend"] is True


async def test_a_job_that_reclaim_deleted_is_left_in_peace() -> None:
    record = {"state": "Reclaiming", "action": "Delete", "warnedAt": "2026-11-21T11:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    assert await world.reconcile() is None
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaimed")
    assert await world.reconcile() is None
    assert not [one for one in world.writes if one.endswith("jobs") and one != "replace dljobs"]


async def test_a_deleted_job_is_the_end_only_when_the_api_server_says_so_too() -> None:
    """The store may be behind: it is asked again before the job is given up."""
    world = World(status={"jobUID": JOB_UID})
    world.api.store(JOBS, "team", job())
    await world.reconcile()
    assert world.status["phase"] == "Pending"
    del world.api.objects[JOBS, "team", "bert"]
    world.cache.jobs.objects.clear()
    assert await world.reconcile() == AT_ONCE
    assert world.status["phase"] == "Failed"
    assert "create jobs" not in world.writes


async def test_without_an_answer_nothing_is_concluded() -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Running"})
    world.api.before = failing(UnavailableError("get", code=503, reason="down"))
    with pytest.raises(Transient):
        await world.reconcile()
    assert world.status["phase"] == "Running"


async def test_a_conflict_is_tried_again() -> None:
    world = World()
    world.api.store(DLJOBS, "team", world.api.objects[DLJOBS, "team", "bert"])
    with pytest.raises(Transient, match="changed meanwhile"):
        await world.reconcile()


async def test_a_job_that_is_forbidden_is_told_without_the_servers_words_and_tried_again() -> None:
    world = World()

    def refuse(asked: str) -> None:
        if asked == "create jobs":
            raise ForbiddenError("create", code=403, reason="Forbidden", answer="env: TOKEN=s3cr3t")

    world.api.before = refuse
    assert await world.reconcile() == REFUSED
    ready = next(one for one in world.status["conditions"] if one["type"] == "PodsReady")
    assert (world.status["phase"], ready["reason"]) == ("Pending", "JobForbidden")
    assert "s3cr3t" not in str(world.api.objects)


def condition(world: World, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in world.status["conditions"] if one["type"] == kind)
    return found


GENERATION = dljob_object()["metadata"]["generation"]
WEBHOOK_DOWN = UnavailableError(
    "patch", code=500, reason="InternalError", answer='failed calling webhook "vjob.kb.io": no route to host'
)


async def test_while_a_webhook_on_jobs_does_not_answer_the_status_says_so() -> None:
    world = World()

    def fail(asked: str) -> None:
        if asked == "create jobs":
            raise WEBHOOK_DOWN

    world.api.before = fail
    assert await world.reconcile() == UNANSWERED
    assert (world.status["phase"], world.status["observedGeneration"]) == ("Pending", GENERATION)
    ready = condition(world, "PodsReady")
    assert ready["reason"] == "JobNotCreated"
    assert "the admission webhook vjob.kb.io does not answer" in ready["message"]
    world.api.before = lambda _: None
    await world.reconcile()
    assert "jobUID" in world.status


@pytest.mark.parametrize(
    "suspend, mark, words",
    [
        (True, {}, "spec.suspend is true, but its Job can't be suspended: the admission webhook vjob.kb.io"),
        (False, {SUSPENDED_BY: "user"}, "the job should run again, but its Job can't be resumed"),
    ],
)
async def test_a_suspension_that_cannot_be_written_is_told(suspend: bool, mark: dict[str, str], words: str) -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Running"}, suspend=suspend)
    world.put_job(suspend=not suspend, annotations=mark)
    world.put_pods(pod())

    def fail(asked: str) -> None:
        if asked == "patch jobs":
            raise WEBHOOK_DOWN

    world.api.before = fail
    assert await world.reconcile() == UNANSWERED
    suspended = condition(world, "Suspended")
    assert (suspended["reason"], suspended["observedGeneration"]) == ("JobNotChanged", GENERATION)
    assert words in suspended["message"]
    world.api.before = lambda _: None
    await world.reconcile()
    assert condition(world, "Suspended")["reason"] != "JobNotChanged"


async def test_what_the_api_server_warns_of_at_the_jobs_creation_stays_in_its_status() -> None:
    world = World()
    world.api.warnings = ('unknown field "spec.template.spec.tolerationz"',)
    await world.reconcile()
    world.api.warnings = ()
    await world.reconcile()
    assert 'unknown field "spec.podTemplate.spec.tolerationz"' in condition(world, "CreatedWithWarnings")["message"]


async def test_what_cannot_be_read_is_refused_where_it_stands() -> None:
    world = World(podTemplate={"spec": {"restartPolicy": "Always"}})
    await world.reconcile()
    failed = next(one for one in world.status["conditions"] if one["type"] == "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "Refused")
    assert "spec.podTemplate.spec.restartPolicy" in failed["message"]
    assert "create jobs" not in world.writes


async def test_what_cannot_be_read_any_more_is_left_running() -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Running"}, podTemplate={"spec": {"restartPolicy": "Always"}})
    await world.reconcile()
    assert world.status["phase"] == "Running"


async def test_a_suspension_is_fenced_by_the_version_that_was_read() -> None:
    world = World(status={"jobUID": JOB_UID}, suspend=True)
    world.put_job()
    world.api.store(JOBS, "team", world.api.objects[JOBS, "team", "bert"])
    with pytest.raises(Transient):
        await world.reconcile()
    assert world.api.objects[JOBS, "team", "bert"]["spec"]["suspend"] is False


async def test_a_reclaimed_job_that_somebody_starts_by_hand_is_resumed() -> None:
    """To suspend it again would take GPUs without a warning."""
    world = World(status={"jobUID": JOB_UID, "reclaim": {"state": "Reclaimed", "action": "Suspend"}})
    world.put_job(annotations={"stoker.dev/suspended-by": "reclaim"})
    await world.reconcile()
    child = world.api.objects[JOBS, "team", "bert"]
    assert child["spec"]["suspend"] is False
    assert "stoker.dev/suspended-by" not in child["metadata"]["annotations"]
    assert (world.status["reclaim"]["state"], world.status["phase"]) == ("Active", "Pending")
    assert world.status["reclaim"]["resumedAt"]


async def test_that_a_reclaimed_job_was_started_is_asked_of_the_api_server() -> None:
    """The watch may have told of the status, and not of the Job yet."""
    world = World(status={"jobUID": JOB_UID, "reclaim": {"state": "Reclaimed", "action": "Suspend"}})
    world.put_job()
    world.api.store(JOBS, "team", job(suspend=True, annotations={"stoker.dev/suspended-by": "reclaim"}))
    await world.reconcile()
    assert (world.status["reclaim"]["state"], world.status["phase"]) == ("Reclaimed", "Reclaimed")


async def test_a_job_that_is_deleted_by_hand_is_not_waiting_for_its_reclaim_any_more() -> None:
    times = {"warnedAt": "2026-11-21T11:00:00Z", "deadline": "2026-11-21T11:30:00Z"}
    for state in ("Warned", "Reclaiming"):
        world = World(status={"jobUID": JOB_UID, "reclaim": {"state": state, "action": "Suspend", **times}})
        await world.reconcile()
        assert world.status["phase"] == "Failed"
        assert world.status["reclaim"]["state"] == "Active"
        assert "deadline" not in world.status["reclaim"]


async def test_a_deleted_job_whose_pods_still_end_is_not_reclaimed_yet() -> None:
    record = {"state": "Reclaiming", "action": "Delete", "warnedAt": "2026-11-21T11:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    world.put_pods(pod(terminating=True))
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaiming")
    (suspended,) = (one for one in world.status["conditions"] if one["type"] == "Suspended")
    assert (suspended["status"], suspended["reason"]) == ("False", "Terminating")


async def test_a_word_that_comes_after_the_deletion_brings_nothing_back() -> None:
    """The job ends as reclaimed, not as one whose Job somebody else has deleted."""
    record = {"state": "Reclaiming", "action": "Delete", "warnedAt": "2026-11-21T11:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    world.put_pods(pod(terminating=True))
    world.api.objects[DLJOBS, "team", "bert"]["metadata"]["annotations"] = {"stoker.dev/resume": "please"}
    world.cache.dljobs.put(world.api.store(DLJOBS, "team", world.api.objects[DLJOBS, "team", "bert"]))
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaiming")
    assert world.status["reclaim"]["handledResume"] == "please"


async def test_a_job_that_reclaim_deleted_keeps_its_final_figures() -> None:
    """Its last examination comes when it is gone already."""
    times = {"warnedAt": "2026-11-21T11:00:00Z", "reclaimedAt": "2026-11-21T11:30:00Z"}
    record = {"state": "Reclaimed", "action": "Delete", **times}
    world = World(status={"jobUID": JOB_UID, "phase": "Reclaimed", "reclaim": record})
    await world.reconcile()
    final = Diagnosis(utilization=used(NOW, 50.0), findings=(MEASURED,))
    idle = Idleness(state=IdlenessState.WAITING, observed_at=NOW)
    world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=final))
    assert await world.reconcile() is None
    assert (world.status["utilization"]["averagePercent"], world.status["phase"]) == (50, "Reclaimed")
    assert world.status["findingsSummary"] == "1: UnreleasedJob"
    kept = world.status
    world.restart()
    await world.reconcile()
    assert world.status == kept


def due_for(since: timedelta) -> tuple[World, Idleness]:
    """An idle job that an earlier process has warned, whose deadline has passed, and what a look says of it."""
    old = NOW - timedelta(hours=3)
    pending = {"warnedAt": rfc3339(NOW - timedelta(hours=1)), "deadline": rfc3339(NOW - since)}
    record = {"state": "Warned", "action": "Suspend", "jobUID": JOB_UID, "podUIDs": ["pod-0"], **pending}
    finding = {**MEASURED.to_status(), "since": rfc3339(old)}
    status = {"jobUID": JOB_UID, "phase": "Running", "findings": [finding], "reclaim": record}
    template = {"spec": {**WITH_VOLUME["spec"], "terminationGracePeriodSeconds": 600}}
    world = World(status=status, podTemplate=template)
    metadata = {"name": "default", "uid": "u", "generation": 1, "resourceVersion": "200"}
    world.cache.policies.put({"metadata": metadata, "spec": {"reclaim": {"mode": "Suspend"}}})
    world.put_job()
    world.put_pods(pod())
    return world, Idleness(state=IdlenessState.IDLE, observed_at=NOW, since=old, pod_uids=frozenset({"pod-0"}))


async def test_a_pass_comes_back_when_the_grace_of_another_process_is_over() -> None:
    """No last look is made in vain before that."""
    world, idle = due_for(timedelta(seconds=30))
    examined = Diagnosis(utilization=used(NOW, 50.0), findings=(MEASURED,))
    world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=examined))
    assert await world.reconcile() == (CLOCKS_APART - timedelta(seconds=30)).total_seconds()
    assert "not over yet (monotonic clock)" in world.status["reclaim"]["reason"]
    assert world.status["reclaim"]["state"] == "Warned"


async def test_what_the_last_look_saw_is_not_forgotten_for_what_an_older_one_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job is not warned anew by the look from before it worked again."""
    world, idle = due_for(timedelta(minutes=30))
    before = replace(idle, observed_at=NOW - timedelta(seconds=30))
    examined = Diagnosis(utilization=used(NOW, 50.0), findings=(MEASURED,))
    world.scan_results.put(world.uid, ScanResult(idleness=before, diagnosis=examined))
    works = Idleness(state=IdlenessState.ACTIVE, observed_at=NOW, pod_uids=idle.pod_uids)

    async def found_at_work(*_: Any) -> Idleness:
        return works

    monkeypatch.setattr(Reclaimer, "reclaim", found_at_work)
    assert await world.reconcile() is None
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Active"
    assert "deadline" not in world.status["reclaim"]


async def test_a_reclaim_that_waits_for_samples_says_for_which() -> None:
    world, idle = due_for(timedelta(minutes=30))
    gap = (NOW - timedelta(minutes=9), NOW - timedelta(minutes=6))
    partly = Diagnosis(utilization=used(NOW, 50.0), unknown=UnknownReason.PARTIAL, gap=gap, findings=(MEASURED,))
    world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=partly))
    await world.reconcile()
    assert world.status["reclaim"]["reason"] == (
        "idle and warned; it waits until the samples of the last 10 min are complete (a gap from "
        "2026-11-21T11:51:00Z to 2026-11-21T11:54:00Z)"
    )


@pytest.mark.parametrize("age, examined", [(4, True), (6, False), (None, False)])
async def test_a_reclaim_rests_on_a_late_examination_by_this_process(age: int | None, examined: bool) -> None:
    """What the status says was found is no ground for an action: since then nobody may have looked."""
    world, idle = due_for(timedelta(minutes=30))
    diagnosis = None
    if age is not None:
        diagnosis = Diagnosis(utilization=used(NOW - timedelta(minutes=age), 50.0), findings=(MEASURED,))
    world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=diagnosis))
    if examined:
        with pytest.raises(AssertionError, match="no metrics are read"):  # by reconcile; the last look asks
            await world.reconcile()
    else:
        await world.reconcile()
        assert "waits for the next examination" in world.status["reclaim"]["reason"]
        assert world.scan_results.is_wanted(world.uid)
        again = Diagnosis(utilization=used(NOW, 50.0), findings=(MEASURED,))
        world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=again))
    assert not world.scan_results.is_wanted(world.uid)
    assert world.status["reclaim"]["state"] == "Warned"
    assert world.api.objects[JOBS, "team", "bert"]["spec"]["suspend"] is False


@pytest.mark.parametrize("warned", [True, False])
async def test_a_warning_that_stands_while_nothing_is_known_is_pending_all_the_same(*, warned: bool) -> None:
    """Once more is known the job may be reclaimed at once: nobody may have read meanwhile that nothing is pending."""
    pending = {"warnedAt": "2026-11-21T11:50:00Z", "deadline": "2026-11-21T12:05:00Z"} if warned else {}
    state = "Warned" if warned else "Idle"
    world = World(status={"jobUID": JOB_UID, "phase": "Running", "reclaim": {"state": state, **pending}})
    world.put_job()
    world.put_pods(pod())
    unread = UnknownReason.PROMETHEUS_UNAVAILABLE
    world.scan_results.put(
        world.uid,
        ScanResult(idleness=Idleness(state=IdlenessState.UNKNOWN, observed_at=NOW, reason=unread, message="down")),
    )
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Unknown"
    told = [one for one in world.status["conditions"] if one["type"] == "ReclaimPending" and one["status"] == "True"]
    assert [one["reason"] for one in told] == (["Unknown"] if warned else [])
    assert all("2026-11-21T12:05:00Z" in one["message"] for one in told)


async def test_a_deleted_job_that_a_finalizer_keeps_is_not_reclaimed_yet() -> None:
    record = {"state": "Reclaiming", "action": "Delete", "warnedAt": "2026-11-21T11:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    going = job()
    going["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z"
    world.api.store(JOBS, "team", going)
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaiming")
    del world.api.objects[JOBS, "team", "bert"]
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Reclaimed"


async def test_the_owners_word_is_written_before_the_job_is_resumed() -> None:
    record = {"state": "Reclaimed", "action": "Suspend"}
    world = World(status={"jobUID": JOB_UID, "reclaim": record})
    raw = world.api.objects[DLJOBS, "team", "bert"]
    raw["metadata"]["annotations"] = {"stoker.dev/resume": "now"}
    world.cache.dljobs.objects.clear()
    world.cache.dljobs.put(raw)
    world.put_job(suspend=True, annotations={"stoker.dev/suspended-by": "reclaim"})

    def refuse(asked: str) -> None:
        if asked == "patch jobs":
            raise ConflictError("patch", code=409, reason="Conflict")

    world.api.before = refuse
    with pytest.raises(Transient):
        await world.reconcile()
    assert world.status["reclaim"]["handledResume"] == "now"
    world.api.before = lambda _: None
    await world.reconcile()
    child = world.api.objects[JOBS, "team", "bert"]
    assert child["spec"]["suspend"] is False
    assert "stoker.dev/suspended-by" not in child["metadata"]["annotations"]


# --------------------------------------------------------------------------------------------------- the verdict

TOO_FEW = "torchrun --nproc_per_node=4 train.py"
MEASURED = Finding(
    rule="unreleased-job",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    confidence=Confidence.LIKELY,
    detail="idle",
    evidence="",
    fix="",
    docs="",
    sources=(Source.METRICS,),
)


def world_of(script: str, status: dict[str, Any] | None = None, **rules: str) -> World:
    world = World(script=script, status=status)
    set_rules(world, 1, **rules)
    return world


def set_rules(world: World, generation: int, **rules: str) -> None:
    metadata = {"name": "default", "uid": "u", "generation": generation, "resourceVersion": str(100 + generation)}
    actions = {rule.replace("_", "-"): {"action": action} for rule, action in rules.items()}
    world.cache.policies.put({"metadata": metadata, "spec": {"rules": actions}})


def reported(world: World) -> list[tuple[str, dict[str, Any] | None]]:
    return [(entry["rule"], entry.get("location")) for entry in world.status.get("findings", ())]


async def test_audited_findings_stand_in_the_status_and_a_switched_off_rule_leaves_it() -> None:
    world = world_of(TOO_FEW, launcher_too_few="Audit")
    await world.reconcile()
    assert reported(world) == [("launcher-too-few", {"fieldPath": "spec.script", "line": 1})]
    assert world.status["findings"][0]["sources"] == ["Script", "Manifest"]
    set_rules(world, 2, launcher_too_few="Off")
    await world.reconcile()
    assert reported(world) == []
    assert "findingsSummary" not in world.status


async def test_a_refused_job_keeps_its_findings_and_is_not_revived_by_a_later_policy() -> None:
    world = world_of(TOO_FEW, launcher_too_few="Deny")
    await world.reconcile()
    assert world.status["phase"] == "Failed"
    set_rules(world, 2, launcher_too_few="Off")
    await world.reconcile()
    assert world.status["phase"] == "Failed"
    assert reported(world) == [("launcher-too-few", {"fieldPath": "spec.script", "line": 1})]


async def test_a_rule_over_metrics_that_is_switched_off_is_closed() -> None:
    world = world_of("torchrun train.py", unreleased_job="Warn")
    await world.reconcile()
    idle = Idleness(state=IdlenessState.ACTIVE, observed_at=NOW)
    look = ScanResult(idleness=idle, diagnosis=Diagnosis(utilization=None, findings=(MEASURED,)))
    world.scan_results.put(world.api.objects[DLJOBS, "team", "bert"]["metadata"]["uid"], look)
    await world.reconcile()
    assert [entry.get("until") for entry in world.status["findings"]] == [None]
    set_rules(world, 2, unreleased_job="Off")
    await world.reconcile()
    assert [entry.get("until") for entry in world.status["findings"]] == ["2026-11-21T12:00:00Z"]


async def test_a_job_is_looked_at_again_when_an_exemption_ends() -> None:
    world = world_of(TOO_FEW, {"jobUID": JOB_UID, "phase": "Running"})
    world.put_job()
    until = NOW + timedelta(minutes=7)
    exempt = {"jobSelector": {}, "rules": ["launcher-too-few"], "until": rfc3339(until), "reason": "on trial"}
    metadata = {"name": "default", "uid": "u", "generation": 2, "resourceVersion": "200"}
    world.cache.policies.put({"metadata": metadata, "spec": {"exemptions": [exempt]}})
    world.put_pods(pod())
    assert await world.reconcile() == 420
    assert reported(world) == []
    world.clock.time = until
    assert await world.reconcile() is None
    assert reported(world) == [("launcher-too-few", {"fieldPath": "spec.script", "line": 1})]


async def test_a_job_that_can_not_be_analysed_is_held_back_only_where_the_policy_says_so() -> None:
    """So that past the webhook, where it would have been denied, it does not run either."""
    world = World(script="f(){ f|f& };f")
    for generation, action in enumerate(("Deny", "Warn"), start=1):
        metadata = {"name": "default", "uid": "u", "generation": generation, "resourceVersion": str(100 + generation)}
        world.cache.policies.put({"metadata": metadata, "spec": {"analysis": {"onNotAnalysed": action}}})
        assert await world.reconcile() == (REFUSED if action == "Deny" else FIRST_PAUSE)
        assert ((JOBS, "team", "bert") in world.api.objects) is (action == "Warn")
        (ready,) = (one for one in world.status["conditions"] if one["type"] == "PodsReady")
        assert (ready["reason"] == "NotAnalysed") is (action == "Deny")


# ------------------------------------------------------------------------------------------- what is over


def used(at: datetime, percent: float) -> Utilization:
    return Utilization(average_percent=percent, coverage_percent=100.0, gpu_hours=8.0, gpu_hours_idle=4.0, as_of=at)


def over(rule: str) -> Finding:
    return replace(
        MEASURED, rule=rule, since=NOW - timedelta(hours=2), until=NOW - timedelta(hours=1), gpu_hours_idle=3.0
    )


async def test_of_a_finished_job_the_final_diagnosis_counts_exactly_and_stays_over_a_restart() -> None:
    status = {"jobUID": JOB_UID, "utilization": {"averagePercent": 49, "gpuHours": "7.9", "asOf": rfc3339(NOW)}}
    world = World(status=status)
    world.put_job(conditions=ENDED)
    await world.reconcile()
    idle = Idleness(state=IdlenessState.WAITING, observed_at=NOW)
    final = Diagnosis(utilization=used(NOW, 50.0), findings=(over("long-installation"), over("unreleased-job")))
    world.scan_results.put(world.uid, ScanResult(idleness=idle, diagnosis=final))
    await world.reconcile()
    assert world.status["utilization"]["averagePercent"] == 50, "one point is no reason to wait any more"
    assert world.status["findingsSummary"] == "2: UnreleasedJob +1"
    kept = world.status
    world.restart()
    await world.reconcile()
    assert world.status == kept


async def test_a_pod_that_vanished_is_remembered_with_its_end() -> None:
    world = World(status={"jobUID": JOB_UID})
    world.put_job()
    world.put_pods(pod())
    await world.reconcile()
    run = {"name": "bert-0-abcde", "rank": 0, "node": "gpu-0", "gpus": 8, "since": "2026-11-21T05:00:00Z"}
    assert world.status["pods"] == [run]
    world.cache.pods.remove({**pod(), "metadata": {**pod()["metadata"], "resourceVersion": "99"}})
    world.restart()
    await world.reconcile()
    assert world.status["pods"] == [{**run, "until": "2026-11-21T12:00:00Z"}]
    world.clock.time += timedelta(hours=1)
    await world.reconcile()
    assert world.status["pods"][0]["until"] == "2026-11-21T12:00:00Z"


async def test_a_status_of_another_version_is_read_as_far_as_possible_and_written_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    older = {
        "jobUID": JOB_UID,
        "phase": "Running",
        "pods": ["bert-0-abcde on gpu-0: 8 GPUs from 2026-11-21T05:00:00Z"],
        "findings": ["small-batch", {"rule": "small-batch"}],
        "utilization": {"averagePercent": "many", "stages": ["Active  05:52-       33 %"], "gpuHours": "4.0"},
        "reclaim": {"state": "Reclaimed", "history": ["2026-11-21T04:00:00Z reclaimed: idle"], "policy": "default@3"},
    }
    world = World(status=older)
    world.put_job(suspend=True)
    await world.reconcile()
    DLJobStatus.model_validate(world.status)
    assert "status can't be read" in caplog.text
    assert (world.status["reclaim"]["state"], world.status["utilization"]["gpuHours"]) == ("Reclaimed", "4.0")
    caplog.clear()
    await world.reconcile()
    assert "status can't be read" not in caplog.text


# ------------------------------------------------------------------------------------------- what is not analysed


async def test_a_job_that_is_not_analysed_to_its_end_says_so_and_why() -> None:
    world = World(script="f(){ f|f& };f")
    await world.reconcile()
    (analysed,) = (one for one in world.status["conditions"] if one["type"] == "Analysed")
    assert (analysed["status"], analysed["reason"]) == ("False", "OverBudget")
    assert "Shorten the script" in analysed["message"]
    world = World(script="torchrun train.py")
    await world.reconcile()
    assert all(one["type"] != "Analysed" for one in world.status["conditions"])


async def test_what_exceeds_the_budget_can_be_kept_from_running_and_what_failed_runs() -> None:
    world = World(script="f(){ f|f& };f")
    metadata = {"name": "default", "uid": "u", "generation": 1, "resourceVersion": "100"}
    world.cache.policies.put({"metadata": metadata, "spec": {"analysis": {"onOverBudget": "Deny"}}})
    await world.reconcile()
    assert (JOBS, "team", "bert") not in world.api.objects
    (ready,) = (one for one in world.status["conditions"] if one["type"] == "PodsReady")
    assert ready["reason"] == "NotAnalysed"
    assert "onOverBudget is Deny" in ready["message"]
