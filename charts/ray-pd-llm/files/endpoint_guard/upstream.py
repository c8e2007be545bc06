"""Asking the application behind, over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_DROPPED = {
    b"accept-encoding",
    b"authorization",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"transfer-encoding",
}
_AHEAD = 16  # parts of an answer that the application behind may be ahead of the client


class Broke(Exception):
    """The application behind ended, by an exception or without the end of its answer."""


@dataclass
class Answer:
    """`status` and `content_type` as soon as they are known, the content as it comes."""

    status: int
    content_type: str
    parts: AsyncIterator[bytes]

    async def content(self) -> bytes:
        return b"".join([part async for part in self.parts])


@asynccontextmanager
async def ask(
    application: Application, scope: Scope, body: dict[str, Any] | None
) -> AsyncIterator[Answer]:
    """The answer of `application` to `scope` with another body. Leaving ends the request there as well, as a
    client does that hangs up, so that no engine goes on for nobody. Raises Broke."""
    content = b"" if body is None else json.dumps(body).encode()
    scope = {**scope, "headers": _headers(scope, len(content))}
    messages: asyncio.Queue[Message | Broke] = asyncio.Queue(_AHEAD)
    asked = left = False

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": content, "more_body": False}
        # The client hangs up when `ask` is left, and then this is cancelled with all else.
        return await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        if left:  # and it goes on all the same: what it sends would fill the queue, and then it would hang
            raise OSError("the client has hung up")
        await messages.put(message)

    async def run() -> None:
        try:
            await application(scope, receive, send)
            end = Broke("the application ended without the end of its answer")
        except (Exception, asyncio.CancelledError) as error:
            end = Broke("the application failed")
            end.__cause__ = error
        if not left:
            await messages.put(end)

    task = asyncio.create_task(run())
    try:
        start = _unbroken(await messages.get())
        headers = dict(start.get("headers") or ())
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        yield Answer(start["status"], content_type, _parts(messages))
    finally:
        left = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _parts(messages: asyncio.Queue[Message | Broke]) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = _unbroken(await messages.get())
        if part := message.get("body"):
            yield part
        more = message.get("more_body", False)


def _unbroken(message: Message | Broke) -> Message:
    if isinstance(message, Broke):
        raise message
    return message


def _headers(scope: Scope, length: int) -> list[tuple[bytes, bytes]]:
    """Those of the client without its key, which nobody behind needs, and without what the new body changes."""
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in _DROPPED]
    return [
        *kept,
        (b"content-type", b"application/json"),
        (b"content-length", str(length).encode()),
    ]
