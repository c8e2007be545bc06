"""The server that is judged: raw HTTP and the official client, over one bounded transport."""

from __future__ import annotations

import json
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import httpx
from openai import APIStatusError, OpenAI

from raypd.conformance.answer import Answer, Stream, excerpt, read_events
from raypd.conformance.outcome import Broken, NotApplicable, TimeOver
from raypd.conformance.transport import Bounded

Json = dict[str, Any]

CHAT, COMPLETIONS, MODELS = "/chat/completions", "/completions", "/models"
_NO_KEY = "none"  # servers without keys take any, and the official client insists on one
_CONNECTIONS = 16


class Endpoint:
    """One server. `base` is its URL with the version ("http://host:8000/v1"), `key` None where it asks
    for none, `model` None for the first that it lists. `transport` None is the network.

    `reference` is the server whose answers are the right ones, None when there is none.
    """

    def __init__(
        self,
        base: str,
        key: str | None = None,
        model: str | None = None,
        seconds: float = 60,
        until: float = float("inf"),
        transport: httpx.BaseTransport | None = None,
        reference: Endpoint | None = None,
    ) -> None:
        self.base = base.rstrip("/")
        self.key = key
        self.until = until
        self.reference = reference
        self._model = model
        self._bounded = Bounded(
            transport or httpx.HTTPTransport(limits=httpx.Limits(max_connections=_CONNECTIONS)),
            seconds,
            until,
        )
        self.http = httpx.Client(transport=self._bounded)

    def close(self) -> None:
        """Ends its connections."""
        self.http.close()

    def check_time(self) -> None:
        """Raises TimeOver when the run's time is over."""
        if time.monotonic() > self.until:
            raise TimeOver

    # What the server is

    @cached_property
    def cards(self) -> list[Json]:
        """What GET /models lists. Raises Broken."""
        answer = self.get(MODELS).good()
        found = answer.body.get("data")
        if not isinstance(found, list) or not found:
            raise answer.broken("GET /models lists no models")
        if not all(isinstance(card, dict) and isinstance(card.get("id"), str) for card in found):
            raise answer.broken("GET /models lists a model without an id")
        return found

    @cached_property
    def model(self) -> str:
        """The id of the model that is asked. Raises Broken."""
        return self._model or self.cards[0]["id"]

    @cached_property
    def context(self) -> int:
        """Tokens that prompt and answer may have together, as the model's card says: vLLM's
        `max_model_len`, Ray Serve LLM's `metadata.max_request_context_length`. Raises NotApplicable
        when it does not."""
        for card in self.cards:
            inner = card.get("metadata")
            metadata = inner if isinstance(inner, dict) else {}
            found = card.get("max_model_len") or metadata.get("max_request_context_length")
            if card["id"] == self.model and isinstance(found, int) and found > 0:
                return found
        raise NotApplicable("the model's card does not say how long its context is")

    # Raw HTTP

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Headers with a key, this endpoint's by default."""
        return {"authorization": f"Bearer {key or self.key or _NO_KEY}"}

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        """The answer to GET, whatever its status."""
        return self.exchange("GET", path, headers=headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        """The answer to POST of JSON, whatever its status."""
        return self.exchange("POST", path, json.dumps(body).encode(), headers)

    def exchange(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request with these bytes. Raises httpx.HTTPError when there is no whole answer."""
        with self._sent(method, path, content, headers) as response:
            return Answer(
                f"{method} {path}", response.status_code, response.headers, response.read()
            )

    def chat(self, prompt: str | list[Json] = "Tell me a story.", **options: Any) -> Answer:
        """The answer to a chat request: greedy, of 16 tokens, unless the options say otherwise."""
        return self.post(CHAT, self.chat_request(prompt, **options))

    def chat_request(self, prompt: str | list[Json], **options: Any) -> Json:
        """The body of such a request. A prompt is one user message, or all messages."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        limit = {} if "max_completion_tokens" in options else {"max_tokens": 16}
        return {"model": self.model, "messages": messages, "temperature": 0, **limit, **options}

    def stream(self, prompt: str | list[Json] = "Tell me a story.", **options: Any) -> Stream:
        """The stream of events that answers a chat request."""
        return self.events(CHAT, self.chat_request(prompt, stream=True, **options))

    def events(self, path: str, body: Json) -> Stream:
        """The stream of events that answers POST of JSON."""
        reads = []
        with self._sent("POST", path, json.dumps(body).encode()) as response:
            reads = list(response.iter_bytes())
            answer = Answer(f"POST {path}", response.status_code, response.headers, b"".join(reads))
        return read_events(answer, reads)

    @contextmanager
    def opened(self, **options: Any) -> Iterator[Iterator[bytes]]:
        """The reads of a streamed chat answer that may be left before its end."""
        body = self.chat_request("Tell me a very long story.", stream=True, **options)
        with self._sent("POST", CHAT, json.dumps(body).encode()) as response:
            yield response.iter_bytes()

    @contextmanager
    def _sent(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        self.check_time()
        kind = {} if content is None else {"content-type": "application/json"}
        with self.http.stream(
            method,
            f"{self.base}{path}",
            content=content,
            headers={**kind, **(self.headers() if headers is None else headers)},
        ) as response:
            yield response

    # The official client

    @cached_property
    def client(self) -> OpenAI:
        """OpenAI's own client: no retries, so that what it meets is seen."""
        return self.client_with(self.key or _NO_KEY)

    def client_with(self, key: str) -> OpenAI:
        """The same with another key."""
        self.check_time()
        return OpenAI(base_url=self.base, api_key=key, max_retries=0, http_client=self.http)


def unseen(words: str = "Tell me a story.") -> str:
    """A prompt that no cache has seen."""
    return f"{uuid.uuid4().hex[:8]} {words}"


def refused_as_missing(answer: Answer, what: str) -> None:
    """Raises NotApplicable when the answer is a proper refusal of something that the server, or its
    model, does not have: a 4xx or 501 in the error envelope that says so. Raises Broken when it is
    any other refusal, and returns when it is none."""
    if answer.status == 200:
        return
    words = answer.error_message.lower()
    said = any(word in words for word in _ABSENT)
    if answer.error and said and (400 <= answer.status < 500 or answer.status == 501):
        raise NotApplicable(f"the server says that it has no {what}: {answer.error_message[:120]}")
    raise answer.broken(f"{what} is refused with HTTP {answer.status}")


# How servers say that they do not have what is asked for.
_ABSENT = (
    *("not support", "unsupported", "does not have", "not available", "not enabled", "disabled"),
    *("not implemented", "not configured", "requires --", "unrecognized", "unknown"),
    *("not permitted", "not allowed", "extra inputs", "no such", "not exist", "not found"),
)


@contextmanager
def taken_by_the_client(what: str) -> Iterator[None]:
    """Whatever the official client raises on an answer says that it cannot take it: Broken."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, of what is about to be an error here
            yield
    except (Broken, NotApplicable, TimeOver):
        raise
    except APIStatusError as error:
        raise Broken(
            f"The official client cannot take {what}: HTTP {error.status_code}",
            error.status_code,
            excerpt(error.response.text if error.response.is_closed else str(error.body)),
        ) from error
    except Exception as error:
        cause = error.__cause__ or error
        raise Broken(
            f"The official client cannot take {what}: {type(cause).__name__}: {str(cause)[:300]}"
        ) from error
