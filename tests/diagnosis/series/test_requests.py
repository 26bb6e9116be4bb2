"""What tells a service from a job that declares a port."""

from typing import Any

import pytest

from stoker.diagnosis.series.examination import examine
from stoker.diagnosis.series.requests import acts_as_service, messages
from tests.diagnosis.recording import Thresholds, from_dict

REQUESTS = "(900x2 5000x1 900x9 5000x1 900x5 5000x1 900x20 5000x1 900x3 5000x1 900x6)x6"
HEARTBEATS = "(900x9 5000x1)x30"
UNLIKE = "(900x2 5000x1 900x9 9e5x1 900x5 5000x1 900x20 4e6x1 900x3 5000x1 900x6)x6"
BATCHES = "(900x2 5e7x25 900x9 5e7x25 900x30)x25"


def looks(received: str, **job: Any) -> tuple[bool, bool]:
    """Whether it acts as a service, and whether its messages come as requests do."""
    recording = from_dict({"job": job, "gpus": [{"util": "0x300"}], "pods": [{"netRx": received}]})
    exam = examine(*recording.at(recording.length)[:2], Thresholds(), recording.at(recording.length)[2])
    return acts_as_service(exam), messages(exam) > 0


def test_messages_as_requests_come_to_a_port_are_a_service() -> None:
    assert looks(REQUESTS, offers="port 8000") == (True, True)


def test_without_a_port_they_are_only_a_doubt() -> None:
    assert looks(REQUESTS) == (False, True)


@pytest.mark.parametrize("received", [HEARTBEATS, UNLIKE, BATCHES, "900x300"])
def test_a_port_alone_is_no_service(received: str) -> None:
    assert looks(received, offers="port 6006") == (False, False)


def test_the_network_of_a_node_is_no_message() -> None:
    assert looks(REQUESTS, offers="port 8000", hostNetwork=True) == (False, False)
