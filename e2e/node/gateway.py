"""Connects a real node's network namespace with this machine's loopback.

    python -m e2e.node.gateway PID [--tunnel SOCKET] [--out PORT:PORT]... [--in PORT:ADDRESS:PORT]...

PID is any process of the node. `--tunnel` serves HTTP CONNECT on a Unix socket: the API server reaches kubelets, pods
and Services through it (EgressSelectorConfiguration). `--out A:B` makes port A of the node's address lead to port B of
this machine's loopback: pods reach the API server and Prometheus. `--in A:IP:B` makes port A of this machine's loopback
lead to that address inside: Prometheus and tests reach pods.

A socket belongs to the network namespace that its thread was in when it was made. So one process serves both sides.
"""

import argparse
import asyncio
import contextlib
import ctypes
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from e2e.node.settings import NODE_ADDRESS

_CLONE_NEWNET = 0x40000000
_CHUNK = 65536
_LOOPBACK = ("127.", "localhost")

Connect = Callable[[], Coroutine[Any, Any, socket.socket]]


class Gateway:
    """Makes sockets in either network namespace."""

    def __init__(self, pid: int) -> None:
        self._here = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._node = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)

    def make(self, *, inside: bool) -> socket.socket:
        """A new TCP socket on the node's side or on this machine's."""
        if inside:
            _enter(self._node)
        try:
            new = socket.socket()
        finally:
            if inside:
                _enter(self._here)
        new.setblocking(False)
        return new

    def listen(self, address: str, port: int, *, inside: bool) -> socket.socket:
        """A listening socket."""
        listener = self.make(inside=inside)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(512)
        return listener

    async def connect(self, address: str, port: int, *, inside: bool) -> socket.socket:
        """A connected socket. Raises OSError."""
        new = self.make(inside=inside)
        try:
            await asyncio.get_running_loop().sock_connect(new, (address, port))
        except BaseException:
            new.close()
            raise
        return new

    async def tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one HTTP CONNECT. What is on loopback is on this machine, everything else on the node's network."""
        async with _closing(writer):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                _, target, _ = head.decode().split("\r\n", 1)[0].split()
                address, _, port = target.rpartition(":")
                outside = address.startswith(_LOOPBACK)
                far = await self.connect("127.0.0.1" if outside else address, int(port), inside=not outside)
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                writer.write(f"HTTP/1.1 502 {type(error).__name__}\r\n\r\n".encode())
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await _join(reader, writer, far)


def forwarding(connect: Connect) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
    """Serves a connection by joining it with what `connect` gives; drops it where that fails."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closing(writer):
            with contextlib.suppress(OSError):
                await _join(reader, writer, await connect())

    return serve


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, far: socket.socket) -> None:
    far_reader, far_writer = await asyncio.open_connection(sock=far)
    async with _closing(far_writer):
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()
        return
    target.close()  # reset on either side: the other direction ends, too


async def _serve(arguments: argparse.Namespace) -> None:
    gateway = Gateway(arguments.pid)
    servers = []
    for pair in arguments.out:
        listening, port = map(int, pair.split(":"))
        listener = gateway.listen(NODE_ADDRESS, listening, inside=True)
        connect = _connector(gateway, "127.0.0.1", port, inside=False)
        servers.append(await asyncio.start_server(forwarding(connect), sock=listener))
    for triple in getattr(arguments, "in"):
        entry, address, port = triple.split(":")
        listener = gateway.listen("127.0.0.1", int(entry), inside=False)
        connect = _connector(gateway, address, int(port), inside=True)
        servers.append(await asyncio.start_server(forwarding(connect), sock=listener))
    if arguments.tunnel is not None:
        servers.append(await asyncio.start_unix_server(gateway.tunnel, arguments.tunnel))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def _connector(gateway: Gateway, address: str, port: int, *, inside: bool) -> Connect:
    return lambda: gateway.connect(address, port, inside=inside)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int)
    parser.add_argument("--tunnel", type=Path)
    parser.add_argument("--out", action="append", default=[])
    parser.add_argument("--in", action="append", default=[])
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
