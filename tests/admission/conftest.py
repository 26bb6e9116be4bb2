from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from stoker.admission.server import AdmissionServer, Reviewer, Route, ServerSettings
from tests.certificates.authority import Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def settings(tmp_path: Path, authority: Authority) -> ServerSettings:
    """Loopback, any port, a valid certificate, no waiting."""
    authority.issue(tmp_path)
    return ServerSettings(
        address="127.0.0.1",
        port=0,
        certificate_folder=tmp_path,
        certificate_interval=0.01,
        drain_delay=0,
        drain_quiet=0,
    )


@pytest.fixture
async def client(authority: Authority) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=authority.client_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


async def allow(_: AdmissionRequest) -> AdmissionResponse:
    """The most trivial reviewer."""
    return ALLOWED


def serving(
    settings: ServerSettings, reviewer: Reviewer = allow, on_overload: Callable[[], None] = lambda: None
) -> AdmissionServer:
    """A server with one route, as the operator has."""
    route = Route(path="/validate/dljobs", group="stoker.dev", resource="dljobs", reviewer=reviewer)
    return AdmissionServer(settings, [route], on_overload)
