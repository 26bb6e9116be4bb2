"""The fourteen invariants of a safe reclaim, as far as a decision could break them: a cluster with one job, in which
anything may happen in any order, while the truth about it is kept beside what the program sees.

What is stamped by clocks that lie more than a minute apart never gets here: the metrics' adapter refuses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stoker.api.meta import LabelSelector
from stoker.api.policy import Exemption, ScheduleWindow
from stoker.api.status import ReclaimStatus
from stoker.diagnosis.idleness import idleness
from stoker.findings.diagnosis import Idleness
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import Category, Confidence, ReclaimMode, ReclaimState
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim, PolicyRevision
from stoker.reclaim import (
    ACTS,
    MINIMUM_WARNING_GRACE,
    Candidate,
    Case,
    Constraints,
    Execution,
    Obstruction,
    Plan,
    Presence,
    Record,
    Step,
    plan,
    reclaimed,
    resumed,
)
from stoker.telemetry.screen import GpuWindow, Screen
from stoker.telemetry.series import GpuSignal, JobFacts, PodFacts
from tests.reclaim.cases import finding

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LOOKS = st.sampled_from([0, 0, 5, 10, 30])
"""How long all is quiet after a change, in quarters of an hour."""
PODS, GPUS = 2, 4
"""Pods of the job, and GPUs of each pod."""
BRAKE = Obstruction(reason="so much turned idle at once")
FULL = Obstruction(reason="enough for now")
NIGHTS, NIGHT = ScheduleWindow(start="22:00", end="06:00"), {22, 23, 0, 1, 2, 3, 4, 5}
FATES = [
    *["works"] * 3,
    "write fails",
    "the owner responds",
    "no slot is left",
    "takes long",
    "dies after the intent",
]
"""What becomes of a pass of the controller."""
NOBODY_WAITS = Obstruction(reason="no pending pod asks for such GPUs")


@dataclass(slots=True, kw_only=True)
class Pod:
    """One pod, with the last work of each of its GPUs."""

    uid: str
    started: datetime
    worked: list[datetime]
    signal: GpuSignal = GpuSignal.UTIL
    """The one signal that shows its work."""
    ready: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A warning that was written."""

    at: datetime
    grace: timedelta
    action: ReclaimMode | None
    pods: frozenset[str]
    deadline: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimAction:
    """The truth at the moment in which the GPUs were taken."""

    at: datetime
    policy: EffectivePolicy
    sampled: bool
    quiet_since: datetime
    shared: bool
    ready: bool
    started: datetime
    pods: frozenset[str]
    warning: Announcement | None
    mode: ReclaimMode | None
    intended: ReclaimState | None
    visited: datetime | None
    visits_known: bool
    snoozed_until: datetime | None
    exempt: bool
    resumed: datetime | None
    constraints: Constraints
    finding: Finding | None
    stalled: bool
    uncounted: bool
    keeps_results: bool
    offers: str | None
    execution: Execution
    examined: datetime | None
    heard: bool
    suspendable: bool


@dataclass(slots=True, kw_only=True)
class Metrics:
    """What is wrong with them."""

    silent: bool = False
    partial: bool = False
    missing_gpu: bool = False
    covered: float = 100.0
    shared: bool = False
    doubtful: bool = False
    has_gap: bool = False

    @property
    def are_complete(self) -> bool:
        broken = self.silent or self.partial or self.missing_gpu or self.doubtful or self.has_gap
        return not broken and self.covered >= 90


AT_FIRST = EffectiveReclaim(mode=ReclaimMode.SUSPEND, cooldown_after_resume=timedelta(hours=5), on_pressure_only=True)


class Cluster(RuleBasedStateMachine):
    """One job from its start on; `tick` is a look of the controller's, everything else is the world."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.pods = [Pod(uid=f"pod-{rank}", started=START, worked=[START] * GPUS) for rank in range(PODS)]
        self.born = PODS
        self.metrics = Metrics()
        self.finding: Finding | None = finding()
        self.stalled = False
        self.uncounted: str | None = None
        self.keeps_results = True
        self.offers: str | None = None
        self.policy = EffectivePolicy(reclaim=AT_FIRST, revisions=(PolicyRevision(name="default", generation=1),))
        self.edits = 1
        self.constraints = Constraints()
        self.presence = Presence()
        self.snooze: str | None = None
        self.snoozed_until: datetime | None = None
        self.word: str | None = None
        self.resumed: datetime | None = None
        self.status: Mapping[str, object] = {}
        self.warning: Announcement | None = None
        self.suspended = False
        self.is_examined = True
        self.examined: datetime | None = None
        self.unsuspendable: str | None = None
        self.own_warning: tuple[datetime, datetime] | None = None
        """The warning that the process has recorded itself, by its time in status and in truth."""
        self.responses = 0
        self.actions: list[ReclaimAction] = []

    # ------------------------------------------------------------------------------------------------ the world

    @rule(minutes=st.sampled_from([1, 5, 14, 15, 16, 30, 45, 60, 90]))
    def time_passes(self, minutes: int) -> None:
        self.now += minutes * MINUTE

    @rule(looks=LOOKS)
    def a_quiet_time_under_the_controllers_eyes(self, looks: int) -> None:
        for _ in range(looks):
            self.now += 15 * MINUTE
            if not self.suspended:
                self.tick(fate="works")

    @rule()
    def all_is_well_again(self) -> None:
        """What stood in the way is gone; the policy stays."""
        self.metrics, self.finding, self.stalled, self.snooze = Metrics(), finding(), False, None
        self.uncounted, self.keeps_results, self.offers = None, True, None
        self.presence, self.constraints = replace(self.presence, unknown=None), Constraints()
        self.is_examined, self.unsuspendable = True, None
        self.pods[1].ready = True
        self.a_quiet_time_under_the_controllers_eyes(looks=10)

    @rule(pod=st.integers(0, PODS - 1), gpu=st.integers(0, GPUS - 1))
    def one_gpu_works(self, pod: int, gpu: int) -> None:
        self.pods[pod].worked[gpu] = self.now

    @rule(signal=st.sampled_from([GpuSignal.SM_ACTIVE, GpuSignal.DRAM, GpuSignal.PCIE_RX, GpuSignal.DECODER]))
    def one_gpu_works_and_only_one_signal_says_so(self, signal: GpuSignal) -> None:
        self.pods[0].worked[0], self.pods[0].signal = self.now, signal

    @rule(
        fault=st.sampled_from(["silent", "partial", "missing_gpu", "shared", "doubtful", "has_gap"]),
        covered=st.sampled_from([100.0, 100.0, 89.0]),
    )
    def the_metrics_break(self, fault: str, covered: float) -> None:
        setattr(self.metrics, fault, True)
        self.metrics.covered = covered

    @rule()
    def the_metrics_come_back(self) -> None:
        self.metrics = Metrics()

    @rule(
        uncounted=st.sampled_from([None, None, "resource claim gpus", "nvidia.com/mig-1g.5gb of container cache"]),
        keeps_results=st.booleans(),
        offers=st.sampled_from([None, None, "port 8000"]),
        looks=LOOKS,
    )
    def the_manifest_is_another(
        self, uncounted: str | None, keeps_results: bool, offers: str | None, looks: int
    ) -> None:
        """A job's spec does not change; what matters is that each may be so at any moment of the rest."""
        self.uncounted, self.keeps_results, self.offers = uncounted, keeps_results, offers
        self.a_quiet_time_under_the_controllers_eyes(looks)

    @rule(rank=st.integers(0, PODS - 1))
    def a_container_restarts(self, rank: int) -> None:
        self.pods[rank].started = self.now

    @rule(rank=st.integers(0, PODS - 1))
    def a_pod_is_replaced(self, rank: int) -> None:
        self.pods[rank] = Pod(uid=f"pod-{self.born}", started=self.now, worked=[self.now] * GPUS)
        self.born += 1

    @rule(goes_on=st.booleans())
    def the_examinations_end_or_go_on(self, goes_on: bool) -> None:
        self.is_examined = goes_on

    @rule()
    def the_controller_is_restarted(self) -> None:
        """What it had in memory is gone."""
        self.examined, self.own_warning = None, None

    @rule(why=st.sampled_from([None, "Kueue's Workloads can't be read now"]), looks=LOOKS)
    def the_jobs_manager_can_or_cannot_be_read(self, why: str | None, looks: int) -> None:
        self.unsuspendable = why
        self.a_quiet_time_under_the_controllers_eyes(looks)

    @rule(ready=st.booleans())
    def a_pod_turns_ready_or_not(self, ready: bool) -> None:
        self.pods[1].ready = ready

    @rule(unknown=st.booleans())
    def somebody_comes_by(self, unknown: bool) -> None:
        self.presence = Presence(last_seen=self.now, how="a session", unknown="no answer" if unknown else None)

    @rule()
    def sessions_can_be_seen_again(self) -> None:
        self.presence = replace(self.presence, unknown=None)

    @rule(hours=st.sampled_from([1, 3, 1000]))
    def the_owner_snoozes(self, hours: int) -> None:
        self.snooze = rfc3339(self.now + timedelta(hours=hours))

    @rule()
    def the_owner_takes_the_snooze_back(self) -> None:
        self.snooze = None

    @rule(number=st.integers(0, 9), looks=LOOKS)
    def the_owner_resumes(self, number: int, looks: int) -> None:
        self.word = f"word-{number}"
        self.a_quiet_time_under_the_controllers_eyes(looks)

    @rule(
        category=st.sampled_from([None, Category.UNRELEASED_JOB, Category.UNRELEASED_JOB, Category.DATA_EXCHANGE]),
        confidence=st.sampled_from([Confidence.LIKELY, Confidence.LIKELY, Confidence.POSSIBLE]),
        stalled=st.booleans(),
    )
    def another_cause_is_found(self, category: Category | None, confidence: Confidence, stalled: bool) -> None:
        self.finding = None if category is None else finding(category, confidence)
        self.stalled = stalled

    @rule(
        mode=st.sampled_from([*ReclaimMode, ReclaimMode.SUSPEND, ReclaimMode.SUSPEND]),
        idle_after=st.sampled_from([10, 60, 120]),
        warning_grace=st.sampled_from([1, 15, 60]),
        startup_grace=st.sampled_from([0, 30]),
        cooldown=st.sampled_from([0, 60, 300]),
        on_pressure_only=st.booleans(),
        schedule=st.sampled_from([(), (), (NIGHTS,)]),
        without_volume=st.booleans(),
        looks=LOOKS,
    )
    def the_policy_is_edited(
        self,
        mode: ReclaimMode,
        idle_after: int,
        warning_grace: int,
        startup_grace: int,
        cooldown: int,
        on_pressure_only: bool,
        schedule: tuple[ScheduleWindow, ...],
        without_volume: bool,
        looks: int,
    ) -> None:
        self.edits += 1
        self.policy = replace(
            self.policy,
            revisions=(PolicyRevision(name="default", generation=self.edits),),
            reclaim=EffectiveReclaim(
                mode=mode,
                idle_after=idle_after * MINUTE,
                warning_grace=warning_grace * MINUTE,
                startup_grace=startup_grace * MINUTE,
                cooldown_after_resume=cooldown * MINUTE,
                on_pressure_only=on_pressure_only,
                schedule=schedule,
                training_without_volume=without_volume,
            ),
        )
        self.a_quiet_time_under_the_controllers_eyes(looks)

    @rule(minutes=st.sampled_from([0, 30, 100]), looks=LOOKS)
    def an_exemption_is_given(self, minutes: int, looks: int) -> None:
        selector = LabelSelector(match_labels={})
        exemption = Exemption(job_selector=selector, reason="a campaign", until=self.now + minutes * MINUTE)
        self.policy = replace(self.policy, exemptions=(exemption,))
        self.a_quiet_time_under_the_controllers_eyes(looks)

    @rule(brake=st.sampled_from([None, None, BRAKE]), bounds=st.sampled_from([None, None, FULL]),
          pressure=st.sampled_from([None, NOBODY_WAITS]), looks=LOOKS)  # fmt: skip
    def the_cluster_changes(
        self, brake: Obstruction | None, bounds: Obstruction | None, pressure: Obstruction | None, looks: int
    ) -> None:
        self.constraints = Constraints(brake=brake, bounds=bounds, pressure=pressure)
        self.a_quiet_time_under_the_controllers_eyes(looks)

    # ------------------------------------------------------------------------------------------------ the controller

    @precondition(lambda self: not self.suspended and self._record().state is not ReclaimState.RECLAIMED)
    @rule(fate=st.sampled_from(FATES))
    def tick(self, fate: str) -> None:
        """One pass, and the fresh check before an action. The next pass remembers only what stands in the status, when
        the job was examined, and how long the warning that this process has recorded has stood.
        """
        record = self._heard(self._record())
        if self.is_examined:
            self.examined = self.now
        planned = self._plan(record)
        if fate == "write fails":
            return
        self._write(planned.record)
        if planned.step is not Step.CHECK_AGAIN:
            return
        if fate == "the owner responds":
            self.responses += 1
            self.word = f"meanwhile-{self.responses}"
        self._carry_out(fate)

    def _carry_out(self, fate: str) -> None:
        case = self._case(self._record())
        case = replace(case, execution=replace(case.execution, check_age=timedelta(0)))
        while (planned := plan(case)).step not in ACTS:
            execution = replace(case.execution, check_age=timedelta(seconds=25 if fate == "takes long" else 1))
            match planned.step:
                case Step.TAKE_SLOT:
                    execution = replace(execution, slot_taken=fate != "no slot is left")
                case Step.RECORD_INTENT:
                    self._write(planned.record)
                    execution = replace(execution, intent_recorded=True)
                    if fate == "dies after the intent":
                        return
                case Step.RETRY | Step.STOP:
                    return
                case _:
                    self._write(planned.record)
                    return
            case = replace(case, execution=execution)
        self._act(planned, case)

    @precondition(lambda self: self.suspended)
    @rule()
    def its_pods_end(self) -> None:
        self._write(reclaimed(self._record(), self.now))
        assert self._plan(self._record()).record == self._record()

    @precondition(lambda self: self.suspended)
    @rule(number=st.integers(10, 19))
    def the_owner_brings_it_back(self, number: int) -> None:
        self.word = f"word-{number}"
        record = self._heard(self._record())
        if record.action is ReclaimMode.DELETE:
            return
        self._write(record)
        if record.state is ReclaimState.ACTIVE:
            self.suspended, self.warning = False, None
            self.pods = [
                Pod(uid=f"pod-{self.born + rank}", started=self.now, worked=[self.now] * GPUS) for rank in range(PODS)
            ]
            self.born += PODS

    def _record(self) -> Record:
        return Record.from_status(ReclaimStatus.model_validate(self.status))

    def _heard(self, record: Record) -> Record:
        word = resumed(record, annotation=self.word, unsuspended=False, now=self.now)
        if word.notices:
            self.resumed = self.now
            self._write(word.record)
        return word.record

    def _plan(self, record: Record) -> Plan:
        return plan(self._case(record))

    def _case(self, record: Record) -> Case:
        own = self.own_warning
        execution = Execution(
            warning_age=self.now - own[1] if own is not None and own[0] == record.warned_at else None,
            examination_age=self.now - self.examined if self.examined is not None else None,
        )
        return Case(
            job=self._candidate(),
            idleness=self._idleness(),
            policy=self.policy,
            record=record,
            now=self.now,
            constraints=self.constraints,
            execution=execution,
        )

    def _write(self, record: Record) -> None:
        before = self._record()
        self.status = record.to_status()
        if record.handled_snooze != before.handled_snooze:
            self._note_snooze(record.handled_snooze)
        if record.warned_at is None:
            self.warning = None
        elif record.warned_at != before.warned_at:
            self.own_warning = record.warned_at, self.now
            assert record.deadline is not None
            self.warning = Announcement(
                at=self.now,
                grace=max(self.policy.reclaim.warning_grace, MINIMUM_WARNING_GRACE),
                action=record.action,
                pods=frozenset(pod.uid for pod in self.pods),
                deadline=record.deadline,
            )

    def _note_snooze(self, text: str | None) -> None:
        """What the owner has been granted."""
        granted = self.now + self.policy.reclaim.max_snooze
        self.snoozed_until = None if text is None else min(datetime.fromisoformat(text), granted)

    def _act(self, planned: Plan, case: Case) -> None:
        self.suspended = True
        self.actions.append(
            ReclaimAction(
                at=self.now,
                policy=self.policy,
                sampled=self.metrics.are_complete,
                quiet_since=max(max(pod.worked) for pod in self.pods),
                shared=self.metrics.shared,
                ready=all(pod.ready for pod in self.pods),
                started=max(pod.started for pod in self.pods),
                pods=frozenset(pod.uid for pod in self.pods),
                warning=self.warning,
                mode=planned.record.action,
                intended=self._record().state,
                visited=self.presence.last_seen,
                visits_known=self.presence.unknown is None,
                snoozed_until=self.snoozed_until,
                exempt=any(one.until is None or self.now < one.until for one in self.policy.exemptions),
                resumed=self.resumed,
                constraints=self.constraints,
                finding=self.finding,
                stalled=self.stalled,
                uncounted=self.uncounted is not None,
                keeps_results=self.keeps_results,
                offers=self.offers,
                execution=case.execution,
                examined=self.examined,
                heard=self.word is None or self.word == self._record().handled_resume,
                suspendable=self.unsuspendable is None,
            )
        )

    def _candidate(self) -> Candidate:
        return Candidate(
            job_type=self._facts().job_type,
            gpus=PODS * GPUS,
            job_uid="job",
            pod_uids=frozenset(pod.uid for pod in self.pods),
            last_start=max(pod.started for pod in self.pods),
            findings=(
                *(() if self.finding is None else (self.finding,)),
                *((finding(Category.STALLED, Confidence.POSSIBLE),) if self.stalled else ()),
            ),
            snooze=self.snooze,
            has_persistent_volume=self.keeps_results,
            offers=self.offers,
            termination_grace=timedelta(seconds=30),
            presence=self.presence,
            resume=self.word,
            unsuspendable=self.unsuspendable,
        )

    def _facts(self) -> JobFacts:
        pods = tuple(
            PodFacts(
                name=f"bert-{rank}",
                uid=pod.uid,
                rank=rank,
                gpus=GPUS,
                started_at=pod.started,
                ready=pod.ready,
                uncounted_gpus=self.uncounted if rank else None,
            )
            for rank, pod in enumerate(self.pods)
        )
        return JobFacts(namespace="nlp", name="bert", uid="dljob", nodes=PODS, gpus_per_node=GPUS, pods=pods)

    def _idleness(self) -> Idleness:
        """What the code of the live controller makes of the screen that Prometheus would give."""
        window = self.policy.reclaim.idle_after
        return idleness(
            self._facts(),
            Screen(
                at=self.now,
                window=window,
                gpus={} if self.metrics.silent else {
                    ("nlp", f"bert-{rank}"): self._gpus(pod, window) for rank, pod in enumerate(self.pods)
                },
                complete=not self.metrics.partial,
            ),
            window=window,
            min_coverage_percent=90,
            now=self.now,
        )  # fmt: skip

    def _gpus(self, pod: Pod, window: timedelta) -> tuple[GpuWindow, ...]:
        speaking = pod.worked[1:] if self.metrics.missing_gpu else pod.worked
        return tuple(
            GpuWindow(
                gpu=f"{pod.uid}-{number}",
                # Utilization stays at 0, whatever another signal shows: exporters do that.
                peaks={GpuSignal.UTIL: 0.0, **({pod.signal: 1e9} if self.now - worked < window else {})},
                coverage_percent=self.metrics.covered,
                last_sample_at=self.now,
                quiet_since=worked,
                shared=self.metrics.shared,
                doubtful=self.metrics.doubtful,
                has_gap=self.metrics.has_gap and number == 0,
            )
            for number, worked in enumerate(speaking)
        )

    # ------------------------------------------------------------------------------------------------ the invariants

    @invariant()
    def invariant_01_missing_is_not_idle(self) -> None:
        assert all(action.sampled and action.visits_known for action in self.actions)
        assert not any(action.uncounted for action in self.actions)

    @invariant()
    def invariant_02_the_job_is_idle_not_a_part_of_it(self) -> None:
        """Every GPU of every pod, over the whole of the policy's time."""
        assert all(action.at - action.quiet_since >= action.policy.reclaim.idle_after for action in self.actions)
        assert all(action.ready and not action.stalled and action.offers is None for action in self.actions)

    @invariant()
    def invariant_03_contradiction_means_active(self) -> None:
        """`quiet_since` knows of work that a single signal has shown. Of shared GPUs nothing can be known."""
        assert not any(action.shared for action in self.actions)

    @invariant()
    def invariant_04_the_clock_starts_when_the_pod_runs(self) -> None:
        for action in self.actions:
            assert action.at - action.started >= action.policy.reclaim.idle_after + action.policy.reclaim.startup_grace
            if action.resumed is not None:
                assert action.at - action.resumed >= action.policy.reclaim.cooldown_after_resume

    @invariant()
    def invariant_05_warned_first(self) -> None:
        """By the time that the policy granted then or grants now, and everything has been still since."""
        for action in self.actions:
            assert action.warning is not None
            grace = max(action.warning.grace, action.policy.reclaim.warning_grace, MINIMUM_WARNING_GRACE)
            assert action.at - action.warning.at >= grace
            assert max(action.quiet_since, action.started) <= action.warning.at
            assert action.visited is None or action.visited <= action.warning.at

    @invariant()
    def invariant_06_looked_again_right_before(self) -> None:
        """At these pods, of whose causes one still holds."""
        for action in self.actions:
            assert action.warning is not None
            assert action.pods == action.warning.pods
            assert action.examined is not None
            assert action.at - action.examined <= 5 * MINUTE
            assert action.execution.check_age is not None
            assert action.execution.check_age <= timedelta(seconds=20)
            assert action.finding is not None
            assert (action.finding.category, action.finding.confidence) == (Category.UNRELEASED_JOB, Confidence.LIKELY)

    @invariant()
    def invariant_07_as_gentle_as_can_be(self) -> None:
        """The intent comes first, nothing is deleted of which less was said, and no results are lost for which the
        policy does not allow it.
        """
        for action in self.actions:
            assert action.keeps_results or action.policy.reclaim.training_without_volume
            assert action.intended is ReclaimState.RECLAIMING
            assert action.suspendable
            assert action.mode is action.policy.reclaim.mode
            if action.mode is ReclaimMode.DELETE:
                assert action.warning is not None
                assert action.warning.action is ReclaimMode.DELETE

    @invariant()
    def invariant_08_bounded(self) -> None:
        assert all((action.constraints.brake, action.constraints.bounds) == (None, None) for action in self.actions)
        assert all(action.execution.slot_taken for action in self.actions)

    @invariant()
    def invariant_09_the_owner_has_a_say_the_admin_the_last_word(self) -> None:
        for action in self.actions:
            assert action.snoozed_until is None or action.at >= action.snoozed_until
            assert not action.exempt
            assert action.heard
            assert not action.policy.reclaim.schedule or action.at.hour in NIGHT
        longest = self._record().snoozed_until
        assert longest is None or longest <= self.now + EffectiveReclaim().max_snooze

    @invariant()
    def invariant_10_restarts_change_nothing(self) -> None:
        """All that counts is in the status: whoever reads it decides the same, and again the same."""
        if self.suspended:
            return
        record = self._record()
        first = self._plan(record)
        assert self._plan(record) == first
        read = Record.from_status(ReclaimStatus.model_validate(first.record.to_status()))
        assert (read.state, read.warned_at, read.deadline, read.pod_uids, read.action) == (
            first.record.state,
            first.record.warned_at,
            first.record.deadline,
            first.record.pod_uids,
            first.record.action,
        )

    @invariant()
    def invariant_11_observe_by_default(self) -> None:
        assert all(action.policy.reclaim.mode is not ReclaimMode.OBSERVE for action in self.actions)

    @invariant()
    def invariant_12_on_pressure_only_if_so_set(self) -> None:
        for action in self.actions:
            assert not action.policy.reclaim.on_pressure_only or action.constraints.pressure is None

    @invariant()
    def invariant_13_a_grace_never_shrinks(self) -> None:
        record, warning = self._record(), self.warning
        if warning is None or not record.has_warning:
            return
        assert record.deadline is not None
        assert record.deadline >= warning.deadline
        assert warning.deadline - warning.at >= warning.grace

    @invariant()
    def invariant_14_no_fault_of_ours_stops_anything(self) -> None:
        """The decision answers whatever the state: that of a job which is suspended is that nothing is to be done."""
        decision = self._plan(self._record())
        if self._record().state is ReclaimState.RECLAIMED:
            assert decision == Plan(record=self._record())


NARRATED = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_nothing_that_happens_breaks_an_invariant() -> None:
    run_state_machine_as_test(Cluster, settings=NARRATED)
