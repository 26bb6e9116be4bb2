"""Checks of what Stoker does: under which policies it acts, what it would reclaim, and how it works with Kueue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    NAMESPACES,
    PODS,
    POLICIES,
    WORKLOADS,
    ApiError,
    NotFoundError,
    Object,
)
from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.catalogue import admission_rules
from stoker.findings.vocabulary import ConditionType, ReclaimMode
from stoker.findings.wording import count
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.installation import Role
from stoker.inspection.doctor.scene import Scene, field
from stoker.inspection.reclaim_report import ReclaimReport, reclaim_report
from stoker.lint.kinds.pod import listed, mapping
from stoker.policy.checks import ClusterSettings, RemarkReason, review_policy
from stoker.policy.resolution import combined, resolve
from stoker.reclaim.eligibility import eligibility
from stoker.workload.manifest import DLJOB_LABEL

HARMLESS = frozenset({RemarkReason.IRREVERSIBLE, RemarkReason.EXEMPTION_EXPIRING})
"""Remarks on what an administrator has chosen, and on what is still in force."""


async def kueue(scene: Scene) -> Outcome:
    """Kueue is of a version that is known, or is not there."""
    try:
        groups = (await scene.api.read("/apis/kueue.x-k8s.io")).content
    except NotFoundError:
        return ok("Kueue is not installed")
    return judge_kueue([str(mapping(one).get("version")) for one in listed(groups.get("versions"))])


def judge_kueue(served: Sequence[str]) -> Outcome:
    """`served` are the versions of Kueue's API."""
    known = [one.version for one in WORKLOADS]
    fitting = [version for version in known if version in served]
    if not fitting:
        return failed(f"Kueue serves {names(list(served)) or 'no version'}; Stoker knows {names(known)}")
    return ok(f"Kueue is installed: its Workloads are read as {fitting[0]}")


async def policies(scene: Scene) -> Outcome:
    """The policies are valid, do what they look like, and none is stopped."""
    found, invalid = _read_policies(await scene.objects(POLICIES))
    try:
        settings = (await scene.component(Role.CONTROLLER)).settings
    except (NotCheckableError, ApiError):
        settings = ClusterSettings()
    spaces = [mapping(field(one, "metadata", "labels")) for one in await scene.objects(NAMESPACES)]
    return judge_policies(found, invalid, settings, spaces, scene.now)


def judge_policies(
    found: Sequence[UtilizationPolicy],
    invalid: Sequence[str],
    settings: ClusterSettings,
    namespaces: Sequence[Mapping[str, str]],
    now: datetime,
) -> Outcome:
    """`invalid` names the policies that can't be read; `namespaces` are the labels of the cluster's."""
    if invalid:
        return failed(f"written by another version of Stoker, and not in force: {names(list(invalid))}")
    braked = [one.name for one in found if one.status is not None and one.status.brake is not None]
    if braked:
        return warning(
            f"the mass-idle brake has stopped reclaim under {names(braked)}",
            "`kubectl describe utilizationpolicies` says why; docs/policy.md says how the brake is released.",
        )
    rules = list(admission_rules())
    reviews = {one.name: review_policy(one, found, rules, settings, now, namespaces) for one in found}
    contradictions = [f"{name}: {one}" for name, review in reviews.items() for one in review.contradictions]
    if contradictions:
        return failed("; ".join(contradictions))
    doubts = [
        f"{name}: {one}" for name, review in reviews.items() for one in review.remarks if one.reason not in HARMLESS
    ]
    if doubts:
        return warning("; ".join(doubts))
    return ok(_modes(found))


async def reclaim(scene: Scene) -> Outcome:
    """What would be reclaimed if every policy acted."""
    jobs = [one for one in await scene.objects(DLJOBS) if _is_idle(one)]
    if not jobs:
        return judge_reclaim([])
    pods = await scene.objects(PODS, labels=DLJOB_LABEL)
    children = {_key(one): one for one in await scene.objects(JOBS, labels=DLJOB_LABEL)}
    found, _ = _read_policies(await scene.objects(POLICIES))
    labels = {
        str(field(one, "metadata", "name")): mapping(field(one, "metadata", "labels"))
        for one in await scene.objects(NAMESPACES)
    }
    due = []
    for raw in jobs:
        try:
            job = DLJob.model_validate(raw)
        except ValidationError:
            continue  # of another version; the check of the kinds says so
        namespace, child = _key(raw)[0], children.get(_key(raw))
        policy = resolve(found, namespace, labels.get(namespace, {}))
        due.append(_due(reclaim_report(job, child, pods, policy, scene.now)))
    return judge_reclaim([one for one in due if one is not None])


@dataclass(frozen=True, slots=True, kw_only=True)
class DueJob:
    """A job that fulfils every condition of a reclaim that does not hang on the policy's mode. `acts`: whether its
    policy's mode lets it be reclaimed.
    """

    name: str
    gpus: int
    acts: bool


def _due(report: ReclaimReport) -> DueJob | None:
    case = report.case
    if not eligibility(case.job, case.idleness, case.policy, case.now, case.record).eligible:
        return None
    metadata = report.job.metadata
    return DueJob(
        name=f"{metadata.namespace}/{metadata.name}",
        gpus=report.job.gpus,
        acts=case.policy.reclaim_of(case.job.traits).mode is not ReclaimMode.OBSERVE,
    )


def judge_reclaim(due: Sequence[DueJob]) -> Outcome:
    """A forecast, not a fault: it is always ok. What the controller alone checks may still hold a job back."""
    observed = [one for one in due if not one.acts]
    acting = [one for one in due if one.acts]
    said = [f"{_jobs(acting)} may be reclaimed now"] if acting else []
    if observed:
        said.append(f"if Observe ended now, {_jobs(observed)} would be warned, and reclaimed after the warning's grace")
    return ok("; ".join(said) or "no idle DLJob fulfils the conditions of a reclaim")


def _jobs(due: Sequence[DueJob]) -> str:
    gpus = count(sum(one.gpus for one in due), "GPU")
    return f"{count(len(due), 'job')} with {gpus} ({names([one.name for one in due])})"


def _modes(found: Sequence[UtilizationPolicy]) -> str:
    if not found:
        return "there is no policy: the built-in one holds, which observes"
    base = [one for one in found if one.name == "default"]
    return "; ".join(f"{one.name}: {_mode(one, base)}" for one in sorted(found, key=lambda one: one.name))


def _mode(policy: UtilizationPolicy, base: Sequence[UtilizationPolicy]) -> str:
    reclaim = combined([*(one for one in base if one.name != policy.name), policy], {}).reclaim
    classes = [f"{one.name} {one.mode}" for one in reclaim.classes if one.mode not in {None, reclaim.mode}]
    acts = "" if reclaim.mode is ReclaimMode.OBSERVE else " (acts)"
    return f"{reclaim.mode}{acts}{f', classes: {names(classes)}' if classes else ''}"


def _read_policies(raw: Sequence[Object]) -> tuple[list[UtilizationPolicy], list[str]]:
    found, invalid = [], []
    for one in raw:
        try:
            found.append(UtilizationPolicy.model_validate(one))
        except ValidationError:
            invalid.append(str(field(one, "metadata", "name")))
    return found, invalid


def _is_idle(job: Object) -> bool:
    conditions = map(mapping, listed(field(job, "status", "conditions")))
    return any(one.get("type") == ConditionType.IDLE and one.get("status") == "True" for one in conditions)


def _key(found: Object) -> tuple[str, str]:
    return str(field(found, "metadata", "namespace")), str(field(found, "metadata", "name"))


CHECKS = (
    Check(
        name="kueue",
        group=Group.JOBS,
        what="Kueue serves a version of its API that Stoker knows, or is not installed.",
        advice="Upgrade Kueue: jobs that it queues are not suspended by Stoker otherwise (docs/suspending.md).",
        look=kueue,
        needs=("api-server",),
    ),
    Check(
        name="policies",
        group=Group.JOBS,
        what="The UtilizationPolicies are valid, each setting has an effect, and no brake is on; it lists what each one"
        " does with idle jobs: Observe, Suspend or Delete.",
        advice="Change the named fields (docs/policy.md).",
        look=policies,
        needs=("api-server", "crds"),
    ),
    Check(
        name="reclaim",
        group=Group.JOBS,
        what="A forecast: the jobs that fulfil all conditions of a reclaim, and what would be warned if Observe ended"
        " now, by what the controller last wrote.",
        advice="`stoker explain JOB` shows each condition of one job.",
        look=reclaim,
        needs=("api-server", "crds"),
    ),
)

__all__ = ["CHECKS", "DueJob", "judge_kueue", "judge_policies", "judge_reclaim"]
