"""Refusals: the status, OpenAI's error envelope, and what it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import openai

from raypd.conformance.answer import Answer, excerpt
from raypd.conformance.endpoint import CHAT, Endpoint, taken_by_the_client
from raypd.conformance.outcome import Broken, Outcome, Seen

_NO_MODEL = "no-such-model"
_LONGEST_PARAM = 100  # characters; the name of a field is far shorter
_MARK = "zebra-7341"  # part of a prompt that no refusal has to repeat
# What of a server's inside a message must not tell.
_INSIDE = {
    "a traceback": r"Traceback \(most recent call last\)",
    "a file of the server": r'File "[^"]+", line \d+|/site-packages/|/[\w/.-]+\.py\b',
    "an inner exception": r"[Ii]nternal exception|original exception",
    "the name of a class": r"\b[A-Za-z_.]+(?:Exception|Error)\b\s*[:(]|<class '",
    "an object's address": r" object at 0x[0-9a-f]+",
    "a Python dictionary": r"\{'\w+': ",
}
_VALUES: dict[str, Any] = {
    "temperature": -1,
    "top_p": 1.5,
    "n": 0,
    "max_tokens": 0,
    "presence_penalty": 5,
    "top_logprobs": -3,
    "stream_options": {"include_usage": True},  # without stream
}
_TYPES: dict[str, Any] = {
    "messages": 5,
    "max_tokens": "many",
    "temperature": "hot",
    "stream": "perhaps",
    "stop": {"at": "end"},
}


def unknown_model(endpoint: Endpoint) -> Iterator[Outcome]:
    """A model that is not there is 404, in the envelope."""
    yield from _refused(endpoint.chat(model=_NO_MODEL), {404}, "An unknown model")


def unknown_path(endpoint: Endpoint) -> Iterator[Outcome]:
    """A path that is not there is 404, in the envelope."""
    yield from _refused(endpoint.post("/no-such-path", {}), {404}, "An unknown path")


def wrong_method(endpoint: Endpoint) -> Iterator[Outcome]:
    """GET where POST belongs is 405 or 404, in the envelope."""
    yield from _refused(endpoint.get(CHAT), {404, 405}, "GET of the chat endpoint")


def no_json(endpoint: Endpoint) -> Iterator[Outcome]:
    """A body that is no JSON, or no object, is 400."""
    for content in (b'{"model": ', b"[]", b'"hello"', b"", b"\xff\xfe"):
        answer = endpoint.exchange("POST", CHAT, content)
        yield from _refused(answer, {400, 415, 422}, f"The body {content!r}")


def missing_messages(endpoint: Endpoint) -> Iterator[Outcome]:
    """A request without messages is 400."""
    answer = endpoint.post(CHAT, {"model": endpoint.model})
    yield from _refused(answer, {400, 422}, "A request without messages")


def no_messages(endpoint: Endpoint) -> Iterator[Outcome]:
    """An empty list of messages is 400."""
    yield from _refused(endpoint.chat([]), {400, 422}, "An empty list of messages")


def wrong_types(endpoint: Endpoint) -> Iterator[Outcome]:
    """An option of a wrong type is 400."""
    for name, value in _TYPES.items():
        yield from _refused(endpoint.chat(**{name: value}), {400, 422}, f"A wrong type of {name}")


def wrong_values(endpoint: Endpoint) -> Iterator[Outcome]:
    """An option out of its range is 400."""
    for name, value in _VALUES.items():
        answer = endpoint.chat(**{name: value})
        yield from _refused(answer, {400, 422}, f"A value of {name} out of its range")


def refused_stream(endpoint: Endpoint) -> Iterator[Outcome]:
    """A stream that cannot be is refused with a status, not in the stream."""
    for options in ({"temperature": -1}, {"model": _NO_MODEL}):
        stream = endpoint.stream(**options)
        if stream.answer.status == 200:
            yield stream.answer.wrong("A bad request is refused inside of a stream with HTTP 200")


def envelope_fields(endpoint: Endpoint) -> Iterator[Outcome]:
    """The envelope's type is a string, its code a string, a number or null."""
    for answer in _refusals(endpoint):
        if answer.error is None:
            continue
        if not isinstance(answer.error.get("type"), str):
            yield answer.wrong("An error's type is no string")
        if not isinstance(answer.error.get("code"), str | int | None):
            yield answer.wrong("An error's code is no string, number or null")
        if not answer.headers.get("content-type", "").startswith("application/json"):
            yield answer.wrong("An error's content-type is not application/json")


def param(endpoint: Endpoint) -> Iterator[Outcome]:
    """The envelope's param is null or the name of what is wrong."""
    for answer in _refusals(endpoint):
        found = (answer.error or {}).get("param")
        if found is None:
            continue
        if not isinstance(found, str):
            yield answer.wrong("An error's param is what was sent, not its name")
        elif len(found) > _LONGEST_PARAM:
            yield answer.wrong("An error's param is longer than any name")


def tells_no_insides(endpoint: Endpoint) -> Iterator[Outcome]:
    """A message is for the client: no traceback, no class, no file, no copy of the request."""
    for answer in _refusals(endpoint):
        words = answer.error_message or answer.text
        for what, pattern in _INSIDE.items():
            if re.search(pattern, words):
                yield answer.wrong(f"A message shows {what}")
        if _MARK in words:
            yield answer.wrong("A message repeats the prompt")


def client_errors(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client raises its own errors, with the server's message."""
    bad = {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4}
    for kind, options in (
        (openai.NotFoundError, {"model": _NO_MODEL}),
        (openai.BadRequestError, {"model": endpoint.model, "temperature": -1}),
    ):
        try:
            with taken_by_the_client("a bad request"):
                endpoint.client.chat.completions.create(**bad, **options)
        except Broken as broken:
            error = broken.__cause__
            if not isinstance(error, kind):
                yield broken.wrong
            elif not isinstance(error.body, dict) or "message" not in error.body:
                yield _as_wrong(error, "The official client finds no message in an error")
        else:
            yield endpoint.chat(**options).wrong("The official client meets no error")


def client_kv_params(endpoint: Endpoint) -> Iterator[Outcome]:
    """`kv_transfer_params` are between engines: from a client they are refused, or mean nothing."""
    sent = {
        "do_remote_prefill": True,
        "remote_engine_id": "conformance",
        "remote_block_ids": [1],
        "remote_host": "127.0.0.1",
        "remote_port": 9,  # discard: nothing answers there
    }
    right = endpoint.chat("Name a colour.").said
    answer = endpoint.chat("Name a colour.", kv_transfer_params=sent)
    if answer.status >= 500:
        yield answer.wrong(f"A client's kv_transfer_params give HTTP {answer.status}")
    elif answer.status != 200:
        yield from _refused(answer, {400, 403, 422}, "A client's kv_transfer_params")
    elif answer.said != right:
        yield answer.wrong("A client's kv_transfer_params change the answer")
    if answer.status == 200 and answer.body.get("kv_transfer_params"):
        yield answer.wrong("The answer tells kv_transfer_params")
    yield Seen(f"HTTP {answer.status}")


def _refused(answer: Answer, statuses: set[int], what: str) -> Iterator[Outcome]:
    """What is wrong with a refusal."""
    if answer.status not in statuses:
        wanted = " or ".join(map(str, sorted(statuses)))
        yield answer.wrong(f"{what} is answered with HTTP {answer.status}, not {wanted}")
    elif answer.error is None:
        yield answer.wrong(f"{what} is refused without the error envelope")


def _refusals(endpoint: Endpoint) -> Iterator[Answer]:
    """Refusals of several kinds, with or without the envelope."""
    prompt = f"Say {_MARK}."
    for answer in (
        endpoint.chat(prompt, model=_NO_MODEL),
        endpoint.chat(prompt, temperature=-1),
        endpoint.chat(prompt, max_tokens="many"),
        endpoint.post(CHAT, {"model": endpoint.model, "prompt": prompt}),
        endpoint.chat(prompt, tools="none"),
        endpoint.get(f"/models/{_NO_MODEL}"),
    ):
        if answer.status >= 400:
            yield answer


def _as_wrong(error: openai.APIStatusError, words: str) -> Outcome:
    return Broken(words, error.status_code, excerpt(error.response.text)).wrong


CHECKS = [
    ("an unknown model is 404", unknown_model),
    ("an unknown path is 404", unknown_path),
    ("a wrong method is 405", wrong_method),
    ("a body that is no JSON is 400", no_json),
    ("a request without messages is 400", missing_messages),
    ("an empty list of messages is 400", no_messages),
    ("an option of a wrong type is 400", wrong_types),
    ("an option out of its range is 400", wrong_values),
    ("a bad request is not refused inside of a stream", refused_stream),
    ("the envelope's fields are of OpenAI's types", envelope_fields),
    ("param is null or a name", param),
    ("messages show nothing of the inside", tells_no_insides),
    ("the official client raises its own errors", client_errors),
    ("a client's kv_transfer_params do nothing", client_kv_params),
]
