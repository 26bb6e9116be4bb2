"""The jobs of a simulated cluster: what they do with their GPUs, their pods, and their owners."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from benchmarks.reclaim.metrics import Prometheus
from benchmarks.reclaim.server import ApiServer, Request, owned_by
from benchmarks.reclaim.truth import Activity, Gaps
from benchmarks.reclaim.virtual_time import VirtualTimeLoop, moment
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, PODS, Object
from stoker.api.names import API_VERSION, RESUME_ANNOTATION, SNOOZE_ANNOTATION
from stoker.findings.finding import rfc3339
from stoker.telemetry.screen import PodKey
from stoker.telemetry.series import GpuSignal

HOUR, MINUTE = 3600.0, 60.0
COOLDOWN = 2 * HOUR
"""The longest cooldown after a resume of any policy here."""
NAMESPACE = "team"
GPU = "nvidia.com/gpu"
HIDDEN_SIGNALS = (GpuSignal.GRAPHICS, GpuSignal.POWER, GpuSignal.PCIE_RX, GpuSignal.NVLINK, GpuSignal.ENCODER)
"""Work that utilization says nothing of."""
SCRIPT = "torchrun --nproc_per_node=gpu train.py"


class World(Protocol):
    """What a job needs of the cluster that it is in."""

    loop: VirtualTimeLoop
    random: Random
    server: ApiServer
    prometheus: Prometheus

    def changed(self, job: "SimulatedJob") -> None:
        """Something happened to the job at which the controller should look soon."""
        ...

    def turns_idle(self, job: "SimulatedJob", planned: float) -> None:
        """The job's GPUs are idle from now on, as things stand until `planned`."""
        ...

    def works(self, job: "SimulatedJob") -> None:
        """The job's GPUs work from now on."""
        ...

    def went(self, job: "SimulatedJob") -> None:
        """The job's pods are gone."""
        ...

    def held(self, job: "SimulatedJob", since: float) -> None:
        """The job had pods from then until now."""
        ...

    def excuse(self, job: "SimulatedJob", duration: float) -> None:
        """Reclaim of the job is rightly held for so long, and until it is warned anew."""
        ...

    def count(self, what: str) -> None:
        """Something has happened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A sort of job. `never`: why it must never be reclaimed; `finding`: what an examination finds while it rests."""

    name: str
    weight: float
    program: Callable[["SimulatedJob"], Awaitable[None]]
    job_type: str = "Training"
    finding: str | None = None
    never: str | None = None
    has_volume: bool = True
    """What it writes is in a volume that outlives its pods."""
    has_claim: bool = False
    """It holds GPUs of a resource claim as well, and works on these while those that are counted rest."""
    port: int | None = None
    uploads: bool = False
    """It sends its results, over a network that no metric shows, for some time after its work."""
    is_forgone: bool = False
    """Its GPUs could be taken, for whoever knew what its owner needs; caution leaves them."""
    is_shared: bool = False
    is_held: bool = False
    """Whoever knows all would take its GPUs while they rest."""


@dataclass(slots=True)
class SimulatedJob:
    """One DLJob from its creation to its deletion."""

    world: World
    kind: Kind
    name: str
    nodes: int
    gpus_per_node: int
    activity: Activity
    own_idle_after: float | None = None
    uid: str = ""
    gaps: Gaps = field(default_factory=Gaps)
    zeros: Gaps = field(default_factory=Gaps)
    """Times in which its exporters alone write 0 whatever its GPUs do."""
    began: float = 0.0
    """When the last of its containers started."""
    found_after: float = 20 * MINUTE
    """So long after it began to rest an examination finds the cause."""
    lies: tuple[float, float] = (0.0, 0.0)
    """A time in which an examination finds a cause that is none."""
    deadline: float | None = None
    """Of a warning that is recorded, by the clock of whoever wrote it."""
    is_over: bool = False
    planned: float = 0.0
    """When its owner would come back to it."""
    uploads_until: float = 0.0
    """Until then it sends its results."""
    back: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the owner comes back before that."""
    disturbed_at: float = 0.0
    """When its pods have changed last."""
    _disturbed: str | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def gpus(self) -> int:
        """How many it holds."""
        return self.nodes * self.gpus_per_node

    @property
    def is_shared(self) -> bool:
        """Whether several pods share its GPUs."""
        return self.kind.is_shared

    @property
    def keeps_results(self) -> bool:
        """Whether what it writes outlives its pods."""
        return self.kind.has_volume

    @property
    def never(self) -> str | None:
        """Why it must never be reclaimed."""
        return self.kind.never

    def gpus_of(self, key: PodKey) -> range:
        """The numbers of a pod's GPUs, of all of the job's."""
        rank = int(key[1].rsplit("-", 2)[1])
        return range(rank * self.gpus_per_node, (rank + 1) * self.gpus_per_node)

    # ------------------------------------------------------------------------------------------------ the owner's hand

    def submit(self) -> None:
        """Create the DLJob."""
        spec: dict[str, Any] = {
            "nodes": self.nodes,
            "gpusPerNode": self.gpus_per_node,
            "jobType": self.kind.job_type,
            "image": "registry.example.org/team/train:1",
            "script": SCRIPT,
        }
        if self.own_idle_after is not None:
            spec["reclaim"] = {"idleAfter": f"{int(self.own_idle_after // 60)}m"}
        trainer: dict[str, Any] = {"name": "trainer"}
        template: dict[str, Any] = {"containers": [trainer]}
        if self.kind.has_volume:
            template["volumes"] = [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]
            trainer["volumeMounts"] = [{"name": "home", "mountPath": "/home/me"}]
        if self.kind.port is not None:
            trainer["ports"] = [{"containerPort": self.kind.port}]
        spec["podTemplate"] = {"spec": template}
        body = {
            "apiVersion": API_VERSION,
            "kind": "DLJob",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": {}, "annotations": {}},
            "spec": spec,
        }
        raw = self.world.server.create(DLJOBS, NAMESPACE, body, self._request)
        self.uid = raw["metadata"]["uid"]
        self._tasks.append(asyncio.ensure_future(self._live()))

    @property
    def _request(self) -> Request:
        return Request(sent_at=self.world.loop.at)

    def annotate(self, name: str, value: str | None) -> None:
        """Write an annotation of the DLJob."""
        raw = self.world.server.peek(DLJOBS, NAMESPACE, self.name)
        if raw is not None and raw["metadata"]["uid"] == self.uid:
            self.world.server.update(DLJOBS, raw, {"metadata": {"annotations": {name: value}}}, self._request)

    def resume(self) -> None:
        """Ask for it back."""
        self.world.count("resumes")
        self.world.excuse(self, COOLDOWN)
        self.annotate(RESUME_ANNOTATION, f"{self.world.loop.at:.3f}")

    def snooze(self, duration: float) -> None:
        """Put reclaim off."""
        self.world.count("snoozes")
        self.world.excuse(self, min(duration, 24 * HOUR))
        self.annotate(SNOOZE_ANNOTATION, rfc3339(moment(self.world.loop.at + duration)))

    def delete(self) -> None:
        """Delete the DLJob; what it owns goes after it."""
        raw = self.world.server.peek(DLJOBS, NAMESPACE, self.name)
        if raw is not None and raw["metadata"]["uid"] == self.uid:
            self.world.server.remove(DLJOBS, raw, self._request)

    def disturb(self, what: str) -> None:
        """A container restarts, or a pod is evicted."""
        self._disturbed = what
        self.disturbed_at = self.world.loop.at
        self._news.set()

    # ------------------------------------------------------------------------------------------------------- its pods

    @property
    def child(self) -> Object | None:
        """Its Job."""
        found = self.world.server.peek(JOBS, NAMESPACE, self.name)
        return found if found is not None and owned_by(found, self.uid) else None

    @property
    def pods(self) -> list[Object]:
        """Its Job's pods."""
        child = self.child
        return [
            pod
            for pod in self.world.server.all(PODS)
            if pod["metadata"]["labels"]["stoker.dev/dljob"] == self.name
            and child is not None
            and owned_by(pod, child["metadata"]["uid"])
        ]

    def wake(self) -> None:
        """Its DLJob or its Job has changed."""
        self._news.set()

    def wants_pods(self) -> bool:
        """Whether it should have pods."""
        child = self.child
        return child is not None and not child["spec"].get("suspend")

    async def _live(self) -> None:
        """What the Job controller and the kubelets do."""
        try:
            while not self.is_over:
                if self.wants_pods():
                    await self._run()
                else:
                    await self._wait()
        finally:
            self.activity.end(self.world.loop.at)

    async def _wait(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def _run(self) -> None:
        """One life of its pods: from their creation until all are gone."""
        chance = self.world.random
        await asyncio.sleep(chance.uniform(1, 4))
        child = self.child
        if child is None or not self.wants_pods():
            return
        since = self.world.loop.at
        keys: list[PodKey] = []
        try:
            await self._hold_gpus(child, keys)
        finally:
            self.world.held(self, since)

    async def _hold_gpus(self, child: Object, keys: list[PodKey]) -> None:
        chance = self.world.random
        keys.extend([self._create_pod(child, rank) for rank in range(self.nodes)])
        for key in keys:
            # A peer may keep the others waiting for long.
            await asyncio.sleep(chance.uniform(5, 60) if chance.random() > 0.1 else chance.uniform(300, 4000))
            if not self.wants_pods() or not self._start(key):
                break
        else:
            await self._work_until_away(keys)
        await self._take_away(keys)
        self.world.went(self)

    async def _work_until_away(self, keys: list[PodKey]) -> None:
        while True:
            self.began = self.world.loop.at
            for key in keys:
                self.world.prometheus.pods[key] = self
            self.world.changed(self)
            program = asyncio.ensure_future(self.kind.program(self))
            self._tasks.append(program)
            disturbed = await self._until_disturbed(program)
            program.cancel()
            self._tasks.remove(program)
            self.activity.end(self.world.loop.at)
            if disturbed is None:
                if program.done() and not program.cancelled() and self.wants_pods():
                    program.result()
                    self._complete()
                return
            self.world.count(disturbed)
            chance, key = self.world.random, self.world.random.choice(keys)
            if disturbed == "containers restarted":
                self._set_ready(key, ready=False)
                await asyncio.sleep(chance.uniform(5, 90))
                if not self.wants_pods() or not self._start(key):
                    return
            else:
                place = keys.index(key)
                self._end_pod(key)
                await asyncio.sleep(chance.uniform(5, 40))
                self._remove_pod(key)
                child = self.child
                if child is None or not self.wants_pods():
                    return
                keys[place] = self._create_pod(child, place)
                await asyncio.sleep(chance.uniform(5, 60))
                if not self.wants_pods() or not self._start(keys[place]):
                    return

    async def _until_disturbed(self, program: "asyncio.Future[None]") -> str | None:
        while True:
            news = asyncio.ensure_future(self._wait())
            await asyncio.wait({news, program}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            if program.done() or not self.wants_pods():
                return None
            if self._disturbed is not None:
                what, self._disturbed = self._disturbed, None
                return what

    async def _take_away(self, keys: list[PodKey]) -> None:
        for key in keys:
            self._end_pod(key)
        await asyncio.sleep(self.world.random.uniform(1, 60))
        for key in keys:
            self._remove_pod(key)

    def _create_pod(self, child: Object, rank: int) -> PodKey:
        name = f"{self.name}-{rank}-{self.world.server.version:05}"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"stoker.dev/dljob": self.name},
                "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
                "ownerReferences": [{"kind": "Job", "uid": child["metadata"]["uid"], "controller": True}],
            },
            "spec": {
                "terminationGracePeriodSeconds": 120,
                **({"resourceClaims": [{"name": "more-gpus"}]} if self.kind.has_claim else {}),
                "containers": [{"name": "trainer", "resources": {"limits": {GPU: str(self.gpus_per_node)}}}],
            },
            "status": {"phase": "Pending"},
        }
        self.world.server.create(PODS, NAMESPACE, body, self._request)
        return NAMESPACE, name

    def _start(self, key: PodKey) -> bool:
        """Its container runs, by the kubelet's clock."""
        started = {"running": {"startedAt": rfc3339(self.world.server.clock.now())}}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "trainer", "restartCount": 0, "state": started}],
        }
        return self._set(key, {"spec": {"nodeName": f"node-{key[1]}"}, "status": status})

    def _set_ready(self, key: PodKey, *, ready: bool) -> None:
        self._set(key, {"status": {"conditions": [{"type": "Ready", "status": str(ready)}]}})

    def _end_pod(self, key: PodKey) -> None:
        self._set(key, {"metadata": {"deletionTimestamp": rfc3339(self.world.server.clock.now())}})

    def _set(self, key: PodKey, changes: dict[str, Any]) -> bool:
        self.disturbed_at = self.world.loop.at
        pod = self.world.server.peek(PODS, *key)
        if pod is not None:
            self.world.server.update(PODS, pod, changes, self._request)
        return pod is not None

    def _remove_pod(self, key: PodKey) -> None:
        self.world.prometheus.pods.pop(key, None)
        pod = self.world.server.peek(PODS, *key)
        if pod is not None:
            self.world.server.remove(PODS, pod, self._request)

    def _complete(self) -> None:
        """The program has ended well."""
        child = self.child
        if child is not None:
            ended = rfc3339(self.world.server.clock.now())
            condition = {"type": "Complete", "status": "True", "lastTransitionTime": ended}
            self.world.server.update(JOBS, child, {"status": {"conditions": [condition]}}, self._request)
        self.is_over = True

    # --------------------------------------------------------------------------------------------------- its program

    async def work(
        self, duration: float, gpus: frozenset[int] | None = None, signal: GpuSignal = GpuSignal.UTIL
    ) -> None:
        """Its GPUs work for so long."""
        self.back.clear()
        self.activity.begin(self.world.loop.at, gpus, signal)
        self.world.works(self)
        await asyncio.sleep(duration)

    async def idle(self, duration: float) -> None:
        """They are idle for so long, or until the owner comes back."""
        self.activity.end(self.world.loop.at)
        self.planned = self.world.loop.at + duration
        self.world.turns_idle(self, self.planned)
        try:
            async with asyncio.timeout(duration):
                await self.back.wait()
        except TimeoutError:
            pass
        self.back.clear()


def _exponential(job: SimulatedJob, mean: float) -> float:
    return job.world.random.expovariate(1 / mean)


async def _trains(job: SimulatedJob) -> None:
    """Works for days, with pauses for checkpoints and evaluations on the CPU."""
    end = job.world.loop.at + job.world.random.uniform(20, 200) * HOUR
    while job.world.loop.at < end:
        await job.work(job.world.random.uniform(2, 20) * HOUR)
        await job.idle(min(_exponential(job, 4 * MINUTE), 55 * MINUTE))


async def _evaluates(job: SimulatedJob) -> None:
    """Pauses for nearly as long as it may."""
    shortest = 55 * MINUTE if job.own_idle_after is None else 0.9 * job.own_idle_after
    for _ in range(job.world.random.randint(10, 40)):
        await job.work(job.world.random.uniform(0.1, 4) * HOUR)
        await job.idle(job.world.random.uniform(0.5, 1.0) * shortest)


async def _uses_one(job: SimulatedJob) -> None:
    """One GPU works for all, and it may show in one signal only."""
    for _ in range(job.world.random.randint(3, 15)):
        one = frozenset({job.world.random.randrange(job.gpus)})
        signal = job.world.random.choice([GpuSignal.UTIL, *HIDDEN_SIGNALS])
        await job.work(job.world.random.uniform(2, 12) * HOUR, one, signal)
        await job.idle(_exponential(job, 3 * MINUTE))


async def _is_held(job: SimulatedJob) -> None:
    """Ends its work, and does not end."""
    await job.work(job.world.random.uniform(1, 30) * HOUR)
    await job.idle(job.world.random.uniform(0.5, 60) * HOUR)
    if job.world.random.random() < 0.3:
        await job.work(job.world.random.uniform(1, 10) * HOUR)


async def _uploads(job: SimulatedJob) -> None:
    """Ends its work, sends what came of it, and does not end."""
    await job.work(job.world.random.uniform(1, 30) * HOUR)
    job.uploads_until = job.world.loop.at + job.world.random.uniform(0.2, 8) * HOUR
    await job.idle(job.world.random.uniform(10, 60) * HOUR)


async def _is_typed_in(job: SimulatedJob) -> None:
    """Somebody comes and goes."""
    for _ in range(job.world.random.randint(5, 40)):
        await job.work(_exponential(job, 20 * MINUTE) + 5)
        away = job.world.random.random()
        await job.idle(_exponential(job, 15 * MINUTE) if away < 0.8 else job.world.random.uniform(1, 20) * HOUR)


async def _hangs(job: SimulatedJob) -> None:
    await job.work(job.world.random.uniform(1, 20) * HOUR)
    await job.idle(job.world.random.uniform(5, 40) * HOUR)


async def _serves(job: SimulatedJob) -> None:
    for _ in range(5):
        await job.work(job.world.random.uniform(5, 14) * HOUR)
        await job.idle(job.world.random.uniform(5, 12) * HOUR)


KINDS = (
    Kind(name="training", weight=42, program=_trains),
    Kind(name="long evaluations", weight=10, program=_evaluates),
    Kind(name="one GPU of many", weight=8, program=_uses_one),
    Kind(name="finished, held", weight=9, program=_is_held, finding="UnreleasedJob", is_held=True),
    Kind(
        name="finished, results in its container",
        weight=4,
        program=_is_held,
        finding="UnreleasedJob",
        has_volume=False,
        is_forgone=True,
    ),
    Kind(name="uploads unseen", weight=3, program=_uploads, finding="UnreleasedJob", uploads=True, is_held=True),
    Kind(
        name="GPUs of a claim",
        weight=2,
        program=_is_held,
        finding="UnreleasedJob",
        has_claim=True,
        never="it works on GPUs that are not counted",
    ),
    Kind(
        name="service of its own",
        weight=2,
        program=_serves,
        finding="UnreleasedJob",
        port=8000,
        never="it serves, as its port says",
    ),
    Kind(
        name="notebook",
        weight=10,
        program=_is_typed_in,
        job_type="Interactive",
        finding="InteractiveJob",
        is_held=True,
    ),
    Kind(
        name="notebook without a volume",
        weight=3,
        program=_is_typed_in,
        job_type="Interactive",
        finding="InteractiveJob",
        has_volume=False,
    ),
    Kind(name="hanging", weight=3, program=_hangs, finding="Stalled", never="it hangs"),
    Kind(name="service", weight=2, program=_serves, job_type="Serving", finding="UnreleasedJob", never="a service"),
    Kind(name="shared GPUs", weight=2, program=_is_held, finding="UnreleasedJob", is_shared=True),
)
"""What runs in a cluster, and how often of a hundred."""
