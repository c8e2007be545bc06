"""Requests to the endpoint, through the official client."""

from __future__ import annotations

import time
from dataclasses import dataclass

from openai import APIConnectionError, APIStatusError, OpenAI

from raypd.local import web
from raypd.local.state import State
from raypd.report import UsageError

_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """One answer: its text, why it ended, tokens of prompt and answer, seconds to the first token
    (of a stream; else to the whole answer) and in all."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    first_seconds: float
    seconds: float


def client(state: State) -> OpenAI:
    """The client."""
    return OpenAI(
        base_url=state.endpoint,
        api_key=api_key(state) or "unused",  # the client insists on one
        timeout=_SECONDS,
        max_retries=0,
        http_client=web.client(),
    )


def api_key(state: State) -> str | None:
    """A key of the run's, where its endpoint asks for one."""
    keys = sorted(state.folder.glob("mounts/*/opt/ray-pd-llm/api-keys/*"))
    return keys[0].read_text().strip() if keys else None


def ask(state: State, prompt: str, max_tokens: int = 24, stream: bool = False) -> Answer:
    """Sends one chat request at temperature 0. Raises UsageError with the server's own words."""
    begin = time.monotonic()
    try:
        return (
            _streamed(state, prompt, max_tokens, begin)
            if stream
            else _whole(state, prompt, max_tokens, begin)
        )
    except APIStatusError as error:
        raise UsageError(
            f"{state.endpoint} answers HTTP {error.status_code}: {error.message}"
        ) from error
    except APIConnectionError as error:
        raise UsageError(f"{state.endpoint} does not answer: {error}") from error


def _whole(state: State, prompt: str, max_tokens: int, begin: float) -> Answer:
    answer = client(state).chat.completions.create(**_request(state, prompt, max_tokens))
    seconds = time.monotonic() - begin
    choice, usage = answer.choices[0], answer.usage
    return Answer(
        choice.message.content or "",
        choice.finish_reason,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        seconds,
        seconds,
    )


def _streamed(state: State, prompt: str, max_tokens: int, begin: float) -> Answer:
    chunks = client(state).chat.completions.create(
        **_request(state, prompt, max_tokens), stream=True, stream_options={"include_usage": True}
    )
    text, reason, first, usage = "", "", 0.0, None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.delta.content:
                first = first or time.monotonic() - begin
                text += choice.delta.content
            reason = choice.finish_reason or reason
    return Answer(
        text,
        reason,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        first,
        time.monotonic() - begin,
    )


def _request(state: State, prompt: str, max_tokens: int) -> dict:
    return {
        "model": state.model_id,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
