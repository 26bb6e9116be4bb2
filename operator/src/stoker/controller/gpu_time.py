"""GPU-hours by namespace, as counters that only grow."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from stoker.adapters.kubernetes.client import Object
from stoker.cluster.cache import Collection, Key
from stoker.findings.vocabulary import Category


class GpuState(StrEnum):
    """What a GPU-hour that a job held was."""

    USED = "used"
    IDLE = "idle"
    UNKNOWN = "unknown"
    """Without samples: neither used nor idle."""


LONGEST_HOLD = 87_660.0
"""Hours for which a job may have held a GPU: ten years, chosen because no job lasts that long. Stoker has not written
a status that says more, and one such number would spoil the sums over all namespaces.
"""
UNEXPLAINED = "Unexplained"
"""Stands for the category of idle hours that no finding claims."""
Share = tuple[GpuState, str]
"""A state, and of idle hours the category of the finding that claims them; else an empty text."""
SHARES: tuple[Share, ...] = (
    (GpuState.USED, ""),
    (GpuState.UNKNOWN, ""),
    *((GpuState.IDLE, category) for category in (*(one.value for one in Category), UNEXPLAINED)),
)


def split_hours(held: float, idle: float | None, coverage_percent: float) -> dict[GpuState, float]:
    """The GPU-hours that a job has `held` by what they were; `idle` None: not known of any."""
    if idle is None:
        return {GpuState.UNKNOWN: held}
    idle = min(idle, held)
    used = min(max(held * coverage_percent / 100 - idle, 0.0), held - idle)
    return {GpuState.USED: used, GpuState.IDLE: idle, GpuState.UNKNOWN: held - idle - used}


def gpus_of(dljob: Mapping[str, Any]) -> int:
    """The GPUs that a DLJob asks for."""
    spec = dljob["spec"]
    return int(spec.get("nodes", 1) * spec["gpusPerNode"])


def read_hours(written: object, gpus: int) -> float:
    """GPU-hours as a status has them, bounded by what this many GPUs can be held for; 0 for what is no number."""
    try:
        hours = float(str(written))
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(hours) else min(max(hours, 0.0), gpus * LONGEST_HOLD)


def written_hours(dljob: Mapping[str, Any]) -> dict[Share, float]:
    """The GPU-hours in a DLJob's status, idle ones by cause; together those that the job has held."""
    status = dljob.get("status", {})
    utilization = status.get("utilization", {})
    if "gpuHours" not in utilization:
        return {}
    gpus, idle = gpus_of(dljob), utilization.get("gpuHoursIdle")
    hours = split_hours(
        read_hours(utilization["gpuHours"], gpus),
        None if idle is None else read_hours(idle, gpus),
        min(max(utilization.get("coveragePercent", 0), 0), 100),
    )
    claimed: dict[str, float] = defaultdict(float)
    for finding in status.get("findings", ()):
        claimed[finding["category"]] += read_hours(finding.get("gpuHoursIdle", 0), gpus)
    lost, explained = hours.pop(GpuState.IDLE, 0.0), sum(claimed.values())
    # A finding that has closed may have claimed what another one claims now.
    scale = min(1.0, lost / explained) if explained else 0.0
    shares: dict[Share, float] = {(state, ""): amount for state, amount in hours.items()}
    shares |= {(GpuState.IDLE, category): amount * scale for category, amount in claimed.items()}
    shares[GpuState.IDLE, UNEXPLAINED] = max(lost - explained * scale, 0.0)
    return shares


class GpuTime:
    """Sums what the statuses of DLJobs say, from when it is made: what a status says by then counts as counted before.

    So a restart counts nothing twice, and what became known in between counts when it is written. A later examination
    may attribute hours to another cause: the sums are right in the end, and meanwhile none falls.
    """

    def __init__(self, dljobs: Collection, namespaces: Collection) -> None:
        """A namespace that goes takes its counters with it: their number is bounded by the cluster's."""
        self._known: dict[Key, tuple[str, Mapping[Share, float]]] = {}
        self._sums: dict[str, dict[Share, float]] = {}
        self._counted: dict[str, dict[Share, float]] = {}
        dljobs.follow(self._take)
        namespaces.follow(self._forget)

    def __iter__(self) -> Iterator[tuple[str, Share, float]]:
        """Namespace, share, GPU-hours; each namespace with every share, so that a counter's first step is seen."""
        for namespace, shares in list(self._counted.items()):
            for share, hours in list(shares.items()):
                yield namespace, share, hours

    def _forget(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._sums.pop(key.name, None)
            self._counted.pop(key.name, None)

    def _take(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._known.pop(key, None)
            return
        uid, hours = obj["metadata"]["uid"], written_hours(obj)
        known_uid, before = self._known.get(key, ("", {}))
        self._known[key] = (uid, hours)
        counted = self._counted.setdefault(key.namespace, dict.fromkeys(SHARES, 0.0))
        sums = self._sums.setdefault(key.namespace, dict.fromkeys(SHARES, 0.0))
        if known_uid == uid:
            for share in hours.keys() | before.keys():
                sums[share] += hours.get(share, 0.0) - before.get(share, 0.0)
                counted[share] = max(counted[share], sums[share])
