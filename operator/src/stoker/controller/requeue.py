"""When a job is reconciled again: the delays and backoffs that a pass of reconcile returns to the work queue.

Used by reconcile and its endings. Delays are in seconds; None means: when the watch reports a change.
"""

from dataclasses import replace
from datetime import datetime

from stoker.cluster.workqueue import Backoff, Requeue
from stoker.controller.reconcile_pass import Pass
from stoker.findings.vocabulary import FINAL_PHASES, ReclaimState
from stoker.reclaim import Plan
from stoker.reclaim.action_gates import GRACE_ELAPSED
from stoker.workload.observation import JobObservation

NOT_CREATED = "JobNotCreated"
"""The reason of an obstacle: the request to create the Job got no answer, or one that is no refusal."""

AT_ONCE = 0.0
"""The job needs another pass now. The watch skips the writes of this process, so no event would start that pass."""
REFUSED = Backoff(first=5.0, longest=300.0)
"""After a refusal by the API server or by a review: a quota, a webhook, a name that is in use. No watch reports when
the cause is gone. Chosen because people remove such a cause, which takes minutes.
"""
UNANSWERED = Backoff(first=1.0, longest=60.0)
"""After a request without an answer, and where an existing Job can't be changed now. Chosen because an API server is
back within a minute.
"""


def requeue_after(current: Pass) -> Requeue:
    """When to reconcile again after a pass that went through all steps."""
    delay = soonest(
        after_plan(current.plan, current.observation, current.now),
        current.recheck_after,
        seconds_until(current.policy.next_expiry(current.now), current.now),
    )
    if current.child is None and current.obstacle is not None:
        return no_later_than(UNANSWERED if current.obstacle.reason == NOT_CREATED else REFUSED, delay)
    if current.unsuspendable is not None or current.not_changed is not None:
        return no_later_than(UNANSWERED, delay)
    return delay


def after_plan(plan: Plan, observation: JobObservation, now: datetime) -> float | None:
    """The seconds until the plan can come out differently because time has passed."""
    if observation.phase in FINAL_PHASES:
        return AT_ONCE
    if plan.gate == GRACE_ELAPSED.name:
        return seconds_until(plan.until, now)
    if plan.record.state is ReclaimState.WARNED:
        return seconds_until(plan.record.deadline, now)
    return None


def seconds_until(time: datetime | None, now: datetime) -> float | None:
    """The seconds until a time in the future; None for a past or missing one."""
    return (time - now).total_seconds() if time is not None and time > now else None


def soonest(*delays: float | None) -> float | None:
    """The shortest of the delays that are given; None without any."""
    return min((delay for delay in delays if delay is not None), default=None)


def no_later_than(backoff: Backoff, delay: float | None) -> Backoff:
    """The backoff, shortened where something is due `delay` seconds from now."""
    return backoff if delay is None else replace(backoff, longest=min(backoff.longest, delay))
