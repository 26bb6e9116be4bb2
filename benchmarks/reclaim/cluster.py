"""One cluster over its days: jobs come and go, owners return, things break, and a controller (or two) runs."""

import asyncio
import gc
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.reclaim.account import Account
from benchmarks.reclaim.jobs import GPU, HOUR, KINDS, MINUTE, NAMESPACE, Kind, SimulatedJob
from benchmarks.reclaim.judge import Judge, Suspect, Wrong
from benchmarks.reclaim.metrics import Prometheus
from benchmarks.reclaim.process import FaultRates, Process, alive
from benchmarks.reclaim.server import ApiServer, Request, owned_by
from benchmarks.reclaim.truth import SCRAPE, Activity, Gaps
from benchmarks.reclaim.virtual_time import BEGINNING, SkewedClock, VirtualTimeLoop, moment
from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    SERVICES,
    Object,
    Resource,
)
from stoker.api.duration import parse_duration
from stoker.api.names import API_VERSION
from stoker.findings.diagnosis import Diagnosis, Utilization
from stoker.findings.finding import Finding, parse_time, rfc3339
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.telemetry.series import GpuSignal

TICK = 30.0
QUIET = 4 * HOUR
"""Where nothing changes the controller looks so often."""
RULES = {"UnreleasedJob": "unreleased-job", "InteractiveJob": "interactive-job", "Stalled": "stalled"}
POLICY = "default"
AT_REST = HOUR
"""So long after an upload that no metric shows its CPUs have shown that it is through (rule unreleased-job)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated in one cluster."""

    seed: int
    hours: float
    jobs: int = 10
    faults: bool = True
    every_tick: bool = False
    faults_every: float = 10.0
    """Hours between two faults, on average; edits of the policy are half as many."""
    only: tuple[str, ...] = ()
    """Names of FAULTS; without any all of them."""
    last_seconds: tuple[float, float] = (-90.0, 45.0)
    """When an owner who comes back at the last moment does, in seconds after the deadline."""
    returning: float = 0.22
    """The share of those who do."""
    reclaim: dict[str, Any] = field(default_factory=lambda: {"mode": "Suspend", "maxGPUPercentPerWindow": 60})


@dataclass(slots=True)
class Result:
    """What came of it."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[Wrong] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    job_hours: float = 0.0
    actions: int = 0
    races: int = 0
    hidden: Counter[str] = field(default_factory=Counter)
    """Reclaims after work that no sample could show, by what hid it."""
    held: float = 0.0
    """GPU-hours that idle jobs held beyond the limit."""
    excused: float = 0.0
    """Of these, while something rightly held the reclaim back."""
    returned: float = 0.0
    """GPU-hours beyond the limit that were free instead."""
    forgone: float = 0.0
    """GPU-hours beyond the limit that caution left to jobs whose results may be in their containers alone."""
    late: list[str] = field(default_factory=list)
    """The longest stretches that nothing excuses."""

    def add(self, other: "Result") -> None:
        """Take in another cluster's."""
        self.counts += other.counts
        self.hidden += other.hidden
        self.wrong += other.wrong
        self.errors += other.errors
        self.late += other.late
        for name in ("job_hours", "actions", "races", "held", "excused", "returned", "forgone"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def returned_percent(self) -> float:
        """Of the reclaimable GPU-hours beyond the limit, without those that were rightly held."""
        rest = self.held - self.excused
        return 100 * self.returned / (self.returned + rest) if self.returned + rest else 100.0

    @property
    def forgone_percent(self) -> float:
        """Of all reclaimable GPU-hours, these among them, those that caution left."""
        all_of_them = self.returned + self.held + self.forgone
        return 100 * self.forgone / all_of_them if all_of_them else 0.0

    @property
    def returned_of_all_percent(self) -> float:
        """Of all of them."""
        return 100 * self.returned / (self.returned + self.held) if self.returned + self.held else 100.0


class _Errors(logging.Handler):
    """Keeps what the controller logs as a fault of its own."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._kept = kept
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "stoker.controller.brake":
            return  # not a fault: that is how it tells that it has stopped
        self._kept.append(self.format(record))


class Cluster:
    """One cluster; `live` is its whole life."""

    def __init__(self, scenario: Scenario, loop: VirtualTimeLoop) -> None:
        self.scenario = scenario
        self.loop = loop
        self.random = random = Random(scenario.seed)
        self.result = Result()
        skew = random.uniform(-100, 100) if scenario.faults else 0.0
        self.server = ApiServer(SkewedClock(loop, skew))
        self.prometheus = Prometheus(loop, random.uniform(-20, 20) if scenario.faults else 0.0)
        self.calm = FaultRates() if scenario.faults else FaultRates(0, 0, 0, 0, 1, 0, 0, 1, 0, 0)
        self.fault_rates = self.calm
        self.judge = Judge(world=self)
        self.account = Account()
        self.jobs: dict[str, SimulatedJob] = {}
        self.total_gpus = 8 * scenario.jobs
        self._by_uid: dict[str, SimulatedJob] = {}
        self._processes: list[Process] = []
        self._started = 0
        self._offset = random.uniform(-15, 15) if scenario.faults else 0.0
        self._diagnosed: dict[str, Diagnosis] = {}
        self._found: dict[str, float] = {}
        """When an examination of a job has found something last."""
        self._wanted_ticks: set[float] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_over = False
        self._braked_at = math.inf

    @property
    def gaps(self) -> Gaps:
        """Times without samples of any GPU."""
        return self.prometheus.gaps

    @property
    def zeros(self) -> Gaps:
        """Times in which all exporters write 0 whatever the GPUs do."""
        return self.prometheus.zeros

    @property
    def asker_behind(self) -> float:
        """How far the controllers' clocks are behind Prometheus'."""
        behind = [self.prometheus.offset - process.clock.offset for process in alive(self._processes)]
        return max(behind, default=0.0)

    def count(self, what: str) -> None:
        """Something was injected, or has happened."""
        self.result.counts[what] += 1

    # ----------------------------------------------------------------------------------------------------------- life

    async def live(self) -> Result:
        """From the beginning to the end."""
        logger = logging.getLogger("stoker")
        before = logger.level, logger.propagate
        handler = _Errors(self.result.errors)
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
        try:
            self._furnish()
            self._start_process()
            for number in range(self.scenario.jobs):
                self._go(self._keep_slot(number))
            self._go(self._look_now_and_then())
            if self.scenario.faults:
                self._go(self._misfortune())
                self._go(self._administration())
            await asyncio.sleep(self.scenario.hours * HOUR)
        finally:
            self.is_over = True
            for process in alive(self._processes):
                process.kill()
            tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task(self.loop)}
            # In the order in which they were begun, for the same seed the same.
            for task in sorted(tasks, key=lambda task: int(task.get_name().rpartition("-")[2])):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]
        self._close_account()
        return self.result

    def _go(self, work: Awaitable[None]) -> None:
        async def watched() -> None:
            try:
                await work
            except Exception:
                logging.getLogger("stoker").exception("the simulation failed")

        task = asyncio.ensure_future(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _furnish(self) -> None:
        self.server.observers.append(self._observe)
        who = Request(sent_at=self.loop.at)
        for name in (NAMESPACE, "stoker"):
            self.server.create(NAMESPACES, None, {"metadata": {"name": name, "labels": {}}}, who)
        for number in range(self.scenario.jobs):
            status = {"allocatable": {GPU: "8"}, "capacity": {GPU: "8"}}
            self.server.create(NODES, None, {"metadata": {"name": f"node-{number}"}, "spec": {}, "status": status}, who)
        body = {
            "apiVersion": API_VERSION,
            "kind": "UtilizationPolicy",
            "metadata": {"name": POLICY, "labels": {}, "annotations": {}},
            "spec": {"reclaim": self.scenario.reclaim},
        }
        self.server.create(POLICIES, None, body, who)

    def _start_process(self, *, offset: float | None = None) -> Process:
        self._started += 1
        own = self._offset if offset is None else offset
        process = Process(self, self._started, self.prometheus.asked_by(), own, killed=self._was_killed)
        self._processes = [*alive(self._processes), process]
        process.start()
        self.want_look(self.loop.at + 5)
        return process

    def _was_killed(self, process: Process) -> None:
        if not self.is_over and not [one for one in alive(self._processes) if not one.is_frozen]:
            self._go(self._start_again())

    async def _start_again(self) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 60))
        if not [one for one in alive(self._processes) if not one.is_frozen]:
            self.count("controller started anew")
            self._start_process()

    # ---------------------------------------------------------------------------------------------------------- slots

    async def _keep_slot(self, number: int) -> None:
        """There is always one job in a slot; the next one may have the name of the last."""
        await asyncio.sleep(self.random.uniform(0, 2 * HOUR))
        count = 0
        while True:
            name = f"job-{number}-{count}"
            job = self._new_job(name)
            job.submit()
            self._by_uid[job.uid] = job
            await self._own(job)
            job.delete()
            self.account.ends(job.uid, self.loop.at)
            for known in (self._by_uid, self._diagnosed, self._found):
                known.pop(job.uid, None)
            if self.random.random() < 0.3:
                self.count("names used again")
            else:
                count += 1
            await asyncio.sleep(self.random.uniform(5, 300))

    def _new_job(self, name: str) -> SimulatedJob:
        chance = self.random
        kind = chance.choices(KINDS, [kind.weight for kind in KINDS])[0]
        nodes = chance.choice([1, 1, 1, 2, 3])
        job = SimulatedJob(
            world=self,
            kind=kind,
            name=name,
            nodes=nodes,
            gpus_per_node=chance.choice([1, 1, 2, 4]),
            activity=Activity(phase=chance.uniform(0, SCRAPE)),
            own_idle_after=chance.choice([1200.0, 1800.0, 7200.0, 21600.0]) if chance.random() < 0.2 else None,
        )
        job.found_after = chance.uniform(0.05, 0.7) * (job.own_idle_after or HOUR)
        if chance.random() < 0.2:
            begin = self.loop.at + chance.uniform(0, 40) * HOUR
            job.lies = (begin, begin + chance.uniform(0.2, 60) * HOUR)
        self.jobs[name] = job
        return job

    async def _own(self, job: SimulatedJob) -> None:
        """The owner of one job: waits for its end, and comes back to one that was reclaimed."""
        patience = self.loop.at + self.random.uniform(100, 300) * HOUR
        while self.loop.at < patience:
            await asyncio.sleep(self.random.uniform(10, 60) * MINUTE)
            raw = self.server.peek(DLJOBS, NAMESPACE, job.name)
            if raw is None or raw["metadata"]["uid"] != job.uid or job.is_over:
                return
            state = raw.get("status", {}).get("reclaim", {}).get("state")
            if state == "Reclaimed" and self.loop.at > job.planned:
                if job.kind.name != "notebook" and self.random.random() < 0.6:
                    return
                if raw["status"]["reclaim"].get("action") == "Delete":
                    return
                if self.random.random() < 0.5:
                    job.resume()
                else:
                    await self._toggle_suspend(job)
            if raw.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
                return

    async def _toggle_suspend(self, job: SimulatedJob) -> None:
        """Resume by an edge of spec.suspend."""
        self.count("resumes")
        for value in (True, False):
            raw = self.server.peek(DLJOBS, NAMESPACE, job.name)
            if raw is None or raw["metadata"]["uid"] != job.uid:
                return
            self.server.update(DLJOBS, raw, {"spec": {"suspend": value}}, Request(sent_at=self.loop.at))
            await asyncio.sleep(self.random.uniform(20, 200))
        self._look_after_cooldown()

    # ---------------------------------------------------------------------------------------------------- what is seen

    def _observe(self, resource: Resource, before: Object | None, after: Object | None, request: Request) -> None:
        if resource == PODS:
            return
        if resource == POLICIES:
            self._see_brake(before, after)
        name = (after or before or {})["metadata"]["name"]
        actions = self.judge.actions
        self.judge.see(resource, before, after, request, self.loop.at)
        job = self.jobs.get(name)
        if resource in {DLJOBS, JOBS} and job is not None:
            job.wake()
        if resource in {JOBS, SERVICES} and before is None and after is not None:
            owner = self.server.peek(DLJOBS, NAMESPACE, name)
            if owner is None or not owned_by(after, owner["metadata"]["uid"]):
                self.loop.call_later(self.random.uniform(1, 30), self._collect_orphan, resource, after["metadata"])
        if resource == DLJOBS and before is not None:
            if after is None:
                self._collect(before)
            elif job is not None and job.uid == after["metadata"]["uid"]:
                self._see_record(job, before, after)
        if self.judge.actions > actions and job is not None:
            self.count("reclaims")
            self.want_look(self.loop.at + 60)

    def _see_brake(self, before: Object | None, after: Object | None) -> None:
        """While the brake is on reclaim is rightly held, and what metrics showed before proves no rest after it."""
        was, now = ((one or {}).get("status", {}).get("brake") for one in (before, after))
        if now is not None and was is None:
            self.count("brakes")
            self._braked_at = self.loop.at
        elif was is not None and now is None:
            self.account.excuse(self._braked_at, self.loop.at + 2.5 * HOUR)
            self._braked_at = math.inf

    def _collect(self, gone: Object) -> None:
        """The garbage collector."""
        for resource in (JOBS, SERVICES):
            child = self.server.peek(resource, NAMESPACE, gone["metadata"]["name"])
            if child is not None and owned_by(child, gone["metadata"]["uid"]):
                self.server.remove(resource, child, Request(sent_at=self.loop.at))
        job = self._by_uid.get(gone["metadata"]["uid"])
        if job is not None:
            job.is_over = True
            job.wake()

    def _collect_orphan(self, resource: Resource, metadata: dict[str, Any]) -> None:
        """What was made for a DLJob that is gone."""
        child = self.server.peek(resource, NAMESPACE, metadata["name"])
        if child is not None and child["metadata"]["uid"] == metadata["uid"]:
            self.server.remove(resource, child, Request(sent_at=self.loop.at))

    def _see_record(self, job: SimulatedJob, before: Object, after: Object) -> None:
        record, was = (one.get("status", {}).get("reclaim", {}) for one in (after, before))
        if record.get("state") == "Reclaimed":
            job.deadline = None
            return
        deadline = record.get("deadline")
        if deadline == was.get("deadline"):
            return
        job.deadline = None if deadline is None else parse_time(deadline).timestamp()  # type: ignore[union-attr]  # not None
        if job.deadline is None:
            return
        self.count("warnings recorded")
        for second in (1, 31, 91):
            self.want_look(job.deadline - self._offset + second)
        if self.scenario.faults:
            self._go(self._react(job, job.deadline))

    async def _react(self, job: SimulatedJob, deadline: float) -> None:
        """What the owner makes of a warning: mostly nothing."""
        chance = self.random
        act = chance.random()
        if act < 0.06:
            await asyncio.sleep(chance.uniform(1, 900))
            job.snooze(chance.uniform(0.2, 40) * HOUR)
        elif act < 0.10:
            await asyncio.sleep(chance.uniform(1, 900))
            job.resume()
        elif act < 0.13:
            await asyncio.sleep(chance.uniform(1, 1000))
            self.count("deleted in the grace")
            job.delete()
        elif act < 0.13 + self.scenario.returning:
            back = deadline - self._offset + chance.uniform(*self.scenario.last_seconds)
            await asyncio.sleep(max(back - self.loop.at, 0))
            self.count("owners back in the last seconds")
            job.back.set()
        elif act < 0.23 + self.scenario.returning:
            await asyncio.sleep(chance.uniform(1, 900))
            self.count("owners back in the grace")
            job.back.set()

    def asked(self, process: Process, verb: str, resource: Resource, name: str) -> None:
        """Between the last look and the action is the worst moment for everything: some of it comes just then."""
        del process
        if resource not in {DLJOBS, JOBS, POLICIES} or verb in {"list", "create"} or not self.scenario.faults:
            return
        job = self.jobs.get(name)
        if job is None and resource == POLICIES:
            due = [one for one in self.jobs.values() if one.deadline is not None and one.deadline < self.loop.at + 60]
            job = due[0] if due else None
        if job is None or job.deadline is None or self.loop.at + self._offset < job.deadline - 1:
            return
        chance = self.random.random()
        if chance < 0.02:
            self.count("owners back between look and action")
            job.back.set()
        elif chance < 0.03:
            job.snooze(2 * HOUR)
        elif chance < 0.035:
            job.resume()
        elif chance < 0.045:
            job.disturb(self.random.choice(["containers restarted", "pods evicted"]))
        elif chance < 0.047:
            self._edit({"mode": "Observe"})
            self._go(self._back_to_normal(self.random.uniform(600, 7200)))

    def suspect(self, name: str) -> Suspect | None:
        """The living job of that name."""
        return self.jobs.get(name)

    def busy_pods(self, name: str, job_uid: str) -> bool:
        """Whether some pod of that Job is not ready, or is going."""
        pods = [pod for pod in self.server.all(PODS) if owned_by(pod, job_uid)]
        ready = [
            pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        ]
        return len(ready) != self.jobs[name].nodes or len(ready) != len(pods)

    def diagnose(self, uid: str) -> Diagnosis:
        """What an examination finds: the cause of a rest, late; and now and then one that is none."""
        job = self._by_uid.get(uid)
        now = self.loop.at
        findings: list[Finding] = []
        may_find = job is not None and (
            job.kind.finding is not None
            or job.lies[0] <= now < job.lies[1]
            or self.prometheus.faults.zeros
            or job.zeros.has(now)
        )
        if job is not None and may_find:
            rested = now - self._seen_to_work(job)
            if job.kind.finding is not None and rested > job.found_after:
                sure = now > job.uploads_until + AT_REST
                findings.append(
                    _finding(Category(job.kind.finding), Confidence.LIKELY if sure else Confidence.POSSIBLE)
                )
            elif not job.kind.uploads and (
                job.lies[0] <= now < job.lies[1]
                or (
                    (self.prometheus.faults.zeros or job.zeros.has(now))
                    and rested > job.found_after
                    and now - rested > job.began
                )
            ):
                findings.append(_finding(Category.UNRELEASED_JOB))
        last = self._diagnosed.get(uid)
        if last is not None and not findings and not last.findings and now - self._found.get(uid, 0.0) > 2 * HOUR:
            # Nothing is found, and nothing was: what is said again is no news to anybody.
            return last
        if findings:
            self._found[uid] = now
        used = Utilization(
            average_percent=50.0, coverage_percent=100.0, gpu_hours=1.0, gpu_hours_idle=1.0, as_of=moment(now)
        )
        self._diagnosed[uid] = Diagnosis(utilization=used, findings=tuple(findings))
        return self._diagnosed[uid]

    def _seen_to_work(self, job: SimulatedJob) -> float:
        """The last work that the metrics have shown."""

        def hidden(at: float) -> bool:
            return self.prometheus.gaps.has(at) or self.prometheus.zeros.has(at) or job.zeros.has(at)

        shown = [
            at
            for gpu in range(job.gpus)
            for at, _ in [next(job.activity.shown(gpu, self.loop.at, hidden), (job.began, None))]
        ]
        return max([job.began, *shown])

    # ---------------------------------------------------------------------------------------------------------- looks

    def want_look(self, at: float) -> None:
        """Have the controllers look at the metrics at the next tick after `at`."""
        due = max(math.ceil(at / TICK) * TICK, self.loop.at)
        if due not in self._wanted_ticks:
            self._wanted_ticks.add(due)
            self.loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        self._wanted_ticks.discard(due)
        self.result.counts["ticks"] += 1
        for process in alive(self._processes):
            process.tick()

    async def _look_now_and_then(self) -> None:
        """Between changes the answers of two ticks are the same, and one of them is enough."""
        while True:
            policy = self.server.peek(POLICIES, None, POLICY) or {}
            restless = any(job.deadline is not None for job in self._by_uid.values()) or "brake" in policy.get(
                "status", {}
            )
            pause = TICK if self.scenario.every_tick else 10 * MINUTE if restless else QUIET
            await asyncio.sleep(pause)
            self.want_look(self.loop.at)

    def changed(self, job: SimulatedJob) -> None:
        """Its containers have started."""
        self.want_look(self.loop.at)

    def works(self, job: SimulatedJob) -> None:
        """Its GPUs work from now on."""
        self.account.ends(job.uid, self.loop.at)
        if job.deadline is not None:
            self.want_look(self.loop.at)
            self.want_look(self.loop.at + SCRAPE + 2)

    def turns_idle(self, job: SimulatedJob, planned: float) -> None:
        """Its GPUs are idle from now on."""
        idle_after = job.own_idle_after or self.idle_after
        start = max(self.loop.at, job.began + self._span("startupGrace", 1800.0))
        if planned - self.loop.at > 0.7 * idle_after or self.random.random() < 0.1:
            # Just before work is the worst moment to be looked at.
            self.want_look(min(planned - TICK, start + idle_after + SCRAPE + 2))
        if planned > start + idle_after and (job.kind.finding is not None or job.lies[1] > self.loop.at):
            for at in (self.loop.at + job.found_after, start + idle_after, start + idle_after + TICK):
                self.want_look(at + SCRAPE + 2)
        if job.kind.is_held or job.kind.is_forgone:
            limit = start + idle_after + self._span("warningGrace", 900.0) + 2 * TICK
            if job.kind.uploads:
                through = job.uploads_until + AT_REST
                limit = max(limit, through + self._span("warningGrace", 900.0) + 2 * TICK)
                self.want_look(through + SCRAPE + 2)
            self.account.begins(job.uid, job.gpus, limit, planned, is_forgone=job.kind.is_forgone)

    def excuse(self, job: SimulatedJob, duration: float) -> None:
        """Reclaim of the job is rightly held for so long, and until it is warned anew."""
        until = self.loop.at + duration + self._span("warningGrace", 900.0) + 4 * TICK
        self.account.excuse(self.loop.at, until, job.uid)
        self.want_look(self.loop.at + duration + TICK)
        self._look_after_cooldown()

    def _look_after_cooldown(self) -> None:
        self.want_look(self.loop.at + self._span("cooldownAfterResume", HOUR) + 2 * TICK)

    def held(self, job: SimulatedJob, since: float) -> None:
        """It had pods from then until now."""
        self.result.job_hours += (self.loop.at - since) / HOUR

    def went(self, job: SimulatedJob) -> None:
        """Its pods are gone."""
        raw = self.server.peek(DLJOBS, NAMESPACE, job.name)
        record = (raw or {}).get("status", {}).get("reclaim", {})
        if raw is not None and raw["metadata"]["uid"] == job.uid and record.get("state") in {"Reclaiming", "Reclaimed"}:
            self.account.freed(job.uid, self.loop.at)
        else:
            self.account.ends(job.uid, self.loop.at)

    @property
    def idle_after(self) -> float:
        """The policy's."""
        return self._span("idleAfter", HOUR)

    def _span(self, name: str, default: float) -> float:
        raw = self.server.peek(POLICIES, None, POLICY)
        text = (raw or {}).get("spec", {}).get("reclaim", {}).get(name)
        return default if text is None else parse_duration(text).total_seconds()

    # ------------------------------------------------------------------------------------------------- what goes wrong

    async def _misfortune(self) -> None:
        """One thing after the other, and sometimes two at once."""
        while True:
            await asyncio.sleep(self.random.expovariate(1 / (self.scenario.faults_every * HOUR)))
            name = self.random.choice(self.scenario.only or list(FAULTS))
            self.count(name)
            self._go(FAULTS[name](self))

    async def _for_a_while(self, shortest: float, longest: float, *, aftermath: float = 120.0) -> None:
        """A fault lasts; reclaim is excused meanwhile, and until its traces are gone."""
        duration = self.random.uniform(shortest, longest) * MINUTE
        self.account.excuse(self.loop.at, self.loop.at + duration + aftermath)
        self.want_look(self.loop.at + self.random.uniform(0, duration))
        self.want_look(self.loop.at + duration + TICK)
        await asyncio.sleep(duration)

    async def _exporters_out(self) -> None:
        self.prometheus.gaps.open(self.loop.at)
        await self._for_a_while(1, 180, aftermath=2 * HOUR)
        self.prometheus.gaps.close(self.loop.at)

    def _any_job(self) -> SimulatedJob | None:
        """A job by chance; None while all are gone."""
        return self.random.choice(list(self._by_uid.values())) if self._by_uid else None

    async def _one_exporter_out(self) -> None:
        job = self._any_job()
        if job is None:
            return
        job.gaps.open(self.loop.at)
        await self._for_a_while(1, 180, aftermath=2 * HOUR)
        job.gaps.close(self.loop.at)

    async def _zeros(self) -> None:
        """All exporters write 0 for everything, or for all but power."""
        faults = self.prometheus.faults
        if faults.zeros or not self._would_be_noticed():
            return
        self.want_look(self.loop.at)
        await asyncio.sleep(2 * TICK)
        faults.zeros, faults.power_speaks = True, self.random.random() < 0.3
        self.prometheus.zeros.open(self.loop.at)
        for minutes in (1, 5, 10.5, *range(15, 240, 15)):
            self.want_look(self.loop.at + minutes * MINUTE)
        await self._for_a_while(20, 240, aftermath=3 * HOUR)
        faults.zeros = False
        self.prometheus.zeros.close(self.loop.at)

    def _would_be_noticed(self) -> bool:
        """Whether so many GPUs are seen to work that their rest at once is noticed (massIdleBrake: five jobs)."""
        visible = {GpuSignal.UTIL, GpuSignal.GRAPHICS}
        at_work = [
            job
            for job in self._by_uid.values()
            if job.activity.is_working
            and job.activity.stretches[-1].signal in visible
            and job.deadline is None
            and job.kind.job_type != "Serving"
        ]
        return len(at_work) > 5

    async def _zeros_of_one(self) -> None:
        """One job's exporters write 0 for all that they know."""
        job = self._any_job()
        if job is None:
            return
        job.zeros.open(self.loop.at)
        self.want_look(self.loop.at + job.found_after + 2 * MINUTE)
        self.want_look(self.loop.at + (job.own_idle_after or self.idle_after) + 2 * MINUTE)
        await self._for_a_while(5, 240, aftermath=2 * HOUR)
        job.zeros.close(self.loop.at)

    async def _flagged(self, name: str, longest: float) -> None:
        setattr(self.prometheus.faults, name, True)
        await self._for_a_while(0.5, longest)
        setattr(self.prometheus.faults, name, False)

    async def _prometheus_down(self) -> None:
        await self._flagged("down", 60)

    async def _prometheus_slow(self) -> None:
        await self._flagged("slow", 20)

    async def _partial_answers(self) -> None:
        await self._flagged("partial", 60)

    async def _no_values(self) -> None:
        self.prometheus.nans.open(self.loop.at)
        await self._for_a_while(0.5, 20, aftermath=2 * HOUR)
        self.prometheus.nans.close(self.loop.at)

    async def _fault_rates_of(self, **changes: float) -> None:
        self.fault_rates = FaultRates(
            **{**{name: getattr(self.calm, name) for name in FaultRates.__slots__}, **changes}
        )
        await self._for_a_while(1, 20, aftermath=400)
        self.fault_rates = self.calm

    async def _api_fails(self) -> None:
        await self._fault_rates_of(refused=0.3, unanswered=0.1)

    async def _api_slow(self) -> None:
        await self._fault_rates_of(late=0.7, latest=29.0)

    async def _api_busy(self) -> None:
        await self._fault_rates_of(raced=0.4)

    async def _watches_late(self) -> None:
        await self._fault_rates_of(event_late=0.6, event_latest=180.0, event_twice=0.3, event_lost=0.05)

    async def _clock_steps(self) -> None:
        """The controllers' clock is off for a while: by little, or by more than Prometheus is asked with."""
        step = self.random.choice([self.random.uniform(-45, 45), self.random.uniform(-400, 400)])
        self._offset += step
        for process in alive(self._processes):
            process.clock.offset += step
        await self._for_a_while(2, 120)
        self._offset -= step
        for process in alive(self._processes):
            process.clock.offset -= step

    async def _killed(self) -> None:
        """At any moment; a few times in a row."""
        for _ in range(self.random.randint(1, 5)):
            for process in alive(self._processes):
                process.kill()
            await asyncio.sleep(self.random.uniform(1, 120))

    async def _two_at_once(self) -> None:
        """Another controller leads, with a clock of its own, and the old one is not quite gone."""
        old = alive(self._processes)
        for process in old:
            process.is_frozen = self.random.random() < 0.7
        self._start_process(offset=self._offset + self.random.uniform(-20, 20))
        await asyncio.sleep(self.random.uniform(1, 300))
        for process in old:
            process.kill()

    async def _bad_luck(self) -> None:
        """Some job's container restarts, or a pod is evicted."""
        job = self._any_job()
        if job is not None:
            job.disturb(self.random.choice(["containers restarted", "pods evicted"]))

    # --------------------------------------------------------------------------------------------------- administration

    async def _administration(self) -> None:
        while True:
            await asyncio.sleep(self.random.expovariate(1 / (2 * self.scenario.faults_every * HOUR)))
            until = rfc3339(moment(self.loop.at + self.random.uniform(600, 6 * HOUR)))
            exemption = {"jobSelector": {}, "rules": ["*"], "until": until, "reason": "maintenance"}
            edit: dict[str, Any] = self.random.choice(
                [
                    {"mode": "Observe"},
                    {"idleAfter": "120m"},
                    {"idleAfter": "30m"},
                    {"warningGrace": "30m"},
                    {"warningGrace": "5m"},
                    {"maxJobsPerWindow": 1},
                    {"schedule": [{"start": "18:00", "end": "08:00"}]},
                    {"cooldownAfterResume": "120m"},
                    {"exemptions": [exemption]},
                ]
            )
            self._edit(edit)
            await self._back_to_normal(self.random.uniform(300, 8 * HOUR))

    async def _back_to_normal(self, after: float) -> None:
        self.account.excuse(self.loop.at, self.loop.at + after + 2 * HOUR)
        await asyncio.sleep(after)
        self._edit({})

    def _edit(self, changes: dict[str, Any]) -> None:
        """The policy as the scenario has it, with these changes."""
        self.count("policy edits")
        raw = self.server.peek(POLICIES, None, POLICY)
        assert raw is not None
        changes = dict(changes)
        exemptions = changes.pop("exemptions", [])
        spec = {"reclaim": {**self.scenario.reclaim, **changes}, "exemptions": exemptions}
        body = {**raw, "spec": spec}
        self.server.replace(POLICIES, None, POLICY, body, None, Request(sent_at=self.loop.at))
        for wait in (1, 31, 600):
            self.want_look(self.loop.at + wait)

    def _close_account(self) -> None:
        self.account.excuse(self._braked_at, self.loop.at)
        self.account.close(self.loop.at)
        result = self.result
        result.wrong, result.races, result.actions = self.judge.wrong, self.judge.races, self.judge.actions
        result.hidden = self.judge.hidden
        result.held, result.excused = self.account.held / HOUR, self.account.excused / HOUR
        result.returned, result.forgone = self.account.returned / HOUR, self.account.forgone / HOUR
        result.late = [
            f"{late / HOUR:.1f} h  {rest.job}, {rest.gpus} GPUs, cluster {self.scenario.seed}"
            for late, rest in self.account.late
        ]
        for reason, number in self.server.events.items():
            result.counts[f"event {reason}"] += number


Fault = Callable[[Cluster], Awaitable[None]]
FAULTS: dict[str, Fault] = {
    "exporters out": Cluster._exporters_out,  # noqa: SLF001 - this module's own
    "one job without samples": Cluster._one_exporter_out,  # noqa: SLF001 - this module's own
    "zeros for all": Cluster._zeros,  # noqa: SLF001 - this module's own
    "zeros for one job": Cluster._zeros_of_one,  # noqa: SLF001 - this module's own
    "Prometheus down": Cluster._prometheus_down,  # noqa: SLF001 - this module's own
    "Prometheus slow": Cluster._prometheus_slow,  # noqa: SLF001 - this module's own
    "partial answers": Cluster._partial_answers,  # noqa: SLF001 - this module's own
    "samples that are no values": Cluster._no_values,  # noqa: SLF001 - this module's own
    "API errors": Cluster._api_fails,  # noqa: SLF001 - this module's own
    "API slow": Cluster._api_slow,  # noqa: SLF001 - this module's own
    "API conflicts": Cluster._api_busy,  # noqa: SLF001 - this module's own
    "watches late": Cluster._watches_late,  # noqa: SLF001 - this module's own
    "clock steps": Cluster._clock_steps,  # noqa: SLF001 - this module's own
    "controller killed": Cluster._killed,  # noqa: SLF001 - this module's own
    "two controllers": Cluster._two_at_once,  # noqa: SLF001 - this module's own
    "pods disturbed": Cluster._bad_luck,  # noqa: SLF001 - this module's own
}


def _finding(category: Category, confidence: Confidence = Confidence.LIKELY) -> Finding:
    return Finding(
        rule=RULES[category.value],
        category=category,
        severity=Severity.WARNING,
        confidence=confidence,
        detail="the GPUs have nothing to do",
        evidence="",
        fix="end the job",
        docs="",
        sources=(Source.METRICS,),
        gpu_hours_idle=1.0,
    )


def live(scenario: Scenario) -> Result:
    """The whole life of one cluster."""
    loop = VirtualTimeLoop()
    asyncio.set_event_loop(loop)
    gc.disable()  # what is long-lived is small, and a cluster's rubbish goes at its end
    try:
        return loop.run_until_complete(Cluster(scenario, loop).live())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()
        gc.collect()


__all__ = ["BEGINNING", "Cluster", "Kind", "Result", "Scenario", "live"]
