from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    "text, seconds", [("60m", 3600), ("1h30m", 5400), ("90s", 90), ("0s", 0), ("1h0m1s", 3601), ("168h", 604_800)]
)
def test_durations_are_read_as_kubernetes_users_write_them(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "60", "m", "1d", "1.5h", "-5m", "5m1h", "5 m", "5m ", "5m\n", "٣m"])
def test_anything_else_is_an_error_that_shows_the_value_and_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 60m or 1h30m") as error:
        parse_duration(text)
    assert repr(text) in str(error.value)


@given(st.integers(min_value=0, max_value=10**6))
def test_what_is_written_is_read_back(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(format_duration(duration)) == duration
