"""Prices, nodes and quota."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from raypd.plan import cost
from raypd.report import UsageError
from unit.plan.samples import INSTANCES


def test_the_shipped_prices_are_dated_and_know_every_type_but_one() -> None:
    prices = cost.read_prices(None)
    assert prices.date == "2026-07-20"
    assert set(INSTANCES) - set(prices.per_hour) == {"p5e.48xlarge"}


def test_own_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("date: 2026-12-01\nregion: eu-west-1\nperHour: {g6.8xlarge: 2.5}\n")
    prices = cost.read_prices(path)
    assert (prices.region, prices.per_hour) == ("eu-west-1", {"g6.8xlarge": 2.5})
    assert cost.per_hour({"g6.8xlarge": 2}, prices) == 5
    assert cost.per_hour({"g6.8xlarge": 2, "m7i.xlarge": 1}, prices) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "`perHour`"),
        ("{date: 2026-12-01, region: x, perHour: {a: dear}}", "`perHour.a` is 'dear'"),
        ("{region: x, perHour: {a: 1}}", "`date` is missing"),
        ("{", "as YAML"),
    ],
)
def test_a_price_file_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        cost.read_prices(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_price_file() -> None:
    with pytest.raises(UsageError, match=r"no-such\.yaml"):
        cost.read_prices(Path("no-such.yaml"))


@pytest.mark.parametrize(
    ("pods", "cards", "of_node", "nodes"), [(1, 1, 1, 1), (2, 4, 8, 1), (3, 4, 8, 2), (2, 8, 8, 2)]
)
def test_nodes(pods: int, cards: int, of_node: int, nodes: int) -> None:
    assert cost.nodes_for(pods, cards, of_node) == nodes


def test_dollars_for_a_million_tokens() -> None:
    assert cost.per_million_tokens(3.6, 1000) == pytest.approx(1)
    assert cost.per_million_tokens(3.6, 0) == math.inf


def test_quota_in_vcpu() -> None:
    quotas = cost.quotas({"g6.8xlarge": 2, "m7i.xlarge": 1}, INSTANCES)
    assert quotas == {"L-DB2E81BA": 64, "L-1216C47A": 4}
