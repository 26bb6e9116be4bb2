from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner

from stoker.cli.moment import MOMENT, parse_moment

NOW = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text, moment",
    [
        ("2026-11-21T05:40:00Z", datetime(2026, 11, 21, 5, 40, tzinfo=UTC)),
        ("2026-11-21t05:40:00.5z", datetime(2026, 11, 21, 5, 40, 0, 500_000, tzinfo=UTC)),
        ("2026-11-21T05:40:00+02:00", datetime(2026, 11, 21, 3, 40, tzinfo=UTC)),
        ("2026-11-21 05:40:00-05:30", datetime(2026, 11, 21, 11, 10, tzinfo=UTC)),
        ("1795239600", datetime.fromtimestamp(1795239600, tz=UTC)),
        ("1795239600.25", datetime.fromtimestamp(1795239600.25, tz=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("-2h", NOW - timedelta(hours=2)),
        ("-1h30m", NOW - timedelta(minutes=90)),
        ("-7d", NOW - timedelta(days=7)),
        ("-1d12h", NOW - timedelta(hours=36)),
        ("30d", NOW - timedelta(days=30)),
        ("90m", NOW - timedelta(minutes=90)),
    ],
)
def test_a_time_is_absolute_in_seconds_or_ago(text: str, moment: datetime) -> None:
    assert parse_moment(text, NOW) == moment
    assert parse_moment(text, NOW).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "now",
        "+2h",
        "-2 h",
        "-h",
        "-2y",
        "2026-11-21",
        "2026-11-21T05:40:00",
        "2026-13-21T05:40:00Z",
        "2026-11-21T05:40:00+25:00",
        "20261121T054000Z",
        "1e9",
        "99999999999999999999",
        "0001-01-01T00:00:00+23:00",
        "nan",
    ],
)
def test_anything_else_is_refused_with_an_example_of_each(text: str) -> None:
    with pytest.raises(ValueError, match=r"2026-11-21T18:00:00Z.*epoch.*2h"):
        parse_moment(text, NOW)


def test_an_option_takes_a_time_ago_although_it_begins_like_an_option() -> None:
    @click.command()
    @click.option("--from", "begin", type=MOMENT)
    def command(begin: datetime) -> None:
        click.echo((datetime.now(UTC) - begin) // timedelta(hours=1))

    assert CliRunner().invoke(command, ["--from", "-3h"]).stdout == "3\n"
    refused = CliRunner().invoke(command, ["--from", "yesterday"])
    assert (refused.exit_code, "'yesterday' is not a time" in refused.stderr) == (2, True)
