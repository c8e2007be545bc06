"""Requests against engines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.plan import traffic

RATES, SECONDS = st.floats(0.01, 100), st.floats(0.001, 20)


@settings(deadline=None)
@given(RATES, SECONDS)
def test_engines_are_enough_and_one_fewer_is_not(rate: float, seconds: float) -> None:
    count = traffic.engines(rate, seconds)
    assert rate * seconds / count <= 0.7 + 1e-6
    if count > 1:
        assert rate * seconds / (count - 1) > 0.7 - 1e-6


@settings(deadline=None)
@given(RATES, SECONDS, st.floats(0, 1), st.floats(0.001, 30))
def test_engines_for_a_target_keep_it(
    rate: float, seconds: float, beside: float, ttft: float
) -> None:
    count = traffic.engines_for_ttft(rate, seconds, beside, ttft)
    if count is None:
        assert beside >= ttft
        return
    least = traffic.engines(rate, seconds)
    assert count >= least
    assert traffic.waiting_seconds(rate, seconds, count) + beside <= ttft * (1 + 1e-6)
    if count > least:
        assert traffic.waiting_seconds(rate, seconds, count - 1) + beside >= ttft * (1 - 1e-6)


def test_a_target_that_is_only_just_missed_is_answered_at_once() -> None:
    """So many engines that nobody counts up to them."""
    assert (traffic.engines_for_ttft(100, 1, 1, 1 + 1e-9) or 0) > 1e9
    assert traffic.engines_for_ttft(100, 1, 1, 1) is None


def test_a_full_engine_keeps_people_waiting_for_ever() -> None:
    assert traffic.waiting_seconds(2, 0.5, 1) == math.inf
    assert traffic.waiting_seconds(1, 0.5, 1) == pytest.approx(0.25)  # M/D/1 at one half


@pytest.mark.parametrize(
    ("prefill", "decode", "pair"),
    [(1, 1, (1, 1)), (3, 1, (3, 1)), (1, 2.05, (1, 2)), (1, 100, (1, 8)), (0, 1, (1, 1))],
)
def test_ratio(prefill: float, decode: float, pair: tuple[int, int]) -> None:
    assert traffic.ratio(prefill, decode) == pair


@settings(deadline=None)
@given(st.floats(0.01, 10), st.floats(0.01, 10))
def test_the_ratio_turns_with_its_parts(prefill: float, decode: float) -> None:
    there, back = traffic.ratio(prefill, decode), traffic.ratio(decode, prefill)
    assert math.gcd(*there) == 1
    assert there[0] / there[1] == pytest.approx(back[1] / back[0], rel=0.2)
