"""A proxy before a real tracking server, that refuses, delays or loses what a test wants."""

from __future__ import annotations

import http.client
import http.server
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    path: str
    headers: dict[str, str]
    time: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Refuse:
    """Answer this, and let nothing through."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"no"


class Lose:
    """Let it through, and lose the answer."""


Rule = Callable[[Request], Refuse | Lose | None]


class Proxy(http.server.ThreadingHTTPServer):
    """Stands before the server at ``port``; ``rule`` says what happens to a request (None: nothing)."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.rule = port, lambda request: None
        self.requests: list[Request] = []
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    rule: Rule


class _Handler(http.server.BaseHTTPRequestHandler):
    def _handle(self) -> None:
        proxy: Any = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers))
        proxy.requests.append(request)
        verdict = proxy.rule(request)
        if isinstance(verdict, Refuse):
            self._answer(verdict.status, verdict.headers, verdict.body)
            return
        answer = self._forward(proxy.upstream, body)
        if isinstance(verdict, Lose):
            self.close_connection = True
            return
        self._answer(*answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _forward(self, port: int, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")}
        upstream.request(self.command, self.path, body, {**kept, "Host": f"127.0.0.1:{port}"})
        response = upstream.getresponse()
        found = response.status, dict(response.getheaders()), response.read()
        upstream.close()
        return found

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
