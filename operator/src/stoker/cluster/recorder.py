"""What the controller tells of its own work."""

from typing import Protocol


class MetricsRecorder(Protocol):
    """Counts what the controller does. All values are of small, fixed sets."""

    def ticked(self, seconds: float, *, failed: bool) -> None:
        """A look at the metrics has ended."""
        ...

    def faulted(self, place: str) -> None:
        """An object was left out of a scan, a pass, or whatever `place` names, by a fault of Stoker's."""
        ...

    def examined(self, result: str) -> None:
        """A job's series were to be read in full: done, unavailable (the metrics), or failed (a fault of ours)."""
        ...

    def wrote(self, result: str) -> None:
        """A DLJob's status was to be written: done, conflict (it had changed meanwhile), or failed."""
        ...

    def noticed(self, event: str, policy: str) -> None:
        """Reclaim did or said something: a NoticeReason, under the policy of that name."""
        ...

    def freed(self, gpus: int, policy: str) -> None:
        """A reclaimed job's GPUs are free."""
        ...

    def notified(self, event: str, result: str) -> None:
        """A message (a NotificationEvent) was sent, put off to the digest, given up, or had nobody to go to."""
        ...


class _NoRecorder:
    def ticked(self, seconds: float, *, failed: bool) -> None:
        pass

    def faulted(self, place: str) -> None:
        pass

    def examined(self, result: str) -> None:
        pass

    def wrote(self, result: str) -> None:
        pass

    def noticed(self, event: str, policy: str) -> None:
        pass

    def freed(self, gpus: int, policy: str) -> None:
        pass

    def notified(self, event: str, result: str) -> None:
        pass


NO_RECORDER: MetricsRecorder = _NoRecorder()
"""Counts nothing."""
