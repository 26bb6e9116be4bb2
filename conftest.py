"""What holds for all tests, unit and end-to-end."""

import os
import signal
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

ON_CI = bool(os.environ.get("CI"))
settings.register_profile("any machine", deadline=None, derandomize=ON_CI, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""How long an example takes says how busy the machine is, and nothing of the code. CI takes the same examples each
time, so that it judges the change at hand; other runs look for new ones.
"""
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_configure() -> None:
    """Let interrupts interrupt: a shell starts its background jobs with SIGINT ignored, and so would start all that
    the tests start in order to interrupt it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped on CI fails: nobody reads why."""
    report = yield
    return _failed(report) if ON_CI and report.skipped else report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that is skipped as a whole, likewise."""
    report = yield
    return _failed(report) if ON_CI and report.skipped else report


def _failed(report: Report) -> Report:
    place = report.longrepr
    reason = (place[2] if isinstance(place, tuple) else str(place)).removeprefix("Skipped: ")
    report.outcome = "failed"
    report.longrepr = f"on CI no test may be skipped ($CI is set): {reason}"
    return report
