"""Whether somebody works in a job's pods, by what the GPUs don't show."""

from collections.abc import Sequence

from stoker.adapters.kubernetes import Object
from stoker.models.dljob import DLJob
from stoker.reclaim import NOBODY, Presence


class Presences:
    """Reads the traces that people leave."""

    async def of(self, job: DLJob, pods: Sequence[Object]) -> Presence:
        """The latest trace of somebody in the job."""
        session = job.status.last_session if job.status is not None else None
        return NOBODY if session is None else Presence(last_seen=session, how="a session was opened")
