"""An application like the one that the guard stands in front of, without a model.

It answers as Ray 2.58 and vLLM 0.26 do: JSON or server-sent events of the same fields in the same order, usage
in every event where `stream_options` ask for it, the engine's times at the end, and errors in Ray's words. An
answer is the prompt's words again, one a token. What goes wrong is a test's to say: `misbehave` takes the place
of an answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Misbehaviour = Callable[[Json, Any], Awaitable[None]]

MODEL = "tiny"
_CHAT = "/v1/chat/completions"
_METRICS = {"time_to_first_token_ms": 3.0, "generation_time_ms": 8.0, "queue_time_ms": 2.0}


@dataclass
class Engine:
    """The application. `step` are the seconds that a token takes; while `held` is set no token is written.

    `asked` has the bodies of the requests, `headers` the last one's. `running` are those that it answers now,
    `cancelled` those that were ended from outside. `cached` are prompt tokens that it did not have to read.
    """

    step: float = 0.0
    cached: int = 0
    held: bool = False
    misbehave: Misbehaviour | None = None
    asked: list[Json] = field(default_factory=list)
    headers: dict[bytes, bytes] = field(default_factory=dict)
    running: int = 0
    most_running: int = 0
    cancelled: int = 0

    async def __call__(self, scope: Json, receive: Any, send: Any) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            self.headers = dict(scope["headers"])
            body = json.loads(await _content(receive))
            self.asked.append(body)
            if self.misbehave:
                await self.misbehave(body, send)
            elif body.get("stream"):
                await self._stream(scope["path"] == _CHAT, body, send)
            else:
                await self._whole(scope["path"] == _CHAT, body, send)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _token(self) -> None:
        while self.held:
            await asyncio.sleep(0.001)
        await asyncio.sleep(self.step)

    async def _whole(self, chat: bool, body: Json, send: Any) -> None:
        said = answer(body)
        for _ in said:
            await self._token()
        finish = {"logprobs": None, "finish_reason": "length", "stop_reason": None}
        text = "".join(said)
        choices = [
            {"index": number, **({"message": _message(text)} if chat else {"text": text}), **finish}
            for number in range(body.get("n") or 1)
        ]
        kind = "chat.completion" if chat else "text_completion"
        between = {"kv_transfer_params": {"remote_host": "10.0.3.7"}, "ec_transfer_params": None}
        await respond(
            send,
            {
                **_head(body, kind),
                "choices": choices,
                "usage": self._usage(_read(body), len(said) * len(choices), last=True),
                **between,
                "metrics": _METRICS,
            },
        )

    async def _stream(self, chat: bool, body: Json, send: Any) -> None:
        options = body.get("stream_options") or {}
        kind = "chat.completion.chunk" if chat else "text_completion"

        def event(choices: list[Json], written: int) -> bytes:
            chunk = {**_head(body, kind), "choices": choices}
            if options.get("continuous_usage_stats"):
                chunk["usage"] = self._usage(read, written)
            return sse(chunk)

        await start(send, 200, "text/event-stream; charset=utf-8")
        said, several, read = answer(body), range(body.get("n") or 1), _read(body)
        if chat:
            for number in several:
                delta = {"role": "assistant", "content": ""}
                one = {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}
                await part(send, event([one], 0))
        written = 0
        for place, word in enumerate(said):
            for number in several:
                await self._token()
                written += 1
                end = "length" if place == len(said) - 1 else None
                delta = {"delta": {"content": word}} if chat else {"text": word}
                one = {"index": number, **delta, "logprobs": None, "finish_reason": end}
                await part(send, event([one], written))
        if options.get("include_usage"):
            usage = {"usage": self._usage(read, written, last=True), "metrics": _METRICS}
            await part(send, sse({**_head(body, kind), "choices": [], **usage}))
        await part(send, b"data: [DONE]\n\n", more=False)

    def _usage(self, read: int, written: int, last: bool = False) -> Json:
        usage = {
            "prompt_tokens": read,
            "total_tokens": read + written,
            "completion_tokens": written,
        }
        if last and self.cached:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        return usage


def _read(body: Json) -> int:
    return sum(len(each.split()) for each in prompts(body))


def prompts(body: Json) -> list[str]:
    """What is read for a request."""
    if "messages" in body:
        return [" ".join(str(message.get("content") or "") for message in body["messages"])]
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return [_text(each) for each in prompt]
    return [_text(prompt)]


def _text(prompt: Any) -> str:
    return " ".join(map(str, prompt)) if isinstance(prompt, list) else str(prompt)


def answer(body: Json) -> list[str]:
    """The tokens that are written: as many as asked for, 4 where nothing was said."""
    words = " ".join(prompts(body)).split() or ["nothing"]
    longest = body.get("max_completion_tokens") or body.get("max_tokens")
    count = longest if isinstance(longest, int) else 4
    return [f" {words[number % len(words)]}" for number in range(min(count, 64))]


def _message(text: str) -> Json:
    return {"role": "assistant", "content": text, "tool_calls": [], "reasoning": None}


def _head(body: Json, kind: str) -> Json:
    name = body.get("request_id", "0")
    return {"id": f"cmpl-{name}", "object": kind, "created": 1, "model": body.get("model")}


async def _content(receive: Any) -> bytes:
    content, more = b"", True
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


# What applications are made of.


def sse(body: Json) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


async def start(send: Any, status: int, kind: str) -> None:
    headers = [(b"content-type", kind.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def part(send: Any, content: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": more})


async def respond(send: Any, body: Any, status: int = 200) -> None:
    await start(send, status, "application/json")
    await part(send, body if isinstance(body, bytes) else json.dumps(body).encode(), more=False)


# Errors as they come out of Ray Serve LLM.


def wrapped(status: int, message: str, kind: str = "BadRequestError") -> Json:
    """An error of an engine, as Ray's ingress tells it (serve/utils/server_utils.py, get_response_for_error)."""
    if status == 500:
        message, kind = "Internal Server Error", "InternalServerError"
    said = f"{message} (Request ID: 0a1b2c)"
    inside = f"ray.llm._internal.serve.core.configs.openai_api_models.{kind}: {said}"
    whole = f"Message: {said}, Internal exception: {inside}, original exception: {message}"
    return {"error": {"message": whole, "type": kind, "param": None, "code": status}}


def unreadable(what: str, where: tuple[Any, ...], given: Any) -> Json:
    """A request that FastAPI refuses (core/ingress/middleware.py, _handle_validation_error)."""
    message = f"Invalid request format: {what} at {where}"
    error = {"message": message, "type": "value_error", "param": given, "code": "invalid_parameter"}
    return {"error": error}


def refusing(status: int, body: Any) -> Misbehaviour:
    """An application that answers every request with this."""

    async def misbehave(_: Json, send: Any) -> None:
        await respond(send, body, status)

    return misbehave
