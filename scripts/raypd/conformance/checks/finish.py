"""How an answer ends: length, stop strings, fewest tokens."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.conformance.answer import Answer
from raypd.conformance.endpoint import CHAT, Endpoint, refused_as_missing, unseen
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_FREE = 32  # tokens of an answer in which a place to stop is looked for


def length(endpoint: Endpoint) -> Iterator[Outcome]:
    """max_tokens is kept to, and an answer that is cut says so."""
    yield from _keeps_to(endpoint, "max_tokens")


def max_completion_tokens(endpoint: Endpoint) -> Iterator[Outcome]:
    """The newer name of the limit means the same."""
    yield from _keeps_to(endpoint, "max_completion_tokens")


def _keeps_to(endpoint: Endpoint, name: str) -> Iterator[Outcome]:
    for allowed in (1, 3, 12):
        answer = endpoint.chat(**{name: allowed})
        count = answer.usage["completion_tokens"]
        if count > allowed:
            yield answer.wrong(f"{name} {allowed} is answered with more tokens")
        elif answer.finish not in {"length", "stop"}:
            yield answer.wrong(f"An answer ends for {answer.finish!r}")
        elif answer.finish == "stop" and count == allowed == 1 and len(answer.said) > 1:
            # One token that is text and the end at once: there is none for the end.
            yield answer.wrong("An answer that is cut says stop, not length")


def no_limit(endpoint: Endpoint) -> Iterator[Outcome]:
    """Without max_tokens an answer is not cut short at a hidden limit."""
    context = endpoint.context
    if context > 8192:
        raise NotApplicable(f"an answer may have {context:,} tokens, which takes too long")
    request = endpoint.chat_request("Tell me a story.")
    del request["max_tokens"]
    answer = endpoint.post(CHAT, request)
    usage = answer.usage
    if answer.finish == "length" and usage["total_tokens"] < context:
        yield answer.wrong("Without max_tokens an answer is cut before the context is full")
    if usage["total_tokens"] > context:
        yield answer.wrong("Prompt and answer are longer than the context")
    yield Seen(f"{usage['completion_tokens']} tokens, {answer.finish}")


def stop_string(endpoint: Endpoint) -> Iterator[Outcome]:
    """An answer ends before its stop string."""
    free = endpoint.chat(max_tokens=_FREE)
    stop = _in_the_middle(free.said)
    for given in (stop, [stop], ["\u2603\u2603", stop]):
        answer = endpoint.chat(max_tokens=_FREE, stop=given)
        yield from _stopped(answer, answer.said, answer.finish, stop, free.said)
    yield Seen(f"stopped before {stop!r}")


def stop_at_once(endpoint: Endpoint) -> Iterator[Outcome]:
    """A stop string at the very start leaves no text. (Under P/D prefill, too, meets it.)"""
    free = endpoint.chat(max_tokens=_FREE)
    begin = free.said.lstrip()[:1]
    if not begin:
        raise NotApplicable("the answer has no text to stop at")
    answer = endpoint.chat(max_tokens=_FREE, stop=begin)
    yield from _stopped(answer, answer.said, answer.finish, begin, free.said)


def stop_string_streamed(endpoint: Endpoint) -> Iterator[Outcome]:
    """No piece of a stream shows any of the stop string."""
    free = endpoint.chat(max_tokens=_FREE)
    stop = _in_the_middle(free.said)
    stream = endpoint.stream(max_tokens=_FREE, stop=stop)
    yield from _stopped(stream.answer, stream.said(), stream.finish, stop, free.said)


def min_tokens(endpoint: Endpoint) -> Iterator[Outcome]:
    """vLLM's min_tokens: the fewest tokens of an answer."""
    odd = endpoint.chat(min_tokens="many")
    if odd.status == 200:
        raise NotApplicable("the server does not know min_tokens")
    for fewest in (1, 2, 8):
        answer = endpoint.chat(min_tokens=fewest, max_tokens=12)
        if fewest == 1:
            refused_as_missing(answer, "min_tokens")
        elif answer.status != 200:
            yield answer.wrong(f"min_tokens {fewest} is refused with HTTP {answer.status}")
            continue
        if answer.usage["completion_tokens"] < fewest:
            yield answer.wrong(f"min_tokens {fewest} is answered with fewer tokens")


def min_tokens_holds(endpoint: Endpoint) -> Iterator[Outcome]:
    """min_tokens puts off a stop string that comes earlier."""
    if endpoint.chat(min_tokens="many").status == 200:
        raise NotApplicable("the server does not know min_tokens")
    prompt = unseen()
    begin = endpoint.chat(prompt).said.lstrip()[:1]
    if not begin:
        raise NotApplicable("the answer has no text to stop at")
    answer = endpoint.chat(prompt, stop=begin, min_tokens=6)
    if answer.status != 200:
        yield answer.wrong(f"min_tokens 6 is refused with HTTP {answer.status}")
    elif answer.usage["completion_tokens"] < 6:
        yield answer.wrong("A stop string ends an answer before min_tokens")


def _in_the_middle(text: str) -> str:
    """A few characters of the text that do not begin it. Raises NotApplicable when it is too short."""
    words = text.split()
    for word in words[2:]:
        if len(word) > 1 and text.find(word) > 0:
            return word
    if len(text) >= 12 and text.find(text[6:9]) > 0:
        return text[6:9]
    raise NotApplicable("the answer is too short to stop in its middle")


def _stopped(answer: Answer, text: str, finish: str, stop: str, free: str) -> Iterator[Outcome]:
    if stop in text:
        yield answer.wrong("An answer shows its stop string")
    elif text != free[: free.find(stop)]:
        yield answer.wrong("An answer with a stop string is not the free answer up to it")
    if finish != "stop":
        yield answer.wrong(f"An answer that met its stop string ends for {finish!r}")


CHECKS = [
    ("max_tokens is kept to", length),
    ("max_completion_tokens is kept to", max_completion_tokens),
    ("no hidden limit without max_tokens", no_limit),
    ("an answer ends before its stop string", stop_string),
    ("a stop string at the start leaves no text", stop_at_once),
    ("a stream shows nothing of its stop string", stop_string_streamed),
    ("min_tokens is taken", min_tokens),
    ("min_tokens puts off a stop string", min_tokens_holds),
]
