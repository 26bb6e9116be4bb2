"""JSON, version 1: docs/schemas/doctor-v1.json is its schema."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stoker.findings.finding import rfc3339
from stoker.findings.json_document import write_json
from stoker.inspection.doctor.check import Status
from stoker.inspection.doctor.examination import Checked

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it, a new field doesn't."""
STATUSES = {
    Status.OK: "Ok",
    Status.WARNING: "Warning",
    Status.FAILED: "Failed",
    Status.NOT_CHECKED: "NotChecked",
}


def render(checked: Sequence[Checked], now: datetime) -> str:
    """All checks, in their order."""
    return write_json({"version": VERSION, "asOf": rfc3339(now), "checks": [_check(one) for one in checked]})


def _check(one: Checked) -> dict[str, Any]:
    return {
        "name": one.check.name,
        "group": one.check.group.value,
        "status": STATUSES[one.outcome.status],
        "found": one.outcome.found,
        "advice": one.advice or None,
    }


__all__ = ["VERSION", "render"]
