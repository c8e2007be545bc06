"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import dropping, misbehaviour


def _ungreedy(original, body, *more):
    free = {**body, "temperature": 1, "seed": original.__self__.number}
    return original(free if body.get("temperature") == 0 else body, *more)


def _one_end(original, body, index, generated):
    choice = original(body, index, generated)
    return {**choice, "finish_reason": choice["finish_reason"] if index == 0 else None}


MISBEHAVIOURS = [
    misbehaviour(
        "greedy answers differ",
        "chat/text-completion streaming/same-as-whole streaming/client-stream "
        "finish/stop-string finish/stop-at-once finish/stop-string-streamed "
        "sampling/greedy-repeats logprobs/streamed cancellation/left-streams "
        "reference/same-tokens reference/same-tokens-streamed",
        random=_ungreedy,
    ),
    misbehaviour("seeds mean nothing", "sampling/seed-repeats", random=dropping("seed")),
    misbehaviour(
        "temperature means nothing",
        "sampling/temperature-counts",
        random=lambda o, body, *a: o({**body, "temperature": 0}, *a),
    ),
    misbehaviour(
        "n means nothing",
        "sampling/several-choices sampling/several-streamed",
        chat=lambda o, body: o({**body, "n": 1} if body.get("n") == 3 else body),
    ),
    misbehaviour(
        "a prompt is counted for each choice",
        "sampling/several-choices",
        usage=lambda o, prompt, choices: o(prompt * len(choices), choices),
    ),
    misbehaviour(
        "one choice of several is counted",
        "sampling/several-choices",
        usage=lambda o, prompt, choices: o(prompt, choices[:1]),
    ),
    misbehaviour("one choice of several has an end", "sampling/several-choices", choice=_one_end),
    misbehaviour(
        "one choice of several is streamed",
        "sampling/several-streamed",
        events=lambda o, body, prompt, choices, usage: o(body, prompt, choices[:1], usage),
    ),
    misbehaviour("logit_bias means nothing", "sampling/bias", said=dropping("logit_bias")),
]
