"""What counts as proof: the counters decide, and each way to be no proof is named."""

from __future__ import annotations

import pytest

from raypd.local.evidence import CACHED, COMPUTED, RECEIVED, Counters, Evidence, between


def _evidence(**changes) -> Evidence:
    good = {
        "computed": {"prefill": 100},
        "received": {"decode": 100},
        "cached": {},
        "kv_bytes": 2_000_000,
        "kv_reads": 1,
        "kv_seconds": 0.001,
        "failed": 0,
    }
    return Evidence(**{**good, **changes})


def test_proof():
    assert _evidence().faults(disaggregated=True) == []
    assert _evidence().gigabytes_per_second == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"computed": {}}, "prefill computed no"),
        ({"received": {}}, "decode received no"),
        ({"computed": {"prefill": 100, "decode": 100}}, "decode computed 100"),
        ({"kv_bytes": 0}, "no KV byte"),
        ({"failed": 2}, "2 KV transfers failed"),
    ],
)
def test_no_proof(changes, word):
    [fault] = _evidence(**changes).faults(disaggregated=True)
    assert word in fault


def test_the_last_prompt_token_may_be_decodes_own():
    found = _evidence(computed={"prefill": 100, "decode": 1})
    assert found.faults(disaggregated=True) == []


def test_aggregated_needs_an_engine_that_computed():
    alone = _evidence(computed={"engine": 10}, received={}, kv_bytes=0, kv_seconds=0.0)
    assert alone.faults(disaggregated=False) == []
    assert alone.gigabytes_per_second == 0
    assert _evidence(computed={}).faults(disaggregated=False)


def test_between_is_the_growth():
    before = Counters(tokens={("prefill", COMPUTED): 10.0}, kv_bytes={"decode": 5.0})
    after = Counters(
        tokens={("prefill", COMPUTED): 30.0, ("decode", RECEIVED): 20.0, ("decode", CACHED): 0.0},
        kv_bytes={"decode": 1005.0},
        kv_reads={"decode": 1.0},
        kv_seconds={"decode": 0.5},
    )
    found = between(before, after)
    assert (found.computed, found.received, found.cached) == ({"prefill": 20}, {"decode": 20}, {})
    assert (found.kv_bytes, found.kv_reads, found.kv_seconds) == (1000, 1, 0.5)
