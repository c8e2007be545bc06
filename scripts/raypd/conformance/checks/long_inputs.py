"""Prompts over many blocks of KV, and many messages."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.conformance.endpoint import Endpoint, unseen
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_SHARES = (0.25, 0.5, 0.85)  # of the context
_MOST = 6000  # tokens of a prompt: enough for hundreds of blocks, and over in seconds
_MESSAGES = 40


def long_prompts(endpoint: Endpoint) -> Iterator[Outcome]:
    """A long prompt is answered, and counted as what it is."""
    context = _context(endpoint)
    words = "read the whole of this "
    few = endpoint.chat(words * 4, max_tokens=1).usage["prompt_tokens"]
    many = endpoint.chat(words * 8, max_tokens=1).usage["prompt_tokens"]
    each = (many - few) / 4
    sizes = []
    for share in _SHARES:
        times = int(context * share / max(each, 1)) - 4
        answer = endpoint.chat(words * max(times, 1), max_tokens=4)
        expected = few + (times - 4) * each
        count = answer.usage["prompt_tokens"]
        if abs(count - expected) > 0.1 * expected:
            yield answer.wrong("A long prompt is counted as less, or more, than it is")
        sizes.append(count)
    yield Seen(f"{', '.join(map(str, sizes))} tokens")


def long_streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """The stream that answers a long prompt ends as it should."""
    context = _context(endpoint)
    stream = endpoint.stream(unseen("go on " * (context // 8)), max_tokens=8)
    if len(stream.finishes()) != 1 or stream.events[-1].data != "[DONE]":
        yield stream.answer.wrong("The stream of a long prompt has not one end")


def many_messages(endpoint: Endpoint) -> Iterator[Outcome]:
    """A conversation of many turns is one prompt."""
    turns = [
        {"role": ("user", "assistant")[n % 2], "content": "Yes."} for n in range(_MESSAGES - 1)
    ]
    few, many = endpoint.chat(turns[:5], max_tokens=1), endpoint.chat(turns, max_tokens=1)
    if many.usage["prompt_tokens"] < few.usage["prompt_tokens"] + _MESSAGES - 10:
        yield many.wrong("Some of many messages are not in the prompt")


def _context(endpoint: Endpoint) -> int:
    try:
        return min(endpoint.context, _MOST)
    except NotApplicable:
        return 2048


CHECKS = [
    ("a long prompt is answered and counted", long_prompts),
    ("a long prompt's stream has its end", long_streamed),
    ("many messages are one prompt", many_messages),
]
