"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.stub import MODEL, Reply
from unit.conformance.wrong import changed, misbehaviour

MISBEHAVIOURS = [
    misbehaviour(
        "the list is no list object", "models/list-models", models=changed(object="models")
    ),
    misbehaviour(
        "the list has no model",
        "models/list-models models/client-lists long-inputs/long-prompts long-inputs/long-streamed reference/same-tokens reference/same-tokens-streamed",
        models=changed(data=[{"id": "other", "object": "model", "created": 1, "owned_by": "x"}]),
    ),
    misbehaviour("a card without created", "models/model-cards", own_card=changed(created=...)),
    misbehaviour("a card without object", "models/model-cards", own_card=changed(object=...)),
    misbehaviour("a card without an owner", "models/model-cards", own_card=changed(owned_by=...)),
    misbehaviour(
        "no card of the model",
        "models/retrieve-model",
        card=lambda o, name: o("no" if name == MODEL else name),
    ),
    misbehaviour("a card of no model", "models/no-such-card", card=lambda o, name: o(MODEL)),
    misbehaviour(
        "the card of another model",
        "models/retrieve-model",
        card=lambda o, name: (
            Reply(200, "application/json", [b'{"id": "other"}']) if name == MODEL else o(name)
        ),
    ),
]
