"""The invariants of reclaim, each by its name; the tenth is in test_crashes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.change_recorder import Change
from e2e.clock import require_libfaketime
from e2e.cluster.waiting import wait_for
from e2e.operator import ADMISSION, CONTROLLER, NAMESPACE
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually
from e2e.scenarios.lifecycle.workload import MERGE, DLJobs
from e2e.scenarios.reclaim.idling import happened, time_of
from e2e.scenarios.reclaim.play import (
    AT_THE_DEADLINE,
    BEFORE_THE_WARNING,
    BOUNDED,
    RECLAIMED,
    SCENE,
    SECOND_LOOK,
    UNRULED,
    WANTED,
    WARNED,
    Play,
)

GRACE = timedelta(minutes=1)


def warning_of(play: Play, name: str, action: Change) -> tuple[Change, dict[str, Any]]:
    """The write that recorded the warning on which a suspension rested, and the record."""
    namespace = play.of(name).namespace
    last = play.recorder.records(namespace, name, until=action)[-1]
    first = next(
        one
        for one in play.recorder.of("DLJob", namespace, name)
        if one.after and one.after.get("warnedAt") == last["warnedAt"]
    )
    return first, last


def assert_warned_first(play: Play, name: str, action: Change) -> None:
    """Its recorded warning is older than the grace, by the API server's clock as by its own."""
    warning, record = warning_of(play, name, action)
    deadline, warned_at = time_of(record["deadline"]), time_of(record["warnedAt"])
    assert deadline - warned_at >= GRACE, record
    assert action.written_at >= deadline, (name, action, record)
    # Both times are rounded down to seconds.
    assert action.written_at - warning.written_at >= GRACE - timedelta(seconds=1), (name, warning, action)


def test_invariant_01_missing_is_not_idle(play: Play) -> None:
    """No samples, stale ones, values that are none, a hole in the window, one silent GPU of two: Unknown, and nothing
    is done. A hole that leaves enough of the window is no hindrance.
    """
    for name in ("silent", "one-silent", "stale", "nan", "hole"):
        play.assert_never_warned(name)
        assert play.of(name).condition(name, "Idle")["status"] == "Unknown", name
        assert play.of(name).record(name)["state"] == "Unknown", name
    for name in ("twin", "short-hole"):
        play.reclaimed(name)


@pytest.mark.parametrize("outage", [*BEFORE_THE_WARNING, *AT_THE_DEADLINE], ids=lambda outage: outage.name)
def test_invariant_01_no_job_is_warned_or_reclaimed_while_the_metrics_fail(play: Play, outage: Any) -> None:
    """Whether they fail before the warning or when all jobs are due: they are reclaimed when the metrics are back."""
    assert play.seen[outage.name] in outage.reasons
    begin, end = play.outages[outage.name]
    acts = [one for one in play.recorder.changes if one.is_suspension or one.enters("Warned")]
    assert not [one for one in acts if begin + timedelta(seconds=2) < one.written_at < end - timedelta(seconds=1)]
    if outage in AT_THE_DEADLINE:
        assert all(time_of(play.warned[name]["deadline"]) < end for name in RECLAIMED)
    for name in RECLAIMED:
        assert "Warned" in play.states(name)


def test_invariant_02_the_job_is_idle_not_a_part_of_it(play: Play) -> None:
    play.assert_never_warned("one-busy", "one-rank-busy")
    for name in ("one-busy", "one-rank-busy"):
        condition = play.of(name).condition(name, "Idle")
        assert (condition["status"], condition["reason"]) == ("False", "Active"), condition
    play.reclaimed("twin")
    play.reclaimed("twin-pair")


@pytest.mark.parametrize("name", ["stuck-profiling", "engine", "tensor", "pcie", "decoder", "power"])
def test_invariant_03_contradiction_means_active(play: Play, name: str) -> None:
    """One signal of one GPU over its idle level, all others at rest; what stays under every level is idle."""
    play.assert_never_warned(name)
    condition = play.of(name).condition(name, "Idle")
    assert (condition["status"], condition["reason"]) == ("False", "Active"), condition
    play.reclaimed("nearly")


def test_invariant_04_the_clock_starts_when_the_pod_runs(play: Play) -> None:
    """A container that has just been restarted, however long its GPUs rest; a start-up grace that is not over."""
    play.assert_never_warned("restarted", "started-late")
    assert play.of("restarted").condition("restarted", "Idle")["status"] == "False"
    play.reclaimed("twin")
    play.reclaimed("started-early")


def test_invariant_05_warned_first(play: Play) -> None:
    """Every suspension of the play follows a recorded warning; where none can be recorded there is no suspension, until
    it can.
    """
    for name in RECLAIMED:
        if name != "ended":
            assert_warned_first(play, name, play.reclaimed(name))
        jobs = play.of(name)
        (event,) = jobs.events(name, "ReclaimWarning")
        assert play.warned[name]["deadline"] in event["note"]
    play.assert_never_warned("unwarned")
    play.cluster.kubectl("delete", "validatingadmissionpolicybinding", "no-warnings")
    play.of("unwarned").wait_warned("unwarned")
    pending = play.of("unwarned").wait_condition("unwarned", "ReclaimPending", "True")
    assert play.of("unwarned").record("unwarned")["deadline"] in pending["message"]


def test_invariant_06_looked_again_right_before(play: Play) -> None:
    """The last scan saw both jobs idle; one has worked since, which the check right before the action sees."""
    assert_warned_first(play, "stays", play.reclaimed("stays"))
    play.assert_runs("returns")
    assert SECOND_LOOK in play.cluster.log(CONTROLLER)


def test_invariant_07_as_gentle_as_can_be_and_honest_about_it(play: Play) -> None:
    """The intent is recorded before the action, pods get their time, everything is kept, a command brings it back, and
    nothing else does. Where a policy deletes, the DLJob stays as the record.
    """
    jobs = play.of("saves")
    action = play.reclaimed("saves")
    assert play.recorder.records(jobs.namespace, "saves", until=action)[-1]["state"] == "Reclaiming"
    gone = next(one for one in play.recorder.of("DLJob", jobs.namespace, "saves") if one.enters("Reclaimed"))
    assert gone.written_at - action.written_at >= timedelta(seconds=5), "counted when its pods are gone"
    record = jobs.record("saves")
    assert happened(record).count("Reclaimed") == 1
    assert [event.get("series") for event in jobs.events("saves", "Reclaimed")] == [None]
    assert jobs.job("saves")["metadata"]["annotations"]["stoker.dev/suspended-by"] == "reclaim"
    jobs.wait_condition("saves", "Suspended", "True", "Reclaimed")

    jobs.patch("saves", {"spec": {"suspend": False}, "metadata": {"labels": {"applied": "again"}}})
    jobs.settled("saves")
    assert jobs.is_suspended("saves"), "a manifest that is applied again does not resume it"
    assert "resumes" in play.stoker("resume", "saves")
    jobs.wait_phase("saves", "Running", timeout=120)
    wait_for("the record", lambda: jobs.record("saves").get("resumedAt"))
    jobs.settled("saves")
    assert not jobs.is_suspended("saves")
    assert "deadline" not in jobs.record("saves")

    ending = play.of("ended")
    assert not ending.has("jobs", "ended")
    assert not ending.live_pods("ended")
    assert ending.record("ended")["state"] == "Reclaimed"
    deletion = next(one for one in play.recorder.of("Job", ending.namespace, "ended") if one.is_deletion)
    records = play.recorder.records(ending.namespace, "ended", until=deletion)
    assert records[-1]["state"] == "Reclaiming"
    assert deletion.written_at >= time_of(records[-1]["deadline"])
    ending.annotate("ended", resume="please")
    ending.settled("ended")
    assert not ending.has("jobs", "ended")


def test_invariant_08_bounded(play: Play) -> None:
    """Two of three jobs, and no more after a crash and with one of them deleted; a wider bound lets the third go."""
    jobs = play.scenes[BOUNDED]
    names = [name for name in play.cast if play.cast[name].scene == BOUNDED]

    def taken() -> list[str]:
        return [name for name in names if play.recorder.suspensions(jobs.namespace, name)]

    wait_for("two to be reclaimed", lambda: len(taken()) == 2, timeout=120)
    (left,) = set(names) - set(taken())
    assert datetime.now(UTC) > time_of(play.warned[left]["deadline"])
    jobs.delete(taken()[0])
    play.restart()
    play.look()
    assert len(taken()) == 2
    assert jobs.record(left)["state"] == "Warned"
    policy = f"/apis/stoker.dev/v1alpha1/utilizationpolicies/{BOUNDED}"
    assert len(play.cluster.api("GET", policy)["status"]["recentReclaims"]) == 2
    play.cluster.api("PATCH", policy, {"spec": {"reclaim": {"maxJobsPerWindow": 3}}}, MERGE)
    wait_for("the third to be reclaimed", lambda: len(taken()) == 3, timeout=120)


def test_invariant_09_the_owner_has_a_say_the_admin_has_the_last_word(play: Play) -> None:
    """Snoozed before the warning or after it, within the policy's bound; exempt by label or priority class; the job's
    own idleAfter, longer or shorter.
    """
    play.assert_never_warned("snoozed", "exempt", "precious", "patient", "as-hasty")
    states = {name: play.of(name).record(name)["state"] for name in ("snoozed", "exempt", "precious", "patient")}
    assert states == {"snoozed": "Snoozed", "exempt": "Exempt", "precious": "Idle", "patient": "Active"}
    jobs = play.of("snoozed-late")
    play.assert_runs("snoozed-late")
    record = jobs.record("snoozed-late")
    assert record["state"] == "Snoozed"
    assert "deadline" not in record
    assert time_of(record["snoozedUntil"]) <= datetime.now(UTC) + timedelta(hours=24), "the policy's limit"
    assert jobs.events("snoozed-late", "SnoozeClamped")
    assert jobs.events("snoozed-late", "ReclaimCancelled")
    jobs.wait_condition("snoozed-late", "ReclaimPending", "False", "Snoozed")
    for name in ("twin", "hasty"):
        play.reclaimed(name)


def test_invariant_11_observe_by_default(play: Play) -> None:
    """Without a policy a job is reported, once, and nothing is done; one value of a policy switches it on."""
    play.assert_never_warned("observed")
    jobs = play.of("observed")
    record = jobs.record("observed")
    assert (record["state"], record["action"]) == ("Idle", "Observe")
    assert "deadline" not in record
    assert "would be reclaimed" in record["reason"]
    assert len(jobs.events("observed", "UnreleasedJob")) == 1
    assert "UnreleasedJob" in jobs.status("observed")["findingsSummary"]
    (event,) = jobs.events("observed", "WouldReclaim")
    assert event.get("series") is None, "told once"
    body = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": UNRULED},
        "spec": {
            "namespaceSelector": {"matchLabels": {SCENE: UNRULED}},
            "reclaim": {"mode": "Suspend", "minTerminationGrace": "0s", "trainingWithoutVolume": True},
        },
    }
    play.cluster.apply(body)
    jobs.wait_warned("observed")


def test_invariant_12_on_pressure_only_if_so_set(play: Play) -> None:
    """Two jobs are due; a pod that would fit on the GPUs of one of them ends the wait of that one."""
    for name in ("wanted", "unwanted"):
        assert datetime.now(UTC) > time_of(play.warned[name]["deadline"])
        play.assert_runs(name)
        assert play.of(name).record(name)["state"] == "Warned"
    jobs = play.of("wanted")
    jobs.begin("next", gpus=2, gpuProduct=WANTED)
    wait_for("the wanted GPUs to be given back", lambda: jobs.is_suspended("wanted"), timeout=120)
    jobs.wait_phase("next", "Running", timeout=120)
    play.assert_runs("unwanted")


def test_invariant_13_time_is_monotone_where_it_matters(play: Play) -> None:
    """Samples of a clock that is ahead or behind make their job unknown. The controller's own clock has stepped while
    the warnings stood, over their deadlines and back: none was carried out early, or forgotten.
    """
    for name in ("ahead", "behind"):
        play.assert_never_warned(name)
        # With a clock that is wrong by as much, the controller takes its samples for right.
        play.of(name).wait_state("Unknown", name)
    play.reclaimed("punctual")
    require_libfaketime()
    assert "s behind ours" in play.stepped[240]
    assert "s ahead of ours" in play.stepped[-240]
    for name in RECLAIMED:
        if name != "ended":
            assert_warned_first(play, name, play.reclaimed(name))
        assert "Unknown" in play.states(name)


def test_invariant_14_admission_failing_does_not_stop_the_cluster(play: Play) -> None:
    """While the webhook was down all reclaims went on. New jobs are refused then, or let through where the chart says
    Ignore, and the controller reviews those again; what concerns neither is never asked about. See
    e2e/scenarios/admission/test_unavailable.py for what goes on beside that.
    """
    cluster = play.cluster
    assert play.admission_ended_at is not None
    for name in RECLAIMED:
        gone = next(one for one in play.recorder.of("DLJob", play.of(name).namespace, name) if one.enters("Reclaimed"))
        assert gone.written_at >= play.admission_ended_at.replace(microsecond=0)
    cluster.kill(ADMISSION)
    webhook, submitter = Webhook.of(cluster), Submitter(cluster, cluster.create_namespace("admission"))
    own = Submitter(cluster, NAMESPACE)
    try:
        assert submitter.refused(dljob("good"))
        assert not own.refused(dljob("good")), "the operator's own namespace never waits for it"
        cluster.kubectl("label", "--all-namespaces", "dljobs", "--all", "e2e.stoker.dev/seen=yes")

        webhook.set_failure_policy("Ignore")
        eventually(lambda: not submitter.refused(dljob("good")))
        for name, script in (("good", "torchrun train.py\n"), ("bad", TOO_FEW)):
            created = submitter.create(dljob(name, script))
            assert created.returncode == 0, created.stderr

        jobs = DLJobs(cluster, submitter.namespace)
        jobs.wait_phase("bad", "Failed", timeout=120)
        wait_for("the Job of the other", lambda: jobs.has("jobs", "good"))
        assert not jobs.has("jobs", "bad")
    finally:
        webhook.set_failure_policy("Fail")
        cluster.restart(ADMISSION)
    eventually(lambda: submitter.refused(dljob("other", TOO_FEW)))
    assert not submitter.refused(dljob("other"))


def test_the_play_is_complete(play: Play) -> None:
    """Every job that something was expected of did it, and was warned with a deadline."""
    assert set(play.warned) == set(WARNED)
    assert all(record["state"] == "Warned" for record in play.warned.values())
