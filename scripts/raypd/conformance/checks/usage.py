"""Counts of tokens."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.conformance.answer import counts
from raypd.conformance.endpoint import Endpoint
from raypd.conformance.outcome import Outcome, Seen

_USAGE = {"include_usage": True}


def adds_up(endpoint: Endpoint) -> Iterator[Outcome]:
    """Prompt and answer make the total, and both are counted."""
    answer = endpoint.chat()
    usage = answer.usage
    if usage["prompt_tokens"] + usage["completion_tokens"] != usage["total_tokens"]:
        yield answer.wrong("total_tokens is not the sum of the two others")
    if not usage["prompt_tokens"] or not usage["completion_tokens"]:
        yield answer.wrong("A prompt or an answer is counted as no tokens")
    yield Seen(", ".join(f"{name} {number}" for name, number in usage.items()))


def prompt_is_counted(endpoint: Endpoint) -> Iterator[Outcome]:
    """A prompt has the same count each time, and a longer one a higher."""
    prompts = ["One.", "One.", "One. " * 8, "One. " * 24]
    answers = [endpoint.chat(prompt, max_tokens=1) for prompt in prompts]
    found = [answer.usage["prompt_tokens"] for answer in answers]
    if found[0] != found[1]:
        yield answers[1].wrong("One prompt is counted differently the second time")
    if not found[1] < found[2] < found[3]:
        yield answers[3].wrong("A longer prompt has no more prompt tokens")


def answer_is_counted(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer that ends for its length has as many tokens as were allowed."""
    for allowed in (1, 2, 7, 16):
        answer = endpoint.chat(max_tokens=allowed)
        count = answer.usage["completion_tokens"]
        if answer.finish == "length" and count != allowed:
            yield answer.wrong(f"{count} tokens are counted of an answer cut after {allowed}")


def stream_usage(endpoint: Endpoint) -> Iterator[Outcome]:
    """Asked for, the counts come once, in a last chunk without choices, and are those of the whole
    answer."""
    whole, stream = endpoint.chat().usage, endpoint.stream(stream_options=_USAGE)
    last = stream.chunks[-1]
    if len(stream.usages) != 1:
        yield stream.answer.wrong(f"Usage comes {len(stream.usages)} times in a stream, not once")
    elif last.get("usage") is None or last.get("choices") != []:
        yield stream.answer.wrong("Usage is not in a last chunk without choices")
    elif counts(last["usage"], stream.answer) != whole:
        yield stream.answer.wrong("A stream's usage is another than that of the whole answer")


def unasked(endpoint: Endpoint) -> Iterator[Outcome]:
    """Not asked for, no chunk has counts."""
    stream = endpoint.stream()
    if stream.usages:
        yield stream.answer.wrong("A stream has usage that was not asked for")


CHECKS = [
    ("the counts add up", adds_up),
    ("a prompt is counted the same, a longer one higher", prompt_is_counted),
    ("an answer cut for its length has that count", answer_is_counted),
    ("stream_options.include_usage", stream_usage),
    ("no usage in a stream unasked", unasked),
]
