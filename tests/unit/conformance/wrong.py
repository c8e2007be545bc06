"""Ways for a stub to be wrong. A misbehaviour wraps methods of it: a function that gets the method and
its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from unit.conformance.stub import Refused, Reply, Stub
from unit.conformance.stub_model import Generated

Json = dict[str, Any]
Wrapper = Callable[..., Any]


@dataclass(frozen=True)
class Misbehaviour:
    """What the server does, the checks that have to find it, these and no others, and the wrappers by
    method."""

    name: str
    found_by: set[str]
    wrappers: dict[str, Wrapper]

    def stub(self) -> Stub:
        """A server that does so."""
        stub = Stub()
        for name, wrapper in self.wrappers.items():
            setattr(stub, name, _bound(wrapper, getattr(stub, name)))
        return stub


def misbehaviour(name: str, found_by: str, **wrappers: Wrapper) -> Misbehaviour:
    """`found_by` is checks with blanks between them."""
    return Misbehaviour(name, set(found_by.split()), wrappers)


def _bound(wrapper: Wrapper, original: Any) -> Wrapper:
    return lambda *args, **more: wrapper(original, *args, **more)


# Answers


def changed(**fields: Any) -> Wrapper:
    """Fields of an answer, or of a part of it, are others; ... drops one."""

    def wrapper(original: Wrapper, *args: Any) -> Json:
        body = {**original(*args), **fields}
        return {name: value for name, value in body.items() if value is not ...}

    return wrapper


def message(change: Callable[[Json], Json]) -> Wrapper:
    """The message of each choice is another."""

    def wrapper(original: Wrapper, *args: Any) -> Json:
        choice = original(*args)
        return {**choice, "message": change(choice["message"])}

    return wrapper


def counted(change: Callable[[Json], Json]) -> Wrapper:
    """Counts of usage are others, and the total is what they make."""

    def wrapper(original: Wrapper, *args: Any) -> Json:
        usage = original(*args)
        usage.update(change(usage))
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        return usage

    return wrapper


def called(change: Callable[[Json], Any]) -> Wrapper:
    """Each call of a tool is changed in place."""

    def wrapper(original: Wrapper, *args: Any) -> Generated:
        found = original(*args)
        for call in found.calls:
            change(call)
        return found

    return wrapper


# Streams


def events(change: Callable[[list[Any]], list[Any]]) -> Wrapper:
    """The events of a stream are others."""
    return lambda original, *args: iter(change(list(original(*args))))


def chunks(change: Callable[[int, Json], Json]) -> Wrapper:
    """Each chunk of a stream is another; `change` gets its number, too."""
    return events(
        lambda all_: [e if isinstance(e, str) else change(n, e) for n, e in enumerate(all_)]
    )


def parts(change: Callable[[Json], Any]) -> Wrapper:
    """Each choice of each chunk is changed in place."""

    def on(_: int, chunk: Json) -> Json:
        for one in chunk["choices"]:
            change(one)
        return chunk

    return chunks(on)


def reads(change: Callable[[list[bytes]], list[bytes]]) -> Wrapper:
    """What a client reads of a stream is another."""
    return lambda original, found: iter(change(list(original(found))))


def broken_off(original: Wrapper, found: Iterator[Any]) -> Iterator[bytes]:
    """The connection ends in the middle of a stream."""
    yield from list(original(found))[:3]
    raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


# Requests


def dropping(*names: str) -> Wrapper:
    """Options mean nothing."""
    return lambda original, body, *more: original({**body, **dict.fromkeys(names)}, *more)


def refusing(test: Callable[[Json], Any], status: int, text: str) -> Wrapper:
    """Requests are refused that should not be."""

    def wrapper(original: Wrapper, body: Json) -> None:
        original(body)
        if test(body):
            raise Refused(status, text)

    return wrapper


def fail(status: int, text: str = "Sorry.") -> Any:
    """Raises a refusal, in an expression."""
    raise Refused(status, text)


# Refusals


def refusal(test: Callable[[Refused], Any], change: Callable[[Refused], Any]) -> Wrapper:
    """Some refusals are others: a Reply, or a Refused for the envelope."""

    def wrapper(original: Wrapper, refused: Refused) -> Reply:
        found = change(refused) if test(refused) else refused
        return found if isinstance(found, Reply) else original(found)

    return wrapper


def about(param: str) -> Callable[[Refused], bool]:
    """A refusal names this parameter."""
    return lambda refused: refused.error["param"] == param


def saying(text: str) -> Callable[[Refused], bool]:
    """A refusal has this in its message."""
    return lambda refused: text in str(refused)


def with_status(status: int) -> Callable[[Refused], Refused]:
    """The same refusal with another status."""

    def change(refused: Refused) -> Refused:
        refused.status = status
        return refused

    return change


def with_fields(**fields: Any) -> Callable[[Refused], Refused]:
    """The same refusal with other fields in its envelope."""

    def change(refused: Refused) -> Refused:
        refused.error.update(fields)
        return refused

    return change


def bare(status: int) -> Callable[[Any], Reply]:
    """Without the envelope, as frameworks do it."""
    body = json.dumps({"detail": "Not Found"}).encode()
    return lambda _: Reply(status, "application/json", [body])
