"""Text beyond ASCII: in prompts, and in answers whose characters are split across tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from raypd.conformance.answer import read_json
from raypd.conformance.checks.structured import asked
from raypd.conformance.endpoint import CHAT, Endpoint, refused_as_missing
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

# Characters of two, three and four bytes, joined and combining ones.
_TEXT = "é漢字🙂👩\u200d🚀e\u0301क्षि"
_PROMPTS = (_TEXT, "\u202eright to left", "one\u2028two", "tab\tand\r\nline", "🙂" * 40)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"enum": [_TEXT]}},
    "required": ["answer"],
    "additionalProperties": False,
}


def prompts(endpoint: Endpoint) -> Iterator[Outcome]:
    """A prompt may have any characters, escaped or not."""
    for prompt in _PROMPTS:
        request = endpoint.chat_request(prompt, max_tokens=2)
        raw = json.dumps(request, ensure_ascii=False).encode()
        plain, escaped = endpoint.exchange("POST", CHAT, raw), endpoint.post(CHAT, request)
        if plain.usage["prompt_tokens"] != escaped.usage["prompt_tokens"]:
            yield plain.wrong("A prompt with escapes is another than without")
    yield Seen(f"{len(_PROMPTS)} prompts")


def half_a_pair(endpoint: Endpoint) -> Iterator[Outcome]:
    """Half of a surrogate pair is no text: refused or replaced, but no error of the server."""
    answer = endpoint.chat("half \ud83d of a pair", max_tokens=1)
    if answer.status >= 500:
        yield answer.wrong(f"Half of a surrogate pair gives HTTP {answer.status}")
    yield Seen(f"HTTP {answer.status}")


def whole_answer(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer's characters are whole."""
    answer = endpoint.chat("Answer in JSON.", **asked(_SCHEMA))
    refused_as_missing(answer, "response_format json_schema")
    yield from _spelt(answer.content, answer.finish, answer.wrong)


def streamed_answer(endpoint: Endpoint) -> Iterator[Outcome]:
    """No piece of a stream has half of a character."""
    refused_as_missing(
        endpoint.chat("Answer in JSON.", **asked(_SCHEMA)), "response_format json_schema"
    )
    stream = endpoint.stream("Answer in JSON.", **asked(_SCHEMA))
    if any("no UTF-8" in fault for fault in stream.faults):
        yield stream.answer.wrong("A stream's bytes are no UTF-8")
    elif any("\ufffd" in piece for piece in stream.pieces()):
        yield stream.answer.wrong("A piece of a stream has half of a character")
    else:
        yield from _spelt(stream.content(), stream.finish, stream.answer.wrong)


def _spelt(text: str, finish: Any, wrong: Any) -> Iterator[Outcome]:
    if finish == "length":
        raise NotApplicable("the answer was not over")
    try:
        found = read_json(text)
    except ValueError:
        yield wrong("An answer in JSON is none")
        return
    if found != {"answer": _TEXT}:
        yield wrong("An answer's characters are not those that were asked for")


CHECKS = [
    ("a prompt may have any characters", prompts),
    ("half of a surrogate pair is no server error", half_a_pair),
    ("characters split across tokens are whole", whole_answer),
    ("characters split across tokens are whole, streamed", streamed_answer),
]
