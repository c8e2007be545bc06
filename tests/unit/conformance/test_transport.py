"""Exchanges end, whatever a server does."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from raypd.conformance import transport
from raypd.conformance.transport import Bounded


class Endless(httpx.BaseTransport):
    def __init__(self, part: bytes, pause: float) -> None:
        self.part, self.pause = part, pause
        self.timeout: dict | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.timeout = request.extensions["timeout"]
        return httpx.Response(200, stream=_Drip(self.part, self.pause))


class _Drip(httpx.SyncByteStream):
    def __init__(self, part: bytes, pause: float) -> None:
        self.part, self.pause = part, pause

    def __iter__(self) -> Iterator[bytes]:
        while True:
            time.sleep(self.pause)
            yield self.part


def client(inner: httpx.BaseTransport, seconds: float, until: float = float("inf")) -> httpx.Client:
    return httpx.Client(transport=Bounded(inner, seconds, until))


def test_an_answer_that_drips_ends_with_its_time() -> None:
    begin = time.monotonic()
    with pytest.raises(httpx.ReadTimeout, match="not over"):
        client(Endless(b"x", 0.01), 0.2).get("http://x/")
    assert time.monotonic() - begin < 2


def test_an_answer_that_is_too_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MOST_BYTES", 5000)
    with pytest.raises(httpx.ReadError, match="larger than 5,000"):
        client(Endless(b"x" * 1000, 0), 20).get("http://x/")


def test_a_request_has_no_more_time_than_the_run_has_left() -> None:
    inner = Endless(b"x", 0.01)
    with pytest.raises(httpx.ReadTimeout):
        client(inner, 60, time.monotonic() + 0.1).get("http://x/")
    assert inner.timeout is not None
    assert inner.timeout["read"] <= 0.1
    assert inner.timeout["connect"] <= 0.1


@contextmanager
def closing(after: int) -> Iterator[tuple[str, list[int]]]:
    """A server that closes each connection at the request that comes after that many, without a word.
    Gives its URL, and the number of requests of each connection."""
    seen: list[int] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            seen.append(0)
            mine = len(seen) - 1
            while self.rfile.readline():
                while self.rfile.readline() != b"\r\n":
                    pass
                seen[mine] += 1
                if seen[mine] > after:
                    return
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", seen
        server.shutdown()


def test_a_connection_that_rested_and_is_closed_is_no_answer() -> None:
    with closing(after=1) as (url, seen), client(httpx.HTTPTransport(), 20) as http:
        assert [http.get(url).text for _ in range(3)] == ["OK"] * 3
    assert seen == [2, 2, 1]


def test_a_new_connection_that_is_closed_is() -> None:
    with (
        closing(after=0) as (url, seen),
        client(httpx.HTTPTransport(), 20) as http,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        http.get(url)
    assert seen == [1]
