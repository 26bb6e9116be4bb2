"""Scenarios: what a simulated program does on its GPUs, CPUs and network, second by second.

A scenario is YAML in the pod's annotation `e2e.stoker.dev/scenario`:

    seed: 7                 # of the noise (default 0); the pod's index in its Job is added
    noise: 3                # standard deviation in percent (default 2)
    phases:
    - {for: 12m, cpu: 1.5, netRx: 40MB/s}                       # installs and loads: the GPUs are at rest
    - repeat: 20                                                # `forever`, or how often
      phases:
      - {for: 10m, util: 92, memory: 70%, rx: 800MB/s, cpu: 6}
      - {for: 1m, util: 35, memory: 70%, cpu: 1}
    - {util: 0, memory: 70%}                                    # holds on to the GPUs; the last phase never ends

Keys of a phase: `for` (such as 90s, 1h30m; may be absent in the last phase) and

===========  ============================================  ===========================================================
of each GPU  `util`, `encoder`, `decoder`                  percent of the time that it is busy
             `memory`                                      MiB, a size (`40GiB`), or percent of the GPU's
             `tensor`, `dram`                              percent of the time that tensor cores and memory are busy
             `rx`, `tx`                                    PCIe traffic, host to GPU and back, bytes a second
             `power`                                       watts
             `engine`                                      percent of the time that the graphics engine is busy
             `xid`                                         the number of the last error
             `export`                                      `values`, `nan`, `driver` or `nothing`: what the exporter
                                                           makes of it
of the pod   `cpu`                                         cores
             `rss`                                         bytes of memory
             `netRx`, `netTx`, `diskRead`, `diskWrite`     bytes a second
of some      `gpus: {"4-7": {...}, "0,2": {...}}`          other values for some GPUs of the pod
             `ranks: {"1-3": {...}}`                       other values (`gpus` too) for the pods with these indices
===========  ============================================  ===========================================================

A phase says all: nothing carries over from the one before. What it leaves out is what a plausible training program
would show at this `util`: memory 60 % when busy, none at 0; the engine, tensor and memory activity, PCIe traffic and
power in proportion; a core and a few GiB. At `util: 0` with `memory` the GPU has a CUDA context and its power at rest.

The end of the last phase does not end the program: its values stay.

With `clock: -5m` beside `phases` the GPUs' samples carry times of a clock that is five minutes behind.

Instead of phases, `simulate: {case: checkpoint-remote, seed: 7}` plays a job of the physical simulator (simulator/),
each pod its rank's part; the Job must have that job's pods and GPUs.

Everything is a pure function of the scenario, the seed and the seconds since the container's start, with its exact
integral: counters, and means over an interval as the PROF metrics are.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

import yaml

from e2e.telemetry.products import Product
from e2e.telemetry.samples import Export, GpuSample, PodSample, Program, ScenarioError, idle_gpu
from e2e.telemetry.simulated import SimulatedProgram, simulated

GPU_KEYS = ("util", "memory", "tensor", "dram", "rx", "tx", "power", "encoder", "decoder", "xid", "engine", "export")
POD_KEYS = ("cpu", "rss", "netRx", "netTx", "diskRead", "diskWrite")
_EXPORTS = tuple(Export)
_PERCENTS = frozenset({"util", "tensor", "dram", "encoder", "decoder"})
_STRUCTURE = frozenset({"for", "repeat", "phases", "gpus", "ranks"})
_SIZE = re.compile(r"([0-9.]+)\s*([kKMGT]i?)?B?(?:/s)?")
_UNITS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DURATION = re.compile(r"([0-9.]+)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MIB = 2**20


# ------------------------------------------------------------------------------------------------------------ timelines

_Vector = tuple[float, ...]


class _Timeline:
    """A vector of values over time: constant in phases, phases in loops.

    `value(t)` at a time, `integral(t)` from 0 to then, for t in 0..duration; the last value stays after that.
    """

    duration: float

    def value(self, t: float) -> _Vector:
        raise NotImplementedError

    def integral(self, t: float) -> _Vector:
        raise NotImplementedError


class _Constant(_Timeline):
    def __init__(self, vector: _Vector, duration: float) -> None:
        self._vector, self.duration = vector, duration

    def value(self, t: float) -> _Vector:
        return self._vector

    def integral(self, t: float) -> _Vector:
        return tuple(value * t for value in self._vector)


class _Sequence(_Timeline):
    def __init__(self, parts: Sequence[_Timeline]) -> None:
        self._parts = parts
        self._starts = [0.0, *accumulate(part.duration for part in parts[:-1])]
        self.duration = self._starts[-1] + parts[-1].duration
        wholes = [part.integral(part.duration) for part in parts[:-1]]
        zero = (0.0,) * len(parts[0].value(0))
        self._before = list(accumulate(wholes, _add, initial=zero))

    def _part(self, t: float) -> int:
        return min(bisect_right(self._starts, t), len(self._parts)) - 1

    def value(self, t: float) -> _Vector:
        index = self._part(t)
        return self._parts[index].value(t - self._starts[index])

    def integral(self, t: float) -> _Vector:
        index = self._part(t)
        return _add(self._before[index], self._parts[index].integral(t - self._starts[index]))


class _Loop(_Timeline):
    def __init__(self, body: _Timeline, times: float) -> None:
        self._body = body
        self._times = times
        self.duration = body.duration * times
        self._once = body.integral(body.duration)

    def _split(self, t: float) -> tuple[float, float]:
        rounds, rest = divmod(t, self._body.duration)
        if rounds >= self._times:
            return self._times - 1, t - (self._times - 1) * self._body.duration
        return rounds, rest

    def value(self, t: float) -> _Vector:
        return self._body.value(self._split(t)[1])

    def integral(self, t: float) -> _Vector:
        rounds, rest = self._split(t)
        return _add(tuple(value * rounds for value in self._once), self._body.integral(rest))


def _add(one: _Vector, other: _Vector) -> _Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


# ------------------------------------------------------------------------------------------------------------- playing


class PhasedProgram:
    """A scenario's phases on one pod: its rank, its GPUs, their model."""

    def __init__(
        self,
        pod: _Timeline,
        gpus: Sequence[_Timeline],
        product: Product,
        seed: int,
        *,
        noise: float,
        clock: float,
    ) -> None:
        self._pod, self._gpus = pod, gpus
        self._product, self._seed, self._noise = product, seed, noise / 100
        self.clock = clock

    def gpu(self, index: int, t: float, interval: float = 30.0) -> GpuSample:
        """The pod's GPU `index` at `t` seconds after the container's start.

        `util`, `encoder` and `decoder` are means over the last second, `engine`, `tensor`, `dram`, `rx`, `tx` over the
        last `interval` seconds, as the driver and the profiling module give them. Before the start it is at rest.
        """
        product = self._product
        timeline = self._gpus[index]
        if t < 0:
            return replace(idle_gpu(product), export=_EXPORTS[int(timeline.value(0)[11])])
        now = timeline.integral(t)
        last_second = self._mean(timeline, now, t, 1.0)
        mean = self._mean(timeline, now, t, interval)
        level = timeline.value(t)
        noise = self._gauss(index, t)
        factor = max(0.0, 1 + noise)
        util = last_second[0]
        if 0 < util < 100:
            util = min(100.0, max(1.0, util + 100 * noise))
        # what is at rest is exactly at rest; only activity is noisy, and only means over an interval carry its past
        active = factor if mean[0] > 0 or mean[10] > 0 else 1.0
        power = level[6] * factor if level[0] > 0 else level[6]
        return GpuSample(
            util=util,
            engine=min(1.0, mean[10] / 100 * active),
            memory=min(level[1], product.memory),
            tensor=min(1.0, mean[2] / 100 * active),
            dram=min(1.0, mean[3] / 100 * active),
            rx=mean[4] * active,
            tx=mean[5] * active,
            power=min(power, product.limit),
            encoder=last_second[7],
            decoder=last_second[8],
            xid=level[9],
            energy=now[6],
            export=_EXPORTS[int(level[11])],
        )

    def pod(self, t: float) -> PodSample:
        """The pod at `t` seconds after the container's start."""
        if t < 0:
            return PodSample(cpu=0, rss=0, net_rx=0, net_tx=0, disk_read=0, disk_write=0)
        total, level = self._pod.integral(t), self._pod.value(t)
        return PodSample(
            cpu=total[0], rss=level[1], net_rx=total[2], net_tx=total[3], disk_read=total[4], disk_write=total[5]
        )

    @staticmethod
    def _mean(timeline: _Timeline, now: _Vector, t: float, interval: float) -> _Vector:
        """Mean over the last `interval` seconds; before the start there was nothing."""
        if t <= 0:
            return (0.0,) * len(now)
        if t <= interval:
            return tuple(value / interval for value in now)
        return tuple((a - b) / interval for a, b in zip(now, timeline.integral(t - interval), strict=True))

    def _gauss(self, index: int, t: float) -> float:
        """Noise of this GPU in this second: deterministic, roughly normal, at most three deviations."""
        if not self._noise:
            return 0.0
        bits = _mix(_mix(self._seed * 1009 + index) + int(t))
        uniform = ((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48 & 0xFFFF)) / 0x20000
        return max(-3.0, min(3.0, (uniform - 1) * math.sqrt(12))) * self._noise


def _mix(value: int) -> int:
    """splitmix64: 64 well-mixed bits of an integer."""
    value = (value + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return value ^ value >> 31


# ------------------------------------------------------------------------------------------------------------- reading


class Scenario:
    """A scenario that has been read; `play` puts it on a pod."""

    def __init__(self, text: str) -> None:
        """Read YAML text. Raises ScenarioError."""
        try:
            document = yaml.safe_load(text) if text.strip() else None
        except yaml.YAMLError as error:
            raise ScenarioError(f"scenario: not YAML: {error}") from error
        if document is None:
            document = {"phases": [{}]}
        if isinstance(document, list):
            document = {"phases": document}
        self._simulated = _simulated(document["simulate"]) if "simulate" in document else None
        _only(document, {"simulate"} if self._simulated else {"seed", "noise", "clock", "phases"}, "scenario")
        self._seed = int(_number(document.get("seed", 0), "seed"))
        self._noise = _number(document.get("noise", 2), "noise")
        self._clock = _ahead(document.get("clock", 0))
        self._phases = document.get("phases", [{}])
        if self._simulated:
            return
        # all places that can be wrong are seen by reading it for one pod of each rank that it names
        ranks = {0} | {rank for phase in _all_phases(self._phases, "phases") for rank in _named_ranks(phase)}
        for rank in ranks:
            self.play(rank=rank, gpus=1, product=Product(memory=1, idle=1, context=1, limit=1, clock=1))

    def play(self, *, rank: int, gpus: int, product: Product) -> Program:
        """This scenario on the pod with index `rank` and that many GPUs. Raises ScenarioError for a simulated job that
        has no such pod.
        """
        if self._simulated:
            case, seed = self._simulated
            return SimulatedProgram(case, seed, rank=rank, gpus=gpus, product=product)
        pod = _timeline(self._phases, "phases", lambda phase, place: _pod_vector(phase, rank, place))
        tracks: dict[int, _Timeline] = {}
        for index in range(gpus):
            tracks[index] = _timeline(
                self._phases,
                "phases",
                lambda phase, place, index=index: _gpu_vector(phase, rank, index, product, place),
            )
        shown = [tracks[index] for index in range(gpus)]
        return PhasedProgram(pod, shown, product, self._seed + rank, noise=self._noise, clock=self._clock)


def duration(text: object, place: str = "duration") -> float:
    """Seconds of `90s`, `1h30m`, `250ms`, or of a number. Raises ScenarioError."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    parts = _DURATION.findall(str(text))
    if not parts or "".join(number + unit for number, unit in parts) != str(text):
        raise ScenarioError(f"{place}: {text!r} is not a duration such as 90s or 1h30m")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _ahead(value: object) -> float:
    """Seconds of `5m`, or of `-5m`."""
    text = str(value)
    return -duration(text[1:], "clock") if text.startswith("-") else duration(value, "clock")


def _simulated(value: object) -> tuple[str, int]:
    """Case and seed of `{case: NAME, seed: NUMBER}`."""
    if not isinstance(value, Mapping):
        raise ScenarioError(f"simulate: {value!r} is not a mapping")
    _only(value, {"case", "seed"}, "simulate")
    case, seed = str(value.get("case")), int(_number(value.get("seed", 0), "simulate.seed"))
    simulated(case, seed)
    return case, seed


def _timeline(phases: object, place: str, vector: "Any") -> _Timeline:
    if not isinstance(phases, list) or not phases:
        raise ScenarioError(f"{place}: {phases!r} is not a list of phases")
    parts: list[_Timeline] = []
    for number, phase in enumerate(phases):
        here = f"{place}[{number}]"
        last = number == len(phases) - 1
        _only(phase, {*_STRUCTURE, *GPU_KEYS, *POD_KEYS}, here)
        if "repeat" in phase:
            _only(phase, {"repeat", "phases"}, here)
            times = math.inf if phase["repeat"] == "forever" else _number(phase["repeat"], f"{here}.repeat")
            body = _timeline(phase.get("phases"), f"{here}.phases", vector)
            if not 0 < body.duration < math.inf:
                raise ScenarioError(f"{here}.phases: what repeats needs a `for` in each of its phases")
            if times < 1 or (times == math.inf and not last):
                raise ScenarioError(f"{here}.repeat: {phase['repeat']!r} is not a count (or `forever`, at the end)")
            parts.append(_Loop(body, times))
            continue
        if "for" not in phase and not last:
            raise ScenarioError(f"{here}: only the last phase may lack `for`")
        seconds = duration(phase["for"], f"{here}.for") if "for" in phase else math.inf
        parts.append(_Constant(vector(phase, here), seconds))
    return parts[0] if len(parts) == 1 else _Sequence(parts)


def _values(phase: Mapping[str, Any], rank: int, place: str) -> dict[str, Any]:
    values = dict(phase)
    for selector, override in dict(phase.get("ranks") or {}).items():
        _only(override, {*GPU_KEYS, *POD_KEYS, "gpus"}, f"{place}.ranks[{selector}]")
        if rank in _indices(selector, f"{place}.ranks"):
            values |= override
    return values


def _pod_vector(phase: Mapping[str, Any], rank: int, place: str) -> _Vector:
    values = _values(phase, rank, place)
    busy = _percent(values.get("util", 0), f"{place}.util") > 0
    defaults = {"cpu": 1.0 if busy else 0.02, "rss": 8 * 2**30 if busy else 2**30}
    defaults |= {"netRx": 2e3, "netTx": 2e3, "diskRead": 0.0, "diskWrite": 0.0}
    return tuple(_size(values.get(key, defaults[key]), f"{place}.{key}") for key in POD_KEYS)


def _gpu_vector(phase: Mapping[str, Any], rank: int, index: int, product: Product, place: str) -> _Vector:
    values = _values(phase, rank, place)
    for selector, override in dict(values.get("gpus") or {}).items():
        _only(override, set(GPU_KEYS), f"{place}.gpus[{selector}]")
        if index in _indices(selector, f"{place}.gpus"):
            values |= override
    util = _percent(values.get("util", 0), f"{place}.util")
    memory = _memory(values.get("memory", "60%" if util else 0), product, f"{place}.memory")
    tensor = _percent(values.get("tensor", 0.35 * util), f"{place}.tensor")
    dram = _percent(values.get("dram", 0.3 * util), f"{place}.dram")
    load = min(1.0, 0.35 * util / 100 + 0.7 * tensor / 100 + 0.4 * dram / 100)
    rest = product.context if memory or util else product.idle
    vector = {
        "util": util,
        "memory": memory,
        "tensor": tensor,
        "dram": dram,
        "rx": _size(values.get("rx", 3e6 * util), f"{place}.rx"),
        "tx": _size(values.get("tx", 1e6 * util), f"{place}.tx"),
        "power": _number(values.get("power", rest + (product.limit - rest) * load), f"{place}.power"),
        "encoder": _percent(values.get("encoder", 0), f"{place}.encoder"),
        "decoder": _percent(values.get("decoder", 0), f"{place}.decoder"),
        "xid": _number(values.get("xid", 0), f"{place}.xid"),
        "engine": _percent(values.get("engine", util), f"{place}.engine"),
        "export": float(_export(values.get("export", Export.VALUES), f"{place}.export")),
    }
    return tuple(vector[key] for key in GPU_KEYS)


def _all_phases(phases: object, place: str) -> list[Mapping[str, Any]]:
    if not isinstance(phases, list):
        raise ScenarioError(f"{place}: {phases!r} is not a list of phases")
    found: list[Mapping[str, Any]] = []
    for number, phase in enumerate(phases):
        if not isinstance(phase, Mapping):
            raise ScenarioError(f"{place}[{number}]: {phase!r} is not a phase")
        found += _all_phases(phase["phases"], f"{place}[{number}].phases") if "phases" in phase else [phase]
    return found


def _named_ranks(phase: Mapping[str, Any]) -> set[int]:
    selectors = phase.get("ranks") or {}
    if not isinstance(selectors, Mapping):
        raise ScenarioError(f"ranks: {selectors!r} is not a mapping")
    return {rank for selector in selectors for rank in _indices(selector, "ranks")}


def _indices(selector: object, place: str) -> set[int]:
    """The numbers that `4-7`, `0,2` or `3` stand for."""
    found: set[int] = set()
    for part in str(selector).split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise ScenarioError(f"{place}: {selector!r} is not a set of indices such as 4-7 or 0,2")
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _only(value: object, allowed: "set[str] | frozenset[str]", place: str) -> None:
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{place}: {value!r} is not a mapping")
    unknown = [str(key) for key in value if key not in allowed]
    if unknown:
        raise ScenarioError(f"{place}: unknown {', '.join(unknown)}; allowed are {', '.join(sorted(allowed))}")


def _number(value: object, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ScenarioError(f"{place}: {value!r} is not a number")


def _percent(value: object, place: str) -> float:
    text = value[:-1] if isinstance(value, str) and value.endswith("%") else value
    try:
        number = float(cast("str", text))
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 100:
        raise ScenarioError(f"{place}: {value!r} is not a percentage from 0 to 100")
    return number


def _size(value: object, place: str) -> float:
    """A number, or one with a unit: 800MB/s, 40GiB."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise ScenarioError(f"{place}: {value!r} is not a size or rate such as 40GiB or 800MB/s")
    return float(match[1]) * _UNITS[match[2] or ""]


def _export(value: object, place: str) -> int:
    """The place of the word in _EXPORTS."""
    if not isinstance(value, str) or value not in _EXPORTS:
        raise ScenarioError(f"{place}: {value!r} is not one of {', '.join(_EXPORTS)}")
    return _EXPORTS.index(Export(value))


def _memory(value: object, product: Product, place: str) -> float:
    """MiB of `70%`, `40GiB` or a plain number of MiB."""
    if isinstance(value, str) and value.endswith("%"):
        return round(_percent(value, place) / 100 * product.memory)
    if isinstance(value, str):
        return round(_size(value, place) / _MIB)
    return _number(value, place)
