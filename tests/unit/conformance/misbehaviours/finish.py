"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.stub_model import CONTEXT
from unit.conformance.wrong import dropping, misbehaviour, refusing


def _limited(body):
    return body.get("max_tokens") or body.get("max_completion_tokens")


def _shown(original, body, prompt, tokens):
    found = original(body, prompt, tokens)
    if body.get("stop") and found.finish == "stop":
        stops = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
        found.text += stops[-1]
    return found


def _as_length(original, body, prompt, tokens):
    found = original(body, prompt, tokens)
    if body.get("stop"):
        found.finish = "length"
    return found


def _short(original, body, prompt, tokens):
    found = original(body, prompt, tokens)
    if body.get("stop"):
        found.text = found.text[:-1]
    return found


def _hidden_limit(original, body, prompt, tokens):
    return original(body if _limited(body) else {**body, "max_tokens": 20}, prompt, tokens)


def _over_the_context(original, body, prompt, tokens):
    if _limited(body):
        return original(body, prompt, tokens)
    return original({**body, "max_tokens": CONTEXT}, [], tokens * 9)


MISBEHAVIOURS = [
    misbehaviour(
        "a token too many",
        "chat/text-completion finish/length finish/max-completion-tokens usage/answer-is-counted sampling/several-choices limits/prompt-too-long reference/same-tokens "
        "reference/same-tokens-streamed",
        allowed=lambda o, body: o(body) and o(body) + 1,
    ),
    misbehaviour(
        "max_completion_tokens mean nothing",
        "finish/max-completion-tokens",
        allowed=lambda o, body: body.get("max_tokens"),
    ),
    misbehaviour("a hidden limit", "finish/no-limit", cut=_hidden_limit),
    misbehaviour("no end at the context", "finish/no-limit", cut=_over_the_context),
    misbehaviour(
        "stop strings mean nothing",
        "finish/stop-string finish/stop-at-once finish/stop-string-streamed",
        cut=dropping("stop"),
    ),
    misbehaviour(
        "stop strings are shown",
        "finish/stop-string finish/stop-at-once finish/stop-string-streamed",
        cut=_shown,
    ),
    misbehaviour(
        "stop strings are shown in streams",
        "finish/stop-string-streamed",
        cut=lambda o, body, p, t: _shown(o, body, p, t) if body.get("stream") else o(body, p, t),
    ),
    misbehaviour(
        "a stop string is a length",
        "finish/stop-string finish/stop-at-once finish/stop-string-streamed",
        cut=_as_length,
    ),
    misbehaviour(
        "a stop string takes text with it",
        "finish/stop-string finish/stop-at-once finish/stop-string-streamed",
        cut=_short,
    ),
    misbehaviour(
        "stop strings in a list mean nothing",
        "finish/stop-string",
        cut=lambda o, body, p, t: o(
            {**body, "stop": None if isinstance(body.get("stop"), list) else body.get("stop")}, p, t
        ),
    ),
    misbehaviour(
        "min_tokens over 1 are refused",
        "finish/min-tokens finish/min-tokens-holds",
        validate=refusing(lambda b: (b.get("min_tokens") or 0) > 1, 400, "min_tokens is odd"),
    ),
    misbehaviour(
        "min_tokens mean nothing, and answers are short",
        "streaming/piece-by-piece finish/min-tokens finish/min-tokens-holds "
        "reference/same-tokens reference/same-tokens-streamed",
        said=lambda o, body, r: o(body, r)[:4],
        cut=dropping("min_tokens"),
    ),
    misbehaviour(
        "a stop string comes before min_tokens",
        "finish/min-tokens-holds",
        cut=dropping("min_tokens"),
    ),
]
