"""Whole answers, of the chat endpoint and of its neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from openai.types.chat import ChatCompletion

from raypd.conformance.answer import FINISH_REASONS
from raypd.conformance.endpoint import (
    COMPLETIONS,
    Endpoint,
    refused_as_missing,
    taken_by_the_client,
)
from raypd.conformance.outcome import Outcome, Seen

_TURNS = [
    {"role": "system", "content": "You answer in one word."},
    {"role": "user", "content": "Say yes."},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Say it again."},
]
_2020 = 1_577_836_800


def answer_fields(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer has the fields that OpenAI's reference says."""
    answer = endpoint.chat().good()
    body = answer.body
    if not isinstance(body.get("id"), str) or not body["id"]:
        yield answer.wrong("The answer has no id")
    if body.get("object") != "chat.completion":
        yield answer.wrong('The answer\'s object is not "chat.completion"')
    if not isinstance(body.get("created"), int) or body["created"] < _2020:
        yield answer.wrong("The answer's created is no time in seconds")
    if body.get("model") != endpoint.model:
        yield answer.wrong("The answer names another model than was asked")
    if len(answer.choices) != 1 or answer.choices[0].get("index") != 0:
        yield answer.wrong("The answer has not one choice with index 0")
    if answer.message.get("role") != "assistant":
        yield answer.wrong("The message's role is not assistant")
    if answer.finish not in FINISH_REASONS:
        yield answer.wrong(f"finish_reason is {answer.finish!r}")
    if not answer.headers.get("content-type", "").startswith("application/json"):
        yield answer.wrong("The answer's content-type is not application/json")


def client_answer(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client takes an answer, and it is of its own type to the letter."""
    answer = endpoint.chat().good()
    with taken_by_the_client("an answer"):
        ChatCompletion.model_validate(answer.body)
        request = endpoint.chat_request("Tell me a story.")
        seen = endpoint.client.chat.completions.create(**request)
        text = seen.choices[0].message.content or ""
    yield Seen(f"{len(text)} characters")


def ids_differ(endpoint: Endpoint) -> Iterator[Outcome]:
    """Each answer has an id of its own."""
    answers = [endpoint.chat(max_tokens=1).good() for _ in range(3)]
    if len({str(answer.body.get("id")) for answer in answers}) < len(answers):
        yield answers[0].wrong("Two answers have the same id")


def several_turns(endpoint: Endpoint) -> Iterator[Outcome]:
    """A conversation with a system message and former answers is one prompt."""
    whole, last = endpoint.chat(_TURNS), endpoint.chat(_TURNS[-1:]).good()
    refused_as_missing(whole, "system messages")
    if whole.usage["prompt_tokens"] <= last.usage["prompt_tokens"]:
        yield whole.wrong("A conversation has no more prompt tokens than its last message")


def content_parts(endpoint: Endpoint) -> Iterator[Outcome]:
    """A message may be a list of text parts."""
    plain = endpoint.chat("Tell me a story.").good()
    parts = [{"type": "text", "text": "Tell me a story."}]
    answer = endpoint.chat([{"role": "user", "content": parts}]).good()
    if answer.usage["prompt_tokens"] != plain.usage["prompt_tokens"]:
        yield answer.wrong("A message as a list of one part is another prompt than the string")


def null_options(endpoint: Endpoint) -> Iterator[Outcome]:
    """An option that is null is one that was not given."""
    # Those that OpenAI's own description of its API calls nullable.
    names = ("stop", "n", "seed", "top_p", "logit_bias", "logprobs", "presence_penalty", "stream")
    endpoint.chat(**dict.fromkeys(names)).good()
    yield Seen(", ".join(names))


def common_options(endpoint: Endpoint) -> Iterator[Outcome]:
    """What clients send along is taken: user, penalties, seed, top_p."""
    endpoint.chat(
        user="someone", presence_penalty=0.5, frequency_penalty=0.5, seed=1, top_p=0.9
    ).good()
    yield Seen("user, penalties, seed, top_p")


def text_completion(endpoint: Endpoint) -> Iterator[Outcome]:
    """The older endpoint, POST /completions."""
    request = {"model": endpoint.model, "prompt": "Once upon a time", "max_tokens": 4}
    answer = endpoint.post(COMPLETIONS, {**request, "temperature": 0})
    refused_as_missing(answer, "POST /completions")
    if answer.body.get("object") != "text_completion":
        yield answer.wrong('The text completion\'s object is not "text_completion"')
    if not isinstance(answer.choices[0].get("text"), str):
        yield answer.wrong("The text completion has no text")
    if not 0 < answer.usage["completion_tokens"] <= 4:
        yield answer.wrong("The text completion does not keep to max_tokens")
    streamed = endpoint.events(COMPLETIONS, {**request, "temperature": 0, "stream": True})
    if streamed.said() != answer.said:
        yield streamed.answer.wrong("The streamed text completion is another than the whole one")


def responses(endpoint: Endpoint) -> Iterator[Outcome]:
    """The newer endpoint, POST /responses."""
    request = {"model": endpoint.model, "input": "Say yes.", "max_output_tokens": 16}
    answer = endpoint.post("/responses", request)
    refused_as_missing(answer, "POST /responses")
    if answer.body.get("object") != "response":
        yield answer.wrong('The response\'s object is not "response"')
    with taken_by_the_client("a response"):
        endpoint.client.responses.create(**request).output_text.strip()
    yield Seen("a response")


CHECKS = [
    ("an answer has OpenAI's fields", answer_fields),
    ("the official client takes an answer", client_answer),
    ("each answer has its own id", ids_differ),
    ("a conversation is one prompt", several_turns),
    ("a message may be a list of parts", content_parts),
    ("null options are options not given", null_options),
    ("common options are taken", common_options),
    ("POST /completions answers", text_completion),
    ("POST /responses answers", responses),
]
