"""Who is told of the work of the metrics' source, so that it can be measured itself."""

from typing import Protocol


class QueryObserver(Protocol):
    """Is told of every query, from whichever thread asked it."""

    def queried(self, kind: str, seconds: float, failure: str | None) -> None:
        """A query of this kind took so long; `failure` is why it has no answer (an UnknownReason), None if it has one.

        There are few kinds, and they are the source's own: none comes from a user.
        """
        ...
