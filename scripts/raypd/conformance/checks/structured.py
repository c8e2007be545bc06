"""Answers in a form that was asked for. A tiny model can do it too: the form forces its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from jsonschema import Draft202012Validator
from pydantic import BaseModel

from raypd.conformance.answer import Answer, read_json
from raypd.conformance.endpoint import Endpoint, refused_as_missing, taken_by_the_client
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
    "additionalProperties": False,
}
_TOKENS = 200  # a model without any idea may put blanks between the parts of JSON


class Reply(BaseModel):
    """The same, as the official client's helper wants it."""

    answer: Literal["yes", "no"]
    sure: bool


def asked(schema: dict[str, Any]) -> dict[str, Any]:
    """Options of a request that wants JSON of a schema."""
    form = {"name": "reply", "schema": schema, "strict": True}
    return {
        "response_format": {"type": "json_schema", "json_schema": form},
        "max_tokens": _TOKENS,
    }


def json_schema(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer keeps to the schema."""
    answer = endpoint.chat("Is the sky blue? Answer in JSON.", **asked(SCHEMA))
    refused_as_missing(answer, "response_format json_schema")
    yield from _keeps_to(SCHEMA, answer, answer.content, answer.finish)


def json_schema_streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """A streamed answer does, too."""
    prompt = "Is the sky blue? Answer in JSON."
    refused_as_missing(endpoint.chat(prompt, **asked(SCHEMA)), "response_format json_schema")
    stream = endpoint.stream(prompt, **asked(SCHEMA))
    yield from _keeps_to(SCHEMA, stream.answer, stream.content(), stream.finish)


def json_object(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer is any JSON object."""
    answer = endpoint.chat(
        "Is the sky blue? Answer in JSON.",
        response_format={"type": "json_object"},
        max_tokens=_TOKENS,
    )
    refused_as_missing(answer, "response_format json_object")
    if not answer.content.lstrip().startswith("{"):
        yield answer.wrong("An answer in JSON does not begin as an object")
    elif answer.finish == "stop":
        yield from _keeps_to({"type": "object"}, answer, answer.content, "stop")


def broken_schema(endpoint: Endpoint) -> Iterator[Outcome]:
    """A schema that is none is refused, and fells nothing."""
    answer = endpoint.chat(**asked({"type": "no-such-type"}))
    if answer.status == 200:
        yield answer.wrong("A schema that is none is taken")
    elif answer.status >= 500:
        yield answer.wrong(f"A schema that is none gives HTTP {answer.status}")
    endpoint.chat(max_tokens=1).good()


def client_parses(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client's helper makes an object of it."""
    prompt = "Is the sky blue? Answer in JSON."
    answer = endpoint.chat(prompt, **asked(SCHEMA))
    refused_as_missing(answer, "response_format json_schema")
    if answer.finish != "stop":
        raise NotApplicable(f"the answer was not over after {_TOKENS} tokens")
    with taken_by_the_client("an answer of a schema"):
        request = endpoint.chat_request(prompt, response_format=Reply, max_tokens=_TOKENS)
        seen = endpoint.client.chat.completions.parse(**request)
        parsed = seen.choices[0].message.parsed
    if parsed is None:
        yield answer.wrong("The official client finds no object of the schema")


def _keeps_to(schema: dict[str, Any], answer: Answer, text: str, finish: Any) -> Iterator[Outcome]:
    if finish == "length":
        begun = "".join(text.split())
        if not begun.startswith('{"answer":'[: len(begun)]):
            yield answer.wrong("An answer of a schema does not begin like it")
            return
        raise NotApplicable(f"the answer was not over after {_TOKENS} tokens")
    try:
        found = read_json(text)
    except ValueError:
        yield answer.wrong("An answer in JSON is none")
        return
    for fault in Draft202012Validator(schema).iter_errors(found):
        yield answer.wrong(f"An answer does not keep to its schema: {fault.message[:80]}")
    yield Seen(text[:80])


CHECKS = [
    ("json_schema is kept to", json_schema),
    ("json_schema is kept to, streamed", json_schema_streamed),
    ("json_object is an object", json_object),
    ("a schema that is none is refused", broken_schema),
    ("the official client parses an answer", client_parses),
]
