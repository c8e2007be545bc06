"""What is too long, and what is exactly as long as it may be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.conformance.endpoint import Endpoint
from raypd.conformance.outcome import Outcome, Seen

_ANSWER = 5  # tokens asked for beside the prompt that is too long


def prompt_too_long(endpoint: Endpoint) -> Iterator[Outcome]:
    """A prompt longer than the context is 400, and numbers in the message are right."""
    context = endpoint.context
    answer = endpoint.chat("a b " * context, max_tokens=_ANSWER)
    if answer.status not in {400, 413, 422}:
        yield answer.wrong(f"A prompt over the context is answered with HTTP {answer.status}")
        return
    if answer.error is None:
        yield answer.wrong("A prompt over the context is refused without the error envelope")
    words = answer.error_message.replace(",", "")
    told = re.search(r"context (?:length|window|size) (?:is|of) (\d+)", words)
    if told and int(told[1]) != context:
        yield answer.wrong(f"The message speaks of a context of {told[1]} tokens, not of {context}")
    asked = re.search(r"\b(\d+) (?:output|completion) tokens", words)
    if asked and int(asked[1]) != _ANSWER:
        yield answer.wrong(f"The message speaks of {asked[1]} output tokens, not of {_ANSWER}")


def answer_too_long(endpoint: Endpoint) -> Iterator[Outcome]:
    """More max_tokens than the context are 400, or cut at the context; never an error of the server."""
    context = endpoint.context
    answer = endpoint.chat("Say yes.", max_tokens=context + 1, stop=[" ", "a", "e", "o"])
    if answer.status == 200:
        if answer.usage["total_tokens"] > context:
            yield answer.wrong("Prompt and answer are longer than the context")
    elif answer.status not in {400, 422}:
        yield answer.wrong(f"max_tokens over the context give HTTP {answer.status}")
    elif answer.error is None:
        yield answer.wrong("max_tokens over the context are refused without the error envelope")
    yield Seen(f"HTTP {answer.status}")


def full_context(endpoint: Endpoint) -> Iterator[Outcome]:
    """A prompt that leaves room for two tokens gets two."""
    context = endpoint.context
    first, second = (
        endpoint.chat("a " * words, max_tokens=1).usage["prompt_tokens"] for words in (16, 32)
    )
    rate = max((second - first) / 16, 0.5)
    words = 16 + int((context - 2 - first) / rate)
    for _ in range(8):  # to where no word more fits
        answer = endpoint.chat("a " * words, max_tokens=2)
        if answer.status == 200:
            break
        words -= 1
    if answer.status != 200:
        yield answer.wrong("A prompt that leaves room for the answer is refused")
        return
    usage = answer.usage
    if usage["total_tokens"] > context:
        yield answer.wrong("Prompt and answer are longer than the context")
    yield Seen(f"{usage['prompt_tokens']} + {usage['completion_tokens']} of {context:,} tokens")


CHECKS = [
    ("a prompt over the context is 400, with the right numbers", prompt_too_long),
    ("max_tokens over the context are no server error", answer_too_long),
    ("a context may be filled", full_context),
]
