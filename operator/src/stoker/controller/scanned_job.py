"""What the scan reads of a job, whichever kind of object it is: `ScannedJob`, and the source that it comes from.

Used by scan.py. The DLJobs' source is scanned_dljobs.py.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.adapters.kubernetes.client import Object
from stoker.api.status import WorkloadStatus
from stoker.cluster.cache import Key
from stoker.diagnosis.idleness import screen_request
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import ReclaimState
from stoker.policy.effective import EffectivePolicy
from stoker.telemetry.screen import ScreenRequest
from stoker.telemetry.series import JobFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedJob:
    """One job that a tick screens, as read from its objects.

    status: as it is written; None before the first write. window: how long all GPUs must rest for the job to be idle
    (its idleAfter). serves: it answers requests, so it may be idle at night, and is never reclaimed. is_final: the job
    is over and waits for its final examination. ended_at: when it ended.
    """

    key: Key
    uid: str
    gpus: int
    status: WorkloadStatus | None
    facts: JobFacts
    policy: EffectivePolicy
    window: timedelta
    serves: bool
    is_final: bool
    ended_at: datetime | None = None

    def __str__(self) -> str:
        return str(self.key)

    def screen_request(self, now: datetime) -> ScreenRequest:
        """The job's part of the screen at `now`."""
        return screen_request(self.facts, window=self.window, idle_percent=self.policy.thresholds.idle_percent, now=now)

    @property
    def is_being_reclaimed(self) -> bool:
        """Whether Stoker is reclaiming its GPUs or has reclaimed them."""
        reclaim = self.status.reclaim if self.status is not None else None
        return reclaim is not None and reclaim.state in {ReclaimState.RECLAIMING, ReclaimState.RECLAIMED}

    @property
    def is_warned(self) -> bool:
        """Whether its owner was warned of a reclaim, with a deadline."""
        reclaim = self.status.reclaim if self.status is not None else None
        return reclaim is not None and reclaim.deadline is not None

    @property
    def starts(self) -> Iterator[datetime]:
        """The known start times of its containers."""
        for pod in (*self.facts.pods, *self.facts.former_pods):
            starts = (*(attempt.started_at for attempt in pod.attempts), pod.started_at)
            yield from (start for start in starts if start is not None)


class ScanSource(Protocol):
    """The jobs of one kind of object. Every method is called by the scan only."""

    def objects(self) -> Iterable[tuple[Key, Object]]:
        """All objects of the kind as the cache has them."""
        ...

    def keep_only(self, uids: Set[str]) -> None:
        """Forget what is remembered of all other objects."""
        ...

    def read(self, key: Key, raw: Object, now: datetime) -> ScannedJob | None:
        """The job of an object; None where it is not to be scanned. The same object again while nothing that it was
        read from has changed. Raises any exception that malformed objects cause; the caller catches it.
        """
        ...

    async def settle(self) -> bool:
        """Wait for manifests that are being read; True if any was, so that the jobs are to be read again."""
        ...

    async def manifest_findings(self, job: ScannedJob) -> Sequence[Finding]:
        """What the review of the job's manifest found. Raises Transient where it can't be reviewed now."""
        ...

    def queue(self, key: Key) -> None:
        """Have the object reconciled."""
        ...
