"""The audit: one line of JSON for each thing that reclaim said or did, on a logger of its own, and one count.

The lines go through the logger `stoker.audit`, which `stoker run` writes to standard output as they are, while all
other logging goes to standard error: docs/audit.md has the fields.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from stoker.adapters.clock import Clock
from stoker.api.meta import OWNER_LABEL, TEAM_LABEL
from stoker.cluster.recorder import UNMETERED, Meter
from stoker.findings.finding import rfc3339
from stoker.reclaim import Notice, NoticeReason

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
"""Stands where no policy decided: the owner's own word."""

Number = str | int | float
"""What a line's fields hold; times are RFC 3339 in UTC."""


class Audit:
    """Call it after what it tells of is written in the cluster, once: a crash in between loses the line, and never
    doubles it.
    """

    def __init__(self, clock: Clock, meter: Meter = UNMETERED) -> None:
        self._clock = clock
        self._meter = meter

    def of_job(self, raw: Mapping[str, Any], notice: Notice) -> None:
        """Something about a DLJob; `raw` is the object as it was written with it."""
        metadata, status = raw["metadata"], raw.get("status", {})
        labels, record = metadata.get("labels") or {}, status.get("reclaim", {})
        about = {
            "namespace": metadata["namespace"],
            "job": metadata["name"],
            "uid": metadata["uid"],
            "owner": labels.get(OWNER_LABEL),
            "team": labels.get(TEAM_LABEL),
            "gpus": status.get("gpus"),
            "policy": record.get("policy"),
        }
        numbers = {name: record[name] for name in RECORDED if name in record} | dict(notice.numbers)
        self._write(notice.reason, about | numbers, notice.message)

    def of_policy(
        self, policy: str, event: NoticeReason, message: str, numbers: Mapping[str, Number] | None = None
    ) -> None:
        """Something about all jobs under a policy, such as the brake; `policy` is its name or a revision. Call it after
        the policy's status is written.
        """
        self._write(event, {"policy": policy, **(numbers or {})}, message)

    def _write(self, event: NoticeReason, fields: Mapping[str, Any], message: str) -> None:
        policy = str(fields.get("policy") or NO_POLICY)
        self._meter.noticed(event.value, policy_name(policy))
        if event is NoticeReason.RECLAIMED:
            self._meter.freed(int(fields.get("gpus") or 0), policy_name(policy))
        line = {"time": rfc3339(self._clock.now()), "event": event.value, **fields, "message": message}
        logger.info("%s", json.dumps({name: value for name, value in line.items() if value is not None}))


def policy_name(revision: str) -> str:
    """The policy that counted, of `EffectivePolicy.revision`: research, of "default@3, research@7"."""
    return revision.rpartition(", ")[2].partition("@")[0]
