"""The notifications about one job's reclaim: which are due by its record, and what they say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.api.dljob import DLJob
from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.api.notification import Message, filled, template_faults
from stoker.findings.finding import printable, rfc3339
from stoker.findings.vocabulary import NotificationEvent, ReclaimMode, ReclaimState
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import NotificationRecord, Record

LATEST = timedelta(hours=24)
"""Older events are not notified of any more; chosen because a day later they surprise more than they help."""

WARNED = {
    ReclaimMode.SUSPEND: (
        "All GPUs ({gpus}) of the job {job} in {namespace} have been idle since {idleSince} ({cause}).\n"
        "Unless one is used again, it will be suspended at {deadline}: its pods end, its objects and volumes stay.\n"
        "To postpone this: {command}"
    ),
    ReclaimMode.DELETE: (
        "All GPUs ({gpus}) of the job {job} in {namespace} have been idle since {idleSince} ({cause}).\n"
        "Unless one is used again, it will be deleted for good at {deadline}.\n"
        "To postpone this: {command}"
    ),
}
RECLAIMED = {
    ReclaimMode.SUSPEND: (
        "The GPUs ({gpus}) of the job {job} in {namespace} were reclaimed: idle since {idleSince} ({cause}).\n"
        "The job is suspended. To start it again, from the beginning of its script: {command}"
    ),
    ReclaimMode.DELETE: (
        "The GPUs ({gpus}) of the job {job} in {namespace} were reclaimed: idle since {idleSince} ({cause}).\n"
        "The job was deleted for good. For details: {command}"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Something that a job's owner is notified of once: its event and when that was recorded."""

    event: NotificationEvent
    at: datetime

    def __str__(self) -> str:
        return f"{self.event} {rfc3339(self.at)}"

    def is_in(self, notified: Iterable[NotificationRecord]) -> bool:
        """Whether a record's `notified` has what became of it. Times in a status have whole seconds."""
        return any(one.event is self.event and rfc3339(one.event_time) == rfc3339(self.at) for one in notified)


def occasion(record: Record, events: Sequence[NotificationEvent], now: datetime) -> Occasion | None:
    """What a record gives occasion to notify of now, whether that was done or not: a warning in force, or a reclaim."""
    if record.state is ReclaimState.RECLAIMED:
        event, at = NotificationEvent.RECLAIMED, record.reclaimed_at
    else:
        event, at = NotificationEvent.WARNED, record.warned_at if record.has_warning else None
    return None if at is None or event not in events or now - at > LATEST else Occasion(event=event, at=at)


def people(job: DLJob) -> dict[str, str]:
    """Who a job's messages may be addressed to."""
    labels = job.metadata.labels
    return {
        "owner": labels.get(OWNER_LABEL, ""),
        "team": labels.get(TEAM_LABEL, ""),
        "namespace": job.namespace,
    }


def notification(about: Occasion, job: DLJob, record: Record, policy: EffectivePolicy) -> Message:
    """The message about it, by the policy's template where there is one. A template with faults, which can only have
    come past admission, is ignored.
    """
    warned = about.event is NotificationEvent.WARNED
    action = record.action if record.action in WARNED else ReclaimMode.SUSPEND
    assert action is not None  # a warning and a reclaim record it
    own = policy.notification.templates.warned if warned else policy.notification.templates.reclaimed
    default = (WARNED if warned else RECLAIMED)[action]
    template = default if own is None or any(template_faults(own)) else own
    values = _values(about, job, record, action)
    does = "suspended" if action is ReclaimMode.SUSPEND else "ended"
    what = f"will be {does} at {values['deadline']}" if warned else f"was {does}: its GPUs were idle"
    title = f"{job.namespace}/{job.name} {what}"
    return Message(title=title, body=printable(filled(template, values)), alarms=True)


def _values(about: Occasion, job: DLJob, record: Record, action: ReclaimMode) -> Mapping[str, str]:
    """The value of each placeholder; names and labels are all that users wrote of it."""
    where = f"{job.name} -n {job.namespace}"
    if about.event is NotificationEvent.WARNED:
        command = f"stoker snooze {where} --for 2h"
    else:
        command = f"stoker resume {where}" if action is ReclaimMode.SUSPEND else f"stoker explain {where}"
    findings = job.status.findings if job.status is not None else ()
    category = next((one.category.value for one in findings if one.rule == record.rule), None)
    return people(job) | {
        "job": job.name,
        "gpus": str(job.gpus),
        "idleSince": moment(record.idle_since),
        "deadline": moment(record.deadline),
        "cause": category or record.rule or "idle",
        "policy": ", ".join(map(str, record.policies)),
        "command": command,
    }


def moment(time: datetime | None) -> str:
    """A time, or that it is unknown."""
    return "an unknown time" if time is None else rfc3339(time)
