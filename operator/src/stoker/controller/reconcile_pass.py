"""The data of one pass of reconcile over one DLJob, and what follows from them without reading anything else.

Each step of `reconcile` takes a Pass and returns the next one, or Ended where no further step applies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.cluster.workqueue import Requeue
from stoker.controller.candidates import action_effect
from stoker.controller.hysteresis import lasting
from stoker.controller.next_status import NextStatus
from stoker.controller.scan_results import ScanResult
from stoker.controller.status_findings import holding, merged
from stoker.controller.suspension import SuspendMechanism, mark_of
from stoker.findings.diagnosis import Diagnosis
from stoker.findings.finding import Finding
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action, Source
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import ActionEffect, Execution, Notice, Plan, Record, completed, is_done, reclaimed_notice
from stoker.telemetry.series import PodFacts
from stoker.workload import facts_of, remembered
from stoker.workload.conditions import Fact
from stoker.workload.observation import BY_RECLAIM, JobObservation, is_ending
from stoker.workload.pods import Obstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The pass is over before its last step. `requeue` says when the job is reconciled again."""

    requeue: Requeue


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass knows of a job so far; each step adds to it.

    raw, job: the DLJob as the API server has it, and as a model.
    record: the reclaim record; the plan's from the step that plans on. `record_before_plan` keeps the one before.
    written_findings: the findings of the status as it was read.
    known_findings: the same, and those of the manifest's review where the job has yet to be created.
    manifest_findings: what the review of the manifest found under the present policy.
    analysed: the condition Analysed; None keeps what is written.
    mechanism: what suspends the Job; read only where Stoker has suspended it or is to.
    unsuspendable: why the Job has no such mechanism.
    not_changed: why the Job could not be changed as its owner asked.
    creation_warnings: what the API server warned of when the Job was created.
    recheck_after: seconds after which an obstacle of the Job's pods has to be looked for again.
    """

    raw: Object
    job: DLJob
    now: datetime
    record: Record
    record_before_plan: Record | None = None
    written_findings: tuple[Finding, ...]
    known_findings: tuple[Finding, ...]
    manifest_findings: tuple[Finding, ...] = ()
    verdict: Verdict | None = None
    analysed: Fact | None = None
    policy: EffectivePolicy
    scan_result: ScanResult | None = None
    child: Object | None = None
    mechanism: SuspendMechanism | None = None
    unsuspendable: str | None = None
    not_changed: str | None = None
    creation_warnings: str = ""
    pods: tuple[Object, ...] = ()
    obstacle: Obstacle | None = None
    recheck_after: float | None = None
    notices: tuple[Notice, ...] = ()
    seen: JobObservation | None = None
    planned: Plan | None = None

    # ----------------------------------------------------------------------------------------------------- the Job

    @property
    def was_created(self) -> bool:
        """Whether the status says that a Job was created."""
        return self.job.status is not None and self.job.status.job_uid is not None

    @property
    def needs_child(self) -> bool:
        """Whether a Job is to be created."""
        return self.child is None and not self.was_created and not self.job.spec.suspend

    @property
    def is_child_active(self) -> bool:
        """Whether there is a Job that has not ended, is not ending, and is not being deleted."""
        child = self.child
        return child is not None and not is_ending(child) and "deletionTimestamp" not in child["metadata"]

    @property
    def effect(self) -> ActionEffect:
        """What reclaim has done to the Job and its pods."""
        held = self.mechanism is not None and self.mechanism.suspended_by == BY_RECLAIM
        return action_effect(self.child, self.pods, held_by_reclaim=held)

    @property
    def is_reclaimed(self) -> bool:
        """Whether reclaim has taken the job's pods away; they may still be ending."""
        return is_done(self.record, self.effect)

    @property
    def is_held(self) -> bool:
        """Whether Stoker keeps the Job suspended. Where the mechanism can't be read, the mark on a suspended Job says
        so.
        """
        if self.child is None or self.is_reclaimed:
            return self.child is not None
        if self.unsuspendable is not None:
            return bool(self.child["spec"].get("suspend")) and mark_of(self.child) is not None
        return self.mechanism is not None and self.mechanism.suspended_by is not None

    @property
    def runs(self) -> tuple[PodFacts, ...]:
        """The runs of the job's pods, including those of pods that are gone."""
        return remembered(self.job.status, facts_of(self.pods, self.job.spec.gpu_resource), self.child, self.now)

    # ------------------------------------------------------------------------------------------------ its findings

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The latest examination of this process."""
        return self.scan_result.diagnosis if self.scan_result is not None else None

    @property
    def execution(self) -> Execution:
        """What this process knows of the job's examinations; a restart forgets it."""
        diagnosis = self.diagnosis
        if diagnosis is None:
            return Execution()
        if diagnosis.unknown is not None:
            return Execution(is_examination_incomplete=True, examination_gap=diagnosis.gap)
        used = diagnosis.utilization
        return Execution(examination_age=self.now - used.as_of if used is not None else None)

    @property
    def current_findings(self) -> tuple[Finding, ...]:
        """What holds at this moment: a finding that the last examination does not show is closed."""
        return self._merged(self._measured)

    @property
    def published_findings(self) -> tuple[Finding, ...]:
        """What the status says and warnings rest on: an open finding closes after it has been absent for a while."""
        measured = self._measured
        if measured is not None and self.scan_result is not None:
            measured = lasting(
                filter(self._is_enabled, self.known_findings), measured, self.scan_result.examination_history
            )
        return self._merged(measured)

    def _merged(self, measured: Sequence[Finding] | None) -> tuple[Finding, ...]:
        used = self.diagnosis.utilization if self.diagnosis is not None else None
        idle = used.gpu_hours_idle if used is not None else None
        held = holding(self.known_findings, measured, self.manifest_findings)
        return merged(self.known_findings, held, self.now, idle=idle)

    @property
    def _measured(self) -> tuple[Finding, ...] | None:
        """What the last examination found, by the rules that the policy has not turned off. None without a complete
        examination, and for a job whose pods reclaim has taken away: its findings stay until it runs again.
        """
        if self.diagnosis is None or self.diagnosis.unknown is not None:
            return None
        if self.child is not None and self.is_reclaimed:
            return None
        return tuple(filter(self._is_enabled, self.diagnosis.findings))

    def _is_enabled(self, finding: Finding) -> bool:
        return self.policy.action(finding.rule, Action.WARN) is not Action.OFF

    # ------------------------------------------------------------------------------------------------ its outcome

    @property
    def observation(self) -> JobObservation:
        """What the step that observes has seen."""
        assert self.seen is not None
        return self.seen

    @property
    def plan(self) -> Plan:
        """What the step that plans has decided."""
        assert self.planned is not None
        return self.planned

    def next_status(
        self, observation: JobObservation, *, conflict: str | None = None, is_over: bool = False
    ) -> NextStatus:
        """The status to write.

        conflict: who has the name of the job's Job.
        is_over: whether it is the job's last status: then the findings are those that hold now.
        """
        return NextStatus(
            uid=self.job.uid,
            generation=self.job.metadata.generation,
            gpus=self.job.gpus,
            suspend=bool(self.job.spec.suspend),
            observation=observation,
            findings=self.current_findings if is_over else self.published_findings,
            record=self.record,
            policy=self.policy,
            child_uid=self.child["metadata"]["uid"] if self.child is not None else None,
            scan_result=self.scan_result,
            conflict=conflict,
            analysed=self.analysed,
            creation_warnings=self.creation_warnings,
            runs=self.runs,
            is_over=is_over,
        )


def with_completed_action(current: Pass) -> Pass:
    """The pass with the reclaim recorded and announced as done, if the last pod of a reclaimed job has ended."""
    job, record = current.job, completed(current.record, current.effect, current.now)
    if record.state is current.record.state:
        return replace(current, record=record)
    notice = reclaimed_notice(record, namespace=job.namespace, name=job.name, gpus=job.gpus)
    return replace(current, record=record, notices=(*current.notices, notice))


def without_examination(current: Pass) -> Pass:
    """The pass for a job without a Job: its findings stay as they are known, whatever an examination found."""
    kept = unmeasured(current.known_findings)
    return replace(current, written_findings=current.known_findings, manifest_findings=kept, scan_result=None)


def unmeasured(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that rest on no metrics."""
    return tuple(finding for finding in findings if Source.METRICS not in finding.sources)
