"""Says of every action whether it was wrong, by what really was; it asks nothing of the code that it judges.

It sees each change at the moment at which the API server takes it, knows what every GPU did and which samples there
are, and keeps its own account of warnings. docs/safety.md has the definition in words.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.reclaim.server import ApiServer, Request
from benchmarks.reclaim.truth import DELAY, SCRAPE, Activity, Gaps
from benchmarks.reclaim.virtual_time import moment
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, PODS, POLICIES, Object, Resource
from stoker.api.duration import parse_duration
from stoker.api.names import RESUME_ANNOTATION, SNOOZE_ANNOTATION
from stoker.findings.finding import parse_time

LAST_CHECK = 20.0
"""Seconds before an action is sent within which its last check must lie: what can be known by then must be heeded."""
FRESH = 180.0
"""Seconds after which the last sample says nothing of now."""
CLOCKS = 180.0
"""By so much two clocks that count a window may differ: twice the adapter's tolerance, and a slow request."""
COVERAGE = 0.90
LONGEST_GAP = 600.0 + 30.0
"""Seconds without samples that end a window, and a scrape."""
UNNOTICED = 720.0
"""Seconds for which an outage that writes zeros cannot be told from work that ends: the brake goes by averages over ten
minutes, and is asked at each tick.
"""
SUSPENDED_BY = "stoker.dev/suspended-by"
DEFAULTS: dict[str, Any] = {
    "mode": "Observe",
    "idleAfter": "60m",
    "startupGrace": "30m",
    "warningGrace": "15m",
    "window": "1h",
    "maxJobsPerWindow": 5,
    "maxGPUPercentPerWindow": 10,
    "cooldownAfterResume": "1h",
    "maxSnooze": "24h",
}


class Suspect(Protocol):
    """What the judge must know of a job."""

    uid: str
    name: str
    activity: Activity
    gaps: Gaps
    zeros: Gaps
    """Times in which its exporters alone write 0 whatever its GPUs do."""
    began: float
    own_idle_after: float | None
    disturbed_at: float
    """When its pods have changed last."""
    uploads_until: float
    """Until then it sends its results, which no metric shows."""

    @property
    def keeps_results(self) -> bool:
        """Whether what it writes outlives its pods."""
        ...

    @property
    def gpus(self) -> int:
        """How many it holds."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether several pods share its GPUs."""
        ...

    @property
    def never(self) -> str | None:
        """Why it must never be reclaimed, whatever its GPUs do."""
        ...


class World(Protocol):
    """What the judge sees."""

    server: ApiServer
    total_gpus: int

    @property
    def gaps(self) -> Gaps:
        """Times without samples of any GPU."""
        ...

    @property
    def zeros(self) -> Gaps:
        """Times in which all exporters write 0 whatever the GPUs do."""
        ...

    @property
    def asker_behind(self) -> float:
        """How many seconds the clock of the one who asks for metrics is behind theirs."""
        ...

    def suspect(self, name: str) -> Suspect | None:
        """The living job of that name."""
        ...

    def busy_pods(self, name: str, job_uid: str) -> bool:
        """Whether some pod of that Job is not ready, or is going."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One action that should not have been."""

    at: float
    job: str
    why: str

    def __str__(self) -> str:
        return f"{moment(self.at):%Y-%m-%d %H:%M:%S} {self.job}: {self.why}"


@dataclass(slots=True)
class Warning_:  # noqa: N801 - Python has a Warning
    """A warning as the API server has it. `grants`: what the policy has granted since, and from when on."""

    key: str
    recorded: float
    grants: list[tuple[float, float]]
    pods: frozenset[str]
    job_uid: str | None

    def grace(self, by: float) -> float:
        """The longest that was granted by then, or when it was written."""
        return max(grace for since, grace in self.grants if since <= max(by, self.recorded))


@dataclass(slots=True)
class Judge:
    """Looks at every change; `wrong` and `races` are its verdicts."""

    world: World
    actions: int = 0
    races: int = 0
    hidden: Counter[str] = field(default_factory=Counter)
    """Actions after work of which every sample said that it was none, and nothing else could."""
    wrong: list[Wrong] = field(default_factory=list)
    _warnings: dict[str, Warning_] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _intents: dict[str, float] = field(default_factory=dict)
    _snoozed: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By the DLJob's uid: when the annotation was written, and until when it holds."""
    _resumed: dict[str, float] = field(default_factory=dict)
    _specs: list[tuple[float, dict[str, Any], list[Any]]] = field(default_factory=list)
    """The policy's settings and exemptions over time."""
    _taken: list[tuple[float, int, str]] = field(default_factory=list)

    def see(self, resource: Resource, before: Object | None, after: Object | None, request: Request, at: float) -> None:
        """One change."""
        if resource == DLJOBS:
            self._see_dljob(before, after, at)
        elif resource == POLICIES and after is not None:
            spec = after.get("spec", {})
            if not self._specs or self._specs[-1][1:] != (spec.get("reclaim", {}), spec.get("exemptions", [])):
                self._specs.append((at, spec.get("reclaim", {}), spec.get("exemptions", [])))
                for warning in self._warnings.values():
                    warning.grants.append((at, self._span("warningGrace")))
        elif resource == JOBS and before is not None and request.controller is not None:
            if after is None:
                self._action(before, request, at, mode="Delete")
            elif _is_suspension(before, after):
                self._action(before, request, at, mode="Suspend")

    # ------------------------------------------------------------------------------------------------------- accounts

    def _see_dljob(self, before: Object | None, after: Object | None, at: float) -> None:
        if after is None:
            return
        uid = after["metadata"]["uid"]
        notes = after["metadata"].get("annotations", {})
        old = (before or {}).get("metadata", {}).get("annotations", {})
        if notes.get(SNOOZE_ANNOTATION) != old.get(SNOOZE_ANNOTATION):
            until = parse_time(notes.get(SNOOZE_ANNOTATION))
            longest = at + self._span("maxSnooze")
            self._snoozed[uid] = (at, 0.0 if until is None else min(until.timestamp(), longest))
        if before is not None and notes.get(RESUME_ANNOTATION) != old.get(RESUME_ANNOTATION):
            self._resumed[uid] = at
        if before is not None and before["spec"].get("suspend") and not after["spec"].get("suspend"):
            self._resumed[uid] = at
        record = after.get("status", {}).get("reclaim", {})
        was = (before or {}).get("status", {}).get("reclaim", {})
        if record == was:
            return
        if record.get("state") == "Reclaiming" and record.get("warnedAt"):
            if was.get("state") != "Reclaiming":
                self._intents[uid] = at
        elif record.get("state") != "Reclaimed":
            self._intents.pop(uid, None)
        if "deadline" not in record or "warnedAt" not in record:
            self._warnings.pop(uid, None)
            return
        key = f"{uid} {record['warnedAt']}"
        known = self._warnings.get(uid)
        if known is None or known.key != key:
            self._warnings[uid] = Warning_(
                key=key,
                recorded=at,
                grants=[(at, self._span("warningGrace"))],
                pods=frozenset(record.get("podUIDs", ())),
                job_uid=record.get("jobUID"),
            )

    def _setting(self, name: str, at: float | None = None) -> Any:
        specs = [spec for since, spec, _ in self._specs if at is None or since <= at]
        return (specs[-1] if specs else {}).get(name, DEFAULTS[name])

    def _span(self, name: str, at: float | None = None) -> float:
        return parse_duration(self._setting(name, at)).total_seconds()

    # -------------------------------------------------------------------------------------------------------- verdict

    def _action(self, child: Object, request: Request, at: float, *, mode: str) -> None:
        self.actions += 1
        name = child["metadata"]["name"]
        job = self.world.suspect(name)
        dljob = self.world.server.peek(DLJOBS, child["metadata"]["namespace"], name)
        if (
            job is None
            or dljob is None
            or not any(owner["uid"] == dljob["metadata"]["uid"] for owner in child["metadata"]["ownerReferences"])
        ):
            self._say(at, name, "its DLJob is gone, or another one")
            return
        faults = [
            *self._without_warning(job, child, request.sent_at, at),
            *self._out_of_turn(job, dljob, child, request.sent_at, mode),
            *self._out_of_bounds(job, at),
            *self._while_in_use(job, request.sent_at),
        ]
        for why in faults:
            self._say(at, name, why)
        if not faults and self._returned(job, request.sent_at, at):
            self.races += 1
        elif not faults and (how := self._hidden(job, request.sent_at)) is not None:
            self.hidden[how] += 1
        warning = self._warnings.get(job.uid)
        if warning is not None:
            self._used.add(warning.key)
        self._taken.append((at, job.gpus, name))

    def _say(self, at: float, job: str, why: str) -> None:
        self.wrong.append(Wrong(at=at, job=job, why=why))

    def _without_warning(self, job: Suspect, child: Object, sent: float, at: float) -> list[str]:
        """What the warning and the intent lack."""
        warning = self._warnings.get(job.uid)
        if warning is None:
            return ["no warning is recorded"]
        faults = []
        if warning.key in self._used:
            faults.append("done already for this warning")
        if at - warning.recorded < (grace := warning.grace(sent - LAST_CHECK)):
            faults.append(f"{at - warning.recorded:.0f} s after its warning, granted were {grace:.0f} s")
        live = {
            pod["metadata"]["uid"]
            for pod in self.world.server.list(PODS, None, f"stoker.dev/dljob={job.name}", None)[0]
            if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        }
        if warning.job_uid != child["metadata"]["uid"] or (live != warning.pods and not self._just_now(job, sent)):
            faults.append("not the pods that were warned of")
        if job.uid not in self._intents:
            faults.append("no intent is recorded")
        return faults

    def _out_of_turn(self, job: Suspect, dljob: Object, child: Object, sent: float, mode: str) -> list[str]:
        """What the owner or the administrator had said before the intent was recorded."""
        intent = self._intents.get(job.uid, sent)
        faults = []
        if job.never is not None:
            faults.append(f"never to be reclaimed: {job.never}")
        if not job.keeps_results:
            faults.append("its results were only in its containers")
        if sent < job.uploads_until:
            faults.append("it was uploading its results")
        if job.is_shared:
            faults.append("its GPUs are shared")
        said, until = self._snoozed.get(job.uid, (intent, 0.0))
        if said < intent and sent < until - CLOCKS:
            faults.append("it is snoozed")
        resumed = self._resumed.get(job.uid, 0.0)
        if resumed < intent and sent < resumed + self._span("cooldownAfterResume") - CLOCKS:
            faults.append("it was resumed just before")
        if dljob["spec"].get("suspend"):
            faults.append("its owner has suspended it")
        asked = self._setting("mode", intent - LAST_CHECK)
        if mode != asked and mode != self._setting("mode") and not (mode == "Suspend" and asked == "Delete"):
            faults.append(f"the policy's mode is {asked}")
        exemptions = [rules for since, _, rules in self._specs if since <= intent - LAST_CHECK]
        ends = [parse_time(one["until"]) for one in exemptions[-1]] if exemptions else []
        if self._specs[-1][2] and any(end is not None and end.timestamp() > sent + CLOCKS for end in ends):
            faults.append("it is exempt")
        if self.world.busy_pods(job.name, child["metadata"]["uid"]) and not self._just_now(job, sent):
            faults.append("not all its pods are ready")
        return faults

    def _just_now(self, job: Suspect, sent: float) -> bool:
        """Whether its pods have changed later than the last check need lie."""
        return job.disturbed_at > sent - LAST_CHECK

    def _out_of_bounds(self, job: Suspect, at: float) -> list[str]:
        start = at - self._span("window") + CLOCKS
        self._taken = [one for one in self._taken if one[0] > at - 24 * 3600]
        recent = [one for one in self._taken if one[0] > start]
        faults = []
        jobs, percent = self._setting("maxJobsPerWindow"), self._setting("maxGPUPercentPerWindow")
        if len(recent) >= jobs and len(recent) >= self._setting("maxJobsPerWindow", start):
            faults.append(f"beyond the bound of {jobs} jobs")
        gpus = job.gpus + sum(one[1] for one in recent)
        most = max(percent, self._setting("maxGPUPercentPerWindow", start))
        if recent and gpus * 100 > most * self.world.total_gpus:
            faults.append(f"beyond the bound of {most} % of {self.world.total_gpus} GPUs: {gpus}")
        return faults

    def _while_in_use(self, job: Suspect, sent: float) -> list[str]:
        """What the samples that were there at the last check say, if all of them are read."""
        check, idle_after, gaps = self._last_check(sent), self._idle_after(job, sent), self.world.gaps
        faults = []
        shown = self._shown(job, sent, lambda at: gaps.has(at) or self._is_hidden(job, sent, at))
        if shown is not None:
            faults.append(f"its GPUs worked at {moment(shown):%H:%M:%S}")
        since = check - min(self._span("startupGrace"), self._span("startupGrace", check)) - idle_after + CLOCKS
        if job.began > since:
            faults.append(f"it started at {moment(job.began):%H:%M:%S}")
        missing = gaps.within(check - idle_after, check) + job.gaps.within(check - idle_after, check)
        if missing > (1 - COVERAGE) * idle_after + CLOCKS:
            faults.append(f"{missing:.0f} s of {idle_after:.0f} s have no samples")
        longest = max(one.longest(check - idle_after + CLOCKS, check) for one in (gaps, job.gaps))
        if longest > LONGEST_GAP:
            faults.append(f"of {idle_after:.0f} s {longest:.0f} s in a row have no samples")
        last = max(gaps.last(check), job.gaps.last(check))
        silent = check if gaps.has(check) or job.gaps.has(check) else 0.0
        start = check - FRESH - SCRAPE
        if silent and gaps.within(start, check) + job.gaps.within(start, check) > FRESH:
            faults.append(f"no samples since {moment(last):%H:%M:%S}")
        return faults

    def _last_check(self, sent: float) -> float:
        return sent - LAST_CHECK - DELAY - max(self.world.asker_behind, 0.0)

    def _idle_after(self, job: Suspect, sent: float) -> float:
        if job.own_idle_after is not None:
            return job.own_idle_after
        return min(self._span("idleAfter", self._last_check(sent)), self._span("idleAfter"))

    def _shown(self, job: Suspect, sent: float, hidden: Callable[[float], bool]) -> float | None:
        """When work showed last within idleAfter before the last check."""
        check = self._last_check(sent)
        return job.activity.worked_in(check - self._idle_after(job, sent) + CLOCKS, check, job.gpus, hidden)

    def _is_hidden(self, job: Suspect, sent: float, at: float) -> bool:
        """Whether nobody who has only metrics can know what a sample hides: no other exporter says anything else, or
        all have written zeros for too short a time.
        """
        return job.zeros.has(at) or (self.world.zeros.start_of(at) or 0.0) > sent - UNNOTICED

    def _hidden(self, job: Suspect, sent: float) -> str | None:
        """What hid work from every check, of an action that would be wrong without."""
        shown = self._shown(job, sent, self.world.gaps.has)
        if shown is None:
            return None
        return "zeros of its own exporters" if job.zeros.has(shown) else "zeros of all exporters, not yet noticed"

    def _returned(self, job: Suspect, sent: float, at: float) -> bool:
        """Whether its GPUs worked at the action, or just before: later than any last check could tell."""
        check = self._last_check(sent)
        return (
            self._just_now(job, sent)
            or job.activity.works_at(at)
            or job.activity.worked_in(check, at, job.gpus, self.world.gaps.has) is not None
        )


def _is_suspension(before: Object, after: Object) -> bool:
    by = after["metadata"].get("annotations", {}).get(SUSPENDED_BY)
    return bool(after["spec"].get("suspend")) and not before["spec"].get("suspend") and by == "reclaim"
