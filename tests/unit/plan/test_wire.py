"""KV against the network."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.plan import wire
from unit.plan.samples import known


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("Qwen/Qwen3.5-9B", 76_000),
        ("meta-llama/Llama-3.1-8B-Instruct", 19_000),
        ("Qwen/Qwen2.5-14B-Instruct", 12_700),
    ],
)
def test_what_25_gbps_carry(name: str, tokens: int) -> None:
    long_prompt = 10_000_000  # so long that the state of a hybrid model does not count
    carried = wire.tokens_carried(known(name), wire.efa_rate(25, 1, 1), long_prompt)
    assert carried == pytest.approx(tokens, rel=0.005)


def test_state_makes_short_prompts_dear() -> None:
    hybrid, rate = known("Qwen/Qwen3.5-9B"), wire.efa_rate(25, 1, 1)
    assert wire.tokens_carried(hybrid, rate, 100) < wire.tokens_carried(hybrid, rate, 4000) / 5


def test_a_pod_has_its_part_of_the_interfaces() -> None:
    assert wire.efa_rate(3200, 32, 16) == wire.efa_rate(3200, 32, 32) / 2
    assert wire.efa_rate(3200, 32, 64) == wire.efa_rate(3200, 32, 32)
    assert wire.efa_rate(10, 0, 1) == 0


def test_tcp_is_one_flow_whatever_the_network() -> None:
    assert wire.tcp_rate(3200) == wire.tcp_rate(25) == 5e9 / 8
    assert wire.tcp_rate(2) == 2e9 / 8


@settings(deadline=None)
@given(st.floats(1, 6400), st.integers(1, 100_000))
def test_seconds_and_tokens_a_second_are_one_figure(gbps: float, prompt: int) -> None:
    shape, rate = known("Qwen/Qwen3-8B"), wire.efa_rate(gbps, 1, 1)
    seconds = wire.transfer_seconds(shape, rate, prompt)
    assert wire.tokens_carried(shape, rate, prompt) * seconds == pytest.approx(prompt)


def test_no_wire_carries_nothing() -> None:
    assert wire.tokens_carried(known("Qwen/Qwen3-8B"), 0, 100) == 0
    assert wire.transfer_seconds(known("Qwen/Qwen3-8B"), 0, 100) == float("inf")
