"""Whether two looks at the counters can be compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raypd.evidence import RECEIVED, Counters
from raypd.live.proof.counters import Look, breaks

LOOK = Look(
    Counters(tokens={("decode-0", RECEIVED): 100.0}),
    {"prefill-0": ("uid-p", 0), "decode-0": ("uid-d", 1)},
    frozenset({"r1", "r2"}),
    {},
)


def test_the_same_processes_can_be_compared():
    more = replace(LOOK, counters=Counters(tokens={("decode-0", RECEIVED): 500.0}))
    assert breaks(LOOK, more) == []
    assert breaks(LOOK, replace(more, replicas=None)) == []  # the dashboard had nothing to say


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lives": {"prefill-0": ("uid-p", 0), "decode-0": ("uid-d", 2)}}, "decode-0 was started"),
        ({"lives": {"prefill-0": ("uid-p", 0), "decode-0": ("uid-x", 1)}}, "decode-0 was started"),
        ({"lives": {"prefill-0": ("uid-p", 0)}}, "decode-0 went away"),
        ({"lives": {**LOOK.lives, "decode-1": ("uid-n", 0)}}, "decode-1 is new"),
        ({"replicas": frozenset({"r1", "r3"})}, "replaced replicas"),
        ({"unread": {"decode-0": "connection refused"}}, "connection refused"),
        ({"counters": Counters(tokens={("decode-0", RECEIVED): 99.0})}, "began anew"),
        ({"counters": Counters()}, "began anew"),
    ],
)
def test_an_engine_that_was_replaced_is_seen(changes, words):
    (reason,) = breaks(LOOK, replace(LOOK, **changes))
    assert words in reason


def test_what_was_not_read_before_cannot_be_compared():
    (reason,) = breaks(replace(LOOK, unread={"decode-0": "timed out"}), LOOK)
    assert "could not be read before" in reason
