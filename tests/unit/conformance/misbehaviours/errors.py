"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

import json

from unit.conformance.stub import MODEL, Refused, Reply
from unit.conformance.wrong import (
    about,
    bare,
    misbehaviour,
    refusal,
    saying,
    with_fields,
    with_status,
)


def _inside(original, body):
    try:
        return original(body)
    except Refused as refused:
        if body.get("stream") is not True:
            raise
        event = f"data: {json.dumps({'error': refused.error})}\n\ndata: [DONE]\n\n"
        return Reply(200, "text/event-stream", [event.encode()])


def _repeating(original, body):
    try:
        original(body)
    except Refused as refused:
        if body.get("temperature") == -1:
            refused.error["message"] += f" You sent {body['messages']!r}".replace("{", "").replace(
                "}", ""
            )
        raise


def _always(refused):
    return True


_DROPPED = "kv_transfer_params"


def _without_params(original, body):
    original({name: value for name, value in body.items() if name != _DROPPED})


MISBEHAVIOURS = [
    misbehaviour(
        "any model is the model",
        "errors/unknown-model errors/refused-stream errors/client-errors",
        validate=lambda o, body: o({**body, "model": MODEL}),
    ),
    misbehaviour(
        "an unknown model without the envelope",
        "errors/unknown-model errors/client-errors",
        refusal=refusal(saying("The model does not exist"), bare(404)),
    ),
    misbehaviour(
        "an unknown model is 400",
        "errors/unknown-model errors/client-errors",
        refusal=refusal(saying("The model does not exist"), with_status(400)),
    ),
    misbehaviour(
        "an unknown path without the envelope",
        "errors/unknown-path",
        refusal=refusal(saying("Invalid URL"), bare(404)),
    ),
    misbehaviour(
        "an unknown path is welcome",
        "errors/unknown-path",
        refusal=refusal(saying("Invalid URL"), bare(200)),
    ),
    misbehaviour(
        "a wrong method without the envelope",
        "errors/wrong-method",
        refusal=refusal(saying("Not allowed"), bare(405)),
    ),
    misbehaviour(
        "no JSON fells the server",
        "errors/no-json",
        refusal=refusal(saying("no JSON"), with_status(500)),
    ),
    misbehaviour(
        "a list fells the server",
        "errors/no-json",
        refusal=refusal(saying("no object"), with_status(500)),
    ),
    misbehaviour(
        "no messages fell the server",
        "errors/missing-messages errors/no-messages errors/wrong-types limits/prompt-too-long limits/answer-too-long",
        refusal=refusal(about("messages"), with_status(500)),
    ),
    misbehaviour(
        "an empty list of messages is welcome",
        "errors/no-messages",
        chat=lambda o, body: o(
            {**body, "messages": [{"role": "user", "content": ""}]}
            if body.get("messages") == []
            else body
        ),
    ),
    misbehaviour(
        "a request without messages is welcome",
        "errors/missing-messages",
        chat=lambda o, body: o({"messages": [{"role": "user", "content": ""}], **body}),
    ),
    misbehaviour(
        "a wrong type is welcome",
        "errors/wrong-types",
        chat=lambda o, body: o(
            {**body, "max_tokens": 5} if body.get("max_tokens") == "many" else body
        ),
    ),
    misbehaviour(
        "a wrong value is welcome",
        "errors/wrong-values",
        chat=lambda o, body: o({**body, "top_p": 1} if body.get("top_p") == 1.5 else body),
    ),
    misbehaviour(
        "a wrong value without the envelope",
        "errors/wrong-values",
        refusal=refusal(about("top_p"), bare(400)),
    ),
    misbehaviour(
        "a wrong value fells the server",
        "errors/wrong-values",
        refusal=refusal(about("n"), with_status(500)),
    ),
    misbehaviour("streams are refused inside", "errors/refused-stream", chat=_inside),
    misbehaviour(
        "an error's type is a number",
        "errors/envelope-fields",
        refusal=refusal(_always, with_fields(type=400)),
    ),
    misbehaviour(
        "an error's code is a list",
        "errors/envelope-fields",
        refusal=refusal(_always, with_fields(code=[])),
    ),
    misbehaviour(
        "param is what was sent",
        "errors/param",
        refusal=refusal(about("max_tokens"), with_fields(param={"model": MODEL})),
    ),
    misbehaviour(
        "param is a whole text",
        "errors/param",
        refusal=refusal(about("temperature"), with_fields(param="x" * 200)),
    ),
    misbehaviour(
        "a traceback",
        "errors/tells-no-insides",
        refusal=refusal(
            about("temperature"), with_fields(message="Traceback (most recent call last):\n  ...")
        ),
    ),
    misbehaviour(
        "a file of the server",
        "errors/tells-no-insides",
        refusal=refusal(about("temperature"), with_fields(message='File "/srv/app", line 3')),
    ),
    misbehaviour(
        "the name of a class",
        "errors/tells-no-insides",
        refusal=refusal(about("tools"), with_fields(message="ray.exceptions.RayTaskError: no")),
    ),
    misbehaviour(
        "an inner exception",
        "errors/tells-no-insides",
        refusal=refusal(about("model"), with_fields(message="Message: a, Internal exception: b")),
    ),
    misbehaviour(
        "an object's address",
        "errors/tells-no-insides",
        refusal=refusal(about("model"), with_fields(message="<Request object at 0x7f00>")),
    ),
    misbehaviour(
        "a Python dictionary",
        "errors/tells-no-insides",
        refusal=refusal(
            about("temperature"), with_fields(message="1 validation error: {'type': 'missing'}")
        ),
    ),
    misbehaviour("the prompt is repeated", "errors/tells-no-insides", validate=_repeating),
    misbehaviour(
        "errors without a message",
        "errors/unknown-model errors/unknown-path errors/wrong-method errors/no-json "
        "errors/missing-messages errors/no-messages errors/wrong-types errors/wrong-values errors/client-errors errors/client-kv-params limits/prompt-too-long "
        "limits/answer-too-long auth/wrong-key",
        refusal=refusal(
            _always, lambda r: Reply(r.status, "application/json", [b'{"error": {"code": 1}}'])
        ),
    ),
    misbehaviour(
        "errors as another type of content",
        "errors/envelope-fields",
        refusal=refusal(
            _always,
            lambda r: Reply(r.status, "text/plain", [json.dumps({"error": r.error}).encode()]),
        ),
    ),
    misbehaviour(
        "kv_transfer_params fell the server",
        "errors/client-kv-params",
        refusal=refusal(about(_DROPPED), with_status(500)),
    ),
    misbehaviour(
        "kv_transfer_params are told",
        "errors/client-kv-params",
        validate=_without_params,
        whole=lambda o, body, *a: {**o(body, *a), _DROPPED: body.get(_DROPPED)},
    ),
    misbehaviour(
        "kv_transfer_params change the answer",
        "errors/client-kv-params",
        validate=_without_params,
        random=lambda o, body, *a: o(
            {**body, "temperature": 1, "seed": 5} if body.get(_DROPPED) else body, *a
        ),
    ),
]
