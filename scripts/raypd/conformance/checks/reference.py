"""Greedy answers, token by token, against those of a server that is right (--reference).

With prefill and decode apart, decode writes an answer out of KV that it was sent. The aggregated engine
of the same model, dtype and device computes the same without sending anything: where its tokens are the
same over many prompts and lengths, the KV came through intact. Each prompt is new to every cache, whole
and streamed, because what lies in decode's own cache is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raypd.conformance.answer import Answer, Stream
from raypd.conformance.checks.logprobs import entries, streamed_entries
from raypd.conformance.endpoint import Endpoint, unseen
from raypd.conformance.outcome import NotApplicable, Outcome, Seen, Wrong

# Words of a prompt: around the edges of blocks of 16, then over many blocks.
_WORDS = (1, 5, 8, 14, 15, 16, 17, 30, 31, 32, 33, 48, 64, 100, 150, 220, 300, 400, 560, 700)
_TOKENS = (1, 2, 17, 32)  # of answers, in turn
_TEXTS = ("tell me what comes over the wire ", "one two three four ", "the quick brown fox ")
_ASKED: dict[str, Any] = {"logprobs": True, "top_logprobs": 2, "return_token_ids": True}
# Where the reference itself gives two tokens odds this near, rounding alone may choose. (bfloat16 has 8
# bits: logits around 32 are 0.125 or 0.25 apart.)
_TIE = 0.25
_MOST_TIES = 0.25  # share of answers; more is no rounding


@dataclass(frozen=True)
class Tokens:
    """An answer as tokens: `ids` where the server tells them, `spelt` where it gives logprobs, `near`
    then by token the distance to the runner-up. `prompt` are the prompt's ids."""

    answer: Answer
    text: str
    finish: Any
    ids: list[Any]
    spelt: list[Any]
    near: list[float]
    prompt: list[Any]


def same_tokens(endpoint: Endpoint) -> Iterator[Outcome]:
    """Whole answers are the reference's."""
    yield from _compare(endpoint, streamed=False)


def same_tokens_streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """Streamed answers are the reference's."""
    yield from _compare(endpoint, streamed=True)


def _compare(endpoint: Endpoint, streamed: bool) -> Iterator[Outcome]:
    reference = endpoint.reference
    if reference is None:
        raise NotApplicable("no --reference was given")
    answers = tokens = ties = 0
    how: set[str] = set()
    longest = _longest(endpoint)
    of_reference, of_endpoint = _options(reference), _options(endpoint)
    for number, words in enumerate(w for w in _WORDS if w <= longest):
        text = _TEXTS[number % len(_TEXTS)]
        prompt = unseen(" ".join((text * words).split()[:words]))
        allowed = _TOKENS[number % len(_TOKENS)]
        right = _whole(reference.chat(prompt, **of_reference, max_tokens=allowed))
        if streamed:
            found = _streamed(endpoint.stream(prompt, **of_endpoint, max_tokens=allowed))
        else:
            found = _whole(endpoint.chat(prompt, **of_endpoint, max_tokens=allowed))
        answers += 1
        kind, rights, founds = _comparable(right, found)
        tokens += len(rights)
        how.add(kind)
        wrong = _difference(right, found, rights, founds, words)
        ties += wrong == ""
        if wrong:
            yield wrong
    if answers and ties / answers > _MOST_TIES:
        yield Wrong(f"{ties} of {answers} answers differ from the reference where it is near a tie")
    yield Seen(f"{answers} answers, {tokens} tokens, by {', '.join(sorted(how))}; {ties} near ties")


def _comparable(right: Tokens, found: Tokens) -> tuple[str, list[Any], list[Any]]:
    """The most exact form that both servers tell."""
    if right.ids and found.ids:
        return "ids", right.ids, found.ids
    if right.spelt and found.spelt:
        return "logprobs", right.spelt, found.spelt
    return "text", [right.text], [found.text]


def _difference(
    right: Tokens, found: Tokens, rights: list[Any], founds: list[Any], words: int
) -> Wrong | str | None:
    """What is wrong, None for nothing, "" for a difference where the reference is near a tie."""
    told = found.answer.wrong
    if right.prompt and found.prompt and right.prompt != found.prompt:
        return told(
            "A prompt has other tokens than at the reference: another tokenizer or template"
        )
    if rights == founds:
        return _end(right, found)
    at = next(
        (n for n, (a, b) in enumerate(zip(rights, founds, strict=False)) if a != b),
        min(len(rights), len(founds)),
    )
    if at < len(right.near) and right.near[at] < _TIE:
        return ""
    return told(f"Token {at + 1} of the answer to {words} words is not the reference's")


def _end(right: Tokens, found: Tokens) -> Wrong | None:
    if right.text != found.text:
        return found.answer.wrong("The same tokens are another text than at the reference")
    if right.finish != found.finish:
        return found.answer.wrong("The same tokens end for another reason than at the reference")
    return None


def _options(endpoint: Endpoint) -> dict[str, Any]:
    """What makes the server tell tokens, {} where it refuses that."""
    return _ASKED if endpoint.chat("Say yes.", **_ASKED, max_tokens=1).status == 200 else {}


def _whole(answer: Answer) -> Tokens:
    choice = answer.choices[0]
    probabilities = entries(answer, choice) if choice.get("logprobs") else []
    ids, prompt = choice.get("token_ids"), answer.body.get("prompt_token_ids")
    return _tokens(answer, answer.said, answer.finish, ids, prompt, probabilities)


def _streamed(stream: Stream) -> Tokens:
    ids: list[Any] = []
    for choice in stream.choices():
        told = choice.get("token_ids")
        ids += told if isinstance(told, list) else []
    prompts = [p for chunk in stream.chunks if (p := chunk.get("prompt_token_ids"))]
    prompt = prompts[0] if prompts else None
    probabilities = streamed_entries(stream)
    return _tokens(stream.answer, stream.said(), stream.finish, ids, prompt, probabilities)


def _tokens(
    answer: Answer,
    text: str,
    finish: Any,
    ids: Any,
    prompt: Any,
    probabilities: list[dict[str, Any]],
) -> Tokens:
    tops = [entry["top_logprobs"] for entry in probabilities]
    # The last entry may lack a runner-up; the distance is then out of reach of any tie.
    near = [
        abs(top[0]["logprob"] - top[1]["logprob"]) if len(top) > 1 else float("inf") for top in tops
    ]
    spelt = [entry["token"] for entry in probabilities]
    lists = [found if isinstance(found, list) else [] for found in (ids, prompt)]
    return Tokens(answer, text, finish, lists[0], spelt, near, lists[1])


def _longest(endpoint: Endpoint) -> int:
    try:
        return endpoint.context // 2
    except NotApplicable:
        return _WORDS[-1]


CHECKS = [
    ("greedy answers are the reference's, token by token", same_tokens),
    ("streamed ones, too", same_tokens_streamed),
]
