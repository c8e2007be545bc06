"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import changed, misbehaviour

MISBEHAVIOURS = [
    misbehaviour(
        "no logprobs",
        "logprobs/fields logprobs/one-for-each logprobs/spell logprobs/streamed",
        logprobs=lambda o, *a: None,
    ),
    misbehaviour("a log probability above 0", "logprobs/fields", logprob=changed(logprob=0.5)),
    misbehaviour(
        "an alternative less",
        "logprobs/fields",
        logprob=lambda o, token, top: o(token, max(top - 1, 0)),
    ),
    misbehaviour(
        "alternatives are not sorted",
        "logprobs/fields",
        logprob=lambda o, *a: {**o(*a), "top_logprobs": o(*a)["top_logprobs"][::-1]},
    ),
    misbehaviour("a greedy token is the second", "logprobs/fields", logprob=changed(logprob=-1.5)),
    misbehaviour(
        "no bytes",
        "logprobs/fields logprobs/one-for-each logprobs/spell logprobs/streamed "
        "reference/same-tokens reference/same-tokens-streamed",
        logprob=changed(bytes=...),
    ),
    misbehaviour(
        "a token has no logprob",
        "logprobs/one-for-each logprobs/spell logprobs/streamed",
        logprobs=lambda o, body, tokens: o(body, tokens[1:]),
    ),
    misbehaviour("the tokens are others", "logprobs/spell", logprob=changed(token="x", bytes=None)),
    misbehaviour(
        "other logprobs in streams",
        "logprobs/streamed",
        logprobs=lambda o, body, tokens: o(
            body, [b"y" for _ in tokens] if body.get("stream") else tokens
        ),
    ),
    misbehaviour(
        "logprobs unasked",
        "logprobs/unasked-logprobs",
        logprobs=lambda o, body, tokens: o({**body, "logprobs": True}, tokens),
    ),
]
