"""Many requests at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from raypd.conformance.answer import Answer
from raypd.conformance.endpoint import Endpoint, unseen
from raypd.conformance.outcome import Outcome, Seen

_AT_ONCE = 8


def answers_at_once(endpoint: Endpoint) -> Iterator[Outcome]:
    """Each of many requests gets its own answer."""
    prompts = _prompts()
    alone = [endpoint.chat(prompt) for prompt in prompts]
    with ThreadPoolExecutor(_AT_ONCE) as senders:
        together = list(senders.map(endpoint.chat, prompts))
    yield from _own(together, [a.said for a in together], alone)
    if len({str(answer.body.get("id")) for answer in together}) < len(together):
        yield together[0].wrong("Answers at the same time share an id")
    same = sum(a.said == b.said for a, b in zip(alone, together, strict=True))
    yield Seen(f"{_AT_ONCE} at once; {same} of them the very answer they have alone")


def streams_at_once(endpoint: Endpoint) -> Iterator[Outcome]:
    """Each of many streams has its own chunks alone."""
    prompts = _prompts()
    alone = [endpoint.chat(prompt) for prompt in prompts]
    with ThreadPoolExecutor(_AT_ONCE) as senders:
        streams = list(senders.map(endpoint.stream, prompts))
    for stream in streams:
        if len({str(chunk.get("id")) for chunk in stream.chunks}) != 1:
            yield stream.answer.wrong("A stream among many has chunks of several answers")
            return
        if len(stream.finishes()) != 1:
            yield stream.answer.wrong("A stream among many has not one finish reason")
            return
    yield from _own([s.answer for s in streams], [s.said() for s in streams], alone)


def _own(answers: list[Answer], texts: list[str], alone: list[Answer]) -> Iterator[Outcome]:
    """Whether an answer is another prompt's. That it differs from what the prompt gets alone is none:
    in a batch numbers are rounded differently."""
    right = [answer.said for answer in alone]
    for number, (answer, text) in enumerate(zip(answers, texts, strict=True)):
        if text != right[number] and text in right:
            yield answer.wrong("A request gets the answer of another one")
            return


def _prompts() -> list[str]:
    """Prompts that differ from their first words on, and in length."""
    return [unseen("Tell me a story. " * (number + 1)) for number in range(_AT_ONCE)]


CHECKS = [
    ("each request gets its own answer", answers_at_once),
    ("each stream has its own chunks", streams_at_once),
]
