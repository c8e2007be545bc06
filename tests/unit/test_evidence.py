"""What counts as proof: the counters decide, and each way to be no proof is named."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.evidence import (
    CACHED,
    COMPUTED,
    RECEIVED,
    Counters,
    Evidence,
    between,
    bounds,
    grown,
    shrunk,
)

# As the metrics port of a decode pod writes it, with fewer labels.
DECODE = """\
# TYPE ray_vllm_prompt_tokens_by_source counter
ray_vllm_prompt_tokens_by_source_total{ReplicaId="t3wlljur",engine="0",source="external_kv_transfer"} 220.0
ray_vllm_prompt_tokens_by_source_total{ReplicaId="gone4you",engine="0",source="external_kv_transfer"} 5.0
ray_vllm_prompt_tokens_by_source_total{ReplicaId="t3wlljur",engine="0",source="local_compute"} 2.0
# TYPE ray_vllm_nixl_num_failed_transfers counter
ray_vllm_nixl_num_failed_transfers_total{ReplicaId="t3wlljur",engine="0"} 1.0
# TYPE ray_vllm_nixl_num_failed_notifications counter
ray_vllm_nixl_num_failed_notifications_total{ReplicaId="t3wlljur",engine="0"} 2.0
# TYPE ray_vllm_nixl_bytes_transferred histogram
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="t3wlljur",le="131072.0"} 1.0
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="t3wlljur",le="524288.0"} 2.0
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="t3wlljur",le="+Inf"} 2.0
ray_vllm_nixl_bytes_transferred_count{ReplicaId="t3wlljur"} 2.0
ray_vllm_nixl_bytes_transferred_sum{ReplicaId="t3wlljur"} 409600.0
# TYPE ray_vllm_nixl_xfer_time_seconds histogram
ray_vllm_nixl_xfer_time_seconds_bucket{ReplicaId="t3wlljur",le="0.005"} 1.0
ray_vllm_nixl_xfer_time_seconds_bucket{ReplicaId="t3wlljur",le="+Inf"} 2.0
ray_vllm_nixl_xfer_time_seconds_count{ReplicaId="t3wlljur"} 2.0
"""
NIXL = """\
# TYPE agent_rx_bytes_total counter
agent_rx_bytes_total{agent_name="a"} 131072
# TYPE agent_rx_requests_num_total counter
agent_rx_requests_num_total{agent_name="a"} 1
# TYPE agent_xfer_time_total counter
agent_xfer_time_total{agent_name="a"} 53410
"""


def test_counters_of_an_engine():
    counters = Counters()
    counters.add_engine("decode-0", DECODE)
    assert counters.tokens == {("decode-0", RECEIVED): 225.0, ("decode-0", COMPUTED): 2.0}
    assert counters.failed == {"decode-0": 3.0}
    assert counters.transfers == {"decode-0": 2.0}
    assert counters.of(["decode-0", "other"], RECEIVED) == 225
    assert counters.counted(["decode-0"]) == 227
    # Their true sum was 393,216; the one that Ray gives is in no counter.
    assert bounds(counters.byte_buckets) == (131_072, 131_072 + 524_288)
    assert bounds(counters.second_buckets) == (0.005, math.inf)


def test_counters_of_nixl():
    counters = Counters()
    counters.add_nixl("decode-0", NIXL)
    assert counters.kv_bytes == {"decode-0": 131_072}
    assert counters.kv_reads == {"decode-0": 1}
    assert counters.kv_seconds == {"decode-0": pytest.approx(0.05341)}


def test_a_counter_that_begins_anew_is_seen():
    before = Counters(tokens={("decode", RECEIVED): 100.0, ("prefill", COMPUTED): 100.0})
    assert not shrunk(grown(before, before))
    smaller = Counters(tokens={("decode", RECEIVED): 60.0, ("prefill", COMPUTED): 160.0})
    assert shrunk(grown(before, smaller))
    gone = Counters(tokens={("prefill", COMPUTED): 100.0})
    assert shrunk(grown(before, gone))


@given(
    st.lists(st.floats(0.001, 90_000)),
    st.lists(st.floats(0.001, 90_000)),
    st.lists(st.floats(0.001, 100_000), min_size=1, unique=True).map(sorted),
)
def test_bounds_hold_what_was_observed(first, second, edges):
    buckets = {
        (place, edge): float(sum(value <= edge for value in observed))
        for place, observed in (("a", first), ("b", second))
        for edge in [*edges, math.inf]
    }
    least, most = bounds(buckets)
    total = math.fsum(first + second)
    assert least <= total * (1 + 1e-9)
    assert total <= most * (1 + 1e-9)


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
        ({"failed": 2}, "2 KV transfers or notifications failed"),
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
