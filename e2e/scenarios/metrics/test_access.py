"""Who is let in: a real Prometheus with TLS, client certificates and basic authentication, and what is said to those
who are not.

Bearer tokens and tenants are not Prometheus' own: a gate stands before it, as OAuth proxies and Mimir's gateway do.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from aiohttp import ClientSession, web

from e2e.cluster.pki import CertificateAuthority
from e2e.scenarios.metrics.recorded import NAMESPACE, History, RecordedPrometheus, constant
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import MetricsUnavailable
from stoker.telemetry.series import GpuSignal, JobFacts, PodFacts

pytestmark = pytest.mark.e2e

USER, PASSWORD = "stoker", "correct horse"
BCRYPT = "$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"
"""Of that password, at the lowest cost."""


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority("monitoring")


@pytest.fixture
def files(authority: CertificateAuthority, tmp_path: Path) -> Path:
    """A folder with what the operator mounts: ca, cert, key, password."""
    certificate, key = authority.issue_client("stoker")
    for name, content in (("ca", authority.pem), ("cert", certificate), ("key", key), ("password", f"{PASSWORD}\n")):
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture(scope="module")
def secured(
    authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory, now: datetime
) -> Iterator[RecordedPrometheus]:
    """It wants a certificate of its authority and a password."""
    folder = tmp_path_factory.mktemp("secured")
    certificate, key = authority.issue_server(["127.0.0.1"])
    for name, content in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority.pem)):
        (folder / name).write_text(content)
    tls = {
        "cert_file": "tls.crt",
        "key_file": "tls.key",
        "client_ca_file": "ca.crt",
        "client_auth_type": "RequireAndVerifyClientCert",
    }
    web_config = folder / "web.yml"
    web_config.write_text(yaml.safe_dump({"tls_server_config": tls, "basic_auth_users": {USER: BCRYPT}}))
    story = History(end=now, seconds=600)
    story.gpu("busy", 0, {"DCGM_FI_DEV_GPU_UTIL": constant(90)})
    with RecordedPrometheus(folder, story.lines(), secured_by=web_config) as running:
        yield running


async def look(access: PrometheusAccess, now: datetime) -> float:
    """The utilization that is read, in percent."""
    started = now - timedelta(seconds=600)
    pod = PodFacts(name="busy", uid="a", rank=0, node="gpu-1", gpus=1, started_at=started)
    job = JobFacts(namespace=NAMESPACE, name="busy", uid="a", nodes=1, gpus_per_node=1, pods=(pod,))
    async with PrometheusSource(access, max_skew=None) as source:
        series = await source.series(job, started, now, timedelta(seconds=30))
    [gpu] = series.gpus
    return float(np.nanmax(gpu.signals[GpuSignal.UTIL]))


def full(url: str, files: Path, **less: Any) -> PrometheusAccess:
    given: dict[str, Any] = {
        "url": url,
        "username": USER,
        "password_file": files / "password",
        "ca_file": files / "ca",
        "cert_file": files / "cert",
        "key_file": files / "key",
    }
    return PrometheusAccess(**given | less)


async def test_a_certificate_and_a_password_let_in(secured: RecordedPrometheus, files: Path, now: datetime) -> None:
    assert await look(full(secured.url, files), now) == 90


async def test_a_certificate_and_its_key_may_be_one_file(
    secured: RecordedPrometheus, files: Path, now: datetime
) -> None:
    both = files / "both"
    both.write_text((files / "cert").read_text() + (files / "key").read_text())
    assert await look(full(secured.url, files, cert_file=both, key_file=None), now) == 90


@pytest.mark.parametrize(
    "less, said",
    [
        ({"username": None, "password_file": None}, "401"),
        ({"username": "mallory"}, "401"),
        ({"ca_file": None}, "certificate verify failed"),
        ({"cert_file": None, "key_file": None}, "client certificate"),
    ],
)
async def test_who_lacks_something_is_told_what(
    secured: RecordedPrometheus, files: Path, now: datetime, less: dict[str, Any], said: str
) -> None:
    with pytest.raises(MetricsUnavailable) as refused:
        await look(full(secured.url, files, **less), now)
    assert refused.value.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
    assert said in refused.value.message
    assert PASSWORD not in refused.value.message


async def test_a_certificate_of_another_authority_is_not_taken(
    secured: RecordedPrometheus, files: Path, now: datetime
) -> None:
    certificate, key = CertificateAuthority("elsewhere").issue_client("stoker")
    (files / "cert").write_text(certificate)
    (files / "key").write_text(key)
    with pytest.raises(MetricsUnavailable):
        await look(full(secured.url, files), now)


async def test_a_server_under_another_name_is_not_trusted(
    secured: RecordedPrometheus, files: Path, now: datetime
) -> None:
    with pytest.raises(MetricsUnavailable, match="localhost"):
        await look(full(secured.url.replace("127.0.0.1", "localhost"), files), now)


async def test_rotated_files_are_taken_up_without_a_restart(
    secured: RecordedPrometheus, authority: CertificateAuthority, files: Path, now: datetime
) -> None:
    """As a mounted Secret changes: first wrong ones, then right ones, under one connection."""
    right = {name: (files / name).read_text() for name in ("ca", "cert", "key", "password")}
    (files / "password").write_text("yesterday's")
    (files / "ca").write_text(CertificateAuthority("yesterday").pem)
    pod = PodFacts(name="busy", uid="a", rank=0, node="gpu-1", gpus=1, started_at=now - timedelta(seconds=600))
    job = JobFacts(namespace=NAMESPACE, name="busy", uid="a", nodes=1, gpus_per_node=1, pods=(pod,))
    async with PrometheusSource(full(secured.url, files), max_skew=None) as source:

        async def asked() -> bool:
            return bool((await source.series(job, now - timedelta(seconds=600), now, timedelta(seconds=30))).gpus)

        with pytest.raises(MetricsUnavailable, match="certificate verify failed"):
            await asked()
        (files / "ca").write_text(right["ca"])
        with pytest.raises(MetricsUnavailable, match="401"):
            await asked()
        (files / "password").write_text(right["password"])
        assert await asked()
        certificate, key = authority.issue_client("stoker, renewed")
        (files / "cert").write_text(certificate)
        (files / "key").write_text(key)
        assert await asked()
        (files / "key").unlink()
        with pytest.raises(MetricsUnavailable, match="key"):
            await asked()


# --------------------------------------------------------------------------------------------------------- a gate


@asynccontextmanager
async def gate(upstream: str) -> AsyncIterator[str]:
    """Passes on what bears the token and names the tenant."""

    async def pass_on(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer secret":
            return web.Response(status=401, text="Unauthorized")
        if request.headers.get("X-Scope-OrgID") != "team-a|team-b":
            return web.json_response({"status": "error", "errorType": "bad_data", "error": "no org id"}, status=422)
        async with ClientSession(upstream) as session:
            path = request.path.removeprefix("/prometheus")
            async with session.post(path, data=await request.post()) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")

    app = web.Application()
    app.router.add_post("/prometheus/{path:.*}", pass_on)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/prometheus"
    finally:
        await runner.cleanup()


async def test_a_token_and_a_tenant_let_in_under_a_path(tmp_path: Path, now: datetime) -> None:
    story = History(end=now, seconds=600)
    story.gpu("busy", 0, {"DCGM_FI_DEV_GPU_UTIL": constant(90)})
    token = tmp_path / "token"
    token.write_text("secret\n")
    tenant = {"X-Scope-OrgID": "team-a|team-b"}
    with RecordedPrometheus(tmp_path, story.lines()) as prometheus:
        async with gate(prometheus.url) as url:
            assert await look(PrometheusAccess(url=url, token_file=token, headers=tenant), now) == 90
            with pytest.raises(MetricsUnavailable, match="401"):
                await look(PrometheusAccess(url=url, headers=tenant), now)
            with pytest.raises(MetricsUnavailable, match="no org id"):
                await look(PrometheusAccess(url=url, token_file=token), now)
