"""Utilization in the words and units of a DLJob's status."""

from typing import Any

from stoker.models.diagnosis import Utilization


def to_status(utilization: Utilization) -> dict[str, Any]:
    """`status.utilization`: whole percents within 0..100, GPU-hours as strings, absent values omitted."""
    raise NotImplementedError
