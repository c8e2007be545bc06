"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import misbehaviour


def _lost_kv(original, body, prompt, index):
    """What comes after the first blocks of a long prompt is not in the KV."""
    return original(body, prompt[:64], index)


def _lost_at_the_end(original, body, random_):
    tokens = original(body, random_)
    return [*tokens[:20], b" wrong", *tokens[21:]]


MISBEHAVIOURS = [
    misbehaviour(
        "KV after the first blocks is lost",
        "reference/same-tokens reference/same-tokens-streamed",
        random=_lost_kv,
    ),
    misbehaviour(
        "a late token is another",
        "reference/same-tokens reference/same-tokens-streamed",
        said=_lost_at_the_end,
    ),
    misbehaviour(
        "another tokenizer",
        "sampling/bias reference/same-tokens reference/same-tokens-streamed",
        ids=lambda o, tokens: [number + 1 for number in o(tokens)],
    ),
]
