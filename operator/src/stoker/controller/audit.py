"""The audit: one line of JSON and one count for each reclaim event, on a logger of its own.

The lines go through the logger `stoker.audit`, which `stoker run` writes to standard output as they are, while all
other logging goes to standard error: docs/audit.md has the fields.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.adapters.clock import Clock
from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.controller.decision import decision_id
from stoker.findings.finding import rfc3339
from stoker.reclaim import Notice, NoticeReason, revisions_to_status

logger = logging.getLogger("stoker.audit")

RECORDED = (
    "idleSince",
    "warnedAt",
    "deadline",
    "action",
    "rule",
    "reclaimedAt",
    "resumedAt",
    "snoozedUntil",
    "snoozes",
)
"""What a line has from the job's record, as it was written with the event; the notice's own numbers come first."""
NO_POLICY = "none"
"""The metrics' label where no policy decided: the owner did."""

Number = str | int | float
"""What an event rested on; times are RFC 3339 in UTC."""


class Audit:
    """Call it once for each event, after the event is written in the cluster: a crash in between loses the line, and
    never doubles it.
    """

    def __init__(self, clock: Clock, recorder: MetricsRecorder = NO_RECORDER) -> None:
        self._clock = clock
        self._recorder = recorder

    def of_job(self, raw: Mapping[str, Any], notice: Notice) -> None:
        """An event of a DLJob; `raw` is the object as it was written with the event."""
        metadata, status = raw["metadata"], raw.get("status", {})
        labels, record = metadata.get("labels") or {}, status.get("reclaim", {})
        about = {
            "namespace": metadata["namespace"],
            "job": metadata["name"],
            "uid": metadata["uid"],
            "owner": labels.get(OWNER_LABEL),
            "team": labels.get(TEAM_LABEL),
            "gpus": status.get("gpus"),
        } | _policies(revisions_to_status(notice.policies) or record.get("policies", ()))
        numbers = {name: record[name] for name in RECORDED if name in record} | dict(notice.numbers)
        if "warnedAt" in numbers:
            about["decision"] = decision_id(metadata["uid"], str(numbers["warnedAt"]))
        self._write(notice.reason, about | numbers, notice.message)

    def of_policy(
        self, policy: str, event: NoticeReason, message: str, numbers: Mapping[str, Number] | None = None
    ) -> None:
        """An event of all jobs under a policy, such as the brake; `policy` is its name. Call it after the policy's
        status is written.
        """
        self._write(event, {"policy": policy, **(numbers or {})}, message)

    def _write(self, event: NoticeReason, fields: Mapping[str, Any], message: str) -> None:
        policy = str(fields.get("policy") or NO_POLICY)
        self._recorder.noticed(event.value, policy)
        if event is NoticeReason.RECLAIMED:
            self._recorder.freed(int(fields.get("gpus") or 0), policy)
        line = {"time": rfc3339(self._clock.now()), "event": event.value, **fields, "message": message}
        logger.info("%s", json.dumps({name: value for name, value in line.items() if value is not None}))


def _policies(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The policy that decided, and all that it was made of; none of both where no policy decided."""
    return {"policy": entries[-1]["name"], "policies": entries} if entries else {}
