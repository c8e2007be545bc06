"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

import re

from unit.conformance.stub_model import CONTEXT
from unit.conformance.wrong import (
    bare,
    fail,
    misbehaviour,
    refusal,
    saying,
    with_fields,
    with_status,
)

_TOO_LONG = saying("The context has")


def _of_prefill(refused):
    refused.error["message"] = re.sub(r"\d+ output", "1 output", refused.error["message"])
    return refused


MISBEHAVIOURS = [
    misbehaviour(
        "prompts are cut without a word",
        "limits/prompt-too-long",
        prompt=lambda o, messages: o(messages)[:380],
    ),
    misbehaviour(
        "a prompt over the context fells the server",
        "limits/prompt-too-long limits/answer-too-long",
        refusal=refusal(_TOO_LONG, with_status(500)),
    ),
    misbehaviour(
        "a prompt over the context without the envelope",
        "limits/prompt-too-long limits/answer-too-long",
        refusal=refusal(_TOO_LONG, bare(400)),
    ),
    misbehaviour(
        "the length of the context is another",
        "limits/prompt-too-long",
        refusal=refusal(_TOO_LONG, with_fields(message="The context length is 77.")),
    ),
    misbehaviour(
        "the numbers are of prefill's request",
        "limits/prompt-too-long",
        refusal=refusal(_TOO_LONG, _of_prefill),
    ),
    misbehaviour(
        "max_tokens over the context fell the server",
        "limits/answer-too-long",
        fit=lambda o, body, prompt: (
            fail(500) if (body.get("max_tokens") or 0) > CONTEXT else o(body, prompt)
        ),
    ),
    misbehaviour(
        "max_tokens over the context are taken",
        "limits/prompt-too-long",
        fit=lambda o, body, prompt: None,
        usage=lambda o, prompt, choices: o(prompt, choices),
    ),
    misbehaviour(
        "the context's end is refused",
        "limits/full-context",
        fit=lambda o, body, prompt: fail(400) if len(prompt) > CONTEXT - 30 else o(body, prompt),
    ),
]
