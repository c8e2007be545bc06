"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import misbehaviour


def _then(after):
    """A stream after which, when its client leaves before the end, `after` is done to the stub."""

    def wrapper(original, found):
        part = b""
        try:
            for part in original(found):
                yield part
        except GeneratorExit:
            if b"[DONE]" not in part:
                after(original.__self__)
            raise

    return wrapper


def _count_on(stub):
    stub.running += 1


def _remember(stub):
    stub.left = True


def _other_answer(original, body, *more):
    left = getattr(original.__self__, "left", False)
    greedy = body.get("temperature") == 0
    return original({**body, "temperature": 1, "seed": 9} if left and greedy else body, *more)


MISBEHAVIOURS = [
    misbehaviour(
        "streams that are left go on", "cancellation/left-streams-end", written=_then(_count_on)
    ),
    misbehaviour(
        "streams that are left change others",
        "cancellation/left-streams reference/same-tokens reference/same-tokens-streamed",
        written=_then(_remember),
        random=_other_answer,
    ),
]
