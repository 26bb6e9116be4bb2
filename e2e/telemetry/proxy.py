"""A proxy in front of Prometheus that misbehaves on demand.

The fault is set with `PUT /-/fault` and a JSON object: `{"mode": "slow", "seconds": 5}`.

=========  ===================================================================================================
none       passes everything on
slow       answers after `seconds` (default 10)
error      answers `status` (default 503) without asking
reset      closes the connection with a reset, without an answer
truncate   sends half of the real answer, then closes the connection
empty      answers every query with success and no series
partial    passes answers on with Prometheus' warning of a remote read that failed, `keep` (default 0.5) of the series
=========  ===================================================================================================
"""

import argparse
import asyncio
import json
import logging
import socket
import struct
from typing import Any

import aiohttp
from aiohttp import web

MODES = ("none", "slow", "error", "reset", "truncate", "empty", "partial")
_WARNING = "remote_read: remote server http://remote-storage/read returned http status 503 Service Unavailable"
_FAULT = web.AppKey("fault", dict[str, Any])
_SESSION = web.AppKey("session", aiohttp.ClientSession)


def application(upstream: str) -> web.Application:
    """The proxy of the Prometheus at `upstream`."""
    app = web.Application(client_max_size=64 * 2**20)
    app[_FAULT] = {"mode": "none"}

    async def session(app: web.Application) -> Any:
        async with aiohttp.ClientSession(upstream, auto_decompress=True) as client:
            app[_SESSION] = client
            yield

    app.cleanup_ctx.append(session)
    app.router.add_put("/-/fault", _set_fault)
    app.router.add_route("*", "/{path:.*}", _pass_on)
    return app


async def _set_fault(request: web.Request) -> web.Response:
    fault = await request.json()
    if fault.get("mode") not in MODES:
        return web.Response(status=422, text=f"mode {fault.get('mode')!r} is not one of {', '.join(MODES)}\n")
    request.app[_FAULT].clear()
    request.app[_FAULT].update(fault)
    return web.Response(status=204)


async def _pass_on(request: web.Request) -> web.StreamResponse:
    fault = request.app[_FAULT]
    match fault["mode"]:
        case "slow":
            await asyncio.sleep(float(fault.get("seconds", 10)))
        case "error":
            return web.Response(status=int(fault.get("status", 503)), text="Service Unavailable\n")
        case "reset":
            return _reset(request)
        case "empty" if request.path.startswith("/api/v1/query"):
            kind = "matrix" if request.path.endswith("query_range") else "vector"
            return web.json_response({"status": "success", "data": {"resultType": kind, "result": []}})
    try:
        status, headers, body = await _ask(request)
    except aiohttp.ClientError as error:
        return web.Response(status=502, text=f"{error}\n")
    if fault["mode"] == "truncate":
        return await _truncated(request, status, headers, body)
    if fault["mode"] == "partial" and status == 200:
        body = _partial(body, float(fault.get("keep", 0.5)))
    return web.Response(status=status, headers=headers, body=body)


async def _ask(request: web.Request) -> tuple[int, dict[str, str], bytes]:
    headers = {key: value for key, value in request.headers.items() if key in {"Content-Type", "Accept"}}
    data = await request.read()
    async with request.app[_SESSION].request(request.method, request.rel_url, headers=headers, data=data) as answer:
        return answer.status, {"Content-Type": answer.headers.get("Content-Type", "text/plain")}, await answer.read()


def _reset(request: web.Request) -> web.Response:
    if request.transport is not None:
        connection: socket.socket = request.transport.get_extra_info("socket")
        # lingering for 0 seconds turns closing into a reset
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response(status=500)


async def _truncated(request: web.Request, status: int, headers: dict[str, str], body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers=headers | {"Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _partial(body: bytes, keep: float) -> bytes:
    try:
        answer = json.loads(body)
        result = answer["data"]["result"]
        answer["data"]["result"] = result[: int(len(result) * keep)]
    except (ValueError, KeyError, TypeError):
        return body
    answer["warnings"] = [_WARNING]
    return json.dumps(answer).encode()


def main() -> None:
    """`python -m e2e.telemetry.proxy --upstream URL --port N`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    web.run_app(application(arguments.upstream), host="127.0.0.1", port=arguments.port, print=None)


if __name__ == "__main__":
    main()
