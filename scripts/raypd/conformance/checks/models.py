"""The models that the server lists."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from raypd.conformance.endpoint import MODELS, Endpoint, taken_by_the_client
from raypd.conformance.outcome import Outcome, Seen

_NO_MODEL = "no-such-model"


def list_models(endpoint: Endpoint) -> Iterator[Outcome]:
    """GET /models is a list that has the model."""
    answer = endpoint.get(MODELS).good()
    if answer.body.get("object") != "list":
        yield answer.wrong('GET /models has no "object": "list"')
    ids = [card["id"] for card in endpoint.cards]
    if endpoint.model not in ids:
        yield answer.wrong(f"GET /models does not list {endpoint.model}")
    yield Seen(", ".join(ids[:5]))


def model_cards(endpoint: Endpoint) -> Iterator[Outcome]:
    """A card says what it is, when it was made, and whose it is."""
    answer = endpoint.get(MODELS).good()
    for card in endpoint.cards:
        if card.get("object") != "model":
            yield answer.wrong('A model has no "object": "model"')
        if not isinstance(card.get("owned_by"), str):
            yield answer.wrong("A model's owned_by is no string")
        if not isinstance(card.get("created"), int):
            yield answer.wrong("A model's created is no time")


def retrieve_model(endpoint: Endpoint) -> Iterator[Outcome]:
    """GET /models/ID is the model's card."""
    answer = endpoint.get(f"{MODELS}/{quote(endpoint.model, safe='')}").good()
    if answer.body.get("id") != endpoint.model:
        yield answer.wrong("GET /models/ID is another model's card")


def no_such_card(endpoint: Endpoint) -> Iterator[Outcome]:
    """GET /models/ID of no model is 404."""
    answer = endpoint.get(f"{MODELS}/{_NO_MODEL}")
    if answer.status != 404:
        yield answer.wrong(f"The card of no model is answered with HTTP {answer.status}, not 404")


def client_lists(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client lists the models."""
    with taken_by_the_client("the list of models"):
        ids = [model.id for model in endpoint.client.models.list()]
    if endpoint.model not in ids:
        yield endpoint.get(MODELS).wrong("The official client does not see the model")


CHECKS = [
    ("GET /models lists the model", list_models),
    ("a model's card is whole", model_cards),
    ("GET /models/ID is the card", retrieve_model),
    ("the card of no model is 404", no_such_card),
    ("the official client lists the models", client_lists),
]
