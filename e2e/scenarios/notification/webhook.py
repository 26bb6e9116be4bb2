"""A webhook on loopback that keeps what it is sent, and fails when it is told to."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(slots=True)
class Webhook:
    """Where it is, what it took, and what it still refuses."""

    port: int = 0
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Path and body of each message."""
    refusals: int = 0
    """So many of the next messages are answered by 503."""

    def titles(self, path: str) -> list[str]:
        """The titles that came to a path."""
        return [body["title"] for where, body in self.taken if where == path]


@contextmanager
def listening() -> Iterator[Webhook]:
    """One that answers while the context lasts."""
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            refused = webhook.refusals > 0
            webhook.refusals -= refused
            if not refused:
                webhook.taken.append((self.path, body))
            self.send_response(503 if refused else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    webhook.port = server.server_address[1]
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield webhook
    finally:
        server.shutdown()
        server.server_close()
