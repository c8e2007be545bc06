"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.stub import Refused
from unit.conformance.wrong import bare, misbehaviour, refusal, saying, with_status

_WRONG = saying("Incorrect API key")


def _repeated(original, path, authorization):
    try:
        original(path, authorization)
    except Refused as refused:
        refused.error["message"] += f" You sent {authorization}."
        raise


MISBEHAVIOURS = [
    misbehaviour(
        "any key is taken",
        "auth/wrong-key auth/client-is-refused",
        authorize=lambda o, path, key: None,
    ),
    misbehaviour(
        "no key is taken, too",
        "auth/wrong-key",
        authorize=lambda o, path, key: o(path, key) if key else None,
    ),
    misbehaviour(
        "keys are for the list of models only",
        "auth/wrong-key",
        authorize=lambda o, path, key: o(path, key) if "models" in path else None,
    ),
    misbehaviour(
        "a wrong key is 400",
        "auth/wrong-key auth/client-is-refused",
        refusal=refusal(_WRONG, with_status(400)),
    ),
    misbehaviour(
        "a wrong key without the envelope", "auth/wrong-key", refusal=refusal(_WRONG, bare(401))
    ),
    misbehaviour("a wrong key is repeated", "auth/wrong-key", authorize=_repeated),
]
