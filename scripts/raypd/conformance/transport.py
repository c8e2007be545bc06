"""HTTP that ends: each exchange has a time and a size, whatever the server does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx

_MOST_BYTES = 32 * 1024 * 1024  # of one answer: hundreds of times what any check asks for


class Bounded(httpx.BaseTransport):
    """Wraps a transport. An exchange takes `seconds` at most, an answer that drips byte by byte too;
    `until` is when the whole run ends, on the clock of time.monotonic. What goes over raises
    httpx.ReadTimeout or httpx.ReadError."""

    def __init__(self, transport: httpx.BaseTransport, seconds: float, until: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self.until = until

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        left = max(min(self._seconds, self.until - time.monotonic()), 0.001)
        steps: list[str] = []
        request.extensions = {
            **request.extensions,
            "timeout": dict.fromkeys(("connect", "read", "write", "pool"), left),
            "trace": lambda step, _: steps.append(step),
        }
        end = time.monotonic() + left
        response = self._answered(request, steps)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Stream(response.stream, end, left)
        return response

    def _answered(self, request: httpx.Request, steps: list[str]) -> httpx.Response:
        """A server may close a connection that rests, and a client has to be ready for that: once more
        over another one (RFC 9112, 9.3.1). Over a new one it is the server's answer."""
        while True:
            steps.clear()
            try:
                return self._transport.handle_request(request)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if not steps or "connection.connect_tcp.started" in steps:
                    raise

    def close(self) -> None:
        """Ends its connections."""
        self._transport.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, end: float, seconds: float) -> None:
        self._stream = stream
        self._end = end
        self._seconds = seconds

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout(f"the answer was not over after {self._seconds:.0f} s")
            if size > _MOST_BYTES:
                raise httpx.ReadError(f"the answer is larger than {_MOST_BYTES:,} bytes")
            yield part

    def close(self) -> None:
        self._stream.close()
