"""A job for reclaim, as whoever inspects it sees it: what the controller makes of its objects, and what its status says
beyond them. `stoker diagnose` and `stoker explain` ask the gates about the same candidate as the controller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.controller.candidates import candidate
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Phase
from stoker.reclaim import NOBODY, Candidate, Presence, of_facts
from stoker.telemetry.series import JobFacts
from stoker.workload import ProgramFacts

NO_JOB: Object = {"metadata": {"uid": ""}, "spec": {}}


def of_dljob(
    job: DLJob, child: Object | None, pods: Sequence[Object], findings: Sequence[Finding], program: ProgramFacts
) -> Candidate:
    """A DLJob with its Job and the Job's pods. Sessions are those that the status tells of; how the Job is suspended
    only the controller finds out.
    """
    known, status = candidate(job, child or NO_JOB, pods, findings, program), job.status
    if child is None:
        known = replace(known, untouchable=known.untouchable or "it has no Job")
    if status is not None and status.phase in {Phase.SUCCEEDED, Phase.FAILED}:
        known = replace(known, untouchable=f"it has ended: {status.phase}")
    if status is not None and status.last_session is not None:
        known = replace(known, presence=Presence(last_seen=status.last_session, how="a session was opened"))
    return known


def without_dljob(facts: JobFacts, program: ProgramFacts, labels: Mapping[str, str] | None = None) -> Candidate:
    """A job that the controller does not know: as if a DLJob had made its pods."""
    return replace(of_facts(facts), labels=labels or {}, serves=program.serves, offers=program.offers)


def in_the_past(known: Candidate) -> Candidate:
    """The candidate without what its objects say of the present: for a time that is over."""
    return replace(known, untouchable=None, resume=None, unsuspended=False, presence=NOBODY)


__all__ = ["in_the_past", "of_dljob", "without_dljob"]
