"""Greedy, seeded and free sampling, several choices, biases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from raypd.conformance.endpoint import Endpoint, refused_as_missing, unseen
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_HOT = {"temperature": 2.0, "max_tokens": 24}
_CHOICES = 3


def greedy_repeats(endpoint: Endpoint) -> Iterator[Outcome]:
    """At temperature 0 one prompt has one answer."""
    for prompt in (unseen(), unseen("Count to twenty."), "Tell me a story."):
        first, *others = (endpoint.chat(prompt) for _ in range(3))
        if any(other.said != first.said for other in others):
            yield first.wrong("A greedy answer is another the next time")


def seed_repeats(endpoint: Endpoint) -> Iterator[Outcome]:
    """One seed gives one answer; OpenAI promises that for most times."""
    prompt = unseen()
    answers = [endpoint.chat(prompt, seed=7, **_HOT) for _ in range(4)]
    (_, times), *_ = Counter(answer.said for answer in answers).most_common()
    if times == 1:
        yield answers[0].wrong("Of four answers to one seed no two are equal")
    yield Seen(f"{times} of {len(answers)} are equal")


def temperature_counts(endpoint: Endpoint) -> Iterator[Outcome]:
    """At a high temperature the answers differ."""
    prompt = unseen()
    answers = [endpoint.chat(prompt, seed=seed, **_HOT) for seed in range(6)]
    if len({answer.said for answer in answers}) == 1:
        yield answers[0].wrong("Six answers at temperature 2 with six seeds are equal")


def several_choices(endpoint: Endpoint) -> Iterator[Outcome]:
    """`n` choices, each with its index and its end, all of them counted."""
    answer = endpoint.chat(n=_CHOICES, seed=1, **{**_HOT, "max_tokens": 8})
    refused_as_missing(answer, "n above 1")
    if sorted(str(c.get("index")) for c in answer.choices) != list(map(str, range(_CHOICES))):
        yield answer.wrong(f"n {_CHOICES} has not {_CHOICES} choices with an index each")
    if any(c.get("finish_reason") not in ["stop", "length"] for c in answer.choices):
        yield answer.wrong("A choice of several has no finish reason")
    alone = endpoint.chat(max_tokens=1)
    usage = answer.usage
    if usage["prompt_tokens"] != alone.usage["prompt_tokens"]:
        yield answer.wrong("The prompt of several choices is not counted once")
    if all(c.get("finish_reason") == "length" for c in answer.choices):
        count = usage["completion_tokens"]
        if count != 8 * _CHOICES:
            yield answer.wrong(f"{_CHOICES} choices of 8 tokens are counted as {count}")


def several_streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """A stream of several choices has all of them, each with one end."""
    options: dict[str, Any] = {"n": _CHOICES, "seed": 1, **_HOT, "max_tokens": 8}
    refused_as_missing(endpoint.chat(**options), "n above 1")
    stream = endpoint.stream(**options)
    for index in range(_CHOICES):
        if len(stream.finishes(index)) != 1:
            yield stream.answer.wrong("A streamed choice of several has not one finish reason")


def bias(endpoint: Endpoint) -> Iterator[Outcome]:
    """logit_bias of -100 keeps a token out of an answer."""
    prompt = unseen()
    free = endpoint.chat(prompt, max_tokens=2, return_token_ids=True)
    ids = free.choices[0].get("token_ids")
    if not isinstance(ids, list) or not ids or not isinstance(ids[0], int):
        raise NotApplicable("the server does not tell ids of tokens")
    answer = endpoint.chat(
        prompt, max_tokens=2, return_token_ids=True, logit_bias={str(ids[0]): -100}
    )
    refused_as_missing(answer, "logit_bias")
    told = answer.choices[0].get("token_ids")
    if not isinstance(told, list) or ids[0] in told:
        yield answer.wrong("A token that logit_bias forbids is in the answer")


CHECKS = [
    ("a greedy answer is the same each time", greedy_repeats),
    ("a seed gives the same answer", seed_repeats),
    ("temperature counts", temperature_counts),
    ("n choices", several_choices),
    ("n choices, streamed", several_streamed),
    ("logit_bias keeps a token out", bias),
]
