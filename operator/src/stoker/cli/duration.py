"""Durations on the command line."""

from datetime import timedelta

import click

from stoker.api.duration import parse_duration


class Duration(click.ParamType[timedelta]):
    """A duration such as 90s, 5m or 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()
