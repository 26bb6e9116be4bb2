"""Which decision of reclaim a line of the log or of the audit is about.

A decision begins with a warning: what follows from it (cancelled, checked again, reclaimed) has the same id. The id is
made of what the job's record holds (`status.reclaim.warnedAt`) and the job's uid, so that it survives a restart and
anybody can compute it.
"""

from datetime import datetime
from typing import Any

from stoker.findings.finding import rfc3339


def decision_id(uid: str, warned_at: datetime | str) -> str:
    """The id of the decision about the DLJob with this uid that began with the warning at this time."""
    return f"{uid}.{warned_at if isinstance(warned_at, str) else rfc3339(warned_at)}"


def about(namespace: str, name: str, uid: str, warned_at: datetime | None) -> dict[str, Any]:
    """The `extra` of a log line about a DLJob; `stoker run --log-format=json` writes its fields."""
    fields = {"namespace": namespace, "job": name, "uid": uid}
    if warned_at is not None:
        fields["decision"] = decision_id(uid, warned_at)
    return {"about": fields}
