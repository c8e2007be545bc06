"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

import json

from unit.conformance.stub import Reply
from unit.conformance.wrong import bare, changed, message, misbehaviour, refusing


def _typed(original, body, status=200):
    kind = "text/plain" if "choices" in body else "application/json"
    return Reply(status, kind, [json.dumps(body).encode()])


def _renamed(original, body):
    reply = original(body)
    return Reply(
        200, reply.kind, [part.replace(b"text_completion", b"completion") for part in reply.parts]
    )


def _without_first(original, body):
    reply = original(body)
    return Reply(200, reply.kind, list(reply.parts)[1:] if body.get("stream") else reply.parts)


MISBEHAVIOURS = [
    misbehaviour(
        "no id",
        "chat/answer-fields chat/client-answer chat/ids-differ concurrency/answers-at-once",
        whole=changed(id=...),
    ),
    misbehaviour(
        "one id for all",
        "chat/ids-differ concurrency/answers-at-once",
        whole=changed(id="chatcmpl-1"),
    ),
    misbehaviour(
        "another object",
        "chat/answer-fields chat/client-answer",
        whole=changed(object="completion"),
    ),
    misbehaviour("made in 1970", "chat/answer-fields", whole=changed(created=0)),
    misbehaviour("another model's name", "chat/answer-fields", whole=changed(model="other")),
    misbehaviour(
        "the index begins with 1",
        "chat/answer-fields sampling/several-choices",
        choice=lambda o, body, index, g: o(body, index + 1, g),
    ),
    misbehaviour(
        "no finish reason",
        "chat/answer-fields chat/client-answer streaming/same-as-whole finish/length "
        "finish/max-completion-tokens finish/stop-string finish/stop-at-once "
        "sampling/several-choices tools/required reference/same-tokens",
        choice=changed(finish_reason=None),
    ),
    misbehaviour(
        "a finish reason of its own",
        "chat/answer-fields chat/client-answer streaming/same-as-whole finish/length "
        "finish/max-completion-tokens finish/stop-string finish/stop-at-once "
        "sampling/several-choices tools/required reference/same-tokens",
        choice=changed(finish_reason="eos"),
    ),
    misbehaviour(
        "no choices",
        "chat/answer-fields chat/client-answer streaming/same-as-whole finish/length "
        "finish/max-completion-tokens finish/no-limit finish/stop-string finish/stop-at-once finish/stop-string-streamed finish/min-tokens-holds usage/answer-is-counted "
        "sampling/greedy-repeats sampling/seed-repeats sampling/temperature-counts "
        "sampling/several-choices sampling/bias logprobs/fields logprobs/one-for-each "
        "logprobs/spell logprobs/streamed logprobs/unasked-logprobs structured/json-schema structured/json-object structured/client-parses tools/required "
        "tools/named tools/auto tools/none tools/client-sees-the-call errors/client-kv-params cancellation/left-streams concurrency/answers-at-once "
        "concurrency/streams-at-once unicode/whole-answer reference/same-tokens",
        whole=changed(choices=[]),
    ),
    misbehaviour(
        "content is a list",
        "chat/client-answer streaming/same-as-whole finish/stop-string finish/stop-at-once finish/stop-string-streamed finish/min-tokens-holds sampling/greedy-repeats "
        "sampling/seed-repeats sampling/temperature-counts logprobs/spell "
        "structured/json-schema structured/json-object structured/client-parses "
        "errors/client-kv-params cancellation/left-streams concurrency/answers-at-once "
        "concurrency/streams-at-once unicode/whole-answer reference/same-tokens",
        choice=message(lambda m: {**m, "content": []}),
    ),
    misbehaviour(
        "no role",
        "chat/answer-fields chat/client-answer",
        choice=message(lambda m: {**m, "role": None}),
    ),
    misbehaviour("another content type", "chat/answer-fields", json=_typed),
    misbehaviour(
        "only the last message is read",
        "chat/several-turns long-inputs/many-messages",
        prompt=lambda o, messages: o(messages[-1:]),
    ),
    misbehaviour(
        "a list of parts is read as its text",
        "chat/content-parts",
        prompt=lambda o, messages: o([{**m, "content": str(m["content"])} for m in messages]),
    ),
    misbehaviour(
        "null is a value",
        "chat/null-options",
        validate=refusing(lambda b: "stop" in b and b["stop"] is None, 400, "stop is null"),
    ),
    misbehaviour(
        "user is unheard of",
        "chat/common-options",
        validate=refusing(lambda b: "user" in b, 400, "user is odd"),
    ),
    misbehaviour(
        "no text completions, without a word",
        "chat/text-completion",
        completions=lambda o, body: bare(404)(body),
    ),
    misbehaviour(
        "text completions are longer",
        "chat/text-completion",
        completions=lambda o, body: o({**body, "max_tokens": 9}),
    ),
    misbehaviour(
        "text completions have another object", "chat/text-completion", completions=_renamed
    ),
    misbehaviour(
        "streamed text completions lack a piece", "chat/text-completion", completions=_without_first
    ),
    misbehaviour(
        "no responses, without a word", "chat/responses", responses=lambda o, body: bare(404)(body)
    ),
    misbehaviour(
        "responses are of another object",
        "chat/responses",
        responses=lambda o, body: Reply(200, "application/json", [b'{"object": "answer"}']),
    ),
]
