"""All jobs of the fourteen invariants, played at once: their past is written once, their warnings are waited out once.

Beside every job to which nothing may happen runs a twin to which it does, and that differs in the point in question
only. What has happened is judged by the tests, from the record that a ChangeRecorder keeps.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.change_recorder import Change, ChangeRecorder
from e2e.clock import LIBRARIES, SteppedClock
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import ADMISSION, CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import (
    IDLE,
    ONE_BUSY,
    ONE_RANK_BUSY,
    RESTS,
    TRAINS,
    WORKS,
    Idling,
    Phase,
    Phases,
    past,
    scenario,
    time_of,
)
from e2e.telemetry.stack import EXPORTER

MAIN, SLOW_START, DELETING, UNWRITABLE, BOUNDED, UNRULED, PRESSED, HOUR, LATER = (
    "main",
    "slow-start",
    "deleting",
    "unwritable",
    "bounded",
    "unruled",
    "pressed",
    "hour",
    "later",
)
SCENE = "e2e.stoker.dev/scene"
"""The label that a scene's namespace carries, and its policy selects."""
POLICIES: Mapping[str, Mapping[str, Any]] = {
    MAIN: {"classes": [{"name": "precious", "priorityClasses": ["precious"], "mode": "Observe"}]},
    SLOW_START: {"startupGrace": "60m"},
    DELETING: {"mode": "Delete"},
    UNWRITABLE: {},
    BOUNDED: {"maxJobsPerWindow": 2},
    PRESSED: {"onPressureOnly": True},
    HOUR: {"idleAfter": "40m"},
    LATER: {},
}
EXEMPT = {"tier": "exempt"}
PROBE = "observed"
"""A job that rests all the while, and that no policy acts upon: what the metrics say shows in its conditions."""
WANTED, UNWANTED = "NVIDIA-L40S", "NVIDIA-A100-SXM4-80GB"
"""Models of GPUs that each have one node, which one job fills. Stoker knows what they draw at rest. Of an unknown
model it learns the least, and a scrape between the pod's binding and its container's start would teach it that of a
bare GPU.
"""
FAST = "1s"
SECOND_LOOK = "returns: not reclaimed when checked again"
"""Of the controller's log."""
RARE = "110s"
"""Between two looks at the metrics; so rarely that a warning of a minute comes due between two."""

EXPORTER_UP = 'up{job="dcgm-exporter"}'
NO_SAMPLES: Phase = {**RESTS, "export": "nothing"}


def but(place: str, **values: Any) -> Phases:
    """After the training one GPU of two differs from a resting one."""
    return (TRAINS, {**RESTS, "gpus": {place: values}})


def hole(length: str, then: str) -> Phases:
    """A rest in which the exporter said nothing for a while."""
    return (TRAINS, {**RESTS, "for": then}, {**NO_SAMPLES, "for": length}, RESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One job of the play: where, what it does on its GPUs, and with what options of Idling.begin."""

    scene: str = MAIN
    phases: Phases = IDLE
    options: Mapping[str, Any] = field(default_factory=dict)


def cast() -> dict[str, Part]:
    """Every job by its name."""
    return {
        "twin": Part(),
        "twin-pair": Part(options={"nodes": 2}),
        # 1
        "silent": Part(phases=(NO_SAMPLES,)),
        "one-silent": Part(phases=but("1", export="nothing")),
        "stale": Part(phases=(TRAINS, {**RESTS, "for": "40m"}, NO_SAMPLES)),
        "nan": Part(phases=but("1", export="nan")),
        "hole": Part(phases=hole("6m", "33m")),
        "short-hole": Part(phases=hole("1m", "33m")),
        # 2
        "one-busy": Part(phases=ONE_BUSY),
        "one-rank-busy": Part(phases=ONE_RANK_BUSY, options={"nodes": 2}),
        # 3
        "stuck-profiling": Part(phases=but("0", util=99, engine=0, tensor=0, dram=0, rx=0, tx=0, power=122)),
        "engine": Part(phases=but("0", engine=30)),
        "tensor": Part(phases=but("1", tensor=20, power=122)),
        "pcie": Part(phases=but("0", rx="60MB/s")),
        "decoder": Part(phases=but("1", decoder=10)),
        "power": Part(phases=but("0", power=180)),
        "nearly": Part(phases=but("0", power=130, rx="1MB/s", tx="1MB/s", dram=0.3)),
        # 4
        "restarted": Part(),
        "started-late": Part(
            scene=SLOW_START, phases=({**TRAINS, "for": "30m"}, RESTS), options={"since": timedelta(minutes=80)}
        ),
        "started-early": Part(scene=SLOW_START),
        # 5
        "unwarned": Part(scene=UNWRITABLE),
        # 6
        "returns": Part(scene=LATER),
        "stays": Part(scene=LATER),
        # 7
        "saves": Part(options={"grace": 20, "play": {"termination": "6s"}}),
        "ended": Part(scene=DELETING),
        # 8
        **{f"bounded-{number}": Part(scene=BOUNDED) for number in (1, 2, 3)},
        # 9
        "snoozed": Part(options={"annotations": {"stoker.dev/snooze-until": past(timedelta(hours=-2))}}),
        "snoozed-late": Part(),
        "exempt": Part(options={"labels": EXEMPT}),
        "precious": Part(options={"pod_template": {"priorityClassName": "precious"}}),
        "patient": Part(options={"reclaim": {"idleAfter": "2h"}}),
        "hasty": Part(phases=({**TRAINS, "for": "100m"}, RESTS), options={"reclaim": {"idleAfter": "10m"}}),
        "as-hasty": Part(phases=({**TRAINS, "for": "100m"}, RESTS)),
        # 11
        "observed": Part(scene=UNRULED, options={"reclaim": {"idleAfter": "30m"}}),
        # 12
        "wanted": Part(scene=PRESSED, options={"gpuProduct": WANTED}),
        "unwanted": Part(scene=PRESSED, options={"gpuProduct": UNWANTED}),
        # 13
        "punctual": Part(scene=HOUR),
        # Its clock is wrong once its past is written: Prometheus takes nothing older than what is written.
        "ahead": Part(scene=HOUR),
        # Its clock is wrong from the start: where it stepped back its energy counter would jump, and that is no rest.
        "behind": Part(scene=HOUR, options={"play": {"scenario": scenario(IDLE, clock="-4m")}}),
    }


RECLAIMED = (
    "twin",
    "twin-pair",
    "short-hole",
    "nearly",
    "started-early",
    "saves",
    "hasty",
    "punctual",
    "ended",
)
"""Warned, and acted upon when the metrics are back."""
WARNED = (*RECLAIMED, "snoozed-late", "returns", "stays", "wanted", "unwanted", "bounded-1", "bounded-2", "bounded-3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A way in which metrics fail, and what these conditions of a job may say then."""

    name: str
    reasons: frozenset[str] = frozenset({"PrometheusUnavailable"})
    kinds: tuple[str, ...] = ("Idle",)


BEFORE_THE_WARNING = (
    Outage(name="stopped", kinds=("Idle", "LowUtilization")),
    Outage(name="slow", kinds=("Idle", "LowUtilization")),
    Outage(name="reset", kinds=("Idle", "LowUtilization")),
    Outage(name="truncate", kinds=("Idle", "LowUtilization")),
    Outage(name="exporter", reasons=frozenset({"NoSamples", "Partial", "Stale"})),
)
AT_THE_DEADLINE = (
    Outage(name="error"),
    Outage(name="empty", reasons=frozenset({"NoSamples"})),
    Outage(name="partial", reasons=frozenset({"Partial", "NoSamples"})),
)


class Play:
    """The jobs, what was done to them, and the record of what became of them."""

    def __init__(self, operator: Operator, recorder: ChangeRecorder) -> None:
        self.operator = operator
        self.cluster: Cluster = operator.cluster
        self.recorder = recorder
        self.cast = cast()
        self.clock = SteppedClock(operator.cluster.folder / "clock")
        self.stepped: dict[int, str] = {}
        """By how many seconds the controller's clock was ahead, with what Idle of a job said then."""
        self.scenes: dict[str, Idling] = {}
        self.seen: dict[str, str] = {}
        """Under which reason Idle of a job was Unknown in each outage."""
        self.outages: dict[str, tuple[datetime, datetime]] = {}
        self.warned: dict[str, dict[str, Any]] = {}
        """The warnings, as they were recorded."""
        self.admission_ended_at: datetime | None = None
        """It was back when all had been reclaimed."""

    # ---------------------------------------------------------------------------------------------------- questions

    def of(self, name: str) -> Idling:
        """The namespace of a job of the play."""
        return self.scenes[self.cast[name].scene]

    def reclaimed(self, name: str) -> Change:
        """The one suspension of a job that was reclaimed."""
        changes = self.recorder.suspensions(self.of(name).namespace, name)
        assert len(changes) == 1, (name, changes, self.states(name))
        return changes[0]

    def states(self, name: str) -> list[str]:
        """The states of reclaim that it went through."""
        return self.recorder.states(self.of(name).namespace, name)

    def assert_never_warned(self, *names: str) -> None:
        """Neither warned nor acted upon, at any time."""
        for name in names:
            assert not {"Warned", "Reclaiming", "Reclaimed"} & set(self.states(name)), (name, self.states(name))
            assert not self.of(name).events(name, "ReclaimWarning"), name
            self.assert_runs(name)

    def assert_runs(self, *names: str) -> None:
        """Never suspended, at any time."""
        for name in names:
            assert not self.recorder.suspensions(self.of(name).namespace, name), (name, self.states(name))
            assert not self.of(name).is_suspended(name), name

    def stoker(self, command: str, name: str, *options: str) -> str:
        """What `stoker COMMAND NAME` prints."""
        answer = subprocess.run(
            [sys.executable, "-m", "stoker", command, name, f"--namespace={self.of(name).namespace}", *options],
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    # ------------------------------------------------------------------------------------------------------ the play

    def rehearse(self) -> None:
        """Create everything. No policy acts yet, and nobody sees jobs whose past is not written."""
        self.cluster.set_prometheus_fault("reset")
        labels = {one: {SCENE: one} for one in {part.scene for part in self.cast.values()}}
        for scene in sorted(labels):
            namespace = self.cluster.create_namespace(scene, labels[scene])
            self.scenes[scene] = Idling(self.operator, self.cluster, namespace)
        self.cluster.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "precious"},
                "value": 1000,
            },
            *_no_warnings_in(UNWRITABLE),
        )
        # First those that fit only where others might go as well.
        for fussy in (True, False):
            names = [name for name, part in self.cast.items() if ("gpuProduct" in part.options) is fussy]
            for name in names:
                self.of(name).begin(name, self.cast[name].phases, **self.cast[name].options)
            for name in names:
                self.of(name).wait_phase(name, "Running", timeout=120)

    def warn(self) -> None:
        """Let policies observe until all causes are found; then have them act while the metrics fail in one way after
        the other, and let the metrics be seen again.
        """
        self._restart_container("restarted")
        self.of("ahead").rehearse("ahead", *IDLE, clock="4m")
        for scene in POLICIES:
            self._rule(scene, "Observe")
        self.cluster.set_prometheus_fault("none")
        for scene, names in self._by_scene(WARNED):
            self.scenes[scene].wait_state("Idle", *names, action="Observe")
        # Until the failure is seen, what was seen last may warn.
        self.cluster.set_prometheus_fault("reset")
        self.of(PROBE).wait_condition(PROBE, "Idle", "Unknown", timeout=60)
        for scene in POLICIES:
            if scene != LATER:
                self._rule(scene, "Suspend")
        for outage in BEFORE_THE_WARNING:
            self._suffer(outage)
        self.cluster.set_prometheus_fault("none")
        self._wait_warned([name for name in WARNED if self.cast[name].scene != LATER])

    def _rule(self, scene: str, mode: str) -> None:
        """Make the policy of a scene; one that acts does what the scene's says."""
        settings = {**POLICIES[scene]}
        settings["mode"] = settings.get("mode", mode) if mode != "Observe" else mode
        exemption = {"jobSelector": {"matchLabels": EXEMPT}, "reason": "paid for"}
        selector = {SCENE: scene}
        self.scenes[scene].policy(name=scene, selector=selector, spec={"exemptions": [exemption]}, **settings)

    def _by_scene(self, names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        for scene in self.scenes:
            if here := [name for name in names if self.cast[name].scene == scene]:
                yield scene, here

    def _wait_warned(self, names: Sequence[str]) -> None:
        """Wait for these warnings, and keep them."""
        for scene, here in self._by_scene(names):
            self.scenes[scene].wait_warned(*here)
        self.warned |= {name: self.of(name).record(name) for name in names}

    def act(self) -> None:
        """Snooze and have the clock step while the warnings stand, fail when they are due, let it happen without
        admission; then warn the others.
        """
        answer = self.stoker("snooze", "snoozed-late", "--for", "200h", "--reason", "a talk on Monday")
        assert "will not be reclaimed before" in answer
        deadlines = [time_of(self.warned[name]["deadline"]) for name in RECLAIMED]
        self._step_clock(min(deadlines))
        _sleep_until(max(deadlines) + timedelta(seconds=1))
        for outage in AT_THE_DEADLINE:
            self._suffer(outage)
        self.cluster.kill(ADMISSION)
        self.admission_ended_at = datetime.now(UTC)
        self.cluster.set_prometheus_fault("none")
        for scene, names in self._by_scene(RECLAIMED):
            # Where the machine is slow the outages leave holes, and a due warning waits until ten minutes are whole.
            self.scenes[scene].wait_state("Reclaimed", *names, timeout=700)
        self.cluster.restart(ADMISSION)
        self._rule(LATER, "Suspend")
        self._wait_warned([name for name in WARNED if self.cast[name].scene == LATER])
        self._look_twice()

    def _step_clock(self, deadline: datetime) -> None:
        """By the controller's clock the deadline has passed, first by so little that Prometheus' clock may be as far
        away; then it is minutes ahead, and minutes behind. When it is right again the metrics are away.
        """
        self.clock.step(50)
        _sleep_until(deadline - timedelta(seconds=35))
        self.look()
        for seconds in (240, -240):
            self._end_metrics()
            self._step(seconds)
            self.cluster.set_prometheus_fault("none")
            if LIBRARIES:
                unknown = self.of(PROBE).wait_condition(PROBE, "Idle", "Unknown", "Stale", timeout=60)
                self.stepped[seconds] = unknown["message"]
                # What is read up to minutes ago is right as far as it goes.
                assert self.of(PROBE).condition(PROBE, "LowUtilization")["status"] != "True"
                self.look()
        # With a right clock it would act, were the deadline over by then.
        self._end_metrics()
        self._step(0)

    def _end_metrics(self) -> None:
        """Have Prometheus answer with an error, and wait until a job says so: no scan spans what comes next."""
        self.cluster.set_prometheus_fault("error", status=503)
        self.of(PROBE).wait_condition(PROBE, "Idle", "Unknown", "PrometheusUnavailable", timeout=60)

    def _step(self, seconds: int) -> None:
        """Have the controller's clock so far ahead, and wait until it is."""
        self.clock.step(seconds)
        _sleep_until(datetime.now(UTC) + timedelta(seconds=2.5))

    def _look_twice(self) -> None:
        """A controller that has just seen two idle jobs does not look at the metrics again before they are due; one of
        them returns meanwhile.
        """
        self.restart(scan_interval=RARE)
        wait_for("the first look at the metrics", lambda: self._scan("seconds_count") > 0, timeout=60)
        self.of("returns").rehearse("returns", WORKS)
        self.recorder.wait(
            "the job that stays idle to be suspended",
            lambda one: one.is_suspension and one.name == "stays",
            timeout=150,
        )
        wait_for("the other's second look", lambda: SECOND_LOOK in self.cluster.log(CONTROLLER), timeout=60)

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "prometheus_url": self.cluster.start_prometheus_proxy(),
            "minimum_warning_grace": "1m",
            "environment": self.clock.environment(),
        }

    def start(self, scan_interval: str = FAST) -> None:
        """Start the operator's processes."""
        self.operator.start_admission()
        self.operator.start_controller(scan_interval=scan_interval, **self._settings)

    def restart(self, scan_interval: str = FAST) -> None:
        """Kill the controller and start another, which looks that often at the metrics."""
        self.operator.crash(scan_interval=scan_interval, **self._settings)

    def look(self) -> None:
        """Wait for a look at the metrics that has begun after now."""
        self._ticks(1)

    # ------------------------------------------------------------------------------------------------------- details

    def _restart_container(self, name: str) -> None:
        """Its container has died and runs again since now; its GPUs rest as before."""
        jobs = self.of(name)
        jobs.rehearse(name, RESTS)
        for pod in jobs.pods(name):
            (status,) = pod["status"]["containerStatuses"]
            status["restartCount"] = 1
            status["state"] = {"running": {"startedAt": past(timedelta(0))}}
            path = f"/api/v1/namespaces/{jobs.namespace}/pods/{pod['metadata']['name']}/status"
            body = {"status": {"containerStatuses": [status]}}
            self.cluster.api("PATCH", path, body, "application/merge-patch+json")

    def _suffer(self, outage: Outage) -> None:
        """Have the metrics fail in one way for a look at them, and until a job says so."""
        before = datetime.now(UTC)
        match outage.name:
            case "exporter":
                self._hang_exporter()
            case "stopped":
                self.cluster.set_prometheus_fault("none")
                self.cluster.stop_prometheus()
            case "slow":
                self.cluster.set_prometheus_fault("slow", seconds=8)
            case "error":
                self.cluster.set_prometheus_fault("error", status=503)
            case mode:
                self.cluster.set_prometheus_fault(mode)
        try:
            if outage.name == "slow":
                spent = self._scan("seconds_sum")
                wait_for("a look that waits in vain", lambda: self._scan("seconds_sum") > spent + 5, timeout=60)
            else:
                self._ticks(1)
            self.seen[outage.name] = wait_for("Idle to be Unknown", lambda: self._unknown(outage), timeout=60)
            self.outages[outage.name] = (before, datetime.now(UTC))
        finally:
            if outage.name == "stopped":
                self.cluster.set_prometheus_fault("reset")
                self.cluster.start_prometheus()
                # What ends before it has been scraped again looks alive for minutes.
                scraped = f"timestamp({EXPORTER_UP} == 1) > {time.time():.3f}"
                wait_for("another scrape", lambda: self.cluster.query(scraped), timeout=60)
            if outage.name == "exporter":
                self.cluster.kill(EXPORTER, signal.SIGCONT)
                wait_for("the exporter to be back", lambda: self.cluster.query(f"{EXPORTER_UP} == 1"), timeout=60)

    def _hang_exporter(self) -> None:
        """It answers no scrape; that is not seen before Prometheus knows it."""
        self.cluster.set_prometheus_fault("reset")
        self.cluster.kill(EXPORTER, signal.SIGSTOP)
        wait_for("the exporter to hang", lambda: self.cluster.query(f"{EXPORTER_UP} == 0"), timeout=60)
        self.cluster.set_prometheus_fault("none")

    def _unknown(self, outage: Outage) -> str:
        for kind in outage.kinds:
            condition = self.of(PROBE).condition(PROBE, kind)
            assert condition["status"] == "Unknown", condition
            assert condition["reason"] in outage.reasons, condition
        return str(condition["reason"])

    def _ticks(self, number: int) -> None:
        """Wait for so many looks at the metrics to begin and end, beyond one that is under way."""
        target = self._scan("seconds_count") + number + 1
        wait_for("looks at the metrics", lambda: self._scan("seconds_count") >= target, timeout=60)

    def _scan(self, what: str) -> float:
        """How many looks at the metrics there were, or how long they took together."""

        def probe() -> tuple[float]:
            return (self.operator.metric(f"stoker_scan_tick_{what}", process=CONTROLLER),)

        (value,) = wait_for("the controller's metrics", probe, timeout=60)
        return value


def _sleep_until(when: datetime) -> None:
    while (left := (when - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, 0.2))


def _no_warnings_in(scene: str) -> Iterator[dict[str, Any]]:
    """The API server refuses to record a warning in that scene."""
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-warnings"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {SCENE: scene}},
                "resourceRules": [
                    {
                        "apiGroups": ["stoker.dev"],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE"],
                        "resources": ["dljobs/status"],
                    }
                ],
            },
            "validations": [{"expression": "object.?status.?reclaim.?state.orValue('') != 'Warned'"}],
        },
    }
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-warnings"},
        "spec": {"policyName": "no-warnings", "validationActions": ["Deny"]},
    }
