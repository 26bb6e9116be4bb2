"""Refused requests are counted in the log, not told one by one."""

from collections.abc import Callable

import pytest

from stoker.admission.overload import OverloadLog


def test_the_first_refusal_is_logged_at_once_and_those_of_the_period_after_it_as_a_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends: list[Callable[[], None]] = []
    overload = OverloadLog(lambda _, end: ends.append(end))

    def refuse(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            overload.refused("64 reviews are already running")
        return caplog.messages[:]

    def end_period() -> list[str]:
        caplog.clear()
        ends.pop()()
        return caplog.messages[:]

    assert refuse(1000) == ["Refused a request with HTTP 503: 64 reviews are already running"]
    assert end_period() == ["Refused 999 further requests with HTTP 503 within 60 s."]
    assert refuse(3) == []
    assert end_period() == ["Refused 3 further requests with HTTP 503 within 60 s."]
    assert end_period() == []
    assert ends == []
    assert refuse(2) == ["Refused a request with HTTP 503: 64 reviews are already running"]
