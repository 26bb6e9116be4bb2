"""The interface by which the controller counts its own work. controller/metrics.py exports the counts to Prometheus."""

from typing import Protocol


class MetricsRecorder(Protocol):
    """Counts what the controller does. All texts come from small, fixed sets, since they become labels of metrics."""

    def ticked(self, seconds: float, *, failed: bool) -> None:
        """A tick of the scan has ended after `seconds`."""
        ...

    def faulted(self, place: str) -> None:
        """An object was left out at `place` (a scan, a reconcile, ...) because of an internal error."""
        ...

    def examined(self, result: str) -> None:
        """An examination has ended: done, unavailable (the metrics), or failed (an internal error)."""
        ...

    def wrote(self, result: str) -> None:
        """A write of a DLJob's status has ended: done, conflict (the DLJob had changed), or failed."""
        ...

    def noticed(self, event: str, policy: str) -> None:
        """Reclaim has issued a notice; `event` is its NoticeReason, `policy` the name of the policy."""
        ...

    def freed(self, gpus: int, policy: str) -> None:
        """A reclaim under this policy has freed so many GPUs."""
        ...

    def notified(self, event: str, result: str) -> None:
        """A notification has got its result; `event` is a NotificationEvent, `result` a NotificationResult in lower
        case.
        """
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
"""A recorder that counts nothing."""
