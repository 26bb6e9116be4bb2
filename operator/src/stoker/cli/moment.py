"""Points in time on the command line: `--from` and `--to`."""

import re
from datetime import UTC, datetime, timedelta

import click

from stoker.api.duration import parse_duration

ALLOWED = "write a time such as 2026-11-21T18:00:00Z, seconds since the epoch, or a time ago such as 2h or 7d"
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})")
_EPOCH = re.compile(r"\d+(?:\.\d+)?")
_AGO = re.compile(r"-?(?:(?P<days>\d{1,4})d)?(?P<rest>\S*)")


def parse_moment(text: str, now: datetime) -> datetime:
    """Read RFC 3339, seconds since the epoch, or a time ago (`90m`, `-1d12h`: with or without its sign), in UTC.

    Raises ValueError for anything else, a time without its zone included.
    """
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
        if _EPOCH.fullmatch(text):
            return datetime.fromtimestamp(float(text), tz=UTC)
        ago = _AGO.fullmatch(text)
        if ago is not None and text not in {"", "-"}:
            rest = parse_duration(ago["rest"]) if ago["rest"] else timedelta(0)
            return (now - timedelta(days=int(ago["days"] or 0)) - rest).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError(f"{text!r} is not a time: {ALLOWED}")


class Moment(click.ParamType[datetime]):
    """An option's point in time; a relative one counts from when the command line is read."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(str(value), datetime.now(UTC))
        except ValueError as error:
            self.fail(str(error), param, ctx)


MOMENT = Moment()

__all__ = ["MOMENT", "parse_moment"]
