import asyncio
import io
import logging
import re
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import pytest

from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse, Operation
from stoker.admission.server import ServerSettings
from stoker.lint.messages import StatusCause
from tests.admission.conftest import allow, serving
from tests.admission.malformed_reviews import OBJECT, Malformed, malformed_reviews, review
from tests.certificates.authority import Authority

JSON = {"Content-Type": "application/json"}


def body(document: object) -> io.BytesIO:
    """What the API server sends (as a file: aiohttp warns of large bytes)."""
    return io.BytesIO(orjson.dumps(document))


async def test_a_review_is_read_and_its_answer_carries_the_uid(
    settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    seen: list[AdmissionRequest] = []

    async def reviewer(request: AdmissionRequest) -> AdmissionResponse:
        seen.append(request)
        return AdmissionResponse(allowed=True, warnings=("image-tag: no tag",), annotations={"rules": "image-tag"})

    async with serving(settings, reviewer) as server:
        url = f"https://localhost:{server.port}/validate/dljobs?timeout=3s"
        async with client.post(url, data=body(review("UPDATE", old=OBJECT)), headers=JSON) as response:
            answer = await response.json()
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "allowed": True,
            "warnings": ["image-tag: no tag"],
            "auditAnnotations": {"rules": "image-tag"},
        },
    }
    assert [(seen[0].operation, seen[0].name, seen[0].namespace)] == [(Operation.UPDATE, "bert", "team")]
    assert seen[0].new_object == seen[0].old_object == OBJECT


async def test_a_denial_is_a_422_with_its_causes_beside_the_message(
    settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    async def reviewer(_: AdmissionRequest) -> AdmissionResponse:
        cause = StatusCause(field="spec.script", message="line 1: wrong", reason="FieldValueInvalid")
        return AdmissionResponse(allowed=False, message="spec.script: line 1: wrong", causes=(cause,))

    async with serving(settings, reviewer) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=body(review()), headers=JSON) as response:
            assert response.status == 200
            status = (await response.json())["response"]["status"]
    assert status == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "spec.script: line 1: wrong",
        "details": {
            "group": "stoker.dev",
            "kind": "DLJob",
            "name": "bert",
            "causes": [{"reason": "FieldValueInvalid", "field": "spec.script", "message": "line 1: wrong"}],
        },
    }


async def test_every_malformed_review_gets_a_plain_http_error_and_no_traceback(
    settings: ServerSettings, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    malformed = malformed_reviews()
    assert len(malformed) >= 200
    wrong: dict[str, str] = {}
    async with serving(settings) as server:
        for bad in malformed:
            async with client.post(
                f"https://localhost:{server.port}/validate/dljobs",
                data=io.BytesIO(bad.body),
                headers={"Content-Type": bad.content_type},
            ) as response:
                status = await response.json()
                if response.status != expected_status(bad) or not re.fullmatch(
                    r"stoker: \S.{10,250}", status["message"]
                ):
                    wrong[bad.name] = f"{response.status} {status}"
    assert wrong == {}
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


def expected_status(bad: Malformed) -> int:
    if bad.content_type != "application/json":
        return 415
    return 413 if bad.name.startswith("too large") else 400


async def test_a_review_above_the_limit_is_denied_not_passed(
    settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    """As an HTTP error it would pass where failurePolicy is Ignore: padding would be a way around the rules."""
    padded = review(new=OBJECT | {"padding": "x" * (4 * 1024 * 1024)})
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=body(padded), headers=JSON) as response:
            assert response.status == 200
            answer = (await response.json())["response"]
    assert answer["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert not answer["allowed"]
    assert answer["status"]["message"].startswith("the object is too large to be reviewed")


@pytest.mark.parametrize("levels", [1_100, 100_000])
async def test_a_review_too_deep_to_be_parsed_is_denied_not_passed(
    settings: ServerSettings, client: aiohttp.ClientSession, levels: int
) -> None:
    nested = b'{"a":' * levels + b"1" + b"}" * levels
    deep = orjson.dumps(review(new=OBJECT | {"x": "DEEP"})).replace(b'"DEEP"', nested)
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=io.BytesIO(deep), headers=JSON) as response:
            assert response.status == 200
            answer = (await response.json())["response"]
    assert (answer["allowed"], answer["status"]["code"], answer["status"]["reason"]) == (False, 400, "BadRequest")
    assert answer["status"]["message"] == "the object is nested too deep to be reviewed: at most 64 levels are allowed"


async def test_a_review_of_the_largest_object_passes(settings: ServerSettings, client: aiohttp.ClientSession) -> None:
    large = OBJECT | {"padding": "x" * (1536 * 1024)}
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=body(review("UPDATE", new=large, old=large)), headers=JSON) as response:
            assert (await response.json())["response"]["allowed"]


@pytest.mark.parametrize(
    "path", ["/", "/validate", "/validate/pods", "/validate/dljobs/", "/validate/dljobs/x", "/readyz"]
)
async def test_an_unknown_path_is_404_and_names_the_known_ones(
    path: str, settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}{path}"
        async with client.post(url, data=body(review()), headers=JSON) as response:
            assert response.status == 404
            assert "POST /validate/dljobs" in await response.text()


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_another_method_is_405(method: str, settings: ServerSettings, client: aiohttp.ClientSession) -> None:
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.request(method, url, data=body(review()), headers=JSON) as response:
            assert response.status == 405
            assert response.headers["Allow"] == "POST"


async def test_a_fault_of_ours_is_a_500_for_the_client_and_a_traceback_for_the_log(
    settings: ServerSettings, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: AdmissionRequest) -> AdmissionResponse:
        raise RuntimeError("secret of the job")

    async with serving(settings, broken) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        async with client.post(url, data=body(review()), headers=JSON) as response:
            text = await response.text()
            assert response.status == 500
    assert "secret of the job" not in text
    assert [record for record in caplog.records if record.exc_info]


async def test_a_body_that_does_not_arrive_is_given_up(settings: ServerSettings, authority: Authority) -> None:
    impatient = ServerSettings(
        address="127.0.0.1",
        port=0,
        certificate_folder=settings.certificate_folder,
        read_timeout=0.05,
        drain_delay=0,
        drain_quiet=0,
    )
    async with serving(impatient) as server:
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=authority.client_context())
        writer.write(
            b"POST /validate/dljobs HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_new_certificate_is_served_while_an_open_connection_keeps_working(
    settings: ServerSettings, client: aiohttp.ClientSession, authority: Authority
) -> None:
    async with serving(settings) as server:
        url = f"https://localhost:{server.port}/validate/dljobs"
        before = await serial_served(server.port, authority)
        async with client.post(url, data=body(review()), headers=JSON) as response:
            assert response.status == 200
        renewed = authority.issue(settings.certificate_folder)
        async with asyncio.timeout(10):
            while await serial_served(server.port, authority) != renewed:
                await asyncio.sleep(0)
        assert renewed != before
        async with client.post(url, data=body(review()), headers=JSON) as response:
            assert response.status == 200
            assert len(client.connector._conns) <= 1  # type: ignore[union-attr]  # the same connection as before


async def test_files_that_do_not_fit_leave_the_old_certificate_in_use(
    settings: ServerSettings, authority: Authority, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with serving(settings) as server:
        before = await serial_served(server.port, authority)
        authority.issue(tmp_path / "other")
        (tmp_path / "other" / "tls.crt").replace(settings.certificate_folder / "tls.crt")
        async with asyncio.timeout(10):
            while not caplog.records or "the old one stays in use" not in caplog.text:
                await asyncio.sleep(0.01)
        assert await serial_served(server.port, authority) == before
        assert server.not_ready() is None
        renewed = authority.issue(settings.certificate_folder)
        async with asyncio.timeout(10):
            while await serial_served(server.port, authority) != renewed:
                await asyncio.sleep(0)


async def test_without_a_certificate_the_server_waits_for_one(
    settings: ServerSettings, authority: Authority, tmp_path: Path
) -> None:
    waiting = ServerSettings(
        address="127.0.0.1",
        port=0,
        certificate_folder=tmp_path / "later",
        certificate_interval=0.01,
        drain_delay=0,
        drain_quiet=0,
    )
    server = serving(waiting)
    starting = asyncio.create_task(server.__aenter__())
    await asyncio.sleep(0)
    reason = server.not_ready()
    assert reason is not None
    assert "tls.crt" in reason
    authority.issue(tmp_path / "later")
    await asyncio.wait_for(starting, 10)
    assert server.not_ready() is None
    await server.__aexit__(None, None, None)


async def test_a_stopping_server_finishes_reviews_and_asks_for_new_connections(
    settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    draining = ServerSettings(
        address="127.0.0.1", port=0, certificate_folder=settings.certificate_folder, drain_delay=0.2, drain_quiet=0
    )
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(request: AdmissionRequest) -> AdmissionResponse:
        entered.set()
        await release.wait()
        return await allow(request)

    server = serving(draining, slow)
    await server.__aenter__()
    url = f"https://localhost:{server.port}/validate/dljobs"
    pending = asyncio.create_task(client.post(url, data=body(review()), headers=JSON))
    await entered.wait()
    stopping = asyncio.create_task(server.__aexit__(None, None, None))
    while server.not_ready() != "stopping":
        await asyncio.sleep(0)
    release.set()
    async with await pending as response:
        assert response.headers["Connection"] == "close"
        assert (await response.json())["response"]["allowed"]
    async with client.post(url, data=body(review()), headers=JSON) as response:
        assert response.headers["Connection"] == "close"
    await stopping
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.post(url, data=body(review()), headers=JSON)


async def test_a_stopping_server_answers_as_long_as_requests_come(
    settings: ServerSettings, client: aiohttp.ClientSession
) -> None:
    server = serving(replace(settings, drain_quiet=60.0, drain_longest=600.0))
    await server.__aenter__()
    url = f"https://localhost:{server.port}/validate/dljobs"
    async with client.post(url, data=body(review()), headers=JSON) as response:
        assert response.status == 200
    stopping = asyncio.create_task(server.__aexit__(None, None, None))
    while server.not_ready() != "stopping":
        await asyncio.sleep(0)
    async with client.post(url, data=body(review()), headers=JSON) as response:
        assert (response.status, response.headers["Connection"]) == (200, "close")
    assert not stopping.done()
    stopping.cancel()
    await asyncio.wait([stopping])
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.post(url, data=body(review()), headers=JSON)


async def test_a_stopping_server_does_not_wait_for_ever(
    settings: ServerSettings, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving(replace(settings, drain_quiet=600.0, drain_longest=0.0))
    await server.__aenter__()
    async with client.post(
        f"https://localhost:{server.port}/validate/dljobs", data=body(review()), headers=JSON
    ) as response:
        assert response.status == 200
    await server.__aexit__(None, None, None)
    assert "Requests still come" in caplog.text


async def test_a_taken_port_is_an_error(settings: ServerSettings) -> None:
    async with serving(settings) as server:
        taken = ServerSettings(address="127.0.0.1", port=server.port, certificate_folder=settings.certificate_folder)
        with pytest.raises(OSError, match="Address already in use"):
            await serving(taken).__aenter__()


async def serial_served(port: int, authority: Authority) -> int:
    """The serial number of the certificate that a new connection is shown."""
    context = authority.client_context()
    _, writer = await asyncio.open_connection("localhost", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    with suppress(ssl.SSLError, ConnectionError):
        await writer.wait_closed()
    return int(shown["serialNumber"], 16)
