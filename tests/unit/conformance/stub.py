"""A server that keeps OpenAI's contract in everything that the suite looks at, without any model.

`Stub` is a transport of httpx, in this process; served.py puts it behind a port on loopback. Its
answers are words that follow from the prompt alone. Misbehaviours wrap its methods.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from unit.conformance.stub_model import CONTEXT, Generated, StubModel, tokenized

Json = dict[str, Any]

MODEL, KEY = "stub-1", "sk-stub-right-key"
_NUMBERS = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "n": (1, 16),
    "max_tokens": (1, 10**9),
    "max_completion_tokens": (1, 10**9),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "top_logprobs": (0, 20),
    "min_tokens": (0, 10**9),
}


@dataclass
class Reply:
    """An HTTP answer; `parts` are the reads that a client gets of it."""

    status: int
    kind: str
    parts: Iterable[bytes]


class Refused(Exception):
    """An answer in the error envelope."""

    def __init__(self, status: int, message: str, param: Any = None, code: Any = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.error: Json = {"message": message, "type": kind, "param": param, "code": code}


class Stub(StubModel, httpx.BaseTransport):
    """The server. `key` None takes any key."""

    def __init__(self, key: str | None = KEY) -> None:
        super().__init__()
        self.key = key
        self.running = 0

    # The transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = self.answer(
            request.method,
            request.url.path,
            request.headers.get("authorization", ""),
            request.read(),
        )
        return httpx.Response(
            reply.status, headers={"content-type": reply.kind}, stream=Parts(reply.parts)
        )

    def answer(self, method: str, path: str, authorization: str, content: bytes) -> Reply:
        """What the server answers."""
        try:
            return self.route(method, path, authorization, content)
        except Refused as refused:
            return self.refusal(refused)

    def refusal(self, refused: Refused) -> Reply:
        return self.json({"error": refused.error}, refused.status)

    def json(self, body: Any, status: int = 200) -> Reply:
        return Reply(status, "application/json", [json.dumps(body).encode()])

    # Paths

    def route(self, method: str, path: str, authorization: str, content: bytes) -> Reply:
        if path == "/metrics":
            text = f'# HELP x\nvllm:num_requests_running{{engine="0"}} {self.running:.1f}\n'
            return Reply(200, "text/plain", [text.encode()])
        self.authorize(path, authorization)
        posts: dict[str, Callable[[Json], Reply]] = {
            "/v1/chat/completions": self.chat,
            "/v1/completions": self.completions,
            "/v1/responses": self.responses,
        }
        if path in posts:
            if method != "POST":
                raise Refused(405, f"Not allowed to {method} on {path}.")
            return posts[path](self.parsed(content))
        if method == "GET" and path == "/v1/models":
            return self.json(self.models())
        if method == "GET" and path.startswith("/v1/models/"):
            return self.card(path.removeprefix("/v1/models/"))
        raise Refused(404, f"Invalid URL ({method} {path})")

    def authorize(self, path: str, authorization: str) -> None:
        if self.key is not None and authorization != f"Bearer {self.key}":
            raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")

    def parsed(self, content: bytes) -> Json:
        try:
            body = json.loads(content)
        except ValueError:
            raise Refused(400, "The body of your request is no JSON.") from None
        if not isinstance(body, dict):
            raise Refused(400, "The body of your request is no object.")
        return body

    def models(self) -> Json:
        return {"object": "list", "data": [self.own_card()]}

    def own_card(self) -> Json:
        return {
            "id": MODEL,
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": "tests",
            "max_model_len": CONTEXT,
        }

    def card(self, name: str) -> Reply:
        if name != MODEL:
            raise Refused(404, f"The model {name} does not exist.", "model", "model_not_found")
        return self.json(self.own_card())

    # Chat

    def chat(self, body: Json) -> Reply:
        self.validate(body)
        prompt = self.prompt(body["messages"])
        self.fit(body, prompt)
        choices = [self.generate(body, prompt, index) for index in range(body.get("n") or 1)]
        usage = self.usage(prompt, choices)
        if body.get("stream"):
            events = self.events(body, prompt, choices, usage)
            return Reply(200, "text/event-stream", self.written(events))
        return self.json(self.whole(body, prompt, choices, usage))

    def validate(self, body: Json) -> None:
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise Refused(400, "messages has to be a list of at least one message.", "messages")
        if body.get("model") != MODEL:
            raise Refused(404, "The model does not exist.", "model", "model_not_found")
        for name, (low, high) in _NUMBERS.items():
            value = body.get(name)
            if value is not None and (
                not isinstance(value, int | float) or not low <= value <= high
            ):
                raise Refused(400, f"{name} has to be a number from {low} to {high}.", name)
        if not isinstance(body.get("stream"), bool | None):
            raise Refused(400, "stream has to be true or false.", "stream")
        if not isinstance(body.get("stop"), str | list | None):
            raise Refused(400, "stop has to be a string or a list.", "stop")
        if body.get("stream_options") and not body.get("stream"):
            raise Refused(400, "stream_options need stream.", "stream_options")
        if body.get("top_logprobs") and not body.get("logprobs"):
            raise Refused(400, "top_logprobs need logprobs.", "top_logprobs")
        if not isinstance(body.get("tools"), list | None):
            raise Refused(400, "tools has to be a list.", "tools")
        if body.get("kv_transfer_params") is not None:
            raise Refused(400, "kv_transfer_params are not for clients.", "kv_transfer_params")
        self.validate_form(body)
        self.validate_tools(body)

    def validate_form(self, body: Json) -> None:
        schema = self.schema(body)
        if schema is not None and schema.get("type") not in ("object", None):
            raise Refused(400, "The schema is none.", "response_format")

    def validate_tools(self, body: Json) -> None:
        choice = body.get("tool_choice")
        if isinstance(choice, dict):
            names = [tool["function"]["name"] for tool in body["tools"]]
            if choice["function"]["name"] not in names:
                raise Refused(400, "tool_choice names no tool that was given.", "tool_choice")

    def fit(self, body: Json, prompt: list[str]) -> None:
        allowed = self.allowed(body)
        if len(prompt) + (allowed or 1) > CONTEXT:
            raise Refused(
                400,
                f"The context has {CONTEXT} tokens, and you asked for {allowed or 0} output tokens"
                f" beside a prompt of {len(prompt)} tokens.",
                "messages",
                "context_length_exceeded",
            )

    # Their form

    def whole(self, body: Json, prompt: list[str], choices: list[Generated], usage: Json) -> Json:
        return {
            "id": f"chatcmpl-{self.next()}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [self.choice(body, n, choice) for n, choice in enumerate(choices)],
            "usage": usage,
            **({"prompt_token_ids": self.ids(prompt)} if body.get("return_token_ids") else {}),
        }

    def choice(self, body: Json, index: int, generated: Generated) -> Json:
        message: Json = {"role": "assistant", "content": generated.text}
        if generated.calls:
            message = {"role": "assistant", "content": None, "tool_calls": generated.calls}
        told = {"token_ids": self.ids(generated.tokens)} if body.get("return_token_ids") else {}
        return {
            "index": index,
            "message": message,
            "logprobs": self.logprobs(body, generated.tokens),
            "finish_reason": generated.finish,
            **told,
        }

    def ids(self, tokens: Iterable[str | bytes]) -> list[int]:
        return [self.id_of(t.encode() if isinstance(t, str) else t) for t in tokens]

    def events(
        self, body: Json, prompt: list[str], choices: list[Generated], usage: Json
    ) -> Iterator[Any]:
        """JSON of each event; a string is sent as it is."""
        base = {
            "id": f"chatcmpl-{self.next()}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": MODEL,
        }
        asked = body.get("return_token_ids")

        def chunk(index: int, delta: Json, finish: str | None = None, **more: Any) -> Json:
            choice = {"index": index, "delta": delta, "finish_reason": finish, **more}
            return {**base, "choices": [choice]}

        for index, choice in enumerate(choices):
            first = chunk(index, {"role": "assistant", "content": ""})
            yield {**first, "prompt_token_ids": self.ids(prompt)} if asked else first
            for call in choice.calls:
                yield from self.call_chunks(index, call, chunk)
            for piece, tokens in self.pieces(choice) if not choice.calls else ():
                more: Json = (
                    {"logprobs": self.logprobs(body, tokens)} if body.get("logprobs") else {}
                )
                if asked:
                    more["token_ids"] = self.ids(tokens)
                yield chunk(index, {"content": piece}, **more)
            yield chunk(index, {}, choice.finish)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {**base, "choices": [], "usage": usage}
        yield "[DONE]"

    def call_chunks(self, index: int, call: Json, chunk: Callable[..., Json]) -> Iterator[Json]:
        arguments = call["function"]["arguments"]
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk(index, {"tool_calls": [{**call, "index": 0, "function": function}]})
        for part in (arguments[:4], arguments[4:]):
            yield chunk(index, {"tool_calls": [{"index": 0, "function": {"arguments": part}}]})

    def pieces(self, choice: Generated) -> Iterator[tuple[str, list[bytes]]]:
        """Pieces of whole characters, with the tokens that end in them; nothing of a stop string."""
        left = choice.text
        held: list[bytes] = []
        for token in choice.tokens:
            held.append(token)
            try:
                piece = b"".join(held).decode()
            except UnicodeDecodeError:
                continue
            piece, left = left[: len(piece)], left[len(piece) :]
            yield piece, held
            held = []

    def written(self, events: Iterable[Any]) -> Iterator[bytes]:
        """The bytes of a stream, one read for each event. Counts as running until it is left."""
        self.running += 1
        try:
            for event in events:
                text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
                yield f"data: {text}\n\n".encode()
        finally:
            self.running -= 1

    # The other endpoints

    def completions(self, body: Json) -> Reply:
        prompt = tokenized(body["prompt"])
        choice = self.generate(body, prompt, 0)
        base = {
            "id": f"cmpl-{self.next()}",
            "created": 1,
            "model": MODEL,
            "object": "text_completion",
        }
        end = {"index": 0, "finish_reason": choice.finish, "logprobs": None}
        if body.get("stream"):
            pieces = [{**base, "choices": [{**end, "text": p}]} for p, _ in self.pieces(choice)]
            return Reply(200, "text/event-stream", self.written([*pieces, "[DONE]"]))
        usage = self.usage(prompt, [choice])
        return self.json({**base, "choices": [{**end, "text": choice.text}], "usage": usage})

    def responses(self, body: Json) -> Reply:
        text = {"type": "output_text", "text": "yes", "annotations": []}
        message = {
            "type": "message",
            "id": f"msg_{self.next()}",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
        return self.json(
            {
                "id": f"resp_{self.next()}",
                "object": "response",
                "created_at": 1_700_000_000,
                "model": MODEL,
                "status": "completed",
                "output": [message],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
            }
        )


class Parts(httpx.SyncByteStream):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()
