"""The times of HTTP headers. Used by the clients of the API server and of Prometheus, which compare clocks."""

from datetime import datetime
from email.utils import parsedate_to_datetime


def http_date(text: str | None) -> datetime | None:
    """The time of a Date header (RFC 9110), in whole seconds. None for a malformed one, or one without GMT."""
    try:
        date = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return None if date is None or date.tzinfo is None else date


__all__ = ["http_date"]
