"""Asking the guard: through httpx, and by hand where a client does what httpx cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from endpoint_guard.app import Guard
from endpoint_guard.settings import Settings
from unit.endpoint_guard.engine import MODEL, Engine

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "one two three"}]}
TEXT = {"model": MODEL, "prompt": "one two three"}
_SECONDS = 5  # after which a test fails that waits for something


def guarded(engine: Any = None, *, keys: Any = None, **settings: Any) -> Guard:
    engine = engine or Engine()
    return Guard(engine, (MODEL,), settings=Settings(**settings), keys=keys, version="0.26.0")


async def ask(guard: Guard, path: str = CHAT, body: Any = None, **options: Any) -> httpx.Response:
    """One request with `body`; GET without one."""
    if isinstance(body, bytes):
        options["content"] = body
    elif body is not None:
        options["json"] = body
    method = options.pop("method", "GET" if body is None else "POST")
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://endpoint") as client:
        async with asyncio.timeout(_SECONDS):
            return await client.request(method, path, **options)


def envelope(response: httpx.Response) -> dict[str, Any]:
    """The fields of the error in OpenAI's envelope, which it has to be."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}, body
    return well_formed(body["error"])


def well_formed(error: dict[str, Any]) -> dict[str, Any]:
    assert set(error) == {"message", "type", "param", "code"}, error
    assert isinstance(error["message"], str) and error["message"]
    assert len(error["message"]) < 700
    assert isinstance(error["type"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    return error


def chunks(response: httpx.Response | bytes) -> list[Any]:
    """The events of a stream as JSON, without [DONE]."""
    content = response if isinstance(response, bytes) else response.content
    events = [each for each in content.split(b"\n\n") if each]
    assert all(each.startswith(b"data: ") for each in events), events
    return [json.loads(each[6:]) for each in events if each != b"data: [DONE]"]


@dataclass
class Call:
    """A request by hand: `say` and `hang_up` are the client's, `sent` is what it was answered."""

    guard: Any
    path: str = CHAT
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    method: str = "POST"
    sent: list[dict[str, Any]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    _said: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    def begin(self) -> Call:
        scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "query_string": b"",
        }

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)

        self.task = asyncio.create_task(self.guard(scope, self._said.get, send))
        return self

    def say(self, body: Any, more: bool = False) -> Call:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._said.put_nowait({"type": "http.request", "body": content, "more_body": more})
        return self

    def hang_up(self) -> Call:
        self._said.put_nowait({"type": "http.disconnect"})
        return self

    async def end(self) -> Call:
        assert self.task
        async with asyncio.timeout(_SECONDS):
            await self.task
        return self

    @property
    def status(self) -> int | None:
        starts = [each["status"] for each in self.sent if each["type"] == "http.response.start"]
        assert len(starts) <= 1
        return starts[0] if starts else None

    @property
    def content(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent)

    @property
    def ended(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", self.status is None)


async def until(true: Any) -> None:
    """Waits until `true()` holds."""
    async with asyncio.timeout(_SECONDS):
        while not true():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fails when a task that was begun within it still runs at its end."""
    before = asyncio.all_tasks()
    yield
    for _ in range(3):  # for Python's own closing of generators that were left
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    assert not left
