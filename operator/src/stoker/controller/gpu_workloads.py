"""GPUWorkloads: one for each workload with GPUs that Stoker did not create, where a policy asks for it.

`GPUWorkloads` knows which there are, `ScannedGPUWorkloads` is what the scan reads of them, and `GPUWorkloadReconciler`
creates, writes and deletes them. Used by the controller's assembly, where the chart's value workloads.kinds is on.
Nothing here changes an object that Stoker did not create.
"""

import logging
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    GPU_WORKLOADS,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    NotFoundError,
    Object,
    TooLargeError,
)
from stoker.api.gpu_workload import GPUWorkload, manifest, workload_name
from stoker.api.status import WorkloadStatus
from stoker.cluster.cache import Collection, Key
from stoker.cluster.gpu_pods import GPUPods
from stoker.cluster.owners import Owner
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Requeue, Transient, WorkQueue
from stoker.controller.hysteresis import lasting
from stoker.controller.next_status import NextStatus
from stoker.controller.scan_results import ScanResult, ScanResults
from stoker.controller.scanned_job import ScannedJob
from stoker.controller.status_findings import merged, opened
from stoker.controller.status_writer import StatusWriter
from stoker.findings.diagnosis import Diagnosis
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Action, ConditionType, JobType, Phase
from stoker.findings.wording import count
from stoker.lint.kinds.registry import kind_of
from stoker.policy.effective import EffectivePolicy, JobTraits
from stoker.reclaim import Record, idle_after
from stoker.telemetry.series import JobFacts, PodFacts
from stoker.workload import ProgramFacts, remembered
from stoker.workload import pods as pod_status
from stoker.workload.conditions import FALSE, TRUE, Fact
from stoker.workload.observation import JobObservation
from stoker.workload.pod_groups import PodGroup, group_facts

logger = logging.getLogger(__name__)

REFUSED = 300.0
"""Seconds after which a GPUWorkload that the API server refuses is tried again."""


class GPUWorkloads:
    """The workloads that have pods with GPUs, by the key of their GPUWorkload."""

    def __init__(self, pods: GPUPods, collection: Collection, queue: WorkQueue[Key]) -> None:
        self._pods = pods
        self._collection = collection
        self._queue = queue
        self._owners: dict[Key, Owner] = {}
        pods.follow(self._pods_changed)

    def owner_of(self, key: Key) -> Owner | None:
        """The workload that has pods with GPUs now; None: none has."""
        return self._owners.get(key)

    def pods_of(self, key: Key) -> list[Object]:
        """Its pods with GPUs, the oldest first."""
        owner = self._owners.get(key)
        pods = [] if owner is None else self._pods.pods_of(owner)
        return sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", "")))

    def queue_all(self, namespace: str | None) -> None:
        """Queue those of a namespace, or all, whose policy may have changed."""
        for key in {*self._owners, *self._collection.objects}:
            if namespace in {None, key.namespace}:
                self._queue.add(key, changed=True)

    def _pods_changed(self, owner: Owner) -> None:
        key = Key(owner.namespace, workload_name(kind_name(owner), owner.name))
        if self._pods.pods_of(owner):
            self._owners[key] = owner
        elif self._owners.get(key) == owner:
            del self._owners[key]
        self._queue.add(key, changed=True)


def kind_name(owner: Owner) -> str:
    """What Stoker calls an owner's kind: `VolcanoJob` for the Job of another group."""
    return kind_of(owner.api_version, owner.kind).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A GPUWorkload as it was read, and the objects that it was read from."""

    sources: tuple[Any, ...]
    workload: GPUWorkload
    facts: JobFacts | None
    """None: it has no pods with GPUs."""


class Readings:
    """Reads GPUWorkloads and their pods; the same result again while nothing has changed."""

    def __init__(self, workloads: GPUWorkloads) -> None:
        self._workloads = workloads
        self._known: dict[str, Reading] = {}

    def keep_only(self, uids: Set[str]) -> None:
        """Forget all others."""
        self._known = {uid: reading for uid, reading in self._known.items() if uid in uids}

    def read(self, key: Key, raw: Object, now: datetime) -> Reading:
        """Raises ValidationError for a GPUWorkload that can't be read, ValueError for pods that can't be."""
        pods = self._workloads.pods_of(key)
        sources = (raw, *pods)
        uid = raw["metadata"]["uid"]
        known = self._known.get(uid)
        if (
            known is not None
            and len(known.sources) == len(sources)
            and not any(map(operator.is_not, known.sources, sources))
        ):
            return known
        workload = GPUWorkload.model_validate(raw)
        known = Reading(sources=sources, workload=workload, facts=_facts(workload, pods, now))
        self._known[uid] = known
        return known


def _facts(workload: GPUWorkload, pods: Sequence[Object], now: datetime) -> JobFacts | None:
    """The facts of a workload with these pods; those that only the status remembers are former pods."""
    if not pods:
        return None
    owner = workload.spec.owner
    group = PodGroup(
        kind=kind_of(owner.api_version, owner.kind).name,
        namespace=workload.namespace,
        name=owner.name,
        pods=tuple(pods),
        uid=owner.uid,
    )
    # The program is not read yet, so it may serve.
    facts = group_facts(group, ProgramFacts(is_unread=True))
    present = {pod.name for pod in (*facts.pods, *facts.former_pods)}
    gone = [run for run in _runs(workload.status, facts, now) if run.name not in present]
    return replace(facts, former_pods=(*gone, *facts.former_pods))


def _runs(status: WorkloadStatus | None, facts: JobFacts | None, now: datetime) -> tuple[PodFacts, ...]:
    """The runs of its pods, those of deleted ones included."""
    seen = () if facts is None else (*facts.former_pods, *facts.pods)
    return remembered(status, seen, None, now)


class ScannedGPUWorkloads:
    """The GPUWorkloads whose pods hold GPUs; implements ScanSource."""

    def __init__(self, collection: Collection, readings: Readings, policies: Policies, queue: WorkQueue[Key]) -> None:
        self._collection = collection
        self._readings = readings
        self._policies = policies
        self._queue = queue

    def objects(self) -> Iterable[tuple[Key, Object]]:
        return list(self._collection.objects.items())

    def keep_only(self, uids: Set[str]) -> None:
        self._readings.keep_only(uids)

    def read(self, key: Key, raw: Object, now: datetime) -> ScannedJob | None:
        try:
            reading = self._readings.read(key, raw, now)
        except ValidationError:
            return None
        facts = reading.facts
        if facts is None or all(pod.finished_at is not None for pod in facts.pods):
            return None
        policy = self._policies.of(key.namespace)
        return ScannedJob(
            key=key,
            uid=reading.workload.uid,
            gpus=facts.gpus,
            status=reading.workload.status,
            facts=facts,
            policy=policy,
            window=window_of(facts, policy),
            serves=facts.job_type is JobType.SERVING,
            is_final=False,
        )

    async def settle(self) -> bool:
        return False

    async def manifest_findings(self, job: ScannedJob) -> Sequence[Finding]:
        del job
        return ()

    def queue(self, key: Key) -> None:
        self._queue.add(key)


def window_of(facts: JobFacts, policy: EffectivePolicy) -> timedelta:
    """How long its GPUs must rest for it to be idle."""
    return idle_after(None, JobTraits(job_type=facts.job_type, gpu_product=facts.gpu_product), policy)


class GPUWorkloadReconciler:
    """The handler of the GPUWorkloads' work queue: `reconcile` brings one GPUWorkload to where it should be."""

    def __init__(
        self,
        api: KubernetesApi,
        collection: Collection,
        workloads: GPUWorkloads,
        readings: Readings,
        scan_results: ScanResults,
        policies: Policies,
        status_writer: StatusWriter,
        clock: Clock,
    ) -> None:
        self._api = api
        self._collection = collection
        self._workloads = workloads
        self._readings = readings
        self._scan_results = scan_results
        self._policies = policies
        self._status_writer = status_writer
        self._clock = clock

    async def reconcile(self, key: Key) -> Requeue:
        """Create, write or delete one GPUWorkload. Raises Transient where it is to be tried again."""
        try:
            return await self._reconcile(key)
        except (ConflictError, NotFoundError) as error:
            raise Transient(f"changed meanwhile ({error})") from error
        except (InvalidError, ForbiddenError, TooLargeError) as error:
            # A namespace that is being deleted, a quota: nothing that trying again soon would change.
            logger.warning("%s: its GPUWorkload is refused: %s", key, error)
            return REFUSED
        except ApiError as error:
            raise Transient(str(error)) from error

    async def _reconcile(self, key: Key) -> Requeue:
        raw, owner = self._collection.get(key), self._workloads.owner_of(key)
        if raw is not None and "deletionTimestamp" in raw["metadata"]:
            return None
        if raw is not None and not self._is_wanted(key, raw, owner):
            await self._api.delete(GPU_WORKLOADS, key.namespace, key.name, uid=raw["metadata"]["uid"])
            return None
        if raw is None:
            if owner is None or not self._policies.of(key.namespace).workloads.include(kind_name(owner)):
                return None
            raw = await self._create(key, owner)
        await self._publish(key, raw)
        return None

    def _is_wanted(self, key: Key, raw: Object, owner: Owner | None) -> bool:
        """Whether the GPUWorkload stays: a policy still asks for its kind, and no other object has taken its owner's
        name. One whose owner has no pods any more stays: the garbage collector deletes it with its owner.
        """
        try:
            of = GPUWorkload.model_validate(raw).spec.owner
        except ValidationError:
            return False  # it is made again
        kind = kind_of(of.api_version, of.kind).name
        replaced = owner is not None and owner.uid != of.uid
        return not replaced and self._policies.of(key.namespace).workloads.include(kind)

    async def _create(self, key: Key, owner: Owner) -> Object:
        try:
            raw = await self._api.create(
                GPU_WORKLOADS, key.namespace, manifest(key.namespace, key.name, owner.reference())
            )
        except AlreadyExistsError as error:
            raise Transient("the watch has not delivered it yet") from error
        self._collection.put(raw)
        return raw

    async def _publish(self, key: Key, raw: Object) -> None:
        now = self._clock.now()
        reading = self._readings.read(key, raw, now)
        workload, facts = reading.workload, reading.facts
        policy = self._policies.of(key.namespace)
        result = self._scan_results.get(workload.uid)
        before = _written(workload)
        findings = _findings(before, result, policy, now)
        next_status = NextStatus(
            uid=workload.uid,
            generation=workload.metadata.generation,
            gpus=_gpus(workload, facts),
            observation=_observation(workload, self._workloads.pods_of(key), facts),
            findings=findings,
            record=Record.from_status(None),
            policy=policy,
            scan_result=result,
            runs=_runs(workload.status, facts, now),
        )
        raw = await self._status_writer.write(raw, next_status.status(raw.get("status", {}), now))
        owner = _reference(workload)
        for finding in opened(before, findings):
            await self._status_writer.record_finding(owner, finding)


def _reference(workload: GPUWorkload) -> Object:
    """The owner, as an event names what it is about: its author looks there."""
    owner = workload.spec.owner
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "metadata": {"namespace": workload.namespace, "name": owner.name, "uid": owner.uid},
    }


def _gpus(workload: GPUWorkload, facts: JobFacts | None) -> int:
    """Its GPUs, or those that it had last."""
    if facts is not None:
        return facts.gpus
    return (workload.status.gpus if workload.status is not None else None) or 0


def _written(workload: GPUWorkload) -> tuple[Finding, ...]:
    entries = workload.status.findings if workload.status is not None else ()
    return tuple(
        Finding.from_status(entry.model_dump(mode="json", by_alias=True, exclude_none=True)) for entry in entries
    )


def _findings(
    before: Sequence[Finding], result: ScanResult | None, policy: EffectivePolicy, now: datetime
) -> tuple[Finding, ...]:
    """What the metrics show, by the rules that the policy has not turned off, and what they showed before."""
    diagnosis = result.diagnosis if result is not None else None
    if result is None or diagnosis is None or diagnosis.unknown is not None:
        return tuple(before)
    on = [one for one in diagnosis.findings if policy.action(one.rule, Action.WARN) is not Action.OFF]
    held = lasting(before, on, result.examination_history)
    return merged(before, held, now, idle=_idle_hours(diagnosis))


def _idle_hours(diagnosis: Diagnosis) -> float | None:
    return diagnosis.utilization.gpu_hours_idle if diagnosis.utilization is not None else None


def _observation(workload: GPUWorkload, pods: Sequence[Object], facts: JobFacts | None) -> JobObservation:
    """What the pods' statuses say of the workload; its own status is its controller's."""
    live = [pod for pod in pods if not pod_status.is_finished(pod)]
    ready = sum(pod_status.is_ready(pod) for pod in live)
    nodes = facts.nodes if facts is not None else 0
    starts = [pod.started_at for pod in facts.pods if pod.started_at is not None] if facts is not None else []
    if workload.status is not None and workload.status.start_time is not None:
        starts.append(workload.status.start_time)
    phase, fact = _phase(pods, live, ready)
    return JobObservation(
        phase=phase,
        ready_pods=ready,
        nodes=nodes,
        restarts=sum(pod.restarts for pod in facts.pods) if facts is not None else 0,
        start_time=min(starts, default=None),
        completion_time=None,
        facts=(fact,),
    )


def _phase(pods: Sequence[Mapping[str, Any]], live: Sequence[Mapping[str, Any]], ready: int) -> tuple[Phase, Fact]:
    if not pods:
        return Phase.PENDING, _not_ready("NoPods", "none of its pods exists now")
    if not live:
        failed = sum(pod_status.phase(pod) == "Failed" for pod in pods)
        said = f"{count(len(pods), 'pod')} ended, {failed} of them failed"
        return (Phase.FAILED if failed else Phase.SUCCEEDED), _not_ready("Ended", said)
    if ready == len(live):
        message = f"{ready} of {count(len(live), 'pod')} ready"
        return Phase.RUNNING, Fact(type=ConditionType.PODS_READY, status=TRUE, reason="PodsReady", message=message)
    obstacle = next((found for pod in live if (found := pod_status.obstacle(pod)) is not None), None)
    started = any(pod_status.is_scheduled(pod) for pod in live)
    reason = obstacle.reason if obstacle is not None else "Starting" if started else "Unschedulable"
    message = obstacle.message if obstacle is not None else f"{ready} of {count(len(live), 'pod')} ready"
    return (Phase.STARTING if started else Phase.PENDING), _not_ready(reason, message)


def _not_ready(reason: str, message: str) -> Fact:
    return Fact(type=ConditionType.PODS_READY, status=FALSE, reason=reason, message=message)
