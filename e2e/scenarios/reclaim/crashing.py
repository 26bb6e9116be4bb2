"""Jobs in all states of reclaim, due one after the other, and a controller that is killed with -9 all the while."""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.change_recorder import DLJOB, JOB, POLICY, Change, ChangeRecorder
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import BUSY, IDLE, RESTS, TRAINS, Idling, Phases, happened, past, time_of

SCENE = "crashing"
KILLS = 10
DUE = (60, 60, *range(66, 94, 2))
"""The warning graces, in seconds, of the jobs whose controller is killed ten times. Two are over before; the others end
when a controller leads that has not warned them itself, which waits for half as long again.
"""
SETTINGS: Mapping[str, Any] = {"scan_interval": "1s", "minimum_warning_grace": "1m"}
LABEL = "e2e.stoker.dev/due"
FORGED = ("intended", "done", "woken")
"""Jobs that are found as a crash between the intent and the action may leave them."""
LATE = ("late-1", "late-2", "late-3")
"""Jobs that are due when the leader is stopped."""
RESUMED = "resumed"
"""A job that is brought back before the first kill."""
NEVER: Mapping[str, Phases] = {
    "active": BUSY,
    "unknown": (TRAINS, {**RESTS, "gpus": {"1": {"export": "nothing"}}}),
    "idle": IDLE,
    "warned": IDLE,
    "exempt": IDLE,
    "snoozed": IDLE,
}
"""Jobs to which nothing happens, each in the state that it is called after."""
PATIENCE = 8.0
"""Seconds after which the controller is killed though what was waited for has not come."""
LONGEST_DELAY = 0.03
"""Seconds between what was waited for and the kill: an action follows its intent by some thousandths."""


@dataclass(slots=True)
class Population:
    """The jobs of one namespace, all of them idle since 50 minutes unless their name says otherwise. `graces` are the
    warning graces of those that are to be reclaimed, in seconds; `seed` chooses the moments of the kills.
    """

    operator: Operator
    recorder: ChangeRecorder
    graces: tuple[int, ...]
    seed: int = field(default_factory=lambda: int(os.environ.get("STOKER_SEED") or random.randrange(10**6)))
    choice: random.Random = field(init=False)
    log: list[str] = field(default_factory=list)
    """When, and upon what, the controller was killed."""
    jobs: Idling = field(init=False)
    warnings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The records of those that are to be reclaimed, before the first kill."""

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)
        self.log.append(f"STOKER_SEED={self.seed}")

    @property
    def cluster(self) -> Cluster:
        """Where it lives."""
        return self.operator.cluster

    @property
    def due(self) -> dict[str, int]:
        """Those that are to be reclaimed, with their graces."""
        return {f"due-{number}": grace for number, grace in enumerate(self.graces)}

    def create(self) -> None:
        """Create all jobs; their past is still to be written."""
        namespace = self.cluster.create_namespace(SCENE, {"e2e.stoker.dev/scene": SCENE})
        self.jobs = Idling(self.operator, self.cluster, namespace)
        for name, phases in NEVER.items():
            snoozed = {"stoker.dev/snooze-until": past(timedelta(hours=-2))} if name == "snoozed" else {}
            self.jobs.begin(name, phases, labels={LABEL: name}, annotations=snoozed)
        for number, (name, grace) in enumerate(self.due.items()):
            # Of some the pods take their time to end: those stay in Reclaiming for a while.
            play = {"termination": "4s"} if number % 3 == 2 else {}
            self.jobs.begin(name, labels={LABEL: str(grace)}, gpus=1, play=play, grace=10)
        for name in (*FORGED, *LATE, RESUMED):
            self.jobs.begin(name, labels={LABEL: name}, gpus=1)
        for name in (*NEVER, *self.due, *FORGED, *LATE, RESUMED):
            self.jobs.wait_phase(name, "Running", timeout=120)

    def rule(self, mode: str = "Suspend") -> None:
        """Make their policy."""
        last = max(self.graces)
        graces = {str(grace): grace for grace in self.graces}
        graces |= {"warned": 9999, **dict.fromkeys(FORGED, last + 1), **dict.fromkeys(LATE, last + 36), RESUMED: 60}
        classes: list[dict[str, Any]] = [
            {"name": value, "jobSelector": _labelled(value), "warningGrace": f"{grace}s"}
            for value, grace in graces.items()
        ]
        classes.append({"name": "idle", "jobSelector": _labelled("idle"), "mode": "Observe"})
        exemption = {"jobSelector": _labelled("exempt"), "reason": "paid for"}
        self.jobs.policy(
            mode,
            name=SCENE,
            selector={"e2e.stoker.dev/scene": SCENE},
            spec={"exemptions": [exemption]},
            classes=classes,
        )

    def wait_observed(self) -> None:
        """Wait until the cause is found of all that are to be warned."""
        self.jobs.wait_state("Idle", "warned", *self.due, *FORGED, *LATE, RESUMED, action="Observe")

    def wait_warned(self) -> None:
        """Wait until all of them are in their states."""
        names = ("warned", *self.due, *FORGED, *LATE, RESUMED)
        self.jobs.wait_warned(*names)
        for name in NEVER:
            self.jobs.wait_state(name.capitalize(), name)
        self.warnings = {name: self.jobs.record(name) for name in names}

    # ---------------------------------------------------------------------------------------------------- crashing

    def resume(self) -> None:
        """Its owner brings one job back that was reclaimed."""
        self.jobs.wait_state("Reclaimed", RESUMED)
        self.jobs.annotate(RESUMED, resume="please")

    def forge(self) -> None:
        """Leave behind what a controller leaves that is killed after an intent: of one job the action is still to be
        done, of one it is done and not recorded, of one the pods are others than those of the decision.
        """
        self.cluster.kill(CONTROLLER)
        for name in FORGED:
            job = self.jobs.get(name)
            job["status"]["reclaim"]["state"] = "Reclaiming"
            if name == "woken":
                job["status"]["reclaim"]["podUIDs"] = ["00000000-0000-0000-0000-000000000000"]
            path = f"/apis/stoker.dev/v1alpha1/namespaces/{self.jobs.namespace}/dljobs/{name}/status"
            self.cluster.api("PUT", path, job)
        by = {"stoker.dev/suspended-by": "reclaim"}
        self.jobs.patch_job("done", {"metadata": {"annotations": by}, "spec": {"suspend": True}})
        self.operator.crash()

    def crash(self) -> None:
        """Kill the controller once, at random or upon something that it has just written, and start the next."""
        upon = self.choice.choice(("moment", "intent", "action", "place", "freed"))
        delay = self.choice.uniform(0, LONGEST_DELAY)
        wait_for("a leader", self.operator.leader, timeout=60, quiet=True)
        if upon == "moment":
            delay = self.choice.uniform(0, 3)
        elif not self._come(upon):
            upon = f"no {upon}"
        time.sleep(delay)
        self.log.append(f"{upon} + {delay:.3f} s")
        self.operator.crash()

    def _come(self, upon: str) -> bool:
        """Wait for the next write of a kind; False when it does not come."""
        holds: Mapping[str, Callable[[Change], bool]] = {
            "intent": lambda one: one.enters("Reclaiming"),
            "action": lambda one: one.is_suspension,
            "place": lambda one: one.kind == POLICY and one.name == SCENE,
            "freed": lambda one: one.enters("Reclaimed"),
        }
        try:
            self.recorder.wait(upon, holds[upon], timeout=PATIENCE, since=len(self.recorder.changes))
        except AssertionError:
            return False
        return True

    # ---------------------------------------------------------------------------------------------------- judging

    def wait_reclaimed(self, *names: str) -> None:
        """Nothing is forgotten."""
        last = max(time_of(self.warnings[name]["deadline"]) for name in names)
        left = max((last - datetime.now(UTC)).total_seconds(), 0)
        self.jobs.wait_state("Reclaimed", *names, timeout=left + 120)

    def assert_nothing_doubled_or_early(self, *names: str) -> None:
        """By everything that was ever written, not by how it ended."""
        namespace = self.jobs.namespace
        for name in names:
            changes = self.recorder.of(JOB, namespace, name)
            assert [one.after for one in changes] == [False, True], (name, changes, self.log)
            (action,) = self.recorder.suspensions(namespace, name)
            records = [one for one in self.recorder.of(DLJOB, namespace, name) if one.after]
            warned = [one for one in records if "warnedAt" in one.after]
            assert {one.after["warnedAt"] for one in warned} == {self.warnings[name]["warnedAt"]}, self.log
            deadline = time_of(self.warnings[name]["deadline"])
            grace = deadline - time_of(self.warnings[name]["warnedAt"])
            assert grace >= timedelta(minutes=1)
            assert action.written_at >= deadline, (name, action, self.log)
            # Both times are rounded down to seconds.
            assert action.written_at - warned[0].written_at >= grace - timedelta(seconds=1), (name, self.log)
            before = [one for one in records if one.version < action.version]
            assert before[-1].after["state"] == "Reclaiming", "the intent is recorded before the action"
            record = self.jobs.record(name)
            assert happened(record).count("Reclaimed") == 1, (name, record["history"], self.log)
            # A kill between the record and the event leaves none: what counts is the record.
            told = [event.get("series") for event in self.jobs.events(name, "Reclaimed")]
            assert told in ([None], []), (name, self.log)
        for one in self.recorder.of(POLICY, "", SCENE):
            counted = [entry["job"].partition("/")[2] for entry in one.after or ()]
            assert len(counted) == len(set(counted)), (counted, self.log)
            assert not set(counted) & set(NEVER)
        assert set(names) <= set(counted)

    def assert_nothing_else(self) -> None:
        """Each of the others was left alone, and stands where it stood."""
        for name in NEVER:
            assert [one.after for one in self.recorder.of(JOB, self.jobs.namespace, name)] == [False], (name, self.log)
            self.jobs.wait_state(name.capitalize(), name)
        still = self.jobs.record("warned")
        for key in ("warnedAt", "deadline"):
            assert still[key] == self.warnings["warned"][key]


@contextmanager
def populated(cluster: Cluster, graces: tuple[int, ...]) -> Iterator[Population]:
    """A population that has this cluster for itself, with all in their states."""
    cluster.add_nodes(24)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    with ChangeRecorder(cluster) as recorder:
        population = Population(operator, recorder, graces)
        operator.start_admission()
        operator.start_controller(**SETTINGS)
        population.create()
        cluster.backfill()
        # Of what had no past it would be slow to look again.
        operator.crash()
        population.rule("Observe")
        population.wait_observed()
        population.rule()
        population.wait_warned()
        yield population
    cluster.stop()


def _labelled(value: str) -> dict[str, Any]:
    return {"matchLabels": {LABEL: value}}
