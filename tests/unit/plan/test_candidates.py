"""A model on all instance types."""

from __future__ import annotations

import pytest

from raypd.plan import cost
from raypd.plan.candidates import best_on, candidates
from raypd.plan.traffic import Traffic
from unit.plan.samples import INSTANCES, known

PRICES = cost.read_prices(None)


def test_those_that_keep_the_targets_come_first_and_then_the_cheapest() -> None:
    found = candidates(
        known("Qwen/Qwen3-32B"), 6500, Traffic(6000, 500, itl=0.03), INSTANCES, PRICES
    )
    kept = [one for one in found if one.keeps]
    assert kept
    assert len(kept) < len(found)
    assert found[: len(kept)] == kept
    assert [one.per_million for one in kept] == sorted(one.per_million for one in kept)


def test_each_card_and_engine_size_is_there_once_and_holds_a_request() -> None:
    found = candidates(known("Qwen/Qwen3-8B"), 4096, Traffic(2000, 300), INSTANCES, PRICES)
    engines = [one.numbers.role.engine for one in found]
    assert len(set(engines)) == len(engines)
    assert all(one.numbers.full >= 1 for one in found)


@pytest.mark.parametrize(("instance", "holds"), [("g6.12xlarge", False), ("p5.48xlarge", True)])
def test_a_node_that_holds_it_or_not(instance: str, holds: bool) -> None:
    shape = known("meta-llama/Llama-3.1-70B-Instruct")
    found = best_on(shape, instance, INSTANCES[instance], 8192, Traffic(2000, 300), PRICES)
    assert (found is not None) == holds


def test_a_node_without_a_gpu_is_none() -> None:
    shape = known("Qwen/Qwen3-0.6B")
    none = best_on(shape, "m7i.xlarge", INSTANCES["m7i.xlarge"], 99, Traffic(9, 9), PRICES)
    assert none is None


def test_an_unknown_price_is_no_price() -> None:
    shape, facts = known("Qwen/Qwen3-32B"), INSTANCES["p5e.48xlarge"]
    found = best_on(shape, "p5e.48xlarge", facts, 6500, Traffic(6000, 500), PRICES)
    assert found is not None
    assert found.dollars is None
    assert found.per_million == float("inf")
