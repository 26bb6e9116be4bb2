"""Jobs of a cluster: DLJobs, and the groups of pods with GPUs that no DLJob owns."""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    NAMESPACES,
    PODS,
    POLICIES,
    ApiError,
    ForbiddenError,
    KubernetesApi,
    NotFoundError,
    Object,
    Resource,
)
from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy, UtilizationPolicyStatus
from stoker.controller.brake import stopped
from stoker.inspection.candidates import of_dljob, without_dljob
from stoker.inspection.workload import Workload
from stoker.lint.kinds.job import POD
from stoker.lint.kinds.kind import ManifestError, ReadContext, WorkloadKind
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.registry import kind_named, submissions
from stoker.lint.review import review, review_submissions
from stoker.lint.submission import Submission
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.policy.resolution import resolve
from stoker.reclaim import Obstruction, Record
from stoker.telemetry.series import JobFacts
from stoker.workload import ProgramFacts, job_facts, program_facts, submission_facts
from stoker.workload.manifest import DLJOB_LABEL
from stoker.workload.pod_groups import PodGroup, group_facts, groups

logger = logging.getLogger(__name__)

WRITTEN = frozenset({"name", "namespace", "labels", "annotations"})
"""What the rules read of an object's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs are asked for. `namespace` None: all; `job`: the one of that name; `selector`: labels of pods."""

    namespace: str | None
    job: str | None = None
    selector: str | None = None


async def find(api: KubernetesApi, wanted: Wanted, now: datetime) -> list[Workload]:
    """The jobs, by namespace and name. Raises ApiError for what can't be asked."""
    dljobs, pods = await _objects(api, wanted)
    policies = ClusterPolicies(api)
    by_owner = _by_owner(pods)
    found = [await _dljob(api, raw, by_owner, policies, now) for raw in dljobs]
    for made in groups(pods):
        group = await _outermost(api, made)
        if wanted.job in {None, group.name, made.name, *made.children}:
            found.append(await _group(api, group, policies, now))
    return sorted(found, key=lambda one: (one.facts.namespace, one.facts.name))


async def _objects(api: KubernetesApi, wanted: Wanted) -> tuple[list[Object], list[Object]]:
    """The DLJobs that are wanted, and pods, theirs among them."""
    namespace = wanted.namespace
    if wanted.job is not None:
        dljob = await _optional(api.get(DLJOBS, namespace, wanted.job))
        labels = None if dljob is None else f"{DLJOB_LABEL}={wanted.job}"
        pods, _ = await api.list(PODS, namespace, labels=labels)
        return ([] if dljob is None else [dljob]), pods
    pods, _ = await api.list(PODS, namespace, labels=wanted.selector)
    if wanted.selector is None:
        listed = await _optional(api.list(DLJOBS, namespace))
        return ([] if listed is None else listed[0]), pods
    owners = {
        (str(pod["metadata"]["namespace"]), str(name))
        for pod in pods
        if (name := pod["metadata"].get("labels", {}).get(DLJOB_LABEL))
    }
    # A selector may pick one pod of a job; the job is diagnosed as a whole.
    dljobs = [raw for space, name in sorted(owners) if (raw := await _optional(api.get(DLJOBS, space, name)))]
    for raw in dljobs:
        whole, _ = await api.list(PODS, raw["metadata"]["namespace"], labels=f"{DLJOB_LABEL}={raw['metadata']['name']}")
        pods = list({pod["metadata"]["uid"]: pod for pod in (*pods, *whole)}.values())
    return dljobs, pods


def _by_owner(pods: Iterable[Object]) -> Mapping[str, Sequence[Object]]:
    """The pods by the uid of each of their owners."""
    owned: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences", ()):
            owned[str(owner.get("uid", ""))].append(pod)
    return owned


async def _dljob(
    api: KubernetesApi,
    raw: Object,
    by_owner: Mapping[str, Sequence[Object]],
    policies: "ClusterPolicies",
    now: datetime,
) -> Workload:
    """A DLJob with its Job's pods."""
    metadata = raw["metadata"]
    namespace, name = str(metadata["namespace"]), str(metadata["name"])
    try:
        job = DLJob.model_validate(raw)
    except ValidationError as error:
        facts = JobFacts(namespace=namespace, name=name, uid=str(metadata["uid"]), nodes=0, gpus_per_node=0)
        return Workload(
            facts=facts,
            error=f"the DLJob was written by another version of Stoker: {error.error_count()} fields are not valid",
        )
    uid = raw.get("status", {}).get("jobUID", "")
    own = by_owner.get(uid, ()) if uid else ()
    child = await _optional(api.get(JOBS, namespace, name))
    if child is not None and child["metadata"]["uid"] != uid:
        child = None
    policy, notes = await policies.of(namespace)
    program = program_facts(job)
    facts = job_facts(job, own, program, child=child, now=now)
    if not facts.pods:
        notes = (*notes, "it has no pods; if the job has ended, list its pods in a file and use --jobs FILE")
    return Workload(
        facts=facts,
        policy=policy,
        static_findings=review(job, policy, now=now).findings,
        candidate=of_dljob(job, child, own, (), program),
        record=Record.from_status(job.status.reclaim if job.status is not None else None),
        notes=notes,
    )


async def _group(api: KubernetesApi, group: PodGroup, policies: "ClusterPolicies", now: datetime) -> Workload:
    """Pods that no DLJob owns."""
    policy, notes = await policies.of(group.namespace)
    if group.replaced:
        notes = (
            *notes,
            f"the pods of an earlier {group.kind} of this name, which was deleted",
        )
    document = await _manifest(api, group)
    read = _submissions(group, document, policy)
    program = next((submission_facts(one, group.spec) for one in read if not one.initial), ProgramFacts())
    facts = group_facts(group, program)
    labels = mapping((document or group.pods[-1])["metadata"].get("labels"))
    return Workload(
        facts=facts,
        owner=group.kind,
        container=group.container,
        policy=policy,
        static_findings=review_submissions(read, policy, now=now).findings if read else (),
        candidate=without_dljob(facts, program, labels),
        notes=notes,
    )


async def _outermost(api: KubernetesApi, group: PodGroup) -> PodGroup:
    """The group under the kind and name of what a person created, where that is not what made the pods."""
    kind = kind_named(group.kind)
    made = await _optional(api.get(_resource(kind), group.namespace, group.name)) if kind.owned else None
    if made is None or (group.uid and made["metadata"].get("uid") != group.uid):
        return group
    references = map(mapping, listed(made["metadata"].get("ownerReferences")))
    owner = next((one for one in references if one.get("controller")), None)
    return group if owner is None else replace(group, kind=str(owner.get("kind")), name=str(owner.get("name")))


async def _manifest(api: KubernetesApi, group: PodGroup) -> Object | None:
    """The pods' owner, where it is of a kind that the rules can read, and may be read."""
    kind = kind_named(group.kind)
    made = kind.reader is not None and kind.tells_all and kind is not POD
    owner = await _optional(api.get(_resource(kind), group.namespace, group.name)) if made else None
    return None if owner is None or (group.uid and owner["metadata"].get("uid") != group.uid) else owner


def _resource(kind: WorkloadKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural)


def _submissions(group: PodGroup, document: Object | None, policy: EffectivePolicy) -> list[Submission]:
    """What the rules look at: the owner's manifest, or a pod of each role, as many times as it has pods."""
    sources: Iterable[tuple[Mapping[str, Any], int]] = [(document, 1)] if document is not None else group.roles()
    documents = [(_written(one), number) for one, number in sources]
    read: list[Submission] = []
    for one, copies in documents:
        try:
            found = submissions(one, ReadContext(families=policy.images))
        except ManifestError:
            continue
        read += [replace(submission, copies=submission.copies * copies) for submission in found]
    return read


def _written(found: Mapping[str, Any]) -> Object:
    """An object as its manifest could stand in a file: without what the server adds. A list of pods leaves out their
    kind.
    """
    metadata = {key: value for key, value in found["metadata"].items() if key in WRITTEN}
    kind = {"apiVersion": found.get("apiVersion", "v1"), "kind": found.get("kind", "Pod")}
    return {**kind, "metadata": metadata, "spec": found.get("spec")}


class ClusterPolicies:
    """The cluster's policies, read once; where they may not be read, the built-in defaults hold, and it is said."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._policies: list[UtilizationPolicy] | None = None
        self._labels: dict[str, Mapping[str, str] | None] = {}
        self._notes: tuple[str, ...] = ()
        self.are_hidden = False
        """Whether they may not be read."""

    async def of(self, namespace: str) -> tuple[EffectivePolicy, tuple[str, ...]]:
        if self._policies is None:
            self._policies = await self._read()
        if not self._policies:
            return BUILT_IN, self._notes
        if namespace not in self._labels:
            found = await _optional(self._api.get(NAMESPACES, None, namespace))
            self._labels[namespace] = None if found is None else found["metadata"].get("labels") or {}
        labels = self._labels[namespace]
        hidden = f"the labels of namespace {namespace} may not be read: policies are selected as if it had none"
        return resolve(self._policies, namespace, labels or {}), (*self._notes, *([hidden] if labels is None else []))

    def brake(self, policy: EffectivePolicy) -> Obstruction | None:
        """Why reclaim is stopped under a policy that `of` has given."""
        status = self._status(policy)
        if status is None or status.brake is None or policy.counts_in is None:
            return None
        return stopped(policy.counts_in, status.brake.since, status.brake.message)

    def doubted_until(self, policy: EffectivePolicy) -> datetime | None:
        """Until when the metrics of the jobs under it were doubted last."""
        status = self._status(policy)
        return status.metrics_doubted_until if status is not None else None

    def _status(self, policy: EffectivePolicy) -> UtilizationPolicyStatus | None:
        return next((one.status for one in self._policies or () if one.name == policy.counts_in), None)

    async def _read(self) -> list[UtilizationPolicy]:
        try:
            listed, _ = await self._api.list(POLICIES)
        except NotFoundError:
            return []  # Stoker is not installed here
        except ForbiddenError:
            self.are_hidden = True
            self._notes = ("you may not read the policies: the built-in thresholds are used",)
            return []
        return list(_valid(listed))


def _valid(raw: Iterable[Object]) -> Iterable[UtilizationPolicy]:
    for one in raw:
        try:
            yield UtilizationPolicy.model_validate(one)
        except ValidationError:
            logger.debug("policy %s is not valid", one["metadata"]["name"])


async def _optional(answer: Awaitable[Any]) -> Any:
    """What the API server answers; None for what does not exist or may not be seen."""
    try:
        return await answer
    except (NotFoundError, ForbiddenError):
        return None


__all__ = ["ApiError", "ClusterPolicies", "Wanted", "find"]
