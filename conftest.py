"""What holds for all tests, unit and end-to-end."""

import signal


def pytest_configure() -> None:
    """Let interrupts interrupt: a shell starts its background jobs with SIGINT ignored, and so would start all that
    the tests start in order to interrupt it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
