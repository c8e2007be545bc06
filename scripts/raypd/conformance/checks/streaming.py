"""Answers as streams of server-sent events."""

from __future__ import annotations

from collections.abc import Iterator

from openai.types.chat import ChatCompletionChunk

from raypd.conformance.endpoint import Endpoint, taken_by_the_client
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_TRIES = 3  # a busy client may get in one read what the server sent in several
_FEWEST = 8  # pieces of text that tell a stream from an answer in one go


def event_form(endpoint: Endpoint) -> Iterator[Outcome]:
    """The bytes are a stream of events in UTF-8."""
    stream = endpoint.stream()
    stream.answer.good()
    for fault in stream.faults:
        yield stream.answer.wrong(f"Not a stream of events: {fault}")
    yield Seen(f"{len(stream.events)} events")


def done(endpoint: Endpoint) -> Iterator[Outcome]:
    """The stream ends with one [DONE]."""
    stream = endpoint.stream()
    stream.answer.good()
    data = [event.data for event in stream.events]
    if data.count("[DONE]") != 1:
        yield stream.answer.wrong(f"The stream has {data.count('[DONE]')} times [DONE], not once")
    elif data[-1] != "[DONE]":
        yield stream.answer.wrong("Events come after [DONE]")


def chunk_fields(endpoint: Endpoint) -> Iterator[Outcome]:
    """All chunks are of one answer, and say so."""
    stream = endpoint.stream()
    if any(chunk.get("object") != "chat.completion.chunk" for chunk in stream.chunks):
        yield stream.answer.wrong('A chunk\'s object is not "chat.completion.chunk"')
    if len({str(chunk.get("id")) for chunk in stream.chunks}) != 1:
        yield stream.answer.wrong("The chunks of one stream have several ids")
    if any(chunk.get("model") != endpoint.model for chunk in stream.chunks):
        yield stream.answer.wrong("A chunk names another model than was asked")
    if any(not isinstance(chunk.get("created"), int) for chunk in stream.chunks):
        yield stream.answer.wrong("A chunk's created is no time")
    if any(not isinstance(choice.get("delta"), dict) for choice in stream.choices()):
        yield stream.answer.wrong("A chunk's choice has no delta")


def role_first(endpoint: Endpoint) -> Iterator[Outcome]:
    """The first delta says that the assistant speaks."""
    stream = endpoint.stream()
    if stream.deltas()[0].get("role") != "assistant":
        yield stream.answer.wrong("The first delta has no role")


def one_finish(endpoint: Endpoint) -> Iterator[Outcome]:
    """One finish reason, and no text after it."""
    stream = endpoint.stream()
    if len(stream.finishes()) != 1:
        yield stream.answer.wrong(
            f"The stream has {len(stream.finishes())} finish reasons, not one"
        )
        return
    reasons = [choice.get("finish_reason") for choice in stream.choices()]
    last = next(i for i, reason in enumerate(reasons) if reason is not None)
    if any(delta.get("content") for delta in stream.deltas()[last + 1 :]):
        yield stream.answer.wrong("Text comes after the finish reason")


def same_as_whole(endpoint: Endpoint) -> Iterator[Outcome]:
    """The pieces of a greedy answer are the answer that comes whole."""
    for prompt in ("Tell me a story.", "Count to twenty.", "What is a prompt?"):
        whole, stream = endpoint.chat(prompt), endpoint.stream(prompt)
        if stream.said() != whole.said:
            yield stream.answer.wrong("A streamed greedy answer is another than the whole one")
        elif stream.finish != whole.finish:
            yield stream.answer.wrong("A stream ends for another reason than the whole answer")


def piece_by_piece(endpoint: Endpoint) -> Iterator[Outcome]:
    """Text comes while the rest is still being written."""
    for _ in range(_TRIES):
        stream = endpoint.stream(max_tokens=48)
        pieces = len(stream.pieces())
        reads = len({event.read for event in stream.events})
        if pieces < _FEWEST:
            whole = stream.said()
            if len(whole) < 2 * _FEWEST:
                raise NotApplicable(f"the answer has {len(whole)} characters")
            continue
        if reads > 2:
            yield Seen(f"{pieces} pieces in {reads} reads")
            return
    yield stream.answer.wrong("The whole stream comes in one go at its end")


def client_stream(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client takes a stream, and its chunks are of its own type to the letter."""
    stream = endpoint.stream()
    whole = stream.content()
    with taken_by_the_client("a stream"):
        for chunk in stream.chunks:
            ChatCompletionChunk.model_validate(chunk)
        request = endpoint.chat_request("Tell me a story.", stream=True)
        seen = endpoint.client.chat.completions.create(**request)
        text = "".join(c.delta.content or "" for chunk in seen for c in chunk.choices)
    if text != whole:
        yield stream.answer.wrong("The official client sees another text than the stream has")


CHECKS = [
    ("the bytes are events in UTF-8", event_form),
    ("one [DONE] at the end", done),
    ("chunks are of one answer", chunk_fields),
    ("the first delta has the role", role_first),
    ("one finish reason, no text after it", one_finish),
    ("streamed and whole answers are equal", same_as_whole),
    ("text comes piece by piece", piece_by_piece),
    ("the official client takes a stream", client_stream),
]
