"""Checks of the operator's processes: whether they run, in which version, who leads, and whether it writes."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from stoker import __version__
from stoker.adapters.kubernetes.client import DLJOBS, LEASES, Object
from stoker.controller.leader_election import DURATION, LEASE
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ConditionType, UnknownReason
from stoker.findings.wording import count, minutes
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.installation import Component, Role
from stoker.inspection.doctor.scene import Scene, field
from stoker.inspection.reclaim_report import HOLDS_GPUS, OUT_OF_DATE
from stoker.lint.kinds.pod import listed, mapping

LEASE_OVERDUE = timedelta(seconds=4 * DURATION)
"""A leader renews its Lease every 2 s. Chosen as four times the Lease's duration, so that a hand-over and a skew of
some seconds are no alarm.
"""


async def deployments(scene: Scene) -> Outcome:
    """The parts of the operator run."""
    return judge_deployments(await scene.components(), scene.namespace)


def judge_deployments(found: Mapping[Role, Component], namespace: str) -> Outcome:
    """The certificates Deployment is missing where the certificate is somebody else's."""
    missing = [role for role in (Role.CONTROLLER, Role.ADMISSION) if role not in found]
    if missing:
        return failed(f"no Deployment in namespace {namespace} runs stoker run {' or '.join(missing)}")
    down = [one.name for one in found.values() if one.replicas and not one.ready]
    if down:
        return failed(f"no replica is ready of {names(down)}")
    stopped = [one.name for one in found.values() if not one.replicas]
    if stopped:
        return warning(f"scaled to 0 replicas: {names(stopped)}")
    partly = [f"{one.name} ({one.ready} of {one.replicas})" for one in found.values() if one.ready < one.replicas]
    if partly:
        return warning(f"not all replicas are ready of {names(partly)}")
    return ok(f"all replicas are ready of {names([one.name for one in found.values()])}")


async def version(scene: Scene) -> Outcome:
    """The operator and this program are of one version."""
    return judge_versions([one.version for one in (await scene.components()).values()])


def judge_versions(installed: Sequence[str]) -> Outcome:
    """`installed` are the versions that the Deployments' labels name; empty ones are not known."""
    known = sorted({one for one in installed if one})
    if not known:
        raise NotCheckableError("the Deployments have no label app.kubernetes.io/version")
    if known != [__version__]:
        return warning(f"installed is {' and '.join(known)}; this program is {__version__}")
    return ok(f"the operator and this program are {__version__}")


async def leader(scene: Scene) -> Outcome:
    """A controller holds the Lease and renews it."""
    return judge_lease(await scene.get(LEASES, scene.namespace, LEASE), scene.now)


def judge_lease(lease: Object | None, now: datetime) -> Outcome:
    """Who leads. The Lease's time is of the leader's clock."""
    if lease is None:
        return failed(f"there is no Lease {LEASE}: no controller has ever led")
    holder, renewed = field(lease, "spec", "holderIdentity"), _time(field(lease, "spec", "renewTime"))
    if not holder:
        return failed("the Lease has no holder: no controller leads")
    if renewed is None or now - renewed > LEASE_OVERDUE:
        since = rfc3339(renewed) if renewed is not None else "an unknown time"
        return failed(f"{holder} has not renewed the Lease since {since}: no controller leads")
    return ok(f"{holder} leads")


async def status_writes(scene: Scene) -> Outcome:
    """The controller scans and writes what it finds."""
    return judge_statuses(await scene.objects(DLJOBS), scene.now)


def judge_statuses(jobs: Sequence[Object], now: datetime) -> Outcome:
    """Of each job that holds GPUs: when the controller last looked at it, and whether it saw its metrics."""
    holding = [job for job in jobs if field(job, "status", "phase") in HOLDS_GPUS]
    if not holding:
        return ok("no DLJob holds GPUs: there is nothing to write")
    seen = [(_name(job), _time(field(job, "status", "lookedAt"))) for job in holding]
    late = [name for name, at in seen if at is not None and now - at > OUT_OF_DATE]
    if late:
        found = f"not looked at for {minutes(OUT_OF_DATE.total_seconds())}: {names(late)}"
        return failed(found, "Read the controller's log: it does not scan, or its writes are refused.")
    failing = [_name(job) for job in holding if _idle_reason(job) in NO_METRICS]
    if failing:
        return failed(f"the controller can't read the metrics of {names(failing)}")
    latest = max((at for _, at in seen if at is not None), default=None)
    if latest is None:
        return warning(f"the controller has not yet looked at {count(len(holding), 'job')} with GPUs")
    return ok(f"{count(len(holding), 'job')} with GPUs; the last write was at {rfc3339(latest)}")


NO_METRICS = frozenset({UnknownReason.SCAN_FAILED, UnknownReason.PROMETHEUS_UNAVAILABLE})
"""Reasons of the condition Idle that are not the job's, but the controller's access to Prometheus."""


def _idle_reason(job: Object) -> object:
    conditions = map(mapping, listed(field(job, "status", "conditions")))
    return next((one.get("reason") for one in conditions if one.get("type") == ConditionType.IDLE), None)


def _name(job: Object) -> str:
    return f"{field(job, 'metadata', 'namespace')}/{field(job, 'metadata', 'name')}"


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


CHECKS = (
    Check(
        name="deployments",
        group=Group.OPERATOR,
        what="The Deployments of the controller, of admission and of the certificate have all their replicas ready.",
        advice="`kubectl describe deployment,pod -n NAMESPACE` says why; if Stoker is elsewhere, give its --namespace.",
        look=deployments,
        needs=("api-server",),
    ),
    Check(
        name="version",
        group=Group.OPERATOR,
        what="The operator is of this program's version.",
        advice="Upgrade the chart, or use the `stoker` of the installed version: they may judge differently.",
        look=version,
        needs=("api-server",),
    ),
    Check(
        name="leader",
        group=Group.OPERATOR,
        what="A controller holds the Lease and renews it.",
        advice="Read the controller's log: it leads only while it can renew its Lease.",
        look=leader,
        needs=("api-server",),
    ),
    Check(
        name="status-writes",
        group=Group.OPERATOR,
        what="The controller looks at every DLJob that holds GPUs, sees its metrics, and writes it down.",
        advice="Read the controller's log, and check its Prometheus (the checks of the metrics).",
        look=status_writes,
        needs=("api-server", "crds"),
    ),
)

__all__ = ["CHECKS", "judge_deployments", "judge_lease", "judge_statuses", "judge_versions"]
