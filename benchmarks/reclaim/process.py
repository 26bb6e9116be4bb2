"""The controller's process as handlers.controller puts it together, on a simulated API server, that can be killed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from benchmarks.reclaim.metrics import Source
from benchmarks.reclaim.server import ApiServer, Request
from benchmarks.reclaim.virtual_time import SkewedClock, VirtualTimeLoop
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, POLICIES, Object, Resource, UnavailableError, Warn
from stoker.adapters.notifications import Mail
from stoker.adapters.workers import Workers
from stoker.api.dljob import DLJob
from stoker.cluster.cache import concerned
from stoker.cluster.watch import SilentWatchError
from stoker.controller.assembly import Ports, Substitutes, Timing, assemble
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.presence import PresenceChecker
from stoker.controller.scan import Scanner
from stoker.controller.scanned_job import ScannedJob
from stoker.findings.diagnosis import Diagnosis
from stoker.findings.verdict import Verdict
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.kinds.pod import mapping
from stoker.workload import ProgramFacts, submission_facts

T = TypeVar("T")
NOTHING_FOUND = Verdict()
WORKERS = 3
RESYNC = 300.0
RETRY = 2.0
TIMEOUT = 30.0
"""Seconds that the client waits for an answer (adapters.kubernetes)."""


@dataclass(slots=True)
class FaultRates:
    """How the way to the API server is at this moment: shares of the requests, and seconds."""

    refused: float = 0.002
    """Answered with 500, 429 or not at all, and without effect."""
    unanswered: float = 0.001
    """With effect, and without an answer in time."""
    raced: float = 0.005
    """Writes before which somebody else has written the same object."""
    late: float = 0.02
    """Requests that take up to `latest` seconds."""
    latest: float = 1.0
    killed: float = 0.0004
    """Requests at which the process ends, before or after their effect."""
    event_late: float = 0.01
    event_latest: float = 5.0
    event_lost: float = 0.0
    event_twice: float = 0.005


class SimulatedWorld(Protocol):
    """What a process needs of the world that it is in."""

    loop: VirtualTimeLoop
    random: Random
    server: ApiServer
    fault_rates: FaultRates

    def count(self, what: str) -> None:
        """Something was injected, or has happened."""
        ...

    def asked(self, process: "Process", verb: str, resource: Resource, name: str) -> None:
        """A request is on its way: the moment for whoever wants to come in between."""
        ...

    def diagnose(self, uid: str) -> Diagnosis:
        """What an examination of that job's metrics would find now."""
        ...


class Client:
    """KubernetesApi for one process, with everything that may happen on the way."""

    def __init__(self, world: SimulatedWorld, process: "Process") -> None:
        self._world = world
        self._process = process

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Read one object."""
        return await self._ask("get", resource, name, lambda _: self._world.server.get(resource, namespace, name))

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        """Read all objects."""
        found = self._world.server.list
        return await self._ask("list", resource, "", lambda _: found(resource, namespace, labels, fields))

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        """Create an object. This server warns of nothing."""
        create = self._world.server.create
        return await self._ask(
            "create", resource, body["metadata"]["name"], lambda who: create(resource, namespace, body, who)
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object:
        """Merge into an object."""
        assert subresource is None, "nobody patches a subresource of what is simulated"
        patch = self._world.server.patch
        return await self._ask(
            "patch", resource, name, lambda who: patch(resource, namespace, name, body, who), namespace
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        """Replace an object or its status."""
        replace = self._world.server.replace
        return await self._ask(
            "replace", resource, name, lambda who: replace(resource, namespace, name, body, subresource, who), namespace
        )

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str, resource_version: str | None = None
    ) -> None:
        """Delete an object."""
        delete = self._world.server.delete
        await self._ask(
            "delete",
            resource,
            name,
            lambda who: delete(resource, namespace, name, uid, resource_version, who),
            namespace,
        )

    async def _ask(
        self, verb: str, resource: Resource, name: str, do: Callable[[Request], T], namespace: str | None = None
    ) -> T:
        world, process, fault_rates = self._world, self._process, self._world.fault_rates
        chance = world.random.random
        if process.is_dead:
            await asyncio.Future[None]()
        request = Request(controller=process.number, sent_at=world.loop.at)
        world.asked(process, verb, resource, name)
        if chance() < fault_rates.late or process.is_frozen:
            await asyncio.sleep(chance() * (TIMEOUT - 1.0 if process.is_frozen else fault_rates.latest))
        # An action is where being killed matters most.
        is_action = verb in {"patch", "delete", "replace"} and resource in {JOBS, POLICIES}
        death = chance() < fault_rates.killed * (40 if is_action else 1)
        if death and chance() < 0.5:
            await self._die("killed before a request took effect")
        if process.is_dead:
            await asyncio.Future[None]()
        if chance() < fault_rates.refused:
            world.count("requests refused")
            code = world.random.choice([500, 429, None])
            raise UnavailableError(verb, code=code, reason="refused by the simulation")
        if (
            verb not in {"get", "list", "create"}
            and resource in {DLJOBS, JOBS, POLICIES}
            and chance() < fault_rates.raced
        ):
            world.count("conflicting writes")
            world.server.touch(resource, namespace, name)
        answer = do(request)
        if death:
            await self._die("killed after a request took effect")
        if chance() < fault_rates.unanswered:
            world.count("answers lost")
            await asyncio.sleep(TIMEOUT)
            raise UnavailableError(verb, code=None, reason="TimeoutError")
        return answer

    async def _die(self, how: str) -> None:
        self._world.count(how)
        self._process.kill()
        await asyncio.Future[None]()


class Unreviewed(ManifestCache):
    """What manifests say, without the review of admission: it finds the same in every job here, and takes longest. They
    are read at once, as there are no processes beside in simulated time.
    """

    def program(self, job: DLJob) -> ProgramFacts:
        """What the manifest says of the program."""
        known = self.known_program(job.uid)
        if known is None:
            known = submission_facts(read_dljob(job), mapping(job.spec.pod_template).get("spec"))
            self._programs[job.uid] = known
        return known

    async def review(self, job: DLJob) -> Verdict:
        """Nothing is found."""
        return NOTHING_FOUND


class SimulatedScanner(Scanner):
    """The scan with the examination of series taken out: what it would find the simulation knows, or makes up."""

    finds: Callable[[str], Diagnosis]

    async def _diagnose(self, subject: ScannedJob) -> Diagnosis:
        return self.finds(subject.uid)


class Process:
    """One controller from its start to its death, watches and all. `kill` is kill -9: nothing of it acts any more."""

    def __init__(
        self, world: SimulatedWorld, number: int, metrics: Source, offset: float, *, killed: Callable[["Process"], None]
    ) -> None:
        self._world = world
        self._killed = killed
        self.number = number
        self.is_dead = False
        self.is_frozen = False
        """Its requests take long, as of a process that hung and goes on: it may no longer lead."""
        loop = world.loop
        self.clock = clock = SkewedClock(loop, offset)
        ports = Ports(
            api=Client(world, self),
            metrics=metrics,
            clock=clock,
            workers=Workers(1),
            post=Mail(None),
            instance=f"controller-{number}",
            jitter=world.random.random,
        )
        parts = Substitutes(manifests=Unreviewed, scanner=SimulatedScanner, presences=PresenceChecker(clock))
        controller = assemble(ports, Timing(), parts)
        self.cache, self.queue = controller.cache, controller.queue
        self._resync, self._reconciler = controller.resync, controller.reconciler
        self._scanner = controller.scanner
        assert isinstance(self._scanner, SimulatedScanner)
        self._scanner.finds = world.diagnose
        self._wanted = asyncio.Event()
        self._missed = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Watch, list, and work."""
        self._world.server.watchers.append(self)
        self._begin(self._live())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)

    async def _live(self) -> None:
        while True:
            try:
                await self._resync.once()
                break
            except UnavailableError:
                await asyncio.sleep(RETRY)
            except SilentWatchError:
                self.kill()
                return
        self._begin(self.queue.run(self._reconciler.reconcile, workers=WORKERS))
        self._begin(self._scan())
        self._wanted.set()

    async def _scan(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._scanner.tick()
            except Exception:
                logging.getLogger("stoker").exception("the metrics tick failed")

    def tick(self) -> None:
        """It is time to look at the metrics."""
        self._wanted.set()

    def kill(self) -> None:
        """End at once."""
        if self.is_dead:
            return
        self.is_dead = True
        if self in self._world.server.watchers:
            self._world.server.watchers.remove(self)
        for task in self._tasks:
            task.cancel()
        for timer in self.queue._timers.values():  # noqa: SLF001 - they would ring in a dead process
            timer.cancel()
        self._killed(self)

    # -------------------------------------------------------------------------------------------------------- watches

    def changed(self, resource: Resource, kind: str, obj: Object) -> None:
        """The API server has news."""
        world, fault_rates = self._world, self._world.fault_rates
        if resource not in self.cache.resources:
            return
        chance = world.random.random
        if chance() < fault_rates.event_lost:
            world.count("watch events lost")
            self._repair()
            return
        late = chance() < fault_rates.event_late
        if late:
            world.count("watch events late")
        delay = chance() * fault_rates.event_latest if late else 0.01
        world.loop.call_later(delay, self._deliver, resource, kind, obj)
        if chance() < fault_rates.event_twice:
            world.count("watch events twice")
            world.loop.call_later(delay + chance() * fault_rates.event_latest, self._deliver, resource, kind, obj)

    def _deliver(self, resource: Resource, kind: str, obj: Object) -> None:
        if not self.is_dead and self.cache.collection(resource).watched(kind, obj):
            key = concerned(resource, obj)
            if key is not None:
                self.queue.add(key, changed=True)

    def _repair(self) -> None:
        """The next full list shows what no event has told of."""
        if not self._missed:
            self._missed = True
            self._begin(self._list_again())

    async def _list_again(self) -> None:
        while self._missed:
            await asyncio.sleep(RESYNC * self._world.random.random())
            try:
                await self._resync.once()
                self._missed = False
            except UnavailableError:
                await asyncio.sleep(RETRY)
            except SilentWatchError:
                self.kill()


def _log_failure(task: asyncio.Task[None]) -> None:
    """What ends with an error that nobody awaits would only be missing."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logging.getLogger("stoker").error("a part of the process has ended", exc_info=error)


def alive(processes: Iterable[Process]) -> list[Process]:
    """Those that still run."""
    return [process for process in processes if not process.is_dead]
