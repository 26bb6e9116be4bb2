"""A proxy of ours between the operator and the API server that misbehaves with watches on demand.

It ends the operator's TLS, so that it can tell watches from other requests, which always pass. The fault is set with
`PUT /-/fault` and a JSON object, `{"mode": "silent"}`; `GET /-/watches` counts what it has seen.

=========  ===========================================================================================
none       passes everything on
silent     the watches that are open stay open and get nothing more; those that begin afterwards pass
cut        closes the connections of watches, at once and whenever one begins
=========  ===========================================================================================

`ApiProxy` runs it in a cluster.
"""

import argparse
import asyncio
import json
import logging
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from e2e.cluster.api import ApiClient
from e2e.cluster.pki import write_private
from e2e.cluster.provider import Cluster

MODES = ("none", "silent", "cut")
PROCESS = "api-proxy"
_NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host"}
)


class ApiProxy:
    """The proxy as a process of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        admin = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        port = cluster.reserve_port()
        certificate = cluster.issue_certificate("127.0.0.1")
        self._url = f"https://127.0.0.1:{port}"
        ca = write_private(cluster.folder / "proxied-ca.crt", cluster.ca_pem)
        self._client = ApiClient(self.kubeconfig(cluster.kubeconfig))
        cluster.start_process(
            PROCESS,
            [
                *(sys.executable, "-m", "e2e.cluster.api_proxy", "--upstream", admin["server"], "--ca", ca),
                *("--port", str(port), "--certificate", certificate.certificate, "--key", certificate.key),
            ],
            ready=self.watches,
        )

    def kubeconfig(self, direct: Path) -> Path:
        """A copy of a kubeconfig with a token, which leads through the proxy."""
        config = yaml.safe_load(direct.read_text())
        config["clusters"][0]["cluster"]["server"] = self._url
        return write_private(direct.with_name(f"proxied-{direct.name}"), yaml.safe_dump(config, sort_keys=False))

    def set_fault(self, mode: str) -> None:
        self._client.request("PUT", "/-/fault", {"mode": mode})

    def watches(self) -> dict[str, int]:
        """How many watches are `open`, have `begun`, were told 410 `gone`; and `swallowed` bytes."""
        counts: dict[str, int] = self._client.request("GET", "/-/watches").body
        return counts

    def stop(self) -> None:
        self._client.close()
        self._cluster.kill(PROCESS)


# ---------------------------------------------------------------------------------------------------------- the process


@dataclass(slots=True, eq=False)
class _Watch:
    """A watch that is open, with the client's connection."""

    transport: asyncio.Transport | None
    is_silent: bool = False


@dataclass(slots=True)
class _State:
    mode: str = "none"
    open: set[_Watch] = field(default_factory=set)
    begun: int = 0
    gone: int = 0
    swallowed: int = 0

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        for watch in self.open:
            watch.is_silent = watch.is_silent or mode == "silent"
            if mode == "cut":
                _abort(watch.transport)


_STATE = web.AppKey("state", _State)
_UPSTREAM = web.AppKey("upstream", aiohttp.ClientSession)


def application(upstream: str, ca: Path) -> web.Application:
    """The proxy of the API server at `upstream`, whose certificate `ca` has signed."""
    app = web.Application(client_max_size=64 * 2**20)
    app[_STATE] = _State()

    async def session(app: web.Application) -> Any:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(ca)), limit=0)
        # an event is one line, which may be as large as an object
        async with aiohttp.ClientSession(
            upstream, connector=connector, timeout=aiohttp.ClientTimeout(), read_bufsize=2**24
        ) as client:
            app[_UPSTREAM] = client
            yield

    app.cleanup_ctx.append(session)
    app.router.add_put("/-/fault", _set_fault)
    app.router.add_get("/-/watches", _count)
    app.router.add_route("*", "/{path:.*}", _pass_on)
    return app


async def _set_fault(request: web.Request) -> web.Response:
    mode = (await request.json()).get("mode")
    if mode not in MODES:
        return web.Response(status=422, text=f"mode {mode!r} is not one of {', '.join(MODES)}\n")
    request.app[_STATE].set_mode(mode)
    return web.json_response({})


async def _count(request: web.Request) -> web.Response:
    state = request.app[_STATE]
    counts = {"open": len(state.open), "begun": state.begun, "gone": state.gone, "swallowed": state.swallowed}
    return web.json_response(counts)


async def _pass_on(request: web.Request) -> web.StreamResponse:
    headers = {key: value for key, value in request.headers.items() if key.lower() not in _NOT_PASSED_ON}
    watches = request.query.get("watch") in {"true", "1"}
    if watches and request.app[_STATE].mode == "cut":
        _abort(request.transport)
        return web.Response(status=502)
    try:
        async with request.app[_UPSTREAM].request(
            request.method, request.rel_url, headers=headers, data=await request.read() or None
        ) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in _NOT_PASSED_ON}
            if not watches:
                return web.Response(status=answer.status, headers=kept, body=await answer.read())
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            await _stream(request, answer, response)
            return response
    except aiohttp.ClientError:
        # as if the connection to the API server itself were lost
        _abort(request.transport)
        return web.Response(status=502)


async def _stream(request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    state = request.app[_STATE]
    watch = _Watch(request.transport)
    state.open.add(watch)
    state.begun += 1
    try:
        while line := await answer.content.readline():
            if watch.is_silent:
                state.swallowed += len(line)
                continue
            state.gone += _is_gone(line)
            await response.write(line)
        while watch.is_silent:
            # the end of the stream does not arrive either: the client closes the connection, which cancels this
            await asyncio.sleep(3600)
    finally:
        state.open.discard(watch)


def _is_gone(line: bytes) -> bool:
    event = json.loads(line)
    return bool(event["type"] == "ERROR" and event["object"].get("code") == 410)


def _abort(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.Transport):
        transport.abort()


def main() -> None:
    """`python -m e2e.cluster.api_proxy --upstream URL --ca FILE --port N --certificate FILE --key FILE`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--ca", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(arguments.certificate, arguments.key)
    web.run_app(
        application(arguments.upstream, arguments.ca),
        host="127.0.0.1",
        port=arguments.port,
        ssl_context=context,
        handler_cancellation=True,
        print=None,
    )


if __name__ == "__main__":
    main()
