"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import counted, misbehaviour

MISBEHAVIOURS = [
    misbehaviour(
        "a long prompt is counted short",
        "long-inputs/long-prompts",
        usage=counted(lambda u: {"prompt_tokens": min(u["prompt_tokens"], 150)}),
    ),
    misbehaviour(
        "old messages are dropped",
        "long-inputs/many-messages",
        prompt=lambda o, messages: o(messages[-8:]),
    ),
    misbehaviour(
        "the stream of a long prompt has no end",
        "long-inputs/long-streamed",
        events=lambda o, body, prompt, *a: (
            list(o(body, prompt, *a))[:-2]
            if len(prompt) > 90 and body["max_tokens"] == 8
            else o(body, prompt, *a)
        ),
    ),
]
