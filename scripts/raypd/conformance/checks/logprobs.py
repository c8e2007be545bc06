"""Log probabilities of an answer's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raypd.conformance.answer import Answer, Stream
from raypd.conformance.endpoint import Endpoint, refused_as_missing
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_ASKED: dict[str, Any] = {"logprobs": True, "top_logprobs": 3, "max_tokens": 8}


def fields(endpoint: Endpoint) -> Iterator[Outcome]:
    """Each token has its text, its logarithm, and as many others as were asked for."""
    answer = _answer(endpoint)
    for entry in entries(answer, answer.choices[0]):
        top = entry["top_logprobs"]
        if entry["logprob"] > 0:
            yield answer.wrong("A log probability is above 0")
        if len(top) != _ASKED["top_logprobs"]:
            yield answer.wrong("A token has not as many top_logprobs as were asked for")
        if [t["logprob"] for t in top] != sorted((t["logprob"] for t in top), reverse=True):
            yield answer.wrong("top_logprobs are not sorted")
        if top and entry["logprob"] < top[0]["logprob"]:
            yield answer.wrong("A greedy token is not its most likely one")


def one_for_each(endpoint: Endpoint) -> Iterator[Outcome]:
    """There are as many as tokens are counted."""
    answer = _answer(endpoint)
    count = len(entries(answer, answer.choices[0]))
    if count != answer.usage["completion_tokens"]:
        yield answer.wrong("There are not as many log probabilities as tokens are counted")
    yield Seen(f"{count} tokens")


def spell(endpoint: Endpoint) -> Iterator[Outcome]:
    """The tokens are the answer."""
    answer = _answer(endpoint)
    if answer.reasoning:
        raise NotApplicable("the marks around what a model thinks are tokens without text")
    found = entries(answer, answer.choices[0])
    spelt = b"".join(_bytes(entry) for entry in found).decode("utf-8", errors="replace")
    # The token that ends an answer is counted and has no text in it.
    same = spelt == answer.said if answer.finish == "length" else spelt.startswith(answer.said)
    if not same and "\ufffd" not in answer.said:
        yield answer.wrong("The tokens of logprobs do not spell the answer")


def streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """A stream has the same."""
    answer = _answer(endpoint)
    whole = [entry["token"] for entry in entries(answer, answer.choices[0])]
    stream = endpoint.stream(**_ASKED)
    if [entry["token"] for entry in streamed_entries(stream)] != whole:
        yield stream.answer.wrong("A stream has other logprobs than the whole answer")


def unasked_logprobs(endpoint: Endpoint) -> Iterator[Outcome]:
    """Not asked for, there are none."""
    answer = endpoint.chat()
    if answer.choices[0].get("logprobs"):
        yield answer.wrong("An answer has logprobs that were not asked for")


def entries(answer: Answer, choice: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of a choice's logprobs. Raises Broken when one has not its fields."""
    block = choice.get("logprobs")
    found = block.get("content") if isinstance(block, dict) else None
    if not isinstance(found, list):
        raise answer.broken("The answer has no logprobs.content")
    for entry in found:
        if not _is_entry(entry) or not isinstance(entry.get("top_logprobs", []), list):
            raise answer.broken("An entry of logprobs has not its fields")
        entry.setdefault("top_logprobs", [])
        if not all(map(_is_entry, entry["top_logprobs"])):
            raise answer.broken("An entry of top_logprobs has not its fields")
    return found


def streamed_entries(stream: Stream) -> list[dict[str, Any]]:
    """Those of all parts of a stream's first choice that have any. Raises Broken likewise."""
    return [
        entry
        for choice in stream.choices()
        if choice.get("logprobs")
        for entry in entries(stream.answer, choice)
    ]


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
        and "bytes" in entry
    )


def _bytes(entry: dict[str, Any]) -> bytes:
    found = entry["bytes"]
    if isinstance(found, list) and all(isinstance(b, int) and 0 <= b < 256 for b in found):
        return bytes(found)
    return entry["token"].encode("utf-8", errors="replace")


def _answer(endpoint: Endpoint) -> Answer:
    answer = endpoint.chat(**_ASKED)
    refused_as_missing(answer, "logprobs")
    return answer


CHECKS = [
    ("each token has its fields", fields),
    ("one for each token", one_for_each),
    ("the tokens spell the answer", spell),
    ("streamed logprobs are the same", streamed),
    ("no logprobs unasked", unasked_logprobs),
]
