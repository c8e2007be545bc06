"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import misbehaviour


def _swapped(original, body):
    """A prompt of several stories, asked for the second time (then among many), gets the answer of the
    one before it."""
    stub, messages = original.__self__, body.get("messages")
    asked = stub.__dict__.setdefault("asked", [])
    if messages and "story. Tell" in str(messages):
        if messages in asked and asked.index(messages):
            body = {**body, "messages": asked[asked.index(messages) - 1]}
        asked.append(messages)
    return original(body)


MISBEHAVIOURS = [
    misbehaviour(
        "requests get each other's answers",
        "concurrency/answers-at-once concurrency/streams-at-once",
        chat=_swapped,
    ),
]
