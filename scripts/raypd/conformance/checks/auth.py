"""Keys."""

from __future__ import annotations

from collections.abc import Iterator

import openai

from raypd.conformance.endpoint import CHAT, MODELS, Endpoint, taken_by_the_client
from raypd.conformance.outcome import Broken, NotApplicable, Outcome, Seen

_WRONG = "sk-conformance-wrong-key-0123456789"


def right_key(endpoint: Endpoint) -> Iterator[Outcome]:
    """The key that was given opens the door."""
    if endpoint.key is None:
        raise NotApplicable("no --api-key was given")
    endpoint.get(MODELS).good()
    yield Seen("HTTP 200")


def wrong_key(endpoint: Endpoint) -> Iterator[Outcome]:
    """A wrong key does not, nor none at all, on any path."""
    request = endpoint.chat_request("Say yes.", max_tokens=1)
    given = {
        "A wrong key": endpoint.headers(_WRONG),
        "No key": {},
        "A key of another scheme": {"authorization": f"Basic {endpoint.key or _WRONG}"},
    }
    for what, headers in given.items():
        for answer in (
            endpoint.get(MODELS, headers),
            endpoint.post(CHAT, request, headers),
        ):
            if answer.status == 200 and endpoint.key is None:
                # Nobody said that there are keys: a gap, but no door that should be shut.
                yield answer.wrong("No key is asked for: any opens the door")
                return
            if answer.status == 200:
                yield answer.wrong(f"{what} is taken on {answer.asked}")
            elif answer.status not in {401, 403}:
                yield answer.wrong(f"{what} gives HTTP {answer.status}, not 401")
            elif answer.error is None:
                yield answer.wrong(f"{what} is refused without the error envelope")
            elif _WRONG in answer.text or (endpoint.key and endpoint.key in answer.text):
                yield answer.wrong("The refusal repeats the whole key")


def client_is_refused(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client raises AuthenticationError."""
    if endpoint.key is None:
        raise NotApplicable("no --api-key was given")
    try:
        with taken_by_the_client("a list of models"):
            endpoint.client_with(_WRONG).models.list()
    except Broken as broken:
        if not isinstance(broken.__cause__, openai.AuthenticationError):
            yield broken.wrong
    else:
        yield endpoint.get(MODELS, endpoint.headers(_WRONG)).wrong(
            "The official client is not refused with a wrong key"
        )


CHECKS = [
    ("the key is taken", right_key),
    ("no other is", wrong_key),
    ("the official client raises AuthenticationError", client_is_refused),
]
