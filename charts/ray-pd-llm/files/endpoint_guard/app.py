"""A request from its first byte to its last."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from . import body as request_body
from .choices import ask_each, several
from .errors import Refusal, failed, from_engine
from .keys import Keys
from .limits import Gate, Meter
from .record import Record, logger
from .settings import Settings
from .stream import Stream, asked_of_engine, events
from .upstream import Answer, Application, Receive, Scope, Send, ask

_MODELS, _MODEL = "/v1/models", "/v1/models/"
_OWNER = "ray-pd-llm"
# Of an answer: what engines tell each other, or the guard.
_BETWEEN_ENGINES = ("kv_transfer_params", "ec_transfer_params", "metrics")
# Paths of OpenAI's API that a client may try, and why there is nothing under them.
_MISSING = {
    "/v1/responses": "The Responses API is not supported: Ray Serve LLM has none. Use /v1/chat/completions.",
    "/v1/embeddings": "Embeddings are not supported: the model writes text.",
}
_NAME = re.compile(rb"[\w.:-]{1,128}")  # of a request
_PATHS = "Unknown path. There are /v1/chat/completions, /v1/completions and /v1/models."

Healthy = Callable[[], Awaitable[bool]]
Observe = Callable[[Record], None]


class Guard:
    """An ASGI application in front of `application`, which serves `models`.

    `keys` is the folder with the API keys, which are asked for when the settings say so. `healthy` is asked
    for GET /health, `version` is told by GET /version, `observe` gets the record of each request.
    """

    def __init__(
        self,
        application: Application,
        models: tuple[str, ...],
        *,
        settings: Settings | None = None,
        keys: Path | None = None,
        version: str = "",
        healthy: Healthy | None = None,
        observe: Observe | None = None,
    ) -> None:
        self.application = application
        self.settings = settings or Settings()
        self.gate = Gate()
        self._models = models
        self._keys = Keys(keys)
        self._version = version
        self._healthy = healthy
        self._observe = observe
        self._meter = Meter()
        self._made = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        # Ray's proxy tells the client this id; one that a client made up may be anything.
        name = headers.get(b"x-request-id", b"")
        if not _NAME.fullmatch(name):
            name = uuid.uuid4().hex.encode()
        kept = [each for each in scope["headers"] if each[0].lower() != b"x-request-id"]
        scope = {**scope, "headers": [*kept, (b"x-request-id", name)]}
        record = Record(path, name.decode())
        reply = _Reply(send, record)
        try:
            await self._routed(path, scope, headers, receive, reply)
        except Refusal as refusal:
            await reply.refuse(refusal)
        except _Gone:
            record.cut = True
        except asyncio.CancelledError:
            record.cut = True
            raise
        except Exception:
            logger.exception("request %s failed", record.request_id)
            await reply.refuse(failed())
        finally:
            if record.path in request_body.FIELDS:
                self._meter.used(
                    record.key, record.prompt_tokens + record.completion_tokens, self.settings
                )
                record.log()
                if self._observe:
                    self._observe(record)

    async def _routed(
        self, path: str, scope: Scope, headers: dict[bytes, bytes], receive: Receive, reply: _Reply
    ) -> None:
        if path == "/health":
            _only(scope, "GET", "HEAD")
            return await self._health(reply)
        # Before anything is told of what is there and what is not.
        authorization = headers.get(b"authorization")
        if self.settings.api_keys:
            text = None if authorization is None else authorization.decode("latin-1")
            reply.record.key = self._keys.name(text)
        if path in request_body.FIELDS:
            _only(scope, "POST")
            return await self._while_connected(path, scope, headers, receive, reply)
        if path == _MODELS:
            _only(scope, "GET", "HEAD")
            return await reply.json(
                {"object": "list", "data": [self._card(m) for m in self._models]}
            )
        if path.startswith(_MODEL):
            _only(scope, "GET", "HEAD")
            name = unquote(path.removeprefix(_MODEL))
            if name not in self._models:
                raise request_body.unknown_model(name, self._models)
            return await reply.json(self._card(name))
        if path == "/version":
            _only(scope, "GET", "HEAD")
            return await reply.json({"version": self._version})
        raise Refusal(404, _MISSING.get(path, _PATHS), "unknown_url")

    async def _health(self, reply: _Reply) -> None:
        if self._healthy and not await self._healthy():
            raise Refusal(503, "The model does not answer.", "model_unavailable")
        await reply.json({"status": "ok"})

    def _card(self, model: str) -> dict[str, Any]:
        card = {"id": model, "object": "model", "created": self._made, "owned_by": _OWNER}
        # Not OpenAI's, but what clients ask of vLLM.
        return {**card, "max_model_len": self.settings.context} if self.settings.context else card

    async def _while_connected(
        self, path: str, scope: Scope, headers: dict[bytes, bytes], receive: Receive, reply: _Reply
    ) -> None:
        """Answers, and ends what runs for the request, here and in the engines, when the client hangs up."""
        content = await _content(headers, receive, self.settings)
        body = request_body.read(content)
        request_body.check(body, path, self._models, self.settings)
        reply.record.stream = bool(body.get("stream"))
        work = asyncio.create_task(self._answer(scope, body, reply))
        gone = asyncio.create_task(_hung_up(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                reply.record.cut = True
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _answer(self, scope: Scope, body: dict[str, Any], reply: _Reply) -> None:
        settings, record = self.settings, reply.record
        async with (
            self._meter.counted(record.key, settings),
            self.gate.passed(settings),
        ):
            record.asked = time.perf_counter()
            async with self._asked(scope, body) as answer:
                if answer.status != 200:
                    raise from_engine(answer.status, await answer.content(), body)
                if answer.content_type.startswith("text/event-stream"):
                    await self._stream(answer, body, reply)
                else:
                    await self._whole(answer, reply)

    def _asked(self, scope: Scope, body: dict[str, Any]) -> AbstractAsyncContextManager[Answer]:
        # The id is the guard's own: two requests of one id would meet in the engine.
        asked = {**body, "request_id": uuid.uuid4().hex}
        if body.get("stream"):
            asked["stream_options"] = asked_of_engine(body.get("stream_options"))
        if self.settings.disaggregated and several(body):
            return ask_each(self.application, scope, asked)
        return ask(self.application, scope, asked)

    async def _whole(self, answer: Answer, reply: _Reply) -> None:
        record = reply.record
        body = json.loads(await answer.content())
        metrics = body.get("metrics")
        for name in _BETWEEN_ENGINES:
            body.pop(name, None)
        record.usage = body.get("usage")
        record.answered(metrics, self.settings.disaggregated)
        timing = record.server_timing if self.settings.server_timing else ""
        await reply.json(body, *_timing(timing))

    async def _stream(self, answer: Answer, body: dict[str, Any], reply: _Reply) -> None:
        record = reply.record
        stream = Stream(body.get("stream_options"))
        try:
            async for some in events(answer.parts):
                seen, error = stream.seen_by_client(some, body)
                record.usage = stream.usage
                if seen:
                    if record.first is None:
                        record.first = time.perf_counter()
                        await reply.begin_stream(*_timing(self._timing_so_far(record)))
                    await reply.events(seen)
                if error:
                    raise error
            await reply.end_stream()
        finally:
            record.answered(stream.metrics, self.settings.disaggregated)

    def _timing_so_far(self, record: Record) -> str:
        """A stream's headers go out with its first token: the rest of the times is in log and metrics."""
        if not self.settings.server_timing or record.asked is None or record.first is None:
            return ""
        queue, first = record.asked - record.began, record.first - record.asked
        return f"queue;dur={queue * 1e3:.1f}, first_token;dur={first * 1e3:.1f}"


class _Reply:
    """The way back to the client; what went out already decides what can still be said."""

    def __init__(self, send: Send, record: Record) -> None:
        self._send = send
        self.record = record
        self._begun = self._ended = False

    async def json(
        self, body: dict[str, Any], *headers: tuple[str, str], status: int = 200
    ) -> None:
        content = json.dumps(body, ensure_ascii=False).encode()
        await self._start(
            status,
            ("content-type", "application/json"),
            ("content-length", str(len(content))),
            *headers,
        )
        self._ended = True
        await self._send({"type": "http.response.body", "body": content})

    async def refuse(self, refusal: Refusal) -> None:
        """The error as an answer, or as the last event of a stream that has begun."""
        self.record.code = refusal.code
        if not self._begun:
            await self.json(refusal.envelope, *refusal.headers, status=refusal.status)
        elif not self._ended:
            self.record.status = refusal.status
            await self.events([b"data: " + json.dumps(refusal.envelope).encode()])
            await self.end_stream()

    async def begin_stream(self, *headers: tuple[str, str]) -> None:
        await self._start(
            200,
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),  # a proxy in front that gathers a stream makes it none
            *headers,
        )

    async def events(self, events: list[bytes]) -> None:
        if events:
            content = b"".join(event + b"\n\n" for event in events)
            await self._send({"type": "http.response.body", "body": content, "more_body": True})

    async def end_stream(self) -> None:
        self._ended = True
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, *headers: tuple[str, str]) -> None:
        self._begun = True
        self.record.status = status
        written = [(name.encode(), value.encode()) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": written})


def _only(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        message = f"This path takes {methods[0]}, not {scope['method'][:16]}."
        headers = (("allow", ", ".join(methods)),)
        raise Refusal(405, message, "method_not_allowed", headers=headers)


async def _content(headers: dict[bytes, bytes], receive: Receive, settings: Settings) -> bytes:
    """The body of a request, which may be neither too long nor too slow."""
    most = settings.body_bytes
    too_long = Refusal(413, f"The body may have {most} bytes.", "request_too_large")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > most:
        raise too_long
    try:
        async with asyncio.timeout(settings.body_seconds):
            content = bytearray()
            async for part in _parts(receive):
                content += part
                if len(content) > most:
                    raise too_long
            return bytes(content)
    except TimeoutError:
        message = f"The body did not come within {settings.body_seconds:g} s."
        raise Refusal(408, message, "timeout") from None


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        yield message.get("body", b"")
        more = message.get("more_body", False)


class _Gone(Exception):
    """The client hung up before its request was whole."""


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _timing(value: str) -> list[tuple[str, str]]:
    return [("server-timing", value)] if value else []
