"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.stub import Reply
from unit.conformance.wrong import broken_off, chunks, events, misbehaviour, parts, reads


def _typed(original, *args):
    reply = original(*args)
    return Reply(reply.status, reply.kind.replace("event-stream", "plain"), reply.parts)


def _text_at_the_end(found):
    last = {**found[0], "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": None}]}
    return [*found[:-1], last, found[-1]]


# The checks that need what a chat's stream says, and not its form alone.
_READS_TEXT = (
    "streaming/chunk-fields streaming/role-first streaming/one-finish streaming/same-as-whole "
    "streaming/piece-by-piece streaming/client-stream finish/stop-string-streamed "
    "usage/stream-usage usage/unasked sampling/several-streamed logprobs/streamed "
    "structured/json-schema-streamed tools/streamed-call concurrency/streams-at-once "
    "long-inputs/long-streamed unicode/streamed-answer reference/same-tokens-streamed"
)

MISBEHAVIOURS = [
    misbehaviour(
        "no line between events",
        f"{_READS_TEXT} chat/text-completion streaming/event-form streaming/done",
        written=reads(lambda all_: [part.removesuffix(b"\n") for part in all_]),
    ),
    misbehaviour("events are not said to be events", "streaming/event-form", answer=_typed),
    misbehaviour(
        "a line that is no field",
        "streaming/event-form",
        written=reads(lambda all_: [b"hello\n", *all_]),
    ),
    misbehaviour(
        "bytes that are no UTF-8",
        "streaming/event-form streaming/client-stream unicode/streamed-answer",
        written=reads(lambda all_: [b": \xff\n\n", *all_]),
    ),
    misbehaviour(
        "the last event has no end",
        "streaming/event-form streaming/done long-inputs/long-streamed",
        written=reads(lambda all_: [*all_[:-1], all_[-1].strip()]),
    ),
    misbehaviour(
        "an event is no JSON",
        f"{_READS_TEXT} chat/text-completion",
        written=reads(lambda all_: [b"data: {\n\n", *all_]),
    ),
    misbehaviour(
        "no [DONE]",
        "streaming/done long-inputs/long-streamed",
        events=events(lambda all_: all_[:-1]),
    ),
    misbehaviour("[DONE] twice", "streaming/done", events=events(lambda all_: [*all_, "[DONE]"])),
    misbehaviour(
        "an event after [DONE]",
        "streaming/done long-inputs/long-streamed",
        events=events(lambda all_: [*all_, all_[0]]),
    ),
    misbehaviour(
        "each chunk has an id",
        "streaming/chunk-fields concurrency/streams-at-once",
        events=chunks(lambda n, chunk: {**chunk, "id": str(n)}),
    ),
    misbehaviour(
        "chunks are whole answers",
        "streaming/chunk-fields streaming/client-stream",
        events=chunks(lambda n, chunk: {**chunk, "object": "chat.completion"}),
    ),
    misbehaviour(
        "chunks of another model",
        "streaming/chunk-fields",
        events=chunks(lambda n, chunk: {**chunk, "model": "x"}),
    ),
    misbehaviour(
        "chunks without a time",
        "streaming/chunk-fields streaming/client-stream",
        events=chunks(lambda n, chunk: {**chunk, "created": None}),
    ),
    misbehaviour(
        "no role in streams",
        "streaming/role-first",
        events=parts(lambda part: part["delta"].pop("role", None)),
    ),
    misbehaviour(
        "streams have messages, not deltas",
        "streaming/chunk-fields streaming/role-first streaming/same-as-whole "
        "streaming/client-stream finish/stop-string-streamed structured/json-schema-streamed tools/streamed-call unicode/streamed-answer reference/same-tokens-streamed",
        events=parts(lambda part: part.update(message=part.pop("delta"))),
    ),
    misbehaviour(
        "streams have no finish reason",
        "streaming/one-finish streaming/same-as-whole finish/stop-string-streamed "
        "sampling/several-streamed concurrency/streams-at-once long-inputs/long-streamed "
        "reference/same-tokens-streamed",
        events=parts(lambda part: part.update(finish_reason=None)),
    ),
    misbehaviour(
        "each chunk has a finish reason",
        "streaming/one-finish sampling/several-streamed concurrency/streams-at-once long-inputs/long-streamed",
        events=parts(lambda part: part.update(finish_reason=part["finish_reason"] or "stop")),
    ),
    misbehaviour(
        "text after the finish reason",
        "streaming/one-finish streaming/same-as-whole finish/stop-string-streamed "
        "usage/stream-usage structured/json-schema-streamed unicode/streamed-answer "
        "reference/same-tokens-streamed",
        events=events(_text_at_the_end),
    ),
    misbehaviour(
        "streams lack a piece",
        "streaming/same-as-whole finish/stop-string-streamed logprobs/streamed "
        "structured/json-schema-streamed tools/streamed-call unicode/streamed-answer "
        "reference/same-tokens-streamed",
        events=events(lambda all_: [*all_[:2], *all_[3:]]),
    ),
    misbehaviour(
        "streams end for another reason",
        "streaming/same-as-whole reference/same-tokens-streamed",
        events=parts(
            lambda part: part["finish_reason"] == "length" and part.update(finish_reason="stop")
        ),
    ),
    misbehaviour(
        "empty streams",
        f"{_READS_TEXT} chat/text-completion streaming/done",
        written=reads(lambda all_: []),
    ),
    misbehaviour(
        "the whole stream at its end",
        "streaming/piece-by-piece",
        written=reads(lambda all_: [b"".join(all_)]),
    ),
    misbehaviour(
        "streams break off",
        f"{_READS_TEXT} chat/text-completion streaming/event-form streaming/done",
        written=broken_off,
    ),
    misbehaviour(
        "streams of an error",
        _READS_TEXT,
        events=events(lambda all_: [{"error": {"message": "Sorry."}}, "[DONE]"]),
    ),
]
