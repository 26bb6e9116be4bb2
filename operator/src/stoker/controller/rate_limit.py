"""Limits the notifications under a policy to `maxPerHour`, shared fairly among its namespaces. Used by the notifier."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)
OWN_SHARE = 10
"""A tenth of the policy's notifications, one at least, is each namespace's own: so many warnings of its jobs are always
sent, however many notifications about others were. Chosen so that ten namespaces can each be heard.
"""


@dataclass(frozen=True, slots=True, order=True)
class Sent:
    """A notification that was sent; `is_warning`: it was about a warning, while its job could still be kept."""

    at: datetime
    namespace: str
    is_warning: bool


class LastHour:
    """The notifications of the last hour under one policy."""

    def __init__(self, sent: Iterable[Sent] = ()) -> None:
        self._sent = deque(sorted(sent))

    def has_room(self, namespace: str, most: int, now: datetime, *, is_warning: bool) -> bool:
        """Whether a notification about this namespace may be sent, where the policy allows `most` an hour."""
        while self._sent and now - self._sent[0].at >= HOUR:
            self._sent.popleft()
        if len(self._sent) < most:
            return True
        own = sum(one.is_warning and one.namespace == namespace for one in self._sent)
        return is_warning and own < max(1, most // OWN_SHARE)

    def add(self, sent: Sent) -> None:
        """Count one."""
        self._sent.append(sent)

    def remove(self, sent: Sent) -> None:
        """Uncount one that no address took."""
        self._sent.remove(sent)


__all__ = ["HOUR", "LastHour", "Sent"]
