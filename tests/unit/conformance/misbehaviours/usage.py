"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from itertools import count

from unit.conformance.wrong import changed, chunks, counted, events, misbehaviour

_OTHER = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
_NUMBERS = count()


def _beside_a_choice(_, chunk):
    part = {"index": 0, "delta": {}, "finish_reason": None}
    return chunk if chunk["choices"] else {**chunk, "choices": [part]}


MISBEHAVIOURS = [
    misbehaviour(
        "no usage",
        "chat/several-turns chat/content-parts finish/length finish/max-completion-tokens "
        "finish/no-limit finish/min-tokens finish/min-tokens-holds usage/adds-up "
        "usage/prompt-is-counted usage/answer-is-counted usage/stream-usage "
        "sampling/several-choices logprobs/one-for-each limits/full-context long-inputs/long-prompts long-inputs/many-messages unicode/prompts",
        whole=changed(usage=...),
    ),
    misbehaviour("usage does not add up", "usage/adds-up", usage=changed(total_tokens=1)),
    misbehaviour(
        "counts are strings",
        "chat/several-turns chat/content-parts chat/text-completion finish/length "
        "finish/max-completion-tokens finish/no-limit finish/min-tokens finish/min-tokens-holds usage/adds-up usage/prompt-is-counted usage/answer-is-counted "
        "usage/stream-usage sampling/several-choices logprobs/one-for-each limits/full-context long-inputs/long-prompts long-inputs/many-messages unicode/prompts",
        usage=lambda o, *a: {name: str(n) for name, n in o(*a).items()},
    ),
    misbehaviour(
        "answers are counted as nothing",
        "chat/text-completion finish/min-tokens finish/min-tokens-holds usage/adds-up "
        "usage/answer-is-counted sampling/several-choices logprobs/one-for-each",
        usage=counted(lambda u: {"completion_tokens": 0}),
    ),
    misbehaviour(
        "answers are counted too high",
        "chat/text-completion finish/length finish/max-completion-tokens usage/answer-is-counted sampling/several-choices logprobs/one-for-each limits/full-context",
        usage=counted(lambda u: {"completion_tokens": u["completion_tokens"] + 1}),
    ),
    misbehaviour(
        "answers are counted too low",
        "finish/min-tokens-holds usage/answer-is-counted sampling/several-choices "
        "logprobs/one-for-each",
        usage=counted(lambda u: {"completion_tokens": max(u["completion_tokens"] - 1, 1)}),
    ),
    misbehaviour(
        "all prompts are counted alike",
        "chat/several-turns usage/prompt-is-counted limits/full-context long-inputs/long-prompts long-inputs/many-messages",
        usage=counted(lambda u: {"prompt_tokens": 5}),
    ),
    misbehaviour(
        "prompts are counted differently each time",
        "chat/content-parts usage/prompt-is-counted usage/stream-usage sampling/several-choices unicode/prompts",
        usage=counted(lambda u: {"prompt_tokens": u["prompt_tokens"] + next(_NUMBERS)}),
    ),
    misbehaviour(
        "no usage in streams",
        "usage/stream-usage",
        events=events(lambda all_: [e for e in all_ if isinstance(e, str) or e["choices"]]),
    ),
    misbehaviour("usage beside a choice", "usage/stream-usage", events=chunks(_beside_a_choice)),
    misbehaviour(
        "other usage in streams",
        "usage/stream-usage",
        events=chunks(lambda n, chunk: {**chunk, "usage": _OTHER} if "usage" in chunk else chunk),
    ),
    misbehaviour(
        "usage in each chunk",
        "usage/stream-usage usage/unasked",
        events=chunks(lambda n, chunk: {**chunk, "usage": _OTHER}),
    ),
    misbehaviour(
        "usage unasked",
        "usage/unasked",
        events=lambda o, body, *a: o({**body, "stream_options": {"include_usage": True}}, *a),
    ),
]
